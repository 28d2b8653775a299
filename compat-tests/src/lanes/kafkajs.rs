//! KafkaJS, with the codecs it leaves to other packages.

use std::process::Command;
use std::time::Duration;

use anyhow::Result;

use super::checks::{self, Program};
use crate::cache::node_programs;
use crate::lane::Run;
use crate::proc::tool;

pub fn lane(run: &mut Run) -> Result<()> {
    let node = tool("node")?;
    let dir = node_programs()?;
    let program = Program { what: "2.2.4", records: (1_500, 30_000), limit: Duration::from_secs(240) };
    checks::count(run, &program, || {
        let mut command = Command::new(&node);
        command.arg(dir.join("kafkajs.js"));
        Ok(command)
    })
}
