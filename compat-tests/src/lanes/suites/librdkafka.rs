//! librdkafka's own broker tests, at their full size, from the sources that the `rdkafka-sys` crate carries.
//!
//! A test number is a process. Tests whose parts need different things are played part by part.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};
use tempfile::NamedTempFile;

use super::several::on_three;
use super::{Finding, Suite, crate_sources, judge};
use crate::broker::Broker;
use crate::cache::{self, made};
use crate::lane::Run;
use crate::lanes::checks::Verdict;
use crate::proc::{self, tail, tool};

/// They take a minute and more each: begun first.
const LONG: &[&str] = &["0113", "0038", "0041", "0089", "0091", "0094", "0076", "0052", "0102", "0026", "0030"];
/// Flags of tests that speak to no broker, need a person, or are known to fail by their own makers.
const NOT_FOR_BROKERS: &[&str] = &["TEST_F_LOCAL", "TEST_F_MANUAL", "TEST_F_KNOWN_ISSUE,", "TEST_F_KNOWN_ISSUE)"];

/// What its tests take for granted, and that records stamped long ago stay.
const SETTINGS: &[(&str, &str)] = &[("num.partitions", "4"), ("log.retention.ms", "-1")];
/// And where there are several brokers: one of the tests reads from the replica in its rack.
const RACKS: &[(&str, &str)] = &[
    ("broker.rack", "RACK{id}"),
    ("replica.selector.class", "org.apache.kafka.common.replica.RackAwareReplicaSelector"),
];
const QUIET: &[(&str, &str)] = &[("auto.create.topics.enable", "false")];

/// A row of the suite's own table.
struct Test {
    name: String,
    scenario: &'static str,
}

struct Librdkafka {
    /// The built tree.
    tree: PathBuf,
    /// With `bin/kafka-topics.sh` and the like.
    kafka: PathBuf,
    tests: Vec<Test>,
    /// By test, what its subtests are told apart by: the name of a part and a text that only they carry.
    parts: BTreeMap<&'static str, Vec<(String, String)>>,
    /// Brokers by scenario.
    default: String,
    without_auto_create: String,
    /// What the suite's own limits are multiplied with.
    patience: &'static str,
    limit: Duration,
}

pub fn lane(run: &mut Run) -> Result<()> {
    let default = Broker::start(&run.on, SETTINGS)?;
    let quiet = Broker::start(&run.on, &[SETTINGS, QUIET].concat())?;
    for broker in [&default, &quiet] {
        broker.await_coordinator()?;
    }
    let default = run.serve_by(default);
    play(run, default, quiet.address())
}

pub fn three(run: &mut Run) -> Result<()> {
    if !run.full() {
        // Its cheap tests find nothing on three brokers that they do not find on one.
        return Ok(());
    }
    let settings = [SETTINGS, RACKS].concat();
    on_three(run, &settings, |run, default| {
        on_three(run, &[&settings[..], QUIET].concat(), |run, quiet| play(run, default.bootstrap(), quiet.bootstrap()))
    })
}

fn play(run: &mut Run, default: String, without_auto_create: String) -> Result<()> {
    let tree = build()?;
    let table = fs::read_to_string(tree.join("tests/test.c"))?;
    let suite = Librdkafka {
        kafka: kafka_scripts()?,
        tests: tests(&table)?,
        parts: parts(&tree)?,
        default,
        without_auto_create,
        patience: if run.full() { "3" } else { "2" },
        limit: Duration::from_secs(if run.full() { 900 } else { 120 }),
        tree,
    };
    judge(run, &suite)
}

/// The library and its tests, built without optimization: brokers are judged here, and it builds in half the time.
fn build() -> Result<PathBuf> {
    let (make, _) = (tool("make")?, tool("c++")?);
    let source = crate_sources("rdkafka-sys")?.join("librdkafka");
    let stamp = format!("{} 1", source.display());
    made("librdkafka-suite", &stamp, |dir| {
        let here = |program: &str, args: &[&str]| {
            let mut command = Command::new(program);
            command.args(args).current_dir(dir);
            proc::run(&mut command, b"", Duration::from_secs(1200))?.ok()
        };
        here("cp", &["-r", &format!("{}/.", source.display()), "."])?;
        here("./configure", &["--disable-sasl", "--disable-optimization"])?;
        let jobs = format!("-j{}", thread::available_parallelism().map_or(1, usize::from));
        here(&make, &[&jobs, "libs"])?;
        here(&make, &[&jobs, "-C", "tests", "build"]).map(|_| ())
    })
}

/// Kafka's scripts as its distribution has them: some tests call them.
fn kafka_scripts() -> Result<PathBuf> {
    let jars = cache::jars("kafka-3.9.1")?;
    let java = tool("java")?;
    made("kafka-scripts", &format!("{} {java}", jars.display()), |dir| {
        fs::create_dir(dir.join("bin"))?;
        std::os::unix::fs::symlink(&jars, dir.join("libs"))?;
        for (script, class) in [("kafka-topics.sh", "org.apache.kafka.tools.TopicCommand"), ("kafka-run-class.sh", "")]
        {
            let path = dir.join("bin").join(script);
            let libs = dir.join("libs");
            let text = format!(
                "#!/bin/sh\nexec {java} -Xmx128M -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -cp \"{}/*${{CLASSPATH:+:$CLASSPATH}}\" {class} \"$@\"\n",
                libs.display()
            );
            fs::write(&path, text)?;
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
        }
        Ok(())
    })
}

