//! A steady producer and many who follow it: row 5.

use super::{Row, Sizes};
use crate::admin::{create_topic, delete_topic, settle};
use crate::connection::Connection;
use crate::drive::{Consume, Ledger, Outcome, Paced};
use crate::figure::{Figure, Sheet};
use crate::fleet::{Fleet, Who};
use crate::wire::{Batch, Produce};

const REQUEST: usize = 64 << 10;
const WARM_SECS: f64 = 0.5;

const S_GB: Figure = Figure::less("CPU s/GB delivered");
const P99: Figure = Figure::less("arrival p99 ms");

pub fn rows(sizes: Sizes) -> Vec<Row> {
    let row = |id, number, what, cost: Figure, mb_s: f64, tails: usize| {
        let measure =
            move |fleet: &mut Fleet, who, sheet: &mut Sheet| run(fleet, who, sheet, mb_s, tails, sizes.secs.max(2.0));
        Row::new(id, number, what, vec![cost, P99], measure)
    };
    vec![
        row(
            "tail-8",
            "5",
            "50 MB/s in, 8 consumers at the tail; P: file to socket, 8 readers",
            S_GB.of_limit(1.8, 1.2),
            50.0,
            8,
        ),
        row("fanout-10", "", "20 MB/s in, 10 consumers at the tail", S_GB, 20.0, 10),
    ]
}

fn run(fleet: &mut Fleet, who: Who, sheet: &mut Sheet, mb_s: f64, tails: usize, secs: f64) -> Outcome<()> {
    let batch = Batch::filling(REQUEST, 1024, fleet.timestamp_ms);
    let (peer, topic) = (fleet.peer(who, fleet.sender)?, fleet.fresh_topic());
    if !peer.broker {
        let read = Consume::all(&topic, 0..0, &batch, tails, WARM_SECS, secs).run(&peer)?;
        return Ok(sheet.add(S_GB.name, read.cpu_per_gb())?);
    }
    let request = Produce::one(&topic, 0, 1, &batch);
    create_topic(&peer.addr, &topic, 1, &[])?;
    settle(&mut Connection::open(&peer.addr)?, &request)?;
    let mut ledger = Ledger::open(&peer, &topic, 1, &batch)?;
    let rate = mb_s * 1e6 / batch.bytes.len() as f64;
    let load = Paced { topic: &topic, request: &request, batch: &batch, rate, tails, warm: WARM_SECS, measured: secs };
    let timed = load.run(&peer, &mut ledger)?;
    ledger.check()?;
    delete_topic(&peer.addr, &topic)?;
    sheet.add(S_GB.name, timed.spent.cpu / timed.delivered_gb)?;
    Ok(sheet.add(P99.name, timed.arrived.value_at_quantile(0.99) as f64 / 1e6)?)
}
