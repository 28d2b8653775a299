//! franz-go's own tests of `pkg/kgo`, of the version that `go/kgo-suite/go.mod` pins.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::{Finding, Suite, judge};
use crate::cache::{fetch, made, sources};
use crate::lane::Run;
use crate::lanes::checks::Verdict;
use crate::proc::{self, tail, tool};

const PACKAGE: &str = "github.com/twmb/franz-go/pkg/kgo";

/// The tests that speak to a broker, the long ones first.
const TESTS: &[&str] = &[
    "TestGroupETL",
    "TestIssue523",
    "TestIssue434",
    "TestIssue337",
    "TestTxnEtl",
    "TestShareGroupETL",
    "TestClient_Produce",
    "TestClient_ProduceLargeMessages",
    "TestConsumeMaxDecompressBatchBytes",
    "TestGroupSimple",
    "TestDirectPartitionPurge",
    "TestIssue865",
    "TestIssue769",
    "TestPauseIssueOct2023",
    "TestPauseIssue489",
    "TestIssueFetchLargerThanBrokerMaxReadBytes",
    "TestAddRemovePartitions",
    "TestConsumeRegex",
    "TestConsumeRegexShareSkipsInternal",
    "Test848RegexBrokerResolves",
    "TestConsumeTopicRetrieval",
    "TestConsumeTopicRetrieval_Many",
    "TestHookPollStart",
    "TestIssue1034",
    "TestIssue325",
    "TestIssue648",
    "TestIssue810",
    "TestIssue831",
    "TestIssueProduceBrokerTooOldFailsRecords",
    "TestIssueProduceSyncManualPartitionNegativeDoesNotPanic",
    "TestPing",
    "TestPooling",
    "TestUnknownGroupOffsetFetchPinned",
    "TestOAuthAuth",
    "TestSCRAMAuth",
    "TestSCRAMAuthBadCredentials",
    "TestShareGroup",
    "TestShareGroupAckOnClose",
    "TestShareGroupOffsetsAdmin",
];

struct Kgo {
    program: PathBuf,
    /// The package's sources: where `go test` runs its tests.
    folder: PathBuf,
    address: String,
    records: &'static str,
    limit: Duration,
}

pub fn lane(run: &mut Run) -> Result<()> {
    let address = run.address()?;
    let (program, folder) = build()?;
    let known = proc::run(Command::new(&program).args(["-test.list", "."]), b"", Duration::from_secs(60))?.ok()?.out();
    for test in TESTS {
        ensure!(known.lines().any(|line| line == *test), "kgo has no {test}");
    }
    let (records, limit) = if run.full() { ("50000", 600) } else { ("2000", 60) };
    judge(run, &Kgo { program, folder, address, records, limit: Duration::from_secs(limit) })
}

/// The tests as a program, and the folder of their sources.
fn build() -> Result<(PathBuf, PathBuf)> {
    let go = tool("go")?;
    let module = sources().join("go/kgo-suite");
    let mut stamp = String::new();
    for file in ["go.mod", "go.sum"] {
        stamp += &fs::read_to_string(module.join(file)).with_context(|| file.to_owned())?;
    }
    let command = || {
        let mut command = Command::new(&go);
        command.current_dir(&module).env("GOFLAGS", "-buildvcs=false -mod=readonly");
        command
    };
    let dir = made("kgo-suite", &stamp, |dir| {
        fetch(|| {
            let mut command = command();
            command.args(["test", "-c", "-o"]).arg(dir.join("kgo.test")).arg(PACKAGE);
            command
        })
    })?;
    let listed = proc::run(command().args(["list", "-f", "{{.Dir}}", PACKAGE]), b"", Duration::from_secs(120))?.ok()?;
    Ok((dir.join("kgo.test"), PathBuf::from(listed.out().trim())))
}

impl Suite for Kgo {
    fn pieces(&self) -> Vec<String> {
        TESTS.iter().map(|test| test.to_string()).collect()
    }

