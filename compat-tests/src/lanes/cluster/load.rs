//! Two librdkafka producers that write all the time and know what was acknowledged, and when.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::producer::{BaseProducer, BaseRecord, DeliveryResult, Producer, ProducerContext};
use rdkafka::{ClientConfig, ClientContext, Message};

use crate::cluster::Cluster;
use crate::lanes::{load, steady};
use crate::wait::until;
use crate::worker::Worker;

/// Written with acks=all by an idempotent producer.
pub const ALL: &str = "acks-all";
/// Written with acks=1.
pub const ONE: &str = "acks-1";
/// Replicas of the partitions of both. Broker 3 is the first of none: a follower, unless others fail.
pub const REPLICAS: &[&[i32]] = &[&[1, 2, 3], &[2, 3, 1], &[1, 3, 2]];
/// Between records of a producer.
const PACE: Duration = Duration::from_millis(3);
/// Long enough for a loaded machine; reached only where writes stand still for good.
const PATIENCE: Duration = Duration::from_secs(60);

/// An acknowledged record.
#[derive(Clone, Copy, Debug)]
struct Acknowledged {
    offset: i64,
    number: u64,
    at: Instant,
}

/// What a producer was told, in the order in which it was told.
#[derive(Default)]
struct Ledger(Mutex<Told>);

#[derive(Default)]
struct Told {
    /// By partition.
    acknowledged: BTreeMap<i32, Vec<Acknowledged>>,
    /// Records given up by the producer; none of these steps lasts long enough for that.
    failed: Vec<String>,
    /// Records given up because librdkafka let go of a broker that Metadata did not name for a while, as after a start of
    /// all brokers at once. Nobody was told that they are stored.
    let_go: usize,
    /// What the client complained of the last time.
    complaint: String,
}

impl Ledger {
    fn told(&self) -> MutexGuard<'_, Told> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// A producer's context: the ledger is read by others.
struct Listening(Arc<Ledger>);

impl ClientContext for Listening {
    fn error(&self, error: KafkaError, reason: &str) {
        self.0.told().complaint = format!("{error}: {reason}");
    }
}

impl ProducerContext for Listening {
    /// The record's number.
    type DeliveryOpaque = usize;

    fn delivery(&self, result: &DeliveryResult<'_>, number: usize) {
        let mut told = self.0.told();
        match result {
            Ok(record) => {
                let acknowledged = Acknowledged { offset: record.offset(), number: number as u64, at: Instant::now() };
                told.acknowledged.entry(record.partition()).or_default().push(acknowledged);
            }
            Err((KafkaError::MessageProduction(RDKafkaErrorCode::BrokerDestroy), _)) => told.let_go += 1,
            Err((error, _)) => told.failed.push(format!("record {number}: {error}")),
        }
    }
}

struct Writer {
    topic: &'static str,
    ledger: Arc<Ledger>,
    worker: Worker,
}

/// Both producers at work. They stop when told, or dropped.
pub struct Load {
    writers: Vec<Writer>,
}

/// What a step has cost.
#[derive(Debug, Default)]
pub struct Cost {
    /// The longest time without an acknowledgement in any partition, by topic.
    pub stood_still: BTreeMap<&'static str, Duration>,
    /// Records acknowledged with acks=1 that are lost, as they may.
    pub lost: usize,
    /// Records that the client gave up by itself, since the start.
    pub let_go: usize,
}

impl Load {
    /// The topics are there already.
    pub fn start(cluster: &Cluster) -> Result<Load> {
        let mut load = Load { writers: Vec::new() };
        let idempotent = [("enable.idempotence", "true"), ("acks", "all")];
        // Only one request at a time, or retries would put records out of their order.
        let leader_only = [("acks", "1"), ("max.in.flight.requests.per.connection", "1")];
        for (topic, settings) in [(ALL, idempotent), (ONE, leader_only)] {
            let ledger = Arc::new(Ledger::default());
            let mut config = client(cluster);
            // No step lasts as long; a record given up is a failure of the step.
            config.set("message.timeout.ms", "300000");
            for (key, value) in settings {
                config.set(key, value);
            }
            let producer: BaseProducer<Listening> = config.create_with_context(Listening(Arc::clone(&ledger)))?;
            let worker = Worker::start("a producer", move |stop| write(&producer, topic, stop));
            load.writers.push(Writer { topic, ledger, worker });
        }
        load.await_flow()?;
        Ok(load)
    }

