//! The producer that means well: a batch every few milliseconds, each acknowledgement timed and kept.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use kafka_protocol::messages::{ApiKey, RequestKind, ResponseKind};

use super::machine::Rank;
use super::scene::PATIENCE;
use crate::lanes::load::{self, Ledger};
use crate::raw::{Connection, Heard, decode, frame};
use crate::records::NONE;
use crate::twin::requests::produce;

/// Between two batches. The schedule is kept: a late answer makes the next ones late too.
const PACE: Duration = Duration::from_millis(2);

/// More than one of its requests has.
const REQUEST_BYTES: u64 = 4096;

/// What one honest producer wrote and was told.
pub struct Honest {
    topic: &'static str,
    partition: i32,
    ledger: Ledger,
}

impl Honest {
    pub fn new(topic: &'static str, partition: i32) -> Honest {
        Honest { topic, partition, ledger: Ledger::default() }
    }

    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// At most, of so many requests.
    pub fn bytes_of(&self, requests: usize) -> u64 {
        requests as u64 * REQUEST_BYTES
    }

    /// One batch on `connection`, acknowledged.
    fn write(&mut self, connection: &mut Connection) -> Result<()> {
        let number = self.ledger.next;
        let records = load::numbered(self.partition, number, NONE);
        let request = RequestKind::Produce(produce(-1, &[(self.topic, self.partition, Some(records))]));
        // Never the same number twice: what was sent once may be stored.
        self.ledger.next += load::RECORDS;
        connection.send(&frame(ApiKey::Produce, 7, number as i32, &request)?);
        let Heard::Reply(bytes) = connection.hear(PATIENCE)? else { bail!("the honest producer was not answered") };
        let (_, ResponseKind::Produce(response)) = decode(ApiKey::Produce, 7, bytes)? else {
            bail!("no Produce response")
        };
        let base =
            load::offset_of(&response).with_context(|| format!("an error for the honest producer: {response:?}"))?;
        self.ledger.acknowledge(base, number);
        Ok(())
    }
}

/// Lets `honest` produce while `attack` runs, by a thread of this `rank`, and begins again until there were `acks`
/// acknowledgements meanwhile. Answers how long each of them took.
pub fn beside(
    address: &str,
    honest: &mut Honest,
    acks: usize,
    rank: Rank,
    attack: impl Fn() -> Result<()> + Sync,
) -> Result<Vec<Duration>> {
    let (stop, ended, acknowledged) = (AtomicBool::new(false), AtomicBool::new(false), AtomicUsize::new(0));
    let mut produce = || -> Result<Vec<Duration>> {
        let mut connection = Connection::open(address)?;
        let mut latencies = Vec::new();
        let mut due = Instant::now();
        while !stop.load(Ordering::Relaxed) {
            thread::sleep(due.saturating_duration_since(Instant::now()));
            honest.write(&mut connection)?;
            latencies.push(due.elapsed());
            acknowledged.store(latencies.len(), Ordering::Relaxed);
            due += PACE;
        }
        Ok(latencies)
    };
    thread::scope(|scope| {
        let producer = scope.spawn(|| {
            let latencies = produce();
            ended.store(true, Ordering::Relaxed);
            latencies
        });
        let attacker = scope.spawn(|| {
            rank.take();
            loop {
                let attacked = attack();
                let enough = acknowledged.load(Ordering::Relaxed) >= acks;
                if attacked.is_err() || enough || ended.load(Ordering::Relaxed) {
                    return attacked;
                }
            }
        });
        let attacked = attacker.join().unwrap_or_else(|_| bail!("the attacker panicked"));
        stop.store(true, Ordering::Relaxed);
        let latencies = producer.join().map_err(|_| anyhow!("the honest producer panicked"))?;
        attacked?;
        latencies
    })
}

/// Nothing happens, for the length of a few acknowledgements.
pub fn calm() -> Result<()> {
    thread::sleep(PACE * 10);
    Ok(())
}