/// The tests for brokers in `struct test tests[]`.
fn tests(source: &str) -> Result<Vec<Test>> {
    let (_, table) = source.split_once("struct test tests[] = {").ok_or_else(|| anyhow!("test.c has no table"))?;
    let (table, _) = table.split_once("{NULL}").ok_or_else(|| anyhow!("the table of test.c has no end"))?;
    let mut tests = Vec::new();
    for row in table.split("_TEST(").skip(1) {
        let (name, rest) = row.split_once(',').ok_or_else(|| anyhow!("a row without a comma: {row}"))?;
        if NOT_FOR_BROKERS.iter().any(|flag| rest.contains(flag)) {
            continue;
        }
        let scenario = if rest.contains("\"noautocreate\"") { "noautocreate" } else { "default" };
        tests.push(Test { name: name.trim().to_owned(), scenario });
    }
    ensure!(tests.len() > 50, "the table of test.c has {} tests", tests.len());
    Ok(tests)
}

/// The parts of the tests that are played part by part.
fn parts(tree: &Path) -> Result<BTreeMap<&'static str, Vec<(String, String)>>> {
    let mut parts = BTreeMap::new();
    for (test, file) in [("0081_admin", "0081-admin.c"), ("0137_barrier_batch_consume", "0137-barrier_batch_consume.c")]
    {
        let source = fs::read_to_string(tree.join("tests").join(file))?;
        let named = functions(&source).into_iter().map(|name| (name.clone(), format!("do_test_{name}:")));
        parts.insert(test, named.collect());
    }
    for (test, texts) in
        [("0055_producer_latency", LATENCIES), ("0061_consumer_lag", &["without transactions", "with transactions"])]
    {
        parts.insert(test, texts.iter().map(|text| (text.to_string(), text.to_string())).collect());
    }
    Ok(parts)
}

/// The functions that hold a subtest, without the `do_test_` that their names begin with.
fn functions(source: &str) -> Vec<String> {
    let (mut functions, mut inside) = (Vec::new(), None);
    for line in source.lines() {
        let declared = line.strip_prefix("static void ").unwrap_or(line).strip_prefix("do_test_");
        if let Some((name, _)) = declared.and_then(|rest| rest.split_once('(')) {
            inside = Some(name.to_owned());
        } else if ["SUB_TEST(", "SUB_TEST_QUICK("].iter().any(|begin| line.trim_start().starts_with(begin)) {
            functions.extend(inside.take());
        }
    }
    functions
}

fn number(name: &str) -> &str {
    name.get(..4).unwrap_or(name)
}

impl Librdkafka {
    /// The test that a piece is, or is a part of.
    fn test(&self, piece: &str) -> Result<&Test> {
        let name = piece.split('/').next().unwrap_or_default();
        self.tests.iter().find(|test| test.name == name).ok_or_else(|| anyhow!("no test {name}"))
    }

    /// What the part's subtests are told apart by; `None` for a whole test.
    fn part(&self, piece: &str) -> Option<&str> {
        let (test, part) = piece.split_once('/')?;
        self.parts.get(test)?.iter().find(|(name, _)| name == part).map(|(_, text)| text.as_str())
    }

    /// The tests that one process plays together: it is told their number only.
    fn together<'a>(&'a self, first: &'a Test) -> impl Iterator<Item = &'a Test> {
        self.tests.iter().filter(|test| number(&test.name) == number(&first.name) && test.scenario == first.scenario)
    }
}

impl Suite for Librdkafka {
    fn pieces(&self) -> Vec<String> {
        let mut pieces: Vec<String> = Vec::new();
        for test in &self.tests {
            if let Some(parts) = self.parts.get(test.name.as_str()) {
                pieces.extend(parts.iter().map(|(part, _)| format!("{}/{part}", test.name)));
            } else if self.together(test).next().is_some_and(|first| first.name == test.name) {
                pieces.push(test.name.clone());
            }
        }
        let place = |piece: &String| LONG.iter().position(|long| *long == number(piece)).unwrap_or(LONG.len());
        pieces.sort_by_key(place);
        pieces
    }

