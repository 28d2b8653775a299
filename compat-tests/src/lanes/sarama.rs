//! sarama, which speaks the version it is told rather than the newest both know.

use std::process::Command;
use std::time::Duration;

use anyhow::Result;

use super::checks::{self, Program};
use crate::cache::go_program;
use crate::lane::Run;

pub fn lane(run: &mut Run) -> Result<()> {
    let client = go_program("sarama")?;
    let program = Program { what: "1.61.1", records: (1_500, 30_000), limit: Duration::from_secs(240) };
    checks::count(run, &program, || Ok(Command::new(&client)))
}
