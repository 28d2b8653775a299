//! librdkafka producers that write all the time and put down what they were told of each record.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use history::event::{Acks, Event, Outcome, Partition, Send};
use rdkafka::error::KafkaError;
use rdkafka::producer::{BaseProducer, BaseRecord, DeliveryResult, Producer, ProducerContext, PurgeConfig};
use rdkafka::{ClientConfig, ClientContext, Message};

use super::chronicle::Chronicle;
use crate::lanes::steady;
use crate::wait::until;
use crate::worker::Worker;

/// Between records of a producer.
const PACE: Duration = Duration::from_millis(4);
/// Long enough for a loaded machine; reached only where writes stand still for good.
const PATIENCE: Duration = Duration::from_secs(90);

/// One producer and the topic that is its alone.
pub struct Writer {
    topic: String,
    told: Arc<Told>,
    worker: Worker,
}

/// A producer's context: others look at it while it works.
struct Telling(Arc<Told>);

struct Told {
    chronicle: Arc<Chronicle>,
    client: String,
    acks: Acks,
    flow: Mutex<Flow>,
}

/// How acknowledgements came, by partition.
#[derive(Default)]
struct Flow {
    partitions: BTreeMap<i32, Pace>,
    acknowledged: usize,
    /// What the client complained of the last time.
    complaint: String,
}

struct Pace {
    last: Instant,
    /// The longest time between two since gaps count.
    gap: Duration,
}

/// A record on its way.
struct Sent {
    number: u64,
    from_us: u64,
    at: Partition,
    value: String,
}

impl Told {
    fn flow(&self) -> MutexGuard<'_, Flow> {
        self.flow.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn ended(&self, sent: Sent, outcome: Outcome) {
        if outcome != Outcome::Unknown {
            let (now, mut flow) = (Instant::now(), self.flow());
            flow.acknowledged += 1;
            let pace = flow.partitions.entry(sent.at.partition).or_insert(Pace { last: now, gap: Duration::ZERO });
            pace.gap = pace.gap.max(now - pace.last);
            pace.last = now;
        }
        self.chronicle.write(&Event::Send(Send {
            client: self.client.clone(),
            number: sent.number,
            span: self.chronicle.since(sent.from_us),
            at: sent.at,
            key: None,
            value: sent.value,
            acks: self.acks,
            idempotent: self.acks == Acks::All,
            transaction: None,
            input: None,
            outcome,
        }));
    }
}

impl ClientContext for Telling {
    fn error(&self, error: KafkaError, reason: &str) {
        self.0.flow().complaint = format!("{error}: {reason}");
    }
}

impl ProducerContext for Telling {
    type DeliveryOpaque = Box<Sent>;

    fn delivery(&self, result: &DeliveryResult<'_>, sent: Box<Sent>) {
        let outcome = match result {
            // A try that was told to be a duplicate of an earlier one, whose answer was lost.
            Ok(record) if record.offset() < 0 => Outcome::StoredBefore,
            Ok(record) => Outcome::Stored { offset: record.offset() },
            // librdkafka names the error of the last of its tries: one before it may have been stored.
            Err(_) => Outcome::Unknown,
        };
        self.0.ended(*sent, outcome);
    }
}

impl Writer {
    /// Writes to the partitions from 0 up to `partitions` of a topic that is there: an idempotent producer with acks=all,
    /// one of a request at a time with acks=1, so that its retries change no order either.
    pub fn start(
        chronicle: &Arc<Chronicle>,
        mut config: ClientConfig,
        topic: &str,
        partitions: i32,
        acks: Acks,
    ) -> Result<Writer> {
        match acks {
            Acks::All => config.set("enable.idempotence", "true").set("acks", "all"),
            _ => config.set("acks", "1").set("max.in.flight.requests.per.connection", "1"),
        };
        // An answer is waited for as long as for any other; records are given up later than any fault lasts.
        config.set("request.timeout.ms", "3000").set("message.timeout.ms", "300000");
        let told = Arc::new(Told {
            chronicle: Arc::clone(chronicle),
            client: format!("writes-{topic}"),
            acks,
            flow: Mutex::default(),
        });
        let producer: BaseProducer<Telling> = config.create_with_context(Telling(Arc::clone(&told)))?;
        let (ledger, into) = (Arc::clone(&told), topic.to_owned());
        let worker = Worker::start("a producer", move |stop| write(&producer, &ledger, &into, partitions, stop));
        Ok(Writer { topic: topic.to_owned(), told, worker })
    }

    /// Waits until each of so many partitions acknowledges something from now on.
    pub fn await_flow(&self, partitions: i32) -> Result<()> {
        let now = Instant::now();
        until("every partition acknowledges records", PATIENCE, || {
            self.worker.is_at_work()?;
            let flow = self.told.flow();
            for partition in 0..partitions {
                let flows = flow.partitions.get(&partition).is_some_and(|pace| pace.last > now);
                ensure!(flows, "{}-{partition} stands still; the client said last: {}", self.topic, flow.complaint);
            }
            Ok(())
        })
    }

    /// From here on gaps count.
    pub fn count_gaps(&self) {
        self.told.flow().partitions.values_mut().for_each(|pace| pace.gap = Duration::ZERO);
    }

    /// The longest time without an acknowledgement in any partition, also where it lasts. One that was under way when
    /// gaps began to count is whole in it.
    pub fn stood_still(&self) -> Duration {
        let now = Instant::now();
        self.told.flow().partitions.values().map(|pace| pace.gap.max(now - pace.last)).max().unwrap_or_default()
    }

    pub fn topic(&self) -> &str {
        &self.topic
    }

    pub fn acknowledged(&self) -> usize {
        self.told.flow().acknowledged
    }

    /// Lets it finish what it has begun.
    pub fn stop(&mut self) -> Result<()> {
        self.worker.stop()
    }
}

fn write(producer: &BaseProducer<Telling>, told: &Told, topic: &str, partitions: i32, stop: &AtomicBool) -> Result<()> {
    steady::write(producer, stop, PACE, |number| {
        let partition = (number % partitions as u64) as i32;
        let at = Partition { topic: topic.to_owned(), partition };
        let value = format!("{topic}:{number}");
        let sent = Sent { number, from_us: told.chronicle.now_us(), at, value: value.clone() };
        let record = BaseRecord::with_opaque_to(topic, Box::new(sent)).partition(partition).key("").payload(&value);
        producer.send(record).map_err(|(error, _)| error)
    })?;
    let finished = producer.flush(PATIENCE);
    // What is left was not answered, and is put down as that.
    producer.purge(PurgeConfig::default().queue().inflight());
    producer.poll(Duration::ZERO);
    Ok(finished?)
}
