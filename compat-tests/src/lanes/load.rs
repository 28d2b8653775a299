//! A produce load that knows what was acknowledged, and a reader that checks it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use kafka_protocol::messages::{ApiKey, ProduceResponse, RequestKind, ResponseKind};

use crate::raw::{Connection, Heard, decode, frame};
use crate::records::{self, Batch, LZ4, NONE, Record};
use crate::twin::requests::{at, counted, create, fetch, fetch_topic, list_offsets, produce};
use crate::wait::until;

/// Requests a connection keeps in flight.
const PIPELINE: usize = 4;
/// Per batch.
pub const RECORDS: u64 = 5;

/// What one writer sent and what it was told, per partition. A writer owns its partitions.
#[derive(Debug, Default)]
pub struct Ledger {
    /// Numbers acknowledged, by the offset they were acknowledged at.
    pub acknowledged: BTreeMap<i64, u64>,
    /// The next number.
    pub next: u64,
}

impl Ledger {
    /// The batch that begins with `number` was appended at `base`.
    pub fn acknowledge(&mut self, base: i64, number: u64) {
        self.acknowledged.extend((0..RECORDS).map(|i| (base + i as i64, number + i)));
    }
}

pub fn create_topic(address: &str, topic: &str, partitions: i32) -> Result<()> {
    let mut connection = Connection::open(address)?;
    let request = RequestKind::CreateTopics(create(vec![counted(topic, partitions, 1)]));
    let ResponseKind::CreateTopics(created) = connection.ask(ApiKey::CreateTopics, 5, &request)? else {
        bail!("no CreateTopics response")
    };
    ensure!(created.topics[0].error_code == 0, "create {topic}: error {}", created.topics[0].error_code);
    Ok(())
}

/// A batch of [`RECORDS`] records that carry their partition and number.
pub fn numbered(partition: i32, from: u64, codec: i16) -> Vec<u8> {
    let records = (from..from + RECORDS).map(|number| Record {
        timestamp: 1_700_000_000_000 + number as i64,
        key: Some(format!("{partition}").into_bytes()),
        value: Some(format!("{partition}:{number}:{}", "x".repeat((number % 400) as usize)).into_bytes()),
        ..Record::default()
    });
    Batch::new(records.collect()).codec(codec).encode()
}

/// Writes to its partitions until told to stop or until the broker is gone. Answers how many batches were acknowledged.
pub fn write(
    address: &str,
    topic: &str,
    acks: i16,
    ledgers: &mut [(i32, Ledger)],
    stop: &AtomicBool,
    total: &AtomicU64,
) {
    let Ok(mut connection) = Connection::open(address) else { return };
    let mut in_flight: std::collections::VecDeque<(usize, u64)> = Default::default();
    let mut turn = 0;
    loop {
        while in_flight.len() < PIPELINE && !stop.load(Ordering::Relaxed) {
            let index = turn % ledgers.len();
            let (partition, ledger) = &mut ledgers[index];
            let codec = if turn % 3 == 0 { LZ4 } else { NONE };
            let records = numbered(*partition, ledger.next, codec);
            let request = RequestKind::Produce(produce(acks, &[(topic, *partition, Some(records))]));
            let Ok(bytes) = frame(ApiKey::Produce, 7, turn as i32, &request) else { return };
            connection.send(&bytes);
            in_flight.push_back((index, ledger.next));
            // Never the same number twice: what was sent once may be stored.
            ledger.next += RECORDS;
            turn += 1;
        }
        let Some((index, number)) = in_flight.pop_front() else { return };
        let Ok(Heard::Reply(bytes)) = connection.hear(Duration::from_secs(20)) else { return };
        let Ok((_, ResponseKind::Produce(response))) = decode(ApiKey::Produce, 7, bytes) else { return };
        if let Some(base) = offset_of(&response) {
            total.fetch_add(1, Ordering::Relaxed);
            ledgers[index].1.acknowledge(base, number);
        }
    }
}

/// Where the only partition's batch was appended; `None` when it was refused.
pub fn offset_of(response: &ProduceResponse) -> Option<i64> {
    let partition = response.responses.first()?.partition_responses.first()?;
    (partition.error_code == 0).then_some(partition.base_offset)
}

