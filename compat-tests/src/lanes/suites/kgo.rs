//! franz-go's own tests of `pkg/kgo`, of the version that `go/kgo-suite/go.mod` pins.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Result, ensure};

use super::several::on_three;
use super::{Finding, Suite, go_tests, judge};
use crate::lane::Run;
use crate::proc;

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
    addresses: String,
    /// Of each of its topics.
    replicas: &'static str,
    records: &'static str,
    limit: Duration,
}

pub fn lane(run: &mut Run) -> Result<()> {
    let address = run.address()?;
    play(run, address, "1")
}

pub fn three(run: &mut Run) -> Result<()> {
    on_three(run, &[], |run, cluster| play(run, cluster.bootstrap(), "3"))
}

fn play(run: &mut Run, addresses: String, replicas: &'static str) -> Result<()> {
    let go_tests::Built { program, folder, .. } = go_tests::build("kgo-suite", PACKAGE, &[], &[])?;
    let known = proc::run(Command::new(&program).args(["-test.list", "."]), b"", Duration::from_secs(60))?.ok()?.out();
    for test in TESTS {
        ensure!(known.lines().any(|line| line == *test), "kgo has no {test}");
    }
    let (records, limit) = if run.full() { ("50000", 600) } else { ("2000", 60) };
    judge(run, &Kgo { program, folder, addresses, replicas, records, limit: Duration::from_secs(limit) })
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
        command.env("KGO_SEEDS", &self.addresses).env("KGO_TEST_RF", self.replicas);
        command.env("KGO_TEST_RECORDS", self.records);
        command.env("KGO_TEST_MAX_TOPIC_PARTS", "7").env("KGO_TEST_STABLE_FETCH", "true");
        let output = proc::run(&mut command, b"", self.limit + Duration::from_secs(20))?;
        Ok(go_tests::findings(&output.all(), piece))
    }
}