    /// Waits until every partition acknowledges something from now on.
    pub fn await_flow(&self) -> Result<()> {
        let now = Instant::now();
        until("every partition acknowledges records", PATIENCE, || {
            for writer in &self.writers {
                let told = writer.ledger.told();
                ensure!(told.failed.is_empty(), "{}: {:?}", writer.topic, told.failed.first());
                for partition in 0..REPLICAS.len() as i32 {
                    let last = told.acknowledged.get(&partition).and_then(|all| all.last());
                    ensure!(
                        last.is_some_and(|last| last.at > now),
                        "{}-{partition} stands still; the client said last: {}",
                        writer.topic,
                        told.complaint
                    );
                }
            }
            Ok(())
        })
    }

    /// What it has cost since `since`. An error where it was more than allowed: a record acknowledged by all is lost or
    /// there twice, or one acknowledged by a leader alone is lost in front of one that is kept.
    pub fn cost(&self, cluster: &Cluster, since: Instant) -> Result<Cost> {
        let mut cost = Cost::default();
        for writer in &self.writers {
            let still = writer.ledger.told().acknowledged.values().map(|all| longest_gap(all, since)).max();
            cost.let_go += writer.ledger.told().let_go;
            cost.stood_still.insert(writer.topic, still.unwrap_or_default());
            for partition in 0..REPLICAS.len() as i32 {
                let acknowledged = writer.ledger.told().acknowledged.get(&partition).cloned().unwrap_or_default();
                // What a leader alone has is not shown yet, and is no more lost than kept.
                let stored = until("all that was acknowledged is committed", PATIENCE, || {
                    let leader = cluster.address(cluster.leader(writer.topic, partition)?)?;
                    let stored = load::stored(&leader, writer.topic, partition)?;
                    ensure!(is_settled(&acknowledged, &stored), "{}-{partition} is not", writer.topic);
                    Ok(stored)
                })?;
                let of = || format!("{}-{partition}", writer.topic);
                if writer.topic == ALL {
                    kept_once(&acknowledged, &stored).with_context(of)?;
                    continue;
                }
                let lost = allowed_loss(&acknowledged, &stored).with_context(of)?;
                cost.lost += lost.len();
                if let Some(all) = writer.ledger.told().acknowledged.get_mut(&partition) {
                    all.retain(|one| !lost.contains(&one.number));
                }
            }
        }
        Ok(cost)
    }

    /// Lets both producers finish what they have begun.
    pub fn stop(&mut self) -> Result<()> {
        self.writers.iter().for_each(|writer| writer.worker.tell());
        for writer in &mut self.writers {
            writer.worker.stop()?;
            let told = writer.ledger.told();
            ensure!(told.failed.is_empty(), "{}: {:?}", writer.topic, told.failed);
        }
        Ok(())
    }

