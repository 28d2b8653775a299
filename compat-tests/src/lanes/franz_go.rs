//! franz-go, with its admin package.

use std::process::Command;
use std::time::Duration;

use anyhow::Result;

use super::checks::{self, Program};
use crate::cache::go_program;
use crate::lane::Run;

pub fn lane(run: &mut Run) -> Result<()> {
    let client = go_program("franz-go")?;
    let program = Program { what: "franz-go", records: (3_000, 100_000), limit: Duration::from_secs(240) };
    checks::count(run, &program, || Ok(Command::new(&client)))
}