    fn light(&self) -> &'static [&'static str] {
        &[
            "TestAddRemovePartitions",
            "TestClient_ProduceLargeMessages",
            "TestConsumeRegex",
            "TestGroupSimple",
            "TestIssue325",
            "TestIssue648",
            "TestIssue810",
            "TestIssueFetchLargerThanBrokerMaxReadBytes",
            "TestPauseIssue489",
            "TestPooling",
            "TestUnknownGroupOffsetFetchPinned",
        ]
    }

    fn at_once(&self) -> usize {
        2
    }

    fn play(&self, piece: &str) -> Result<Vec<Finding>> {
        let mut command = Command::new(&self.program);
        command.args(["-test.v", "-test.run", &format!("^{piece}$")]);
        command.arg(format!("-test.timeout={}s", self.limit.as_secs())).current_dir(&self.folder);
        command.env("KGO_SEEDS", &self.address).env("KGO_TEST_RF", "1").env("KGO_TEST_RECORDS", self.records);
        command.env("KGO_TEST_MAX_TOPIC_PARTS", "7").env("KGO_TEST_STABLE_FETCH", "true");
        let output = proc::run(&mut command, b"", self.limit + Duration::from_secs(20))?;
        Ok(findings(&output.all(), piece))
    }
}

/// A finding for each test that has no tests below it. One that began and did not end has failed.
fn findings(said: &str, piece: &str) -> Vec<Finding> {
    let mut units: BTreeMap<String, Option<(Verdict, Duration)>> = BTreeMap::new();
    let lines: Vec<&str> = said.lines().map(str::trim).collect();
    for line in &lines {
        if let Some(name) = line.strip_prefix("=== RUN ") {
            units.entry(name.trim().to_owned()).or_default();
        }
        let Some(ended) = line.strip_prefix("--- ") else { continue };
        let Some((verdict, rest)) = ended.split_once(": ") else { continue };
        let (name, took) = rest.split_once(" (").unwrap_or((rest, ""));
        let took = Duration::from_secs_f32(took.trim_end_matches("s)").parse().unwrap_or_default());
        let verdict = match verdict {
            "PASS" => Verdict::Passed,
            "SKIP" => Verdict::Skipped(why(&lines, name)),
            _ => Verdict::Failed(why(&lines, name)),
        };
        units.insert(name.to_owned(), Some((verdict, took)));
    }
    if units.is_empty() {
        let verdict = Verdict::Failed(tail(said, 5));
        return vec![Finding { unit: piece.to_owned(), verdict, took: Duration::ZERO }];
    }
    let parents: Vec<String> = units.keys().cloned().collect();
    let passed =
        |ended: &Option<(Verdict, Duration)>| matches!(ended, Some((Verdict::Passed | Verdict::Skipped(_), _)));
    let all_below_passed =
        |name: &str| units.iter().filter(|(other, _)| is_below(other, name)).all(|(_, ended)| passed(ended));
    let mut findings = Vec::new();
    for name in &parents {
        let ended = &units[name];
        let has_below = parents.iter().any(|other| is_below(other, name));
        // A parent counts by what lies below it, unless it alone failed.
        if has_below && (passed(ended) || !all_below_passed(name)) {
            continue;
        }
        let (verdict, took) =
            ended.clone().unwrap_or_else(|| (Verdict::Failed(format!("no end: {}", tail(said, 3))), Duration::ZERO));
        findings.push(Finding { unit: name.clone(), verdict, took });
    }
    findings
}

fn is_below(name: &str, parent: &str) -> bool {
    name.strip_prefix(parent).is_some_and(|rest| rest.starts_with('/'))
}

/// What the test said last of itself before its verdict.
fn why(lines: &[&str], name: &str) -> String {
    let mut current = "";
    let mut said = "";
    for line in lines {
        match line.strip_prefix("=== ") {
            Some(turn) => current = turn.split_whitespace().last().unwrap_or_default(),
            None if current == name && line.contains("_test.go:") && !line.contains(" deleting ") => said = line,
            None => {}
        }
    }
    said.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAID: &str = "=== RUN   TestA
=== RUN   TestA/one
=== RUN   TestA/two
    a_test.go:3: broker has no X
--- FAIL: TestA (2.00s)
    --- PASS: TestA/one (1.50s)
    --- SKIP: TestA/two (0.00s)
=== RUN   TestB
=== RUN   TestB/one
panic: test timed out";

    #[test]
    fn a_parent_is_judged_when_it_failed_alone_and_what_never_ended_has_failed() {
        let found = findings(SAID, "TestA");
        let names: Vec<&str> = found.iter().map(|finding| finding.unit.as_str()).collect();
        assert_eq!(names, ["TestA", "TestA/one", "TestA/two", "TestB/one"]);
        assert!(matches!(found[0].verdict, Verdict::Failed(_)));
        assert!(matches!(found[1].verdict, Verdict::Passed));
        assert!(matches!(&found[2].verdict, Verdict::Skipped(why) if why == "a_test.go:3: broker has no X"));
        assert!(matches!(&found[3].verdict, Verdict::Failed(why) if why.contains("timed out")));
    }
}