    /// How many records were acknowledged and are kept.
    pub fn acknowledged(&self) -> usize {
        self.writers.iter().map(|one| one.ledger.told().acknowledged.values().map(Vec::len).sum::<usize>()).sum()
    }
}

/// A client that comes back fast to brokers that do.
pub fn client(cluster: &Cluster) -> ClientConfig {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", cluster.bootstrap()).set("broker.address.family", "v4");
    config.set("reconnect.backoff.ms", "20").set("reconnect.backoff.max.ms", "200");
    config.set("retry.backoff.ms", "20").set("topic.metadata.refresh.fast.interval.ms", "50");
    config
}

fn write(producer: &BaseProducer<Listening>, topic: &str, stop: &AtomicBool) -> Result<()> {
    let partitions = REPLICAS.len();
    steady::write(producer, stop, PACE, |number| {
        let number = number as usize;
        let partition = number % partitions;
        let value = format!("{partition}:{number}:{}", "x".repeat(number % 200));
        let record = BaseRecord::with_opaque_to(topic, number).partition(partition as i32).key("").payload(&value);
        producer.send(record).map_err(|(error, _)| error)
    })?;
    Ok(producer.flush(PATIENCE)?)
}

/// The longest time between two acknowledgements that ended after `since`.
fn longest_gap(acknowledged: &[Acknowledged], since: Instant) -> Duration {
    let gaps = acknowledged.windows(2).filter(|pair| pair[1].at > since).map(|pair| pair[1].at - pair[0].at);
    gaps.max().unwrap_or_default()
}

/// Each acknowledged number is stored where it was said to be, once, and in the order in which it was sent.
fn kept_once(acknowledged: &[Acknowledged], stored: &BTreeMap<i64, u64>) -> Result<()> {
    load::ascend(stored)?;
    for one in acknowledged {
        // A record sent again is acknowledged as a duplicate: without its offset.
        let kept = if one.offset < 0 {
            stored.values().any(|&number| number == one.number)
        } else {
            stored.get(&one.offset) == Some(&one.number)
        };
        ensure!(kept, "{} was acknowledged at {}, there is {:?}", one.number, one.offset, stored.get(&one.offset));
    }
    Ok(())
}

/// Something is stored wherever something was acknowledged, be it that or another leader's: more comes all the time.
fn is_settled(acknowledged: &[Acknowledged], stored: &BTreeMap<i64, u64>) -> bool {
    acknowledged.iter().all(|one| stored.last_key_value().is_some_and(|(end, _)| one.offset <= *end))
}

/// The numbers that were acknowledged by a leader and are not stored where it said. One leader has failed: what it kept to
/// itself was the end of its log, so nothing it acknowledged later may be left.
fn allowed_loss(acknowledged: &[Acknowledged], stored: &BTreeMap<i64, u64>) -> Result<Vec<u64>> {
    let is_lost = |one: &&Acknowledged| stored.get(&one.offset) != Some(&one.number);
    let lost: Vec<&Acknowledged> = acknowledged.iter().filter(is_lost).collect();
    if let (Some(first), Some(last)) = (lost.first(), lost.last()) {
        let between = acknowledged.iter().filter(|one| one.at >= first.at && one.at <= last.at);
        let kept = between.clone().find(|one| !is_lost(one) && one.offset > first.offset && one.offset < last.offset);
        ensure!(
            kept.is_none(),
            "{} at {} is lost, although {kept:?} is kept, which was acknowledged later",
            first.number,
            first.offset
        );
    }
    Ok(lost.iter().map(|one| one.number).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn acknowledged(offsets: &[(i64, u64)]) -> Vec<Acknowledged> {
        let start = Instant::now();
        let at = |i: usize| start + Duration::from_millis(i as u64);
        offsets.iter().enumerate().map(|(i, &(offset, number))| Acknowledged { offset, number, at: at(i) }).collect()
    }

    #[test]
    fn only_the_end_of_a_leaders_log_may_be_lost() {
        let told = acknowledged(&[(0, 0), (1, 3), (2, 6), (3, 9), (2, 12), (3, 15)]);
        let stored = |numbers: &[u64]| (0..).zip(numbers.iter().copied()).collect::<BTreeMap<i64, u64>>();
        assert_eq!(allowed_loss(&told, &stored(&[0, 3, 12, 15])).expect("an end"), [6, 9]);
        let whole = acknowledged(&[(0, 0), (1, 3), (2, 6), (3, 9)]);
        assert!(allowed_loss(&whole, &stored(&[0, 3, 6, 9])).expect("none").is_empty());
        allowed_loss(&whole, &stored(&[0, 7, 6, 8])).expect_err("the third is kept, the second is lost");
    }

    /// A leader gives way with 6 to itself, and the next one's last is not committed at once.
    #[test]
    fn what_is_not_committed_yet_is_not_taken_for_lost() {
        let told = acknowledged(&[(0, 0), (1, 3), (2, 6), (2, 9), (3, 12), (4, 15)]);
        let stored = |numbers: &[u64]| (0..).zip(numbers.iter().copied()).collect::<BTreeMap<i64, u64>>();
        assert!(!is_settled(&told, &stored(&[0, 3, 9, 12])));
        let all = stored(&[0, 3, 9, 12, 15]);
        assert!(is_settled(&told, &all));
        assert_eq!(allowed_loss(&told, &all).expect("an end"), [6]);
        assert!(is_settled(&[], &BTreeMap::new()));
    }

    #[test]
    fn what_all_have_acknowledged_is_there_once_and_in_order() {
        let told = acknowledged(&[(0, 0), (1, 3), (-1, 6)]);
        let stored = |numbers: &[u64]| (0..).zip(numbers.iter().copied()).collect::<BTreeMap<i64, u64>>();
        kept_once(&told, &stored(&[0, 3, 6])).expect("whole");
        kept_once(&told, &stored(&[0, 3])).expect_err("the third is lost");
        kept_once(&told, &stored(&[0, 2, 3, 6])).expect_err("not where it was said to be");
        kept_once(&told, &stored(&[0, 3, 3, 6])).expect_err("twice");
        kept_once(&told, &stored(&[0, 3, 6, 5])).expect_err("out of order");
    }

    #[test]
    fn a_gap_counts_for_the_step_in_which_it_ends() {
        let mut told = acknowledged(&[(0, 0), (1, 1), (2, 2)]);
        told[1].at += Duration::from_secs(3);
        told[2].at += Duration::from_secs(4);
        assert!(longest_gap(&told, told[0].at) > Duration::from_secs(2));
        assert!(longest_gap(&told, told[1].at) < Duration::from_secs(2));
        assert_eq!(longest_gap(&told, told[2].at), Duration::ZERO);
    }
}
