//! A group's only member: what it was given, what it committed, and what it was told is committed when it came back.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use anyhow::{Result, ensure};
use history::event::{Commit, Committed, Event, Outcome, Partition, Poll, Polled, Seek};
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer, ConsumerContext};
use rdkafka::error::RDKafkaErrorCode;
use rdkafka::types::RDKafkaRespErr;
use rdkafka::{ClientConfig, ClientContext, Message, Offset, TopicPartitionList};

use super::chronicle::Chronicle;
use crate::wait::until;
use crate::worker::Worker;

/// Records between commits.
const BATCH: usize = 50;
const POLL: Duration = Duration::from_millis(100);
/// For one question to the coordinator.
const ANSWER: Duration = Duration::from_secs(5);
/// Until it has read everything: long enough for a loaded machine.
const PATIENCE: Duration = Duration::from_secs(90);

pub struct Member {
    told: Arc<Told>,
    worker: Worker,
}

struct Told {
    chronicle: Arc<Chronicle>,
    client: String,
    group: String,
    topic: String,
    stop: Arc<AtomicBool>,
    reads: Mutex<BTreeMap<i32, Read>>,
}

/// Of a partition that is the member's: what it was given since the last line about that.
struct Read {
    from_us: u64,
    position: i64,
    next: i64,
    records: Vec<Polled>,
}

struct Telling(Arc<Told>);

impl ClientContext for Telling {}

impl ConsumerContext for Telling {
    /// It reads on from what it was told is committed, so that the history has it from the same answer.
    fn rebalance(&self, consumer: &BaseConsumer<Telling>, event: RDKafkaRespErr, partitions: &mut TopicPartitionList) {
        let told = &self.0;
        told.put_down();
        told.reads().clear();
        if event == RDKafkaRespErr::RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS {
            if let Some(from) = told.begin(consumer, partitions) {
                let _ = consumer.assign(&from);
            }
        } else {
            let _ = consumer.unassign();
        }
    }
}

impl Told {
    fn reads(&self) -> MutexGuard<'_, BTreeMap<i32, Read>> {
        self.reads.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn at(&self, partition: i32) -> Partition {
        Partition { topic: self.topic.clone(), partition }
    }

    /// Where to read from; nothing when it is to stop before anybody has said.
    fn begin(&self, consumer: &BaseConsumer<Telling>, of: &TopicPartitionList) -> Option<TopicPartitionList> {
        while !self.stop.load(Ordering::Relaxed) {
            let from_us = self.chronicle.now_us();
            let Ok(committed) = consumer.committed_offsets(of.clone(), ANSWER) else { continue };
            let known = |(partition, offset)| match offset {
                Offset::Offset(offset) => Some((partition, Some(offset))),
                Offset::Invalid => Some((partition, None)),
                _ => None,
            };
            let told = committed.to_topic_map();
            let offsets: Option<Vec<(i32, Option<i64>)>> =
                told.into_iter().map(|((_, partition), offset)| known((partition, offset))).collect();
            let Some(offsets) = offsets.filter(|_| committed.elements().iter().all(|one| one.error().is_ok())) else {
                continue;
            };
            return Some(self.seek(from_us, &offsets));
        }
        None
    }

    fn seek(&self, from_us: u64, offsets: &[(i32, Option<i64>)]) -> TopicPartitionList {
        let mut from = TopicPartitionList::new();
        let span = self.chronicle.since(from_us);
        for &(partition, offset) in offsets {
            let at = self.at(partition);
            let client = self.client.clone();
            self.chronicle.write(&Event::Committed(Committed {
                client: client.clone(),
                group: self.group.clone(),
                span,
                at: at.clone(),
                offset,
            }));
            let position = offset.unwrap_or(0);
            self.chronicle.write(&Event::Seek(Seek { client, at_us: self.chronicle.now_us(), at, offset: position }));
            let read = Read { from_us: self.chronicle.now_us(), position, next: position, records: Vec::new() };
            self.reads().insert(partition, read);
            // The partition is named once, and its offset is one: it can not be refused.
            let _ = from.add_partition_offset(&self.topic, partition, Offset::Offset(position));
        }
        from
    }

    fn given(&self, partition: i32, record: Polled) {
        // What was under way when the partition was taken away is shown no more.
        if let Some(read) = self.reads().get_mut(&partition) {
            read.next = record.offset + 1;
            read.records.push(record);
        }
    }

