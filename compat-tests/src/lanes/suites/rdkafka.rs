//! The integration tests of the `rdkafka` crate, of the version that this crate depends on.

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::{Finding, Suite, crate_sources, judge};
use crate::broker::Broker;
use crate::cache::{BUILD, fetch, made};
use crate::lane::{Run, skip};
use crate::lanes::checks::Verdict;
use crate::proc::{self, tail, tool};

/// Some tests know their broker by this address, whatever they are told.
const PORT: u16 = 9092;

struct Rdkafka {
    address: String,
    /// Programs by the name of the file they were compiled from.
    programs: BTreeMap<String, PathBuf>,
    tests: Vec<String>,
    limit: Duration,
}

pub fn lane(run: &mut Run) -> Result<()> {
    if !run.full() {
        // Its tests are those of the client more than of brokers, and take a build of a hundred crates.
        return Ok(());
    }
    if TcpListener::bind(("127.0.0.1", PORT)).is_err() {
        return skip(format!("port {PORT} is taken, and some of its tests want it"));
    }
    let programs = build()?;
    let mut tests = Vec::new();
    for (file, program) in &programs {
        let listed = proc::run(Command::new(program).args(["--list"]), b"", Duration::from_secs(60))?.ok()?.out();
        tests.extend(listed.lines().filter_map(|line| Some(format!("{file}/{}", line.strip_suffix(": test")?))));
    }
    let listener = format!("PLAINTEXT://localhost:{PORT}");
    let settings = [("broker.id", "0"), ("num.partitions", "3"), ("listeners", listener.as_str())];
    let broker = Broker::start_on(PORT, &run.on, &settings)?;
    run.serve_by(broker);
    let address = format!("localhost:{PORT}");
    judge(run, &Rdkafka { address, programs, tests, limit: Duration::from_secs(180) })
}

/// The tests that speak to a broker, by the name of their file.
fn build() -> Result<BTreeMap<String, PathBuf>> {
    let cargo = tool("cargo")?;
    let source = crate_sources("rdkafka")?;
    let dir = made("rdkafka-suite", &source.display().to_string(), |dir| {
        let copy = format!("{}/.", source.display());
        proc::run(Command::new("cp").args(["-r", &copy, "."]).current_dir(dir), b"", Duration::from_secs(60))?.ok()?;
        // A workspace of its own wherever it lies.
        let manifest = std::fs::read_to_string(dir.join("Cargo.toml"))?;
        std::fs::write(dir.join("Cargo.toml"), format!("{manifest}\n[workspace]\n"))?;
        let cargo = |args: &[&str]| {
            let mut command = Command::new(&cargo);
            command.args(args).current_dir(dir);
            command
        };
        fetch(|| cargo(&["fetch", "--locked"]))?;
        // Not tried again: it is a hundred crates and a C library.
        let build = ["test", "--no-run", "--locked", "--tests", "--target-dir", "built"];
        proc::run(&mut cargo(&build), b"", BUILD)?.ok().map(|_| ())
    })?;
    programs(&dir)
}

/// `test_admin` of `built/debug/deps/test_admin-0f1e...`.
fn programs(dir: &Path) -> Result<BTreeMap<String, PathBuf>> {
    let mut programs = BTreeMap::new();
    let deps = dir.join("built/debug/deps");
    for entry in std::fs::read_dir(&deps).with_context(|| deps.display().to_string())? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if let Some((file, _)) = name.rsplit_once('-')
            && path.extension().is_none()
            && file.starts_with("test_")
        {
            programs.insert(file.to_owned(), path);
        }
    }
    ensure!(!programs.is_empty(), "no tests were built");
    Ok(programs)
}

impl Suite for Rdkafka {
    fn pieces(&self) -> Vec<String> {
        self.tests.clone()
    }

    fn light(&self) -> &'static [&'static str] {
        &[]
    }

    fn at_once(&self) -> usize {
        2
    }

    fn play(&self, piece: &str) -> Result<Vec<Finding>> {
        let (file, test) = piece.split_once('/').context("no file")?;
        let program = self.programs.get(file).context("no program")?;
        let mut command = Command::new(program);
        command.args(["--exact", test, "--nocapture"]);
        command.env("KAFKA_HOST", &self.address).env("KAFKA_VERSION", "3.9.1").env("RUST_BACKTRACE", "0");
        let started = Instant::now();
        let output = proc::run(&mut command, b"", self.limit)?;
        let said = output.all();
        let verdict = if output.status.success() && said.contains("test result: ok. 1 passed") {
            Verdict::Passed
        } else {
            Verdict::Failed(panicked(&said))
        };
        Ok(vec![Finding { unit: piece.to_owned(), verdict, took: started.elapsed() }])
    }
}

/// Where the test panicked and what it said.
fn panicked(said: &str) -> String {
    let lines: Vec<&str> = said.lines().collect();
    match lines.iter().position(|line| line.contains("panicked at")) {
        Some(at) => lines[at..lines.len().min(at + 4)].join(" "),
        None => tail(said, 3).replace('\n', " "),
    }
}
