//! Fetch of a cached log: row 4.

use super::{Row, Sizes};
use crate::admin::{create_topic, end_offsets};
use crate::drive::{Amount, Closed, Consume, Consumed, Ledger, Outcome, Peer};
use crate::figure::{Figure, Sheet};
use crate::fleet::{Fleet, Who};
use crate::wire::{Batch, Produce};

const LOG_BYTES: u64 = 1 << 30;
const WARM_SECS: f64 = 0.5;

const MB_S: Figure = Figure::more("MB/s").of_limit(0.65, 0.85);
const S_GB: Figure = Figure::less("CPU s/GB").of_limit(1.5, 1.15);

pub fn rows(sizes: Sizes) -> Vec<Row> {
    let row = |id, what, consumers| {
        let measure = move |fleet: &mut Fleet, who, sheet: &mut Sheet| {
            let read = cached_log(fleet, who, consumers, sizes)?;
            sheet.add(MB_S.name, read.mb_s())?;
            Ok(sheet.add(S_GB.name, read.cpu_per_gb())?)
        };
        Row::new(id, "4", what, vec![MB_S, S_GB], measure).touches(1.5)
    };
    vec![
        row("fetch-1", "1 GiB in the page cache, answers of 1 MiB, 1 consumer", 1),
        row("fetch-4", "the same, 4 consumers", 4),
    ]
}

fn cached_log(fleet: &mut Fleet, who: Who, consumers: usize, sizes: Sizes) -> Outcome<Consumed> {
    let batch = Batch::filling(16 << 10, 1024, fleet.timestamp_ms);
    let peer = fleet.peer(who, fleet.sender)?;
    let topic = fleet.topic(who, "cached", |topic| fill(&peer, topic, &batch, LOG_BYTES))?;
    let end = if peer.broker { end_offsets(&peer.addr, &topic, 1)?[0] } else { 0 };
    Consume::all(&topic, 0..end, &batch, consumers, WARM_SECS, sizes.secs).run(&peer)
}

/// Makes a topic of one partition with about `bytes` in it.
pub fn fill(peer: &Peer, topic: &str, batch: &Batch, bytes: u64) -> Outcome<()> {
    create_topic(&peer.addr, topic, 1, &[])?;
    let requests = [Produce::one(topic, 0, 1, batch)];
    let mut ledger = Ledger::open(peer, topic, 1, batch)?;
    let (warm, measured) = (Amount::Bytes(0), Amount::Bytes(bytes));
    Closed { requests: &requests, connections: 1, window: 16, warm, measured }.run(peer, &mut ledger)?;
    ledger.check()
}
