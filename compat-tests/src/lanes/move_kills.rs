//! kill -9 while a partition moves between log directories under a produce load: what was acknowledged is there, in one
//! directory, and the move ends.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use kafka_protocol::messages::alter_replica_log_dirs_request::{AlterReplicaLogDir, AlterReplicaLogDirTopic};
use kafka_protocol::messages::{AlterReplicaLogDirsRequest, ApiKey, DescribeLogDirsRequest, RequestKind, ResponseKind};
use tempfile::TempDir;

use super::load::{self, Ledger};
use crate::broker::{Broker, On};
use crate::lane::Run;
use crate::raw::Connection;
use crate::twin::requests::{text, topic_name};

const TOPIC: &str = "moved";
/// Batches written before the first move: a copy is met while it grows.
const FILL: u64 = 10_000;
const LIMIT: Duration = Duration::from_secs(60);

/// Where the partition and its copy are.
#[derive(Debug, PartialEq, Eq)]
struct Places {
    log: Vec<String>,
    /// With the bytes it has.
    copy: Option<(String, i64)>,
}

pub fn units(run: &mut Run) -> Result<()> {
    let rounds = if run.full() { 30 } else { 4 };
    let temp = TempDir::with_prefix("compat-")?;
    let dirs = ["a", "b"].map(|name| temp.path().join(name).display().to_string());
    let listed = dirs.join(",");
    let settings = [("log.dirs", &*listed), ("log.segment.bytes", "4000000"), ("log.retention.ms", "-1")];
    let mut broker = Broker::start(&On::Klamm, &settings)?;
    load::create_topic(&broker.address(), TOPIC, 1)?;
    let mut writers = vec![vec![(0, Ledger::default())]];
    // A batch is about a thousand bytes.
    load::run(&broker.address(), TOPIC, -1, &mut writers, |total| load::await_count(total, FILL, LIMIT))?;
    let mut in_the_middle = 0;
    for number in 1..=rounds {
        let result = round(&mut broker, &dirs, &mut writers);
        in_the_middle += usize::from(*result.as_ref().unwrap_or(&false));
        let failed = result.is_err();
        if failed || number == rounds {
            let name = format!(
                "kill -9 while a partition changes its directory: round {number} of {rounds}, {in_the_middle} with a copy left"
            );
            run.settled(name, result.map(|_| ()));
        }
        if failed {
            println!("{}", broker.log_tail(30));
            break;
        }
    }
    Ok(())
}

/// One kill. Whether a copy was left.
fn round(broker: &mut Broker, dirs: &[String; 2], writers: &mut [Vec<(i32, Ledger)>]) -> Result<bool> {
    let address = broker.address();
    let begun = places(&address)?;
    let [from] = &begun.log[..] else { bail!("before the move: {begun:?}") };
    let to = dirs.iter().find(|dir| *dir != from).context("a directory to go to")?;
    load::run(&address, TOPIC, -1, writers, |total| {
        load::await_count(total, 20, LIMIT)?;
        ask_for_move(&address, to)?;
        // As soon as the copy has anything, or the move is over.
        await_places(&address, |now| now.copy.as_ref().is_none_or(|(_, bytes)| *bytes > 0))?;
        broker.kill()
    })?;
    let left = std::fs::read_dir(to)?.filter_map(Result::ok);
    let copy_left = left.into_iter().any(|entry| entry.file_name().to_string_lossy().ends_with("-future"));
    broker.start_again()?;
    let after = await_places(&address, |now| now.copy.is_none())?;
    ensure!(after.log == [to.clone()], "it was to move from {from} to {to}: {after:?}");
    for (partition, ledger) in writers.iter().flatten() {
        load::verify(&address, TOPIC, *partition, ledger)?;
    }
    Ok(copy_left)
}

fn ask_for_move(address: &str, to: &str) -> Result<()> {
    let topic = AlterReplicaLogDirTopic::default().with_name(topic_name(TOPIC)).with_partitions(vec![0]);
    let dir = AlterReplicaLogDir::default().with_path(text(to)).with_topics(vec![topic]);
    let request = RequestKind::AlterReplicaLogDirs(AlterReplicaLogDirsRequest::default().with_dirs(vec![dir]));
    let answer = Connection::open(address)?.ask(ApiKey::AlterReplicaLogDirs, 2, &request)?;
    let ResponseKind::AlterReplicaLogDirs(answer) = answer else { bail!("no AlterReplicaLogDirs response") };
    let error = answer.results[0].partitions[0].error_code;
    ensure!(error == 0, "asked to move to {to}: error {error}");
    Ok(())
}

fn places(address: &str) -> Result<Places> {
    let request = RequestKind::DescribeLogDirs(DescribeLogDirsRequest::default().with_topics(None));
    let answer = Connection::open(address)?.ask(ApiKey::DescribeLogDirs, 1, &request)?;
    let ResponseKind::DescribeLogDirs(answer) = answer else { bail!("no DescribeLogDirs response") };
    let mut places = Places { log: Vec::new(), copy: None };
    for dir in answer.results {
        ensure!(dir.error_code == 0, "{}: error {}", &*dir.log_dir, dir.error_code);
        for partition in dir.topics.iter().flat_map(|topic| &topic.partitions) {
            match partition.is_future_key {
                true => places.copy = Some((dir.log_dir.to_string(), partition.partition_size)),
                false => places.log.push(dir.log_dir.to_string()),
            }
        }
    }
    Ok(places)
}

fn await_places(address: &str, wanted: impl Fn(&Places) -> bool) -> Result<Places> {
    let until = Instant::now() + LIMIT;
    loop {
        let now = places(address)?;
        if wanted(&now) && !now.log.is_empty() {
            return Ok(now);
        }
        ensure!(Instant::now() < until, "the move does not go on: {now:?}");
        thread::sleep(Duration::from_millis(1));
    }
}
