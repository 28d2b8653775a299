//! A log that has become deep is as fast as a new one: row 14, and what row 11 asks of a deep log.

use rustix::process::Signal;

use super::fetch::fill;
use super::{Rival, Row, Sizes, recovery, start};
use crate::admin::{delete_topic, end_offsets};
use crate::drive::{Amount, Closed, Consume, Ledger, Outcome, Peer, Produced};
use crate::figure::{Figure, Sheet};
use crate::fleet::{Fleet, Who};
use crate::meter::written_back;
use crate::process::Server;
use crate::wire::{Batch, Produce};

/// Bytes of the shallow log, and of the tail that is not checkpointed when the server is killed.
const SHALLOW: u64 = 10_000_000;
const TAIL: u64 = 64 << 20;
const BATCH: usize = 64 << 10;
const DEEP_TOPIC: &str = "deep";

const APPEND_P50: Figure = Figure::less("append p50, deep to shallow").of_value(1.15, 1.05);
const APPEND_P99: Figure = Figure::less("append p99, deep to shallow").of_value(1.3, 1.15);
const SPEED: Figure = Figure::more("MB/s, deep to shallow").of_value(1.0 / 1.15, 1.0 / 1.05);
const FETCH_P50: Figure = Figure::less("random fetch p50, deep to shallow").of_value(1.15, 1.05);
const START: Figure = Figure::less("clean start, deep to shallow").of_value(1.2, 1.05);
const RECOVERY: Figure = Figure::less("row 11: kill -9 with a tail of 64 MiB, acked ms").of_value(300.0, 100.0);

pub fn row(sizes: Sizes) -> Row {
    let figures = vec![APPEND_P50, APPEND_P99, SPEED, FETCH_P50, START, RECOVERY];
    let what = "10 GB in the log against 10 MB";
    Row::new("depth", "14", what, figures, move |fleet, who, sheet| run(fleet, who, sheet, sizes))
        .without_limit()
        .rival(Rival::Once)
        .touches(1.0)
}

struct Speeds {
    append_p50: f64,
    append_p99: f64,
    mb_s: f64,
    fetch_p50: f64,
}

impl Speeds {
    /// The best of either: memory that the machine is given for the first time, or a disk that is behind, slows down whoever
    /// meets it.
    fn best(self, other: Speeds) -> Speeds {
        Speeds {
            append_p50: self.append_p50.min(other.append_p50),
            append_p99: self.append_p99.min(other.append_p99),
            mb_s: self.mb_s.max(other.mb_s),
            fetch_p50: self.fetch_p50.min(other.fetch_p50),
        }
    }
}

fn run(fleet: &mut Fleet, who: Who, sheet: &mut Sheet, sizes: Sizes) -> Outcome<()> {
    let timestamp_ms = fleet.timestamp_ms;
    let (batch, topic) = (Batch::filling(BATCH, 1024, timestamp_ms), fleet.fresh_topic());
    let deep_bytes = (sizes.deep_gb * 1e9) as u64;
    let shallow = fleet.kept(who, "shallow", |server| fill(&server.peer(), DEEP_TOPIC, &batch, SHALLOW))?;
    written_back();
    let shallow_start = clean_start(shallow, timestamp_ms)?;
    shallow.stop(Signal::TERM)?;

    let deep = fleet.kept(who, "deep", |server| fill(&server.peer(), DEEP_TOPIC, &batch, deep_bytes))?;
    let peer = deep.peer();
    fill(&peer, &topic, &batch, SHALLOW)?;
    let (of_small, of_big) =
        (|| speeds(&peer, &topic, SHALLOW, &batch), || speeds(&peer, DEEP_TOPIC, deep_bytes, &batch));
    let (small, big) = (of_small()?, of_big()?);
    let (big, small) = (big.best(of_big()?), small.best(of_small()?));
    delete_topic(&peer.addr, &topic)?;
    sheet.add(APPEND_P50.name, big.append_p50 / small.append_p50)?;
    sheet.add(APPEND_P99.name, big.append_p99 / small.append_p99)?;
    sheet.add(SPEED.name, big.mb_s / small.mb_s)?;
    sheet.add(FETCH_P50.name, big.fetch_p50 / small.fetch_p50)?;
    written_back();

    sheet.add(START.name, clean_start(deep, timestamp_ms)? / shallow_start)?;
    written_back();
    append(&deep.peer(), DEEP_TOPIC, &batch, 4, Amount::Bytes(TAIL))?;
    let end = end_offsets(&deep.addr, DEEP_TOPIC, 1)?[0];
    deep.stop(Signal::KILL)?;
    deep.again()?;
    sheet.add(RECOVERY.name, start::until_acked(deep, DEEP_TOPIC, timestamp_ms)?)?;
    recovery::survived(&deep.addr, DEEP_TOPIC, end)
}

/// Milliseconds to the first acknowledgement after a clean stop.
fn clean_start(server: &mut Server, timestamp_ms: i64) -> Outcome<f64> {
    server.stop(Signal::TERM)?;
    server.again()?;
    start::until_acked(server, DEEP_TOPIC, timestamp_ms)
}

fn speeds(peer: &Peer, topic: &str, filled: u64, batch: &Batch) -> Outcome<Speeds> {
    written_back();
    let end = end_offsets(&peer.addr, topic, 1)?[0];
    // Batches of the first fill: between those that rounds have appended lie single records.
    let whole = (filled / batch.bytes.len() as u64) as i64;
    let seek = |n: u64| (n.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 16) as i64 % whole * batch.records;
    let one_batch = Consume { max: 1, seek: Some(&seek), ..Consume::all(topic, 0..end, batch, 1, 0.2, 1.0) };
    let fetch = one_batch.run(peer)?;
    let alone = append(peer, topic, batch, 1, Amount::Secs(1.0))?;
    let speed = append(peer, topic, batch, 8, Amount::Bytes(500_000_000))?;
    Ok(Speeds {
        append_p50: alone.answered.value_at_quantile(0.5) as f64,
        append_p99: alone.answered.value_at_quantile(0.99) as f64,
        mb_s: speed.mb_s(),
        fetch_p50: fetch.answered.value_at_quantile(0.5) as f64,
    })
}

fn append(peer: &Peer, topic: &str, batch: &Batch, window: usize, measured: Amount) -> Outcome<Produced> {
    let requests = [Produce::one(topic, 0, 1, batch)];
    let mut ledger = Ledger::open(peer, topic, 1, batch)?;
    let load = Closed { requests: &requests, connections: 1, window, warm: Amount::Secs(0.1), measured };
    let produced = load.run(peer, &mut ledger)?;
    ledger.check()?;
    Ok(produced)
}
