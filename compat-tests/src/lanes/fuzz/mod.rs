//! libFuzzer on everything that parses bytes from a peer or from the disk: the targets of the `klamm-fuzz` crate, each from
//! its committed seeds on, for an hour (full); light, each with its seeds and so many inputs made of them, the same in
//! every run. Two run at a time.
//!
//! The targets are built by whatever compiler runs the tests: coverage is an LLVM pass that a stable one has too. A wrapper
//! adds it to this workspace's crates alone, so that their dependencies are those the tests were built with.

mod inputs;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use tempfile::TempDir;

use self::inputs::{Inputs, LEN_MAX};
use crate::cache::{sources, target_dir};
use crate::lane::Run;
use crate::proc::{self, tail, tool};

/// Every target, the slow ones first.
const TARGETS: [&str; 13] = [
    "recovery",
    "groups",
    "frames",
    "metastore",
    "validate",
    "batches",
    "message_set",
    "answers",
    "decompress",
    "checkpoints",
    "znodes",
    "properties",
    "fetch_sessions",
];

const HOUR_S: u64 = 3600;
const LIGHT_INPUTS: usize = 4000;

#[derive(Clone, Copy)]
enum Effort {
    /// Whatever libFuzzer thinks of.
    Search { secs: u64 },
    /// The seeds, and so many inputs made of them.
    Inputs(usize),
}

pub fn lane(run: &mut Run) -> Result<()> {
    build()?;
    let (effort, unit) = match run.full() {
        true => (Effort::Search { secs: HOUR_S }, "an hour"),
        false => (Effort::Inputs(LIGHT_INPUTS), "some inputs"),
    };
    let mut table =
        String::from("| target | inputs tried | coverage points | features | inputs kept |\n|---|---|---|---|---|\n");
    for pair in TARGETS.chunks(2) {
        let results = thread::scope(|scope| {
            let running: Vec<_> = pair.iter().map(|name| scope.spawn(|| fuzz(name, effort))).collect();
            running.into_iter().map(|one| one.join()).collect::<Vec<_>>()
        });
        for (name, result) in pair.iter().zip(results) {
            let result = result.unwrap_or_else(|_| bail!("the thread that watched it panicked"));
            let unit = format!("{name}, {unit}");
            match result {
                Ok(found) => {
                    table += &format!("| {name} | {found} |\n");
                    run.settled(unit, Ok(()));
                }
                Err(error) => run.settled(unit, Err(error)),
            }
        }
    }
    if run.full() {
        println!("{table}");
    }
    Ok(())
}

fn build() -> Result<()> {
    // libFuzzer is compiled along with the crate that links it.
    tool("c++")?;
    let cargo = std::env::var("CARGO").map_or_else(|_| tool("cargo"), Ok)?;
    let mut command = Command::new(cargo);
    command.args(["build", "--quiet", "--package", "klamm-fuzz", "--bins", "--target-dir"]).arg(target_dir());
    command.current_dir(sources()).env("CARGO_INCREMENTAL", "0");
    command.env("RUSTC_WORKSPACE_WRAPPER", fuzz_dir().join("rustc-coverage"));
    proc::run(&mut command, b"", Duration::from_secs(1200))?.ok().context("build the fuzz targets")?;
    Ok(())
}

fn fuzz_dir() -> PathBuf {
    sources().join("../fuzz")
}

/// The target's committed seeds, by name.
fn seeds(name: &str) -> Result<Vec<Vec<u8>>> {
    let dir = fuzz_dir().join("seeds").join(name);
    if !dir.is_dir() {
        return Ok(Vec::new());
    }
    let mut files = fs::read_dir(dir)?.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    files.sort();
    files.iter().map(|file| Ok(fs::read(file)?)).collect()
}

/// Runs one target; answers its row of the table.
fn fuzz(name: &str, effort: Effort) -> Result<String> {
    let inputs = TempDir::with_prefix("fuzz-")?;
    let crashes = target_dir().join("fuzz-artifacts");
    fs::create_dir_all(&crashes)?;
    let seeds = seeds(name)?;
    for (n, seed) in seeds.iter().enumerate() {
        fs::write(inputs.path().join(format!("seed-{n:04}")), seed)?;
    }
    let mut command = Command::new(target_dir().join("debug").join(name));
    match effort {
        Effort::Search { secs } => command.args([format!("-max_total_time={secs}"), "-len_control=0".into()]),
        Effort::Inputs(count) => {
            for (n, input) in Inputs::new(seeds).take(count).enumerate() {
                fs::write(inputs.path().join(format!("{n:05}")), input)?;
            }
            command.args(["-runs=0", "-shuffle=0"])
        }
    };
    command.args(["-timeout=120", "-rss_limit_mb=2048", "-print_final_stats=1"]).arg(format!("-max_len={LEN_MAX}"));
    command.arg(format!("-artifact_prefix={}/{name}-", crashes.display()));
    command.arg(inputs.path());
    let output = proc::run(&mut command, b"", Duration::from_secs(HOUR_S + 300))?;
    let log = output.err();
    if !output.status.success() {
        bail!("{}\nthe input is in {}", why(&log), crashes.display());
    }
    row(&log, inputs.path()).with_context(|| tail(&log, 5))
}

/// What a panic said, or libFuzzer.
fn why(log: &str) -> String {
    let lines: Vec<&str> = log.lines().collect();
    let at = lines.iter().position(|line| line.contains("panicked at") || line.contains("ERROR: libFuzzer"));
    let from = at.unwrap_or(lines.len().saturating_sub(12));
    lines.iter().skip(from).take(8).copied().collect::<Vec<_>>().join("\n")
}

/// From libFuzzer's last words: `#812 DONE cov: 1 ft: 2 corp: 3/4b ...`.
fn row(log: &str, found: &Path) -> Result<String> {
    let done = log.lines().rev().find(|line| line.contains("DONE")).context("it did not say DONE")?;
    let after = |word: &str| done.split(word).nth(1).and_then(|rest| rest.split_whitespace().next()).unwrap_or("-");
    let tried = done.trim_start_matches('#').split_whitespace().next().unwrap_or("-");
    let kept = fs::read_dir(found)?.count();
    Ok(format!("{tried} | {} | {} | {kept}", after("cov:"), after("ft:")))
}
