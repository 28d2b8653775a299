//! The consumer of Kafka 0.8.2.2, whose group lives in ZooKeeper: it finds brokers and leaders in the nodes, fetches by the
//! oldest requests, and shares partitions with other members through `/consumers`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use kafka_protocol::messages::{ApiKey, RequestKind, ResponseKind};
use rustix::process::Signal;
use tempfile::TempDir;

use super::side::{BROKERS, Side};
use crate::cache;
use crate::daemon::Daemon;
use crate::lanes::cluster::admin;
use crate::lanes::load::{numbered, offset_of};
use crate::proc::tail;
use crate::raw::Connection;
use crate::records::{self, GZIP, LZ4, NONE, SNAPPY};
use crate::twin::requests::produce;
use crate::wait::until;

const LIMIT: Duration = Duration::from_secs(120);
const TOPIC: &str = "carried";
const GROUP: &str = "carriers";
const PLACED: [&[i32]; 3] = [&[1, 2], &[2, 3], &[3, 1]];

/// A member of the group, with what it says.
struct Member {
    process: Daemon,
    log: PathBuf,
}

impl Member {
    fn join(dir: &Path, connect: &str, name: &str) -> Result<Member> {
        let log = dir.join(name);
        let mut command = cache::java(&cache::java_program("OldConsumer.java", "kafka-0.8.2.2")?)?;
        command.args(["OldConsumer", connect, GROUP, name, TOPIC]);
        Ok(Member { process: Daemon::spawn(&mut command, &log)?, log })
    }

    /// Values it has got, by partition, in its order.
    fn got(&self) -> Result<Values> {
        let text = fs::read_to_string(&self.log)?;
        let mut got = Values::new();
        for line in text.lines().filter_map(|line| line.strip_prefix("got ")) {
            let mut words = line.split(' ');
            let partition = words.next().and_then(|word| word.parse().ok()).context("no partition")?;
            // A line that is not whole yet.
            let Some(value) = words.nth(1) else { continue };
            got.entry(partition).or_default().push(value.to_owned());
        }
        Ok(got)
    }

    fn leave(&mut self) -> Result<()> {
        self.process.signal(Signal::TERM)?;
        let status = self.process.await_exit(LIMIT)?;
        status.map(|_| ()).context("a consumer does not end")
    }

    fn said(&self) -> String {
        tail(&fs::read_to_string(&self.log).unwrap_or_default(), 6)
    }
}

/// What a partition holds, in order.
type Values = BTreeMap<i32, Vec<String>>;

/// Two members share three partitions, then one leaves, and the other goes on where it was. Every record comes, in order,
/// and once.
pub fn shared(side: &Side) -> Result<()> {
    let dir = TempDir::with_prefix("compat-consumer-")?;
    let cluster = &side.cluster;
    admin::create_topic(cluster, TOPIC, &PLACED, &[])?;
    cluster.await_isr(&[TOPIC], &BROKERS)?;
    let connect = cluster.zookeeper.connect_string();
    let mut written = Values::new();

    let mut first = Member::join(dir.path(), &connect, "first")?;
    await_owners(side, 1).with_context(|| first.said())?;
    write(side, &mut written)?;
    await_got(&[&first], &written)?;

    let mut second = Member::join(dir.path(), &connect, "second")?;
    await_owners(side, 2).with_context(|| second.said())?;
    write(side, &mut written)?;
    await_got(&[&first, &second], &written)?;
    let shares = second.got()?;
    ensure!(!shares.is_empty() && shares.len() < PLACED.len(), "the second has had partitions {:?}", shares.keys());

    first.leave()?;
    await_owners(side, 1).with_context(|| second.said())?;
    write(side, &mut written)?;
    await_got(&[&first, &second], &written)?;
    until("offsets in ZooKeeper", LIMIT, || {
        let tree = side.tree()?;
        for (partition, values) in &written {
            let node = tree.get(&format!("/consumers/{GROUP}/offsets/{TOPIC}/{partition}"));
            let offset: usize = node.context("there is none")?.data.parse()?;
            ensure!(offset == values.len(), "partition {partition} is at {offset} of {}", values.len());
        }
        Ok(())
    })?;
    second.leave()
}

/// Waits until so many members own the partitions.
fn await_owners(side: &Side, members: usize) -> Result<()> {
    until("owners of all partitions", LIMIT, || {
        let tree = side.tree()?;
        let owners: Vec<&str> = (0..PLACED.len())
            .filter_map(|partition| tree.get(&format!("/consumers/{GROUP}/owners/{TOPIC}/{partition}")))
            .map(|node| node.data.rsplit_once('-').map_or("", |(member, _)| member))
            .collect();
        let different: BTreeSet<&str> = owners.iter().copied().collect();
        ensure!(owners.len() == PLACED.len() && different.len() == members, "they are {owners:?}");
        Ok(())
    })
}

/// Writes batches to every partition, acknowledged by all, in each codec that the consumer can read.
fn write(side: &Side, written: &mut Values) -> Result<()> {
    for partition in (0..).take(PLACED.len()) {
        let mut leader = Connection::open(&side.cluster.address(side.cluster.leader(TOPIC, partition)?)?)?;
        for codec in [NONE, GZIP, SNAPPY, LZ4] {
            let values = written.entry(partition).or_default();
            let batch = numbered(partition, values.len() as u64, codec);
            values.extend(
                records::read(&batch)?
                    .into_iter()
                    .flat_map(|batch| batch.records)
                    .map(|record| String::from_utf8_lossy(&record.value.unwrap_or_default()).into_owned()),
            );
            let request = RequestKind::Produce(produce(-1, &[(TOPIC, partition, Some(batch))]));
            let ResponseKind::Produce(answer) = leader.ask(ApiKey::Produce, 7, &request)? else {
                bail!("no Produce response")
            };
            offset_of(&answer).with_context(|| format!("{answer:?}"))?;
        }
    }
    Ok(())
}

/// Waits until all that was written has come to the members, who had a partition one after the other.
fn await_got(members: &[&Member], written: &Values) -> Result<()> {
    until("what was written", LIMIT, || {
        let mut got = Values::new();
        for member in members {
            for (partition, values) in member.got()? {
                got.entry(partition).or_default().extend(values);
            }
        }
        for (partition, values) in written {
            let got = got.get(partition).map(Vec::as_slice).unwrap_or_default();
            let same = values.iter().zip(got).take_while(|(a, b)| a == b).count();
            let counts =
                || format!("partition {partition}: {} written, {} got, {same} the same", values.len(), got.len());
            ensure!(values == got, "{}; {}", counts(), members.iter().map(|member| member.said()).collect::<String>());
        }
        Ok(())
    })
}
