//! franz-go, with its admin package.

use std::process::Command;
use std::time::Duration;

use anyhow::Result;

use super::checks;
use crate::cache::{fetch, made, sources};
use crate::lane::Run;
use crate::proc::tool;

pub fn lane(run: &mut Run) -> Result<()> {
    let go = tool("go")?;
    let source = sources().join("go");
    let stamp = std::fs::read_to_string(source.join("go.mod"))? + &std::fs::read_to_string(source.join("main.go"))?;
    let dir = made("franz-go", &stamp, |dir| {
        for file in ["go.mod", "go.sum", "main.go"] {
            std::fs::copy(source.join(file), dir.join(file))?;
        }
        fetch(|| {
            let mut command = Command::new(&go);
            command.args(["build", "-o", "client", "."]).current_dir(dir).env("GOFLAGS", "-buildvcs=false -mod=mod");
            command
        })
    })?;
    let address = run.address()?;
    let records = if run.full() { "100000" } else { "3000" };
    checks::count(run, "franz-go", Duration::from_secs(240), |attempt| {
        let mut command = Command::new(dir.join("client"));
        command.args([&address, &format!("go-{}-{attempt}", std::process::id()), records]);
        Ok(command)
    })
}