    /// A line about what it was given since the last one, by partition.
    fn put_down(&self) {
        for (&partition, read) in self.reads().iter_mut().filter(|(_, read)| !read.records.is_empty()) {
            let span = self.chronicle.since(read.from_us);
            self.chronicle.write(&Event::Poll(Poll {
                client: self.client.clone(),
                group: Some(self.group.clone()),
                span,
                at: self.at(partition),
                position: read.position,
                next: read.next,
                leader_epoch: None,
                high_watermark: None,
                last_stable_offset: None,
                read_committed: false,
                transaction: None,
                records: std::mem::take(&mut read.records),
            }));
            (read.position, read.from_us) = (read.next, self.chronicle.now_us());
        }
    }

    fn commit(&self, consumer: &BaseConsumer<Telling>) {
        self.put_down();
        let next: Vec<(i32, i64)> = self.reads().iter().map(|(&partition, read)| (partition, read.next)).collect();
        let mut list = TopicPartitionList::new();
        for &(partition, offset) in &next {
            let _ = list.add_partition_offset(&self.topic, partition, Offset::Offset(offset));
        }
        let from_us = self.chronicle.now_us();
        let stored = consumer.commit(&list, CommitMode::Sync).is_ok();
        let span = self.chronicle.since(from_us);
        for (partition, offset) in next {
            // An error says nothing of whether an earlier try was taken.
            let outcome = if stored { Outcome::Stored { offset } } else { Outcome::Unknown };
            self.chronicle.write(&Event::Commit(Commit {
                client: self.client.clone(),
                group: self.group.clone(),
                span,
                at: self.at(partition),
                offset,
                transaction: None,
                outcome,
            }));
        }
    }
}

impl Member {
    /// Joins a group of its own that reads one topic.
    pub fn join(chronicle: &Arc<Chronicle>, mut config: ClientConfig, topic: &str) -> Result<Member> {
        let group = format!("group-of-{topic}");
        config.set("group.id", &group).set("session.timeout.ms", "6000").set("heartbeat.interval.ms", "500");
        config.set("enable.auto.commit", "false").set("auto.offset.reset", "error");
        let told = Arc::new(Told {
            chronicle: Arc::clone(chronicle),
            client: format!("member-of-{topic}"),
            group,
            topic: topic.to_owned(),
            stop: Arc::default(),
            reads: Mutex::default(),
        });
        let consumer: BaseConsumer<Telling> = config.create_with_context(Telling(Arc::clone(&told)))?;
        consumer.subscribe(&[topic])?;
        let reading = Arc::clone(&told);
        let work = move |stop: &AtomicBool| read(&consumer, &reading, stop);
        let worker = Worker::listening("a member", Arc::clone(&told.stop), work);
        Ok(Member { told, worker })
    }

    /// Waits until it has been given all below these ends.
    pub fn await_offsets(&self, ends: &BTreeMap<i32, i64>) -> Result<()> {
        until("the group has read everything", PATIENCE, || {
            self.worker.is_at_work()?;
            let reads = self.told.reads();
            for (partition, &end) in ends {
                let next = reads.get(partition).map(|read| read.next);
                ensure!(
                    next.is_some_and(|next| next >= end),
                    "partition {partition}: it has come to {next:?} of {end}"
                );
            }
            Ok(())
        })
    }

    /// An error where it was told what no member may be told.
    pub fn stop(&mut self) -> Result<()> {
        self.worker.stop()
    }
}

fn read(consumer: &BaseConsumer<Telling>, told: &Told, stop: &AtomicBool) -> Result<()> {
    let mut since_commit = 0;
    while !stop.load(Ordering::Relaxed) {
        match consumer.poll(POLL) {
            Some(Ok(record)) => {
                let value = String::from_utf8_lossy(record.payload().unwrap_or_default()).into_owned();
                told.given(record.partition(), Polled { offset: record.offset(), key: None, value });
                since_commit += 1;
            }
            // Its position was read and is gone.
            Some(Err(error)) if error.rdkafka_error_code() == Some(RDKafkaErrorCode::AutoOffsetReset) => {
                return Err(error.into());
            }
            // Brokers that are down are its own business: it shows no record until it has found others.
            Some(Err(_)) | None => {}
        }
        if since_commit >= BATCH {
            told.commit(consumer);
            since_commit = 0;
        }
    }
    told.commit(consumer);
    Ok(())
}
