//! What a client program in another language is told and what it prints.
//!
//! Arguments: `BOOTSTRAP PREFIX RECORDS light|full`; its topics begin with PREFIX. Standard output, a line each:
//!
//! ```text
//! ok NAME            a check that passed
//! FAIL NAME: why
//! skip NAME: why     one that cannot be made here
//! restart            asks for the broker to be stopped and started again; standard input answers
//!                    `restarted`, or why not
//! done               the end was reached
//! ```

use std::process::Command;
use std::time::Duration;

use anyhow::{Result, anyhow, bail};

use crate::lane::{Run, Skip, skip};
use crate::proc::{self, tail};

/// A program, and how much is asked of it.
pub struct Program<'a> {
    /// Names its checks and, being part of them, its topics.
    pub what: &'a str,
    /// How many records it sends and reads for a check: light, full.
    pub records: (u32, u32),
    /// For one run of it, light form; the full form has five times as long.
    pub limit: Duration,
}

/// Runs the program and counts its checks. When some fail, it is run once more, alone.
pub fn count(run: &mut Run, program: &Program, command: impl Fn() -> Result<Command>) -> Result<()> {
    let first = attempt(run, program, command()?, 0)?;
    let failed = |check: &&(String, Verdict)| matches!(check.1, Verdict::Failed(_));
    let second = if first.iter().any(|check| failed(&check)) {
        for (name, verdict) in first.iter().filter(failed) {
            println!("FAIL  {}: {}: {name}: {verdict:?}; again:", run.lane, program.what);
        }
        attempt(run, program, command()?, 1)?
    } else {
        Vec::new()
    };
    for (name, mut verdict) in first {
        if let Verdict::Failed(_) = verdict {
            let again = second.iter().find(|(other, _)| *other == name);
            verdict = again.map_or(Verdict::Failed("not reached".to_owned()), |(_, verdict)| verdict.clone());
        }
        let result = match verdict {
            Verdict::Passed => Ok(()),
            Verdict::Failed(why) => Err(anyhow!("{why}")),
            Verdict::Skipped(why) => skip(why),
        };
        run.settled(format!("{}: {name}", program.what), result);
    }
    Ok(())
}

#[derive(Clone, Debug)]
pub enum Verdict {
    Passed,
    Failed(String),
    Skipped(String),
}

fn attempt(run: &mut Run, program: &Program, mut command: Command, number: u32) -> Result<Vec<(String, Verdict)>> {
    let address = run.address()?;
    let prefix = format!("{}-{}-{}-{number}", run.lane, program.what, std::process::id());
    let (records, form, limit) = match run.full() {
        false => (program.records.0, "light", program.limit),
        true => (program.records.1, "full", program.limit * 5),
    };
    command.args([&address, &prefix, &records.to_string(), form]);
    let output = proc::converse(&mut command, limit, |line| (line == "restart").then(|| restarted(run.restart())))?;
    let text = output.out();
    if !text.lines().any(|line| line == "done") {
        bail!("{} did not come to its end: {}", program.what, tail(&output.all(), 15));
    }
    Ok(text.lines().filter_map(verdict).collect())
}

fn restarted(result: Result<()>) -> String {
    match result {
        Ok(()) => "restarted".to_owned(),
        Err(error) if error.is::<Skip>() => format!("{error}"),
        Err(error) => format!("failed: {error:#}").replace('\n', " "),
    }
}

/// What a line of the program says became of which check.
pub fn verdict(line: &str) -> Option<(String, Verdict)> {
    let (kind, rest) = line.split_once(' ')?;
    let (name, why) = rest.split_once(": ").unwrap_or((rest, ""));
    match kind {
        "ok" => Some((rest.to_owned(), Verdict::Passed)),
        "FAIL" => Some((name.to_owned(), Verdict::Failed(why.to_owned()))),
        "skip" => Some((name.to_owned(), Verdict::Skipped(why.to_owned()))),
        _ => None,
    }
}
