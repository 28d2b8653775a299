//! A steady producer and many who follow it: row 5.

use super::{Row, Sizes};
use crate::admin::{create_topic, delete_topic, settle};
use crate::connection::Connection;
use crate::drive::{Consume, Ledger, Outcome, Paced, Rate};
use crate::figure::{Figure, Sheet};
use crate::fleet::{Fleet, Who};
use crate::machine::server::Mode;
use crate::wire::{Batch, Produce};

const REQUEST: usize = 64 << 10;
const WARM_SECS: f64 = 0.5;

/// Beside a program that only sends a file, by the megabyte: nothing comes in, nobody waits.
const S_GB: Figure = Figure::less("CPU s/GB delivered");
/// The same of the broker, beside a program that has the same load: what a broker adds to it.
const TO_TAIL: Figure = Figure::less("CPU s/GB, P: a bare tail");
const P99: Figure = Figure::less("arrival p99 ms");

pub fn rows(sizes: Sizes) -> Vec<Row> {
    let row = |id, number, what, cost: Figure, to_tail: Figure, mb_s: f64, tails: usize| {
        let measure =
            move |fleet: &mut Fleet, who, sheet: &mut Sheet| run(fleet, who, sheet, mb_s, tails, sizes.secs.max(2.0));
        Row::new(id, number, what, vec![cost, to_tail, P99], measure)
    };
    vec![
        row(
            "tail-8",
            "5",
            "50 MB/s in, 8 consumers at the tail; P: a file of 512 MiB sent to 8 readers; P, a bare tail: one thread that \
             appends each request to a file and sends it to 8 readers",
            S_GB.of_limit(1.8, 1.2),
            TO_TAIL.of_limit(1.8, 1.2),
            50.0,
            8,
        ),
        row("fanout-10", "", "20 MB/s in, 10 consumers at the tail; P as in tail-8", S_GB, TO_TAIL, 20.0, 10),
    ]
}

fn run(fleet: &mut Fleet, who: Who, sheet: &mut Sheet, mb_s: f64, tails: usize, secs: f64) -> Outcome<()> {
    let batch = Batch::filling(REQUEST, 1024, fleet.timestamp_ms);
    let topic = fleet.fresh_topic();
    if who == Who::Limit {
        let sender = fleet.peer(who, fleet.sender)?;
        let read = Consume::all(&topic, 0..0, &batch, tails, WARM_SECS, secs).run(&sender)?;
        sheet.add(S_GB.name, read.cpu_per_gb())?;
    }
    let peer = fleet.peer(who, Mode::Tail)?;
    let request = Produce::one(&topic, 0, 1, &batch);
    if peer.broker {
        create_topic(&peer.addr, &topic, 1, &[])?;
        settle(&mut Connection::open(&peer.addr)?, &request)?;
    }
    let mut ledger = Ledger::open(&peer, &topic, 1, &batch)?;
    let rate = Rate { per_second: mb_s * 1e6 / batch.bytes.len() as f64, warm: WARM_SECS, measured: secs };
    let load = Paced { topic: &topic, request: &request, batch: &batch, rate, tails };
    let timed = load.run(&peer, &mut ledger)?;
    ledger.check()?;
    let cost = timed.spent.cpu / timed.delivered_gb;
    if peer.broker {
        delete_topic(&peer.addr, &topic)?;
        sheet.add(S_GB.name, cost)?;
    }
    sheet.add(TO_TAIL.name, cost)?;
    Ok(sheet.add(P99.name, timed.arrived.value_at_quantile(0.99) as f64 / 1e6)?)
}
