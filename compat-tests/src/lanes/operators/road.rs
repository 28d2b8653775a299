//! From one broker to three: its store is copied to a ZooKeeper, two more come, and everything is moved to all three.

use std::fs;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;

use crate::broker::{BROKER_ID, Broker, On, klamm};
use crate::cluster::View;
use crate::proc::{self, Output};
use crate::wait::until;
use crate::zookeeper::Ensemble;

const LIMIT: Duration = Duration::from_secs(60);
const TOPIC: &str = "river";
const OFFSETS: &str = "__consumer_offsets";
const GROUP: &str = "anglers";
const LINES: usize = 10_000;
const SETTINGS: &[(&str, &str)] = &[
    ("num.partitions", "2"),
    ("offsets.topic.num.partitions", "1"),
    ("group.initial.rebalance.delay.ms", "0"),
    ("zookeeper.session.timeout.ms", "6000"),
    ("log.retention.ms", "-1"),
];
const PLAN: &str = r#"{"version":1,"partitions":[
    {"topic":"river","partition":0,"replicas":[2,3,1]},
    {"topic":"river","partition":1,"replicas":[3,1,2]},
    {"topic":"__consumer_offsets","partition":0,"replicas":[2,1,3]}]}"#;

fn run(args: &[&str], input: &[u8]) -> Result<Output> {
    proc::run(Command::new(klamm()?).args(args), input, LIMIT)
}

/// What the lines are, sorted: partitions have no order among each other.
fn consumed(address: &str, more: &[&str]) -> Result<Vec<String>> {
    let count = LINES.to_string();
    let args = ["consume", "--bootstrap-server", address, "--topic", TOPIC, "--max-messages", &count];
    let mut lines: Vec<String> =
        run(&[&args, more].concat(), b"")?.ok().context("consume")?.out().lines().map(str::to_owned).collect();
    lines.sort();
    Ok(lines)
}

pub fn walked() -> Result<()> {
    let dir = TempDir::with_prefix("compat-")?;
    let home = dir.path().join("broker-1");
    fs::create_dir_all(&home)?;
    let mut lines: Vec<String> = (0..LINES).map(|n| format!("line {n}")).collect();

    let mut first = Broker::start_in(&On::Klamm, &home, None, SETTINGS)?;
    let address = first.address();
    run(&["produce", "--bootstrap-server", &address, "--topic", TOPIC], (lines.join("\n") + "\n").as_bytes())?.ok()?;
    lines.sort();
    let read = consumed(&address, &["--group", GROUP, "--from-beginning"])?;
    ensure!(read == lines, "one broker alone gave {} lines", read.len());
    let committed = offsets(&address)?;
    let data = first.log_dir().display().to_string();
    let ensemble = Ensemble::start(dir.path(), 1)?;
    // A chroot, which the copy makes.
    let connect = format!("{}/klamm", ensemble.connect_string());
    let copy = ["metastore", "copy", "--from-dir", &data, "--zookeeper", &connect];
    let running = run(&copy, b"")?;
    ensure!(running.status.code() == Some(1) && running.err().contains("stop it first"), "{}", running.all());
    first.stop_in_order()?;
    run(&copy, b"")?.ok()?;
    let again = run(&copy, b"")?;
    ensure!(again.status.code() == Some(1) && again.err().contains("not empty"), "{}", again.all());

    let mut brokers = Vec::new();
    for id in [BROKER_ID, 2, 3] {
        let home = dir.path().join(format!("broker-{id}"));
        let mut broker = Broker::of_cluster(&On::Klamm, id, &home, &connect, SETTINGS)?;
        broker.start_again().with_context(|| format!("broker {id}"))?;
        brokers.push(broker);
    }
    let second = brokers[1].address();
    until("three brokers that know each other", LIMIT, || {
        let view = View::of(&second)?;
        ensure!(view.brokers.len() == 3 && view.controller >= 0, "{:?}", view.brokers);
        Ok(())
    })?;
    let plan = dir.path().join("plan.json");
    fs::write(&plan, PLAN)?;
    let plan = plan.display().to_string();
    run(&["reassign", "--bootstrap-server", &second, "--execute", "--reassignment-json-file", &plan], b"")?
        .ok()
        .context("the reassignment")?;
    until("three replicas in sync", LIMIT, || {
        for (at, partition) in View::of(&second)?.of_topics(&[TOPIC, OFFSETS])? {
            ensure!(partition.replicas.len() == 3 && partition.isr.len() == 3, "{at:?} is {partition:?}");
        }
        Ok(())
    })?;
    for source in [["--bootstrap-server", &second], ["--zookeeper", &connect]] {
        let shown = run(&["cluster", source[0], source[1]], b"")?.ok()?.out();
        ensure!(shown.contains("\nhealthy: 3 brokers, 0 out of reach; 3 partitions, "), "{shown}");
    }

    // Without the broker that had everything.
    brokers[0].stop_in_order()?;
    let read = consumed(&second, &["--from-beginning"])?;
    ensure!(read == lines, "of {LINES} lines there are {}", read.len());
    let now = offsets(&second)?;
    ensure!(now == committed, "the group had committed {committed:?}, and now {now:?}");
    until("one broker that is missed", LIMIT, || {
        let shown = run(&["cluster", "--zookeeper", &connect], b"")?;
        let told = shown.out().contains("not registered") && shown.status.code() == Some(3);
        ensure!(told, "{}", shown.all());
        Ok(())
    })
}

/// Partitions and what the group has committed, as `klamm groups` tells them.
fn offsets(address: &str) -> Result<Vec<[String; 2]>> {
    let shown = run(&["groups", "--bootstrap-server", address, "--describe", "--group", GROUP], b"")?
        .ok()
        .context("groups")?
        .out();
    let rows = shown.lines().filter(|line| line.starts_with(GROUP)).map(|line| {
        let mut words = line.split_whitespace().skip(2).map(str::to_owned);
        [words.next().unwrap_or_default(), words.next().unwrap_or_default()]
    });
    let mut rows: Vec<_> = rows.collect();
    rows.sort();
    ensure!(rows.len() == 2 && rows.iter().all(|[_, offset]| offset.parse::<u64>().is_ok()), "{shown}");
    Ok(rows)
}
