//! Five whole brokers in one thread, from a seed: the real ones, over a simulated network, ZooKeeper, disks, time and
//! chance. Clients write, read and commit while brokers die, lose disks, stand still and are cut off; then all is healed,
//! and progress is demanded. The history is judged by `history`, as those of real clusters are.
//!
//! ```text
//! stage      the world, what its metastore says      chronicle  history, trace, counts, what is wrong
//! client     one that speaks the protocol            producer, reader, group, admin: what clients do
//! cluster    the brokers                             faults     what is done to them
//! demands    what must be so in the end              dump       what replicas hold then
//! ```
//! `KLAMM_SEEDS=n` tries so many seeds, from `KLAMM_FIRST_SEED` on. Each is run by a process of its own, so that a seed is
//! all that decides: `KLAMM_SEED=n cargo test --test whole_brokers one_run -- --nocapture` replays one, and with
//! `KLAMM_TELL=1` says what happens.

mod admin;
mod chance;
mod chronicle;
mod client;
mod cluster;
mod demands;
mod dump;
mod faults;
mod group;
mod producer;
mod reader;
mod rules;
mod stage;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use history::event::{Acks, Event, Fault};
use klamm::random::Random;
use klamm::sim::brokers::Delays;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use admin::Admin;
use chronicle::Counts;
use client::Client;
use cluster::Cluster;
use demands::reached;
use faults::Faults;
use group::Member;
use producer::Producer;
use rules::Rule;
use stage::Stage;

/// Seeds that every run of the tests tries.
const SEEDS: u64 = 12;
/// Before what a child says of its run.
const SAYS: &str = "whole-brokers-outcome ";

/// How a run ended.
#[derive(Serialize, Deserialize)]
struct Outcome {
    wrong: Vec<String>,
    counts: Counts,
}

fn overrides(seed: u64) -> Vec<String> {
    let mut all = vec![
        "min.insync.replicas=2".to_owned(),
        "default.replication.factor=3".to_owned(),
        "offsets.topic.num.partitions=2".to_owned(),
        "offsets.topic.replication.factor=3".to_owned(),
        "group.initial.rebalance.delay.ms=200".to_owned(),
        "zookeeper.session.timeout.ms=6000".to_owned(),
        "replica.lag.time.max.ms=4000".to_owned(),
        "replica.socket.timeout.ms=3000".to_owned(),
        "controller.socket.timeout.ms=3000".to_owned(),
        "request.timeout.ms=3000".to_owned(),
        "leader.imbalance.check.interval.seconds=10".to_owned(),
        "auto.create.topics.enable=false".to_owned(),
    ];
    if seed % 2 == 1 {
        all.push("klamm.fast.failover.enable=true".to_owned());
    }
    if seed % 3 == 1 {
        all.push("log.segment.bytes=2048".to_owned());
    }
    all
}

async fn scenario(seed: u64, off: Option<Rule>) -> (Outcome, String) {
    let delays = Delays { net_ms: 4, zookeeper_ms: 8, jobs_ms: 3 };
    let stage = Arc::new(Stage::new(seed, 5, delays, off.map(Rule::meddler)));
    let mut cluster = Cluster::start(&stage, overrides(seed));
    let mut clients = 0;
    let mut client = |name: &str| {
        clients += 1;
        Client::new(&stage, name, clients)
    };
    let mut admin = Admin::new(client("admin"));
    let mut last = Producer::new(client("last"), Acks::All, true);
    admin.create_first().await;

    let (end_writes, writing) = watch::channel(false);
    let (end_reads, reading) = watch::channel(false);
    let mut writers = Vec::new();
    for (name, acks, idempotent) in
        [("all-1", Acks::All, true), ("all-2", Acks::All, true), ("one", Acks::Leader, false)]
    {
        writers.push(tokio::spawn(Producer::new(client(name), acks, idempotent).run(writing.clone())));
    }
    let mut readers = vec![tokio::spawn(reader::follow(client("reader"), reading.clone()))];
    for name in ["member-1", "member-2"] {
        readers.push(tokio::spawn(Member::new(client(name)).run(reading.clone())));
    }

    let mut faults = Faults::new(&stage);
    let many = 8 + u32::try_from(stage.random(0).below(8)).expect("few");
    faults.play(many, &mut cluster, &mut admin).await;
    faults.end(&mut cluster).await;

    let is_whole = demands::whole(&stage, &mut cluster, &mut admin).await;
    let mut goes_on = reached("all is whole", &stage, is_whole);
    stage.chronicle.write(&Event::Healed { at_us: stage.chronicle.now_us() });
    if goes_on {
        let writes = demands::writes(&stage, &admin, &mut last).await;
        goes_on = reached("all takes writes", &stage, writes);
    }
    end_writes.send_replace(true);
    for writer in writers {
        writer.await.expect("no panic");
    }
    if goes_on {
        goes_on = reached("the group finishes", &stage, demands::group_finishes(&mut admin).await);
    }
    if goes_on {
        let ends = demands::marks_are_ends(&stage, &cluster, &mut admin).await;
        reached("high watermarks are log ends", &stage, ends);
    }
    // What was written last is read within its time.
    tokio::time::sleep(Duration::from_secs(6)).await;
    end_reads.send_replace(true);
    for reader in readers {
        reader.await.expect("no panic");
    }
    let led = stage.partitions().await;
    for one in &led {
        let (epoch, version) =
            (u64::from(one.state.leader_epoch.0.unsigned_abs()), u64::from(one.version.unsigned_abs()));
        stage.chronicle.count(|counts| {
            counts.elections += epoch;
            counts.isr_changes += version.saturating_sub(epoch);
        });
    }
    let ended = demands::stops(&mut cluster, stage.brokers).await;
    reached("all end in order", &stage, ended);
    dump::put_down(&stage, &cluster, &led);
    let shown_by = Some(stage.chronicle.counts().to_string());
    stage.chronicle.write(&Event::Fault(Fault { name: "all".to_owned(), at_us: 0, shown_by }));
    stage.chronicle.count(|counts| counts.truncations += cluster.truncations());
    let outcome = Outcome { wrong: stage.chronicle.judge(), counts: stage.chronicle.counts() };
    (outcome, stage.chronicle.trace())
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect("a number"))
}