/// Several writers at once while `meanwhile` runs; they stop when it returns.
pub fn run(
    address: &str,
    topic: &str,
    acks: i16,
    writers: &mut [Vec<(i32, Ledger)>],
    meanwhile: impl FnOnce(&AtomicU64) -> Result<()>,
) -> Result<()> {
    let (stop, total) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        for ledgers in writers.iter_mut() {
            let (stop, total) = (&stop, &total);
            scope.spawn(move || write(address, topic, acks, ledgers, stop, total));
        }
        let result = meanwhile(&total);
        stop.store(true, Ordering::Relaxed);
        result
    })
}

/// Waits until `count` more batches are acknowledged. `limit`: for how long there may be none.
pub fn await_count(total: &AtomicU64, count: u64, limit: Duration) -> Result<()> {
    let mut seen = total.load(Ordering::Relaxed);
    let goal = seen + count;
    let mut until = Instant::now() + limit;
    while seen < goal {
        thread::sleep(Duration::from_millis(1));
        let now = total.load(Ordering::Relaxed);
        if now > seen {
            (seen, until) = (now, Instant::now() + limit);
        }
        ensure!(Instant::now() < until, "only {seen} of {goal} batches acknowledged");
    }
    Ok(())
}

/// Reads a partition from its start: every acknowledged number lies at its offset, nothing is there twice, order is kept.
pub fn verify(address: &str, topic: &str, partition: i32, ledger: &Ledger) -> Result<usize> {
    let found = stored(address, topic, partition)?;
    ascend(&found).with_context(|| format!("{topic}-{partition}"))?;
    for (offset, number) in &ledger.acknowledged {
        match found.get(offset) {
            Some(there) if there == number => {}
            there => bail!(
                "{topic}-{partition}: {number} was acknowledged at {offset}, there is {there:?}; {} records are stored",
                found.len()
            ),
        }
    }
    Ok(found.len())
}

/// Every number is greater than the one before it: nothing is there twice, and order is kept.
pub fn ascend(stored: &BTreeMap<i64, u64>) -> Result<()> {
    let wrong = stored.values().zip(stored.values().skip(1)).find(|(before, after)| before >= after);
    wrong.map_or(Ok(()), |(before, after)| bail!("number {after} after {before}"))
}

/// The numbers in a partition by their offsets, which have no gap, from its start to what its leader shows.
pub fn stored(address: &str, topic: &str, partition: i32) -> Result<BTreeMap<i64, u64>> {
    let mut connection = Connection::open(address)?;
    let ends = RequestKind::ListOffsets(list_offsets(topic, &[(partition, -1)]));
    // A broker that has just started may not lead yet.
    let end = until("the end of the log", Duration::from_secs(20), || {
        let ResponseKind::ListOffsets(ends) = connection.ask(ApiKey::ListOffsets, 2, &ends)? else {
            bail!("no ListOffsets response")
        };
        let answer = &ends.topics[0].partitions[0];
        ensure!(answer.error_code == 0, "{topic}-{partition}: error {}", answer.error_code);
        Ok(answer.offset)
    })?;
    let mut found: BTreeMap<i64, u64> = BTreeMap::new();
    let mut next = 0;
    while next < end {
        let request = RequestKind::Fetch(
            fetch(11, vec![fetch_topic(topic, uuid::Uuid::nil(), 11, vec![at(partition, next)])])
                .with_session_epoch(-1),
        );
        let ResponseKind::Fetch(response) = connection.ask(ApiKey::Fetch, 11, &request)? else {
            bail!("no Fetch response")
        };
        let data = &response.responses[0].partitions[0];
        ensure!(data.error_code == 0, "fetch {topic}-{partition} at {next}: error {}", data.error_code);
        let batches = records::read(data.records.as_deref().unwrap_or_default())?;
        ensure!(!batches.is_empty(), "{topic}-{partition}: nothing at {next}, the log ends at {end}");
        let from = next;
        for record in batches.into_iter().flat_map(|batch| batch.records).filter(|record| record.offset >= from) {
            ensure!(record.offset == next, "{topic}-{partition}: offset {} after {}", record.offset, next - 1);
            next += 1;
            let value = record.value.unwrap_or_default();
            found.insert(record.offset, std::str::from_utf8(&value)?.split(':').nth(1).unwrap_or_default().parse()?);
        }
    }
    Ok(found)
}
