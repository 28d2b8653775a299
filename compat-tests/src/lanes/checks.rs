//! Programs in other languages that print `ok NAME` or `FAIL NAME: why` for each check and `done` at the end.

use std::process::Command;
use std::time::Duration;

use anyhow::{Result, bail};

use crate::lane::Run;
use crate::proc::{self, tail};

/// Runs the program and counts its checks. When some fail, it is run once more, alone.
pub fn count(run: &mut Run, what: &str, limit: Duration, command: impl Fn(u32) -> Result<Command>) -> Result<()> {
    let first = attempt(&mut command(0)?, limit)?;
    let failed: Vec<&String> = first.iter().filter(|(_, why)| why.is_some()).map(|(name, _)| name).collect();
    let second = if failed.is_empty() {
        Vec::new()
    } else {
        for (name, why) in first.iter().filter(|(_, why)| why.is_some()) {
            println!("FAIL  {}: {what}: {name}: {}; again:", run.lane, why.as_deref().unwrap_or_default());
        }
        attempt(&mut command(1)?, limit)?
    };
    for (name, why) in &first {
        let why = match why {
            None => None,
            Some(_) => second
                .iter()
                .find(|(other, _)| other == name)
                .map_or(Some("not reached".to_owned()), |(_, why)| why.clone()),
        };
        run.settled(format!("{what}: {name}"), why.map_or(Ok(()), |why| Err(anyhow::anyhow!("{why}"))));
    }
    Ok(())
}

type Checks = Vec<(String, Option<String>)>;

fn attempt(command: &mut Command, limit: Duration) -> Result<Checks> {
    let output = proc::run(command, b"", limit)?;
    let text = output.out();
    let mut checks = Checks::new();
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("ok ") {
            checks.push((name.to_owned(), None));
        } else if let Some(rest) = line.strip_prefix("FAIL ") {
            let (name, why) = rest.split_once(": ").unwrap_or((rest, ""));
            checks.push((name.to_owned(), Some(why.to_owned())));
        }
    }
    if !text.lines().any(|line| line == "done") {
        bail!("it did not come to its end: {}", tail(&output.all(), 15));
    }
    Ok(checks)
}
