//! A consumer group that goes on when its coordinator dies.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::{Message, Offset, TopicPartitionList};

use super::load::{ALL, client};
use crate::cluster::Cluster;
use crate::wait::until;

pub const GROUP: &str = "survivors";
/// Records between commits.
const BATCH: usize = 20;
/// Long enough for a loaded machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// The group's only member.
pub struct Member {
    consumer: BaseConsumer,
    /// The next offset wanted, by partition: one beyond it is an error.
    wanted: BTreeMap<i32, i64>,
    /// What was acknowledged as committed.
    committed: BTreeMap<i32, i64>,
}

impl Member {
    pub fn join(cluster: &Cluster) -> Result<Member> {
        let mut config = client(cluster);
        config.set("group.id", GROUP).set("session.timeout.ms", "6000").set("heartbeat.interval.ms", "500");
        config.set("enable.auto.commit", "false").set("auto.offset.reset", "earliest");
        let consumer: BaseConsumer = config.create()?;
        consumer.subscribe(&[ALL])?;
        Ok(Member { consumer, wanted: BTreeMap::new(), committed: BTreeMap::new() })
    }

    /// Reads some records and commits them; again when the commit is refused, as it is of a member that the coordinator
    /// has given up meanwhile.
    pub fn advance(&mut self) -> Result<()> {
        until("records that are read and committed", PATIENCE, || {
            // A read that went wrong is no matter of waiting.
            match self.read() {
                Ok(()) => self.commit().map(Ok),
                Err(error) => Ok(Err(error)),
            }
        })?
    }

    fn read(&mut self) -> Result<()> {
        let end = Instant::now() + PATIENCE;
        let mut read = 0;
        while read < BATCH {
            ensure!(Instant::now() < end, "{read} records within {} s", PATIENCE.as_secs());
            // Brokers that are down are its own business: it shows no record until it has found others.
            if let Some(Ok(record)) = self.consumer.poll(Duration::from_millis(100)) {
                let (partition, offset) = (record.partition(), record.offset());
                let known = |offsets: &BTreeMap<i32, i64>| offsets.get(&partition).copied().unwrap_or_default();
                // After a rebalance it reads again from what is committed: the acknowledged commit or one after it.
                let due = known(&self.committed)..=known(&self.wanted);
                ensure!(due.contains(&offset), "{ALL}-{partition}: offset {offset} came where one of {due:?} was due");
                self.wanted.insert(partition, offset + 1);
                read += 1;
            }
        }
        Ok(())
    }

    fn commit(&mut self) -> Result<()> {
        let mut list = TopicPartitionList::new();
        for (&partition, &next) in &self.wanted {
            list.add_partition_offset(ALL, partition, Offset::Offset(next))?;
        }
        self.consumer.commit(&list, CommitMode::Sync)?;
        self.committed.clone_from(&self.wanted);
        Ok(())
    }

    /// What the group's coordinator says is committed is exactly what it acknowledged.
    pub fn check_committed(&self) -> Result<()> {
        let mut list = TopicPartitionList::new();
        for &partition in self.committed.keys() {
            list.add_partition(ALL, partition);
        }
        let told = self.consumer.committed_offsets(list, PATIENCE).context("committed offsets")?;
        for (&partition, &offset) in &self.committed {
            let there = told.find_partition(ALL, partition).ok_or_else(|| anyhow!("no {ALL}-{partition}"))?.offset();
            ensure!(there == Offset::Offset(offset), "{ALL}-{partition}: {offset} was committed, {there:?} is told");
        }
        Ok(())
    }
}
