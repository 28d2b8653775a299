//! kafka-python's own integration tests, from its source distribution.

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::{Finding, Suite, judge};
use crate::broker::Broker;
use crate::cache::{fetch, made, venv};
use crate::lane::Run;
use crate::lanes::checks::Verdict;
use crate::proc;

const FOLDER: &str = "test/integration";
const VERSION: &str = "3.0.12";
/// What its tests need beside its codecs.
const PACKAGES: &[&str] = &[
    "kafka-python==3.0.12",
    "pytest==9.2.0",
    "pytest-mock==3.17.0",
    "pytest-timeout==2.4.0",
    "python-snappy==0.7.3",
    "lz4==4.4.3",
    "zstandard==0.23.0",
];
/// The distribution leaves out the module whose classes would start a broker; a broker that runs needs less of it.
const SERVICE: &str = "\
class ExternalService:
    def __init__(self, host, port):
        self.host, self.port = host, port

    def open(self):
        pass

    close = dump_logs = open


class SpawnedService:
    pass
";

struct KafkaPython {
    python: PathBuf,
    tree: PathBuf,
    address: String,
    tests: Vec<String>,
}

pub fn lane(run: &mut Run) -> Result<()> {
    let python = venv("kafka-python-suite-venv", PACKAGES)?;
    let tree = unpack(&python)?;
    let settings = [("broker.id", "0"), ("num.partitions", "4"), ("group.min.session.timeout.ms", "1000")];
    let broker = Broker::start(&run.on, &settings)?;
    let address = run.serve_by(broker);
    let mut suite = KafkaPython { python, tree, address, tests: Vec::new() };
    suite.tests = suite.collect()?;
    judge(run, &suite)
}

fn unpack(python: &PathBuf) -> Result<PathBuf> {
    made("kafka-python-suite", &format!("{VERSION}\n{SERVICE}"), |dir| {
        fetch(|| {
            let mut command = Command::new(python);
            command.args([
                "-m",
                "pip",
                "download",
                "--quiet",
                "--no-input",
                "--no-deps",
                "--no-binary",
                "kafka-python",
            ]);
            command.arg("--dest").arg(dir).arg(format!("kafka-python=={VERSION}"));
            command
        })?;
        let mut command = Command::new("tar");
        command
            .args(["--strip-components", "1", "-xzf"])
            .arg(format!("kafka_python-{VERSION}.tar.gz"))
            .current_dir(dir);
        proc::run(&mut command, b"", Duration::from_secs(60))?.ok()?;
        std::fs::write(dir.join("test/__init__.py"), "")?;
        std::fs::write(dir.join("test/service.py"), SERVICE).context("test/service.py")
    })
}

impl KafkaPython {
    fn pytest(&self, target: &str) -> Command {
        let mut command = Command::new(&self.python);
        // Its own options are for its own machines.
        command.args(["-B", "-m", "pytest", "-q", "-o", "addopts=", "-p", "no:cacheprovider", "--tb=line"]);
        command.arg(target).current_dir(&self.tree);
        command.env("KAFKA_URI", format!("PLAINTEXT://{}", self.address)).env("KAFKA_VERSION", "3.9.1");
        // It only has to be set: nothing is started from there.
        command.env("KAFKA_ROOT", &self.tree).env("PYTHONPATH", ".");
        command
    }

    /// All tests as `FILE/TEST`.
    fn collect(&self) -> Result<Vec<String>> {
        let mut command = self.pytest(FOLDER);
        let said = proc::run(command.arg("--collect-only"), b"", Duration::from_secs(120))?.ok()?.out();
        let name = |line: &str| Some(line.strip_prefix(FOLDER)?.strip_prefix('/')?.replacen("::", "/", 1));
        Ok(said.lines().filter_map(name).collect())
    }
}

impl Suite for KafkaPython {
    fn pieces(&self) -> Vec<String> {
        self.tests.clone()
    }

    fn light(&self) -> &'static [&'static str] {
        LIGHT
    }

    fn at_once(&self) -> usize {
        2
    }

    fn play(&self, piece: &str) -> Result<Vec<Finding>> {
        let started = Instant::now();
        let mut command = self.pytest(&format!("{FOLDER}/{}", piece.replacen('/', "::", 1)));
        let output = proc::run(command.args(["--timeout=120", "-rs"]), b"", Duration::from_secs(150))?;
        let verdict = verdict(&output.out());
        Ok(vec![Finding { unit: piece.to_owned(), verdict, took: started.elapsed() }])
    }
}

/// Of what pytest says of one test.
fn verdict(said: &str) -> Verdict {
    let last = said.lines().last().unwrap_or_default();
    let line = |has: fn(&str) -> bool| said.lines().rev().find(|line| has(line)).unwrap_or(last).trim().to_owned();
    // Threads that some tests leave behind speak after pytest.
    let sum = line(|line| line.starts_with("1 ") && line.contains(" in "));
    if sum.starts_with("1 passed") {
        Verdict::Passed
    } else if sum.starts_with("1 skipped") {
        Verdict::Skipped(line(|line| line.starts_with("SKIPPED")))
    } else {
        Verdict::Failed(line(|line| line.contains("Error") || line.contains("Timeout")))
    }
}

const LIGHT: &[&str] = &[
    "test_admin_integration.py/test_create_delete_topics",
    "test_consumer_integration.py/test_consumer",
    "test_consumer_integration.py/test_kafka_consumer__offset_commit_resume",
    "test_producer_integration.py/test_end_to_end[gzip]",
    "test_producer_integration.py/test_idempotent_producer",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sum_is_the_verdict_whatever_comes_after_it() {
        assert!(matches!(verdict(".\n1 passed in 0.4s\nDone!"), Verdict::Passed));
        assert!(matches!(verdict(".\n1 passed, 2 warnings in 0.4s"), Verdict::Passed));
        let skipped = verdict("s\nSKIPPED [1] test/a.py:1: no TLS\n1 skipped in 0.1s");
        assert!(matches!(skipped, Verdict::Skipped(why) if why.contains("no TLS")));
        let failed = verdict("F\ntest/a.py:3: KafkaError: no\nFAILED test/a.py::b\n1 failed in 0.1s");
        assert!(matches!(failed, Verdict::Failed(why) if why.contains("KafkaError: no")));
        assert!(matches!(verdict("no tests ran in 0.1s"), Verdict::Failed(_)));
        assert!(matches!(verdict(""), Verdict::Failed(_)));
    }
}