    fn light(&self) -> &'static [&'static str] {
        LIGHT
    }

    fn at_once(&self) -> usize {
        6
    }

    fn play(&self, piece: &str) -> Result<Vec<Finding>> {
        let (first, part) = (self.test(piece)?, self.part(piece));
        let scenario = first.scenario;
        let address = if scenario == "default" { &self.default } else { &self.without_auto_create };
        let mut settings = NamedTempFile::new()?;
        writeln!(settings, "broker.address.family=v4\nbootstrap.servers={address}")?;
        writeln!(settings, "test.timeout.multiplier={}", self.patience)?;
        let report = NamedTempFile::new()?;
        let mut command = Command::new("./test-runner");
        command.args(["-p1", "-L", "-K", "-s", scenario]).current_dir(self.tree.join("tests"));
        command.env("TESTS", number(piece)).env("TEST_REPORT", report.path()).env("BROKERS", address);
        command.env("RDKAFKA_TEST_CONF", settings.path()).env("TEST_KAFKA_VERSION", "3.9.1").env_remove("CI");
        command.env("KAFKA_PATH", &self.kafka).env("LD_LIBRARY_PATH", libraries(&self.tree));
        if let Some(part) = part {
            command.env("SUBTESTS", part);
        }
        let started = Instant::now();
        let output = proc::run(&mut command, b"", self.limit)?;
        let said = output.all();
        let Ok(text) = fs::read_to_string(report.path()) else { bail!("no report") };
        let report: serde_json::Value = serde_json::from_str(&text)
            .with_context(|| format!("{}, no whole report: {}", output.status, tail(&said, 4)))?;
        let finding = |test: &Test| {
            let told = &report["tests"][&test.name];
            let verdict = match told["state"].as_str() {
                // A test whose every subtest was skipped is told as passed.
                Some("PASSED") if part.is_some() && !said.contains(": PASS ") => Verdict::Skipped(skipped(&said)),
                Some("PASSED") => Verdict::Passed,
                Some("SKIPPED") => Verdict::Skipped(skipped(&said)),
                _ => Verdict::Failed(failed(&said, &test.name)),
            };
            let unit = if part.is_some() { piece.to_owned() } else { test.name.clone() };
            let took = told["duration"].as_f64().map_or_else(|| started.elapsed(), Duration::from_secs_f64);
            Finding { unit, verdict, took }
        };
        Ok(self.together(first).map(finding).collect())
    }
}

fn libraries(tree: &Path) -> String {
    format!("{}:{}", tree.join("src").display(), tree.join("src-cpp").display())
}

/// The reason behind the last skip.
fn skipped(said: &str) -> String {
    let line = said.lines().rev().find(|line| line.contains("SKIP")).unwrap_or_default();
    plain(line.split_once(": ").map_or(line, |(_, why)| why))
}

/// Where and why the test failed, in its own words.
fn failed(said: &str, name: &str) -> String {
    let lines: Vec<&str> = said.lines().collect();
    let head = format!("### Test \"{name}");
    let found = lines.iter().position(|line| line.contains(&head) && line.contains("failed at"));
    match found {
        Some(at) => plain(&lines[at..lines.len().min(at + 2)].join(" ")),
        None => plain(&tail(said, 3)),
    }
}

/// Without the colours of a terminal.
fn plain(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('\u{1b}') {
        out += before;
        rest = after.trim_start_matches(|c: char| c != 'm' && !c.is_alphabetic()).trim_start_matches('m');
    }
    (out + rest).replace('\n', " ").trim().to_owned()
}

/// The subtests of the latency test.
const LATENCIES: &[&str] = &[
    "standard settings",
    "low linger.ms",
    "microsecond linger.ms",
    "high linger.ms",
    "linger.ms < 1000",
    "no acks",
    "idempotence",
    "transactions",
];

/// A few seconds each.
const LIGHT: &[&str] = &[
    "0008_reqacks",
    "0012_produce_consume",
    "0013_null_msgs",
    "0022_consume_batch",
    "0031_get_offsets",
    "0034_offset_reset",
    "0036_partial_fetch",
    "0081_admin/DescribeConfigs",
    "0090_idempotence",
    "0099_commit_metadata",
    "0130_store_offsets",
    "0140_commit_metadata",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_a_function_with_a_subtest_however_it_is_declared() {
        let source = "\
static void do_test_One(int a) {
        SUB_TEST_QUICK(\"%d\", a);
        SUB_TEST_PASS();
}
static void
do_test_Two(int a) {
        SUB_TEST();
}
static rd_kafka_event_t *
do_test_helper(int a) {
}
static void do_test_apis(void) {
        do_test_One(1);
}
";
        assert_eq!(functions(source), ["One", "Two"]);
    }

    #[test]
    fn the_table_is_read_without_what_needs_no_broker() {
        let row = |name: &str, rest: &str| format!("    _TEST({name}, {rest}),\n");
        let mut table = "struct test tests[] = {\n".to_owned();
        table += &row("0001_local", "TEST_F_LOCAL");
        table += &row("0002_known", "TEST_F_KNOWN_ISSUE, TEST_BRKVER(0, 9, 0, 0)");
        table += &row("0003_elsewhere", "TEST_F_KNOWN_ISSUE_WIN32, TEST_BRKVER(1, 0, 0, 0)");
        table += &row("0004_quiet", "0, .scenario = \"noautocreate\"");
        for number in 100..160 {
            table += &row(&format!("0{number}_more"), "0");
        }
        let tests = tests(&(table + "    {NULL}};")).expect("a table");
        assert_eq!((tests[0].name.as_str(), tests[0].scenario), ("0003_elsewhere", "default"));
        assert_eq!((tests[1].name.as_str(), tests[1].scenario), ("0004_quiet", "noautocreate"));
        assert_eq!(tests.len(), 62);
    }
}
