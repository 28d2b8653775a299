//! A reader by hand of each partition: it asks the leader, of the epoch it was told of, and puts down what it is shown.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use history::event::{Event, Partition, Poll, Polled};
use kafka_protocol::messages::{ApiKey, MetadataRequest, RequestKind, ResponseKind};
use uuid::Uuid;

use super::chronicle::Chronicle;
use crate::raw::Connection;
use crate::records;
use crate::twin::requests::{at, fetch, fetch_topic, metadata_topic, text};
use crate::wait::until;
use crate::worker::Worker;

/// For a connection, and for an answer: a broker that is stopped or cut off is given up after that.
const LIMIT: Duration = Duration::from_secs(2);
/// In ms, for which a leader may wait for records.
const WAIT: i32 = 100;
/// Between two looks for a leader.
const PAUSE: Duration = Duration::from_millis(50);
/// Until it has read everything: long enough for a loaded machine.
const PATIENCE: Duration = Duration::from_secs(60);
/// Of fetches that show nothing new, one in as long is put down.
const NEWS_US: u64 = 500_000;

const OFFSET_OUT_OF_RANGE: i16 = 1;

pub struct Reader {
    at: Partition,
    next: Arc<AtomicI64>,
    worker: Worker,
}

impl Reader {
    /// Reads a partition from its beginning; `brokers` are all there are.
    pub fn start(chronicle: &Arc<Chronicle>, brokers: Vec<String>, at: Partition) -> Reader {
        let next = Arc::new(AtomicI64::new(0));
        let mut reading = Reading {
            chronicle: Arc::clone(chronicle),
            brokers,
            client: format!("reads-{at}"),
            at: at.clone(),
            next: Arc::clone(&next),
            shown: (-1, 0),
        };
        Reader { at, next, worker: Worker::start("a reader", move |stop| reading.read_until(stop)) }
    }

    /// Waits until it has been given all below `end`.
    pub fn await_offset(&self, end: i64) -> Result<()> {
        until(&format!("everything in {} is read", self.at), PATIENCE, || {
            self.worker.is_at_work()?;
            let next = self.next.load(Ordering::Relaxed);
            ensure!(next >= end, "it has come to {next} of {end}");
            Ok(())
        })
    }

    /// An error where it was told what no reader may be told.
    pub fn stop(&mut self) -> Result<()> {
        self.worker.stop()
    }
}

struct Reading {
    chronicle: Arc<Chronicle>,
    brokers: Vec<String>,
    client: String,
    at: Partition,
    next: Arc<AtomicI64>,
    /// The high watermark put down last, and when.
    shown: (i64, u64),
}

/// Who leads, and a connection to it.
struct Leader {
    epoch: i32,
    connection: Connection,
}

impl Reading {
    fn read_until(&mut self, stop: &AtomicBool) -> Result<()> {
        let mut leader = None;
        let mut asked = 0;
        while !stop.load(Ordering::Relaxed) {
            let mut one = match leader.take() {
                Some(one) => one,
                None => {
                    // Another broker each time: some do not answer.
                    let broker = &self.brokers[asked % self.brokers.len()];
                    asked += 1;
                    let Ok(found) = find(broker, &self.at) else {
                        thread::sleep(PAUSE);
                        continue;
                    };
                    found
                }
            };
            match self.fetch(&mut one) {
                Ok(Some(OFFSET_OUT_OF_RANGE)) => {
                    let next = self.next.load(Ordering::Relaxed);
                    let epoch = one.epoch;
                    bail!("{}: all below {next} was read, and in epoch {epoch} that is out of range", self.at);
                }
                Ok(None) => leader = Some(one),
                // It leads no more, or not yet, or is gone.
                Ok(Some(_)) | Err(_) => thread::sleep(PAUSE),
            }
        }
        Ok(())
    }

    /// The error that the partition was answered with, if any.
    fn fetch(&mut self, leader: &mut Leader) -> Result<Option<i16>> {
        const VERSION: i16 = 11;
        let position = self.next.load(Ordering::Relaxed);
        let wanted = at(self.at.partition, position).with_current_leader_epoch(leader.epoch);
        let topic = fetch_topic(&self.at.topic, Uuid::nil(), VERSION, vec![wanted]);
        let request = fetch(VERSION, vec![topic]).with_session_epoch(-1).with_max_wait_ms(WAIT);
        let from_us = self.chronicle.now_us();
        let request = RequestKind::Fetch(request);
        let answer = leader.connection.ask_within(ApiKey::Fetch, VERSION, &request, LIMIT)?;
        let ResponseKind::Fetch(answer) = answer else { bail!("no Fetch response") };
        let data = answer.responses.first().and_then(|topic| topic.partitions.first()).context("no partition")?;
        if data.error_code != 0 {
            return Ok(Some(data.error_code));
        }
        let mut read = Vec::new();
        let mut next = position;
        for batch in records::read(data.records.as_deref().unwrap_or_default())? {
            next = next.max(batch.base_offset + i64::from(batch.last_offset_delta) + 1);
            read.extend(batch.records.into_iter().filter(|record| record.offset >= position).map(|record| Polled {
                offset: record.offset,
                key: None,
                value: String::from_utf8_lossy(&record.value.unwrap_or_default()).into_owned(),
            }));
        }
        let span = self.chronicle.since(from_us);
        let now = span.to_us.unwrap_or(from_us);
        let news = !read.is_empty() || data.high_watermark != self.shown.0 || now - self.shown.1 > NEWS_US;
        if news {
            self.shown = (data.high_watermark, now);
            self.chronicle.write(&Event::Poll(Poll {
                client: self.client.clone(),
                group: None,
                span,
                at: self.at.clone(),
                position,
                next,
                leader_epoch: Some(leader.epoch),
                high_watermark: Some(data.high_watermark),
                last_stable_offset: Some(data.last_stable_offset),
                read_committed: false,
                transaction: None,
                records: read,
            }));
        }
        self.next.store(next, Ordering::Relaxed);
        Ok(None)
    }
}

/// The leader as one broker knows it.
fn find(broker: &str, of: &Partition) -> Result<Leader> {
    const VERSION: i16 = 7;
    let request = MetadataRequest::default().with_topics(Some(vec![metadata_topic(text(&of.topic))]));
    let answer = Connection::open_within(broker, LIMIT)?.ask_within(
        ApiKey::Metadata,
        VERSION,
        &RequestKind::Metadata(request),
        LIMIT,
    )?;
    let ResponseKind::Metadata(metadata) = answer else { bail!("no Metadata response") };
    let topic = metadata.topics.first().context("no topic")?;
    let partition = topic.partitions.iter().find(|one| one.partition_index == of.partition).context("no partition")?;
    let leader = metadata.brokers.iter().find(|one| one.node_id == partition.leader_id).context("no leader")?;
    let connection = Connection::open_within(&format!("{}:{}", &*leader.host, leader.port), LIMIT)?;
    Ok(Leader { epoch: partition.leader_epoch, connection })
}