/// Runs `KLAMM_SEED`, without the rule `KLAMM_WITHOUT`, and leaves its trace in a file; nothing where there is no seed.
#[test]
fn one_run() {
    let Some(seed) = number("KLAMM_SEED") else { return };
    chance::begin(seed);
    let off = std::env::var("KLAMM_WITHOUT").ok().map(|name| Rule::named(&name).expect("a rule"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    let (outcome, trace) = runtime.expect("a runtime").block_on(async {
        // A wait for what never happens ends at once: the clock is simulated.
        tokio::time::timeout(Duration::from_secs(3_600), scenario(seed, off)).await.expect("an end within an hour")
    });
    let file = std::env::var_os("KLAMM_TRACE").map_or_else(|| trace_file(seed), PathBuf::from);
    fs::write(&file, trace).expect("written");
    println!("\n{SAYS}{}", serde_json::to_string(&outcome).expect("JSON"));
    assert!(outcome.wrong.is_empty(), "{}\ntrace: {}", outcome.wrong.join("\n"), file.display());
}

fn trace_file(seed: u64) -> PathBuf {
    std::env::temp_dir().join(format!("whole-brokers-{}-{seed}.trace", std::process::id()))
}

/// A run in a process of its own. Where it went wrong, its trace stays in `trace`.
fn run(seed: u64, off: Option<Rule>, trace: &Path) -> Outcome {
    let mut child = Command::new(std::env::current_exe().expect("this program"));
    child.args(["--exact", "one_run", "--nocapture"]).env("KLAMM_SEED", seed.to_string()).env("KLAMM_TRACE", trace);
    if let Some(rule) = off {
        child.env("KLAMM_WITHOUT", format!("{rule:?}"));
    }
    let ended = child.output().expect("started");
    let said = String::from_utf8_lossy(&ended.stdout);
    match said.lines().find_map(|line| line.strip_prefix(SAYS)) {
        Some(outcome) => serde_json::from_str(outcome).expect("JSON"),
        None => {
            let why = format!("{said}{}", String::from_utf8_lossy(&ended.stderr));
            Outcome { wrong: vec![format!("no end: {why}")], counts: Counts::default() }
        }
    }
}

#[test]
fn whatever_happens_what_was_promised_holds() {
    let first = number("KLAMM_FIRST_SEED").unwrap_or(0);
    let seeds = number("KLAMM_SEEDS").unwrap_or(SEEDS);
    let (mut counts, mut failed) = (Counts::default(), Vec::new());
    for seed in first..first + seeds {
        let trace = trace_file(seed);
        let outcome = run(seed, None, &trace);
        counts.add(&outcome.counts);
        if outcome.wrong.is_empty() {
            // One that is not there is in nobody's way.
            let _ = fs::remove_file(&trace);
            continue;
        }
        println!("seed {seed}: {}\n{}\ntrace: {}", outcome.wrong.join("\n"), outcome.counts, trace.display());
        failed.push(seed);
    }
    println!("{seeds} seeds: {counts}");
    assert!(failed.is_empty(), "seeds {failed:?}: KLAMM_SEED=n cargo test --test whole_brokers one_run -- --nocapture");
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let dir = tempfile::tempdir().expect("a directory");
    for seed in [3, 4] {
        let [first, again] = ["first", "again"].map(|name| {
            let file = dir.path().join(name);
            run(seed, None, &file);
            fs::read_to_string(&file).expect("a trace")
        });
        if let Some((n, (a, b))) = first.lines().zip(again.lines()).enumerate().find(|(_, (a, b))| a != b) {
            panic!("two runs of seed {seed} differ in line {n}:\n{a}\n{b}");
        }
        assert_eq!(first.len(), again.len());
        assert!(first.lines().count() > 500, "{first}");
    }
}

/// Each rule has a seed that misses it. What that plays changes with every change of the broker, so that others are played
/// when it does not any more: 40 of them, or as many as `KLAMM_SEEDS` says.
#[test]
fn a_rule_that_is_left_out_is_missed() {
    let dir = tempfile::tempdir().expect("a directory");
    for (rule, seed) in rules::ALL {
        let others = 0..number("KLAMM_SEEDS").unwrap_or(40);
        let seeds = std::iter::once(seed).chain(others);
        let wrong = |seed: &u64| run(*seed, Some(rule), &dir.path().join("trace")).wrong;
        let found = seeds.map(|seed| (seed, wrong(&seed))).find(|(_, wrong)| !wrong.is_empty());
        println!("without {rule:?}: {found:?}");
        assert!(found.is_some(), "{rule:?} is missed by no seed");
    }
}
