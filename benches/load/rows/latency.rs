//! Latency at a fixed rate, from the moment a request was due: row 6.

use super::{Row, Sizes};
use crate::admin::{create_topic, delete_topic, settle};
use crate::connection::Connection;
use crate::drive::{Ledger, Outcome, Paced, Rate, Timed};
use crate::figure::{Figure, Sheet};
use crate::fleet::{Fleet, Who};
use crate::machine::server::Mode;
use crate::wire::{Batch, Produce};

/// Requests per second.
const RATE: f64 = 1000.0;
const WARM_SECS: f64 = 0.5;
/// At least so long, for p99.9 to mean something.
const SECS: f64 = 4.0;

const ACK_P50: Figure = Figure::less("ack p50 µs");
const ACK_P99: Figure = Figure::less("ack p99 µs");
const ACK_P999: Figure = Figure::less("ack p99.9 µs");
/// The same as the one in µs, beside a limit of its own.
const ACK_P99_MS: Figure = Figure::less("ack p99 ms").of_value(2.0, 1.0);
const ACK_P999_MS: Figure = Figure::less("ack p99.9 ms").goal_of_value(5.0);
const END_P50: Figure = Figure::less("end to end p50 µs");
const END_P99: Figure = Figure::less("end to end p99 µs");
const END_P999: Figure = Figure::less("end to end p99.9 µs");

pub fn rows(sizes: Sizes) -> Vec<Row> {
    let row = |id, number, what, figures: &[Figure], records: usize, tails: usize, floor: Mode| {
        let measure = move |fleet: &mut Fleet, who, sheet: &mut Sheet| {
            let timed = at_rate(fleet, who, records, tails, floor, sizes.secs.max(SECS))?;
            fill_in(sheet, &timed, who)
        };
        Row::new(id, number, what, figures.to_vec(), measure)
    };
    vec![
        row(
            "latency",
            "6",
            "1,000 requests/s of 10 records of 1 KiB, open loop; P: answered at once, on another core",
            &[
                ACK_P50.of_limit(3.0, 2.0),
                ACK_P99.of_limit(8.0, 4.0),
                ACK_P99_MS,
                ACK_P999_MS,
                END_P50.of_limit(3.0, 2.0),
                END_P99.of_limit(8.0, 4.0),
                END_P999,
            ],
            10,
            1,
            Mode::Pong,
        ),
        row(
            "ack-1000",
            "",
            "1,000 requests/s of one record of 1 KiB, open loop",
            &[ACK_P50.pass_of_limit(2.0), ACK_P99.pass_of_limit(3.0), ACK_P999],
            1,
            0,
            Mode::Sink,
        ),
        row("e2e-1000", "", "the same to a consumer in long polls", &[END_P50, END_P99, END_P999], 1, 1, Mode::Sink),
    ]
}

fn at_rate(fleet: &mut Fleet, who: Who, records: usize, tails: usize, floor: Mode, secs: f64) -> Outcome<Timed> {
    let batch = Batch::new(records, 1024, fleet.timestamp_ms);
    let (peer, topic) = (fleet.peer(who, floor)?, fleet.fresh_topic());
    let request = Produce::one(&topic, 0, 1, &batch);
    if peer.broker {
        create_topic(&peer.addr, &topic, 1, &[])?;
        settle(&mut Connection::open(&peer.addr)?, &request)?;
    }
    // The floors of this row serve nobody who follows.
    let tails = if peer.broker { tails } else { 0 };
    let mut ledger = Ledger::open(&peer, &topic, 1, &batch)?;
    let rate = Rate { per_second: RATE, warm: WARM_SECS, measured: secs };
    let load = Paced { topic: &topic, request: &request, batch: &batch, rate, tails };
    let timed = load.run(&peer, &mut ledger)?;
    ledger.check()?;
    if peer.broker {
        delete_topic(&peer.addr, &topic)?;
    }
    Ok(timed)
}

/// The limit program's answers stand for arrivals too: nothing arrives before it could be answered.
fn fill_in(sheet: &mut Sheet, timed: &Timed, who: Who) -> Outcome<()> {
    let arrived = if who == Who::Limit { &timed.acked } else { &timed.arrived };
    let us = |histogram: &hdrhistogram::Histogram<u64>, part| histogram.value_at_quantile(part) as f64 / 1e3;
    for (figure, value) in [
        (ACK_P50, us(&timed.acked, 0.5)),
        (ACK_P99, us(&timed.acked, 0.99)),
        (ACK_P999, us(&timed.acked, 0.999)),
        (ACK_P99_MS, us(&timed.acked, 0.99) / 1e3),
        (ACK_P999_MS, us(&timed.acked, 0.999) / 1e3),
        (END_P50, us(arrived, 0.5)),
        (END_P99, us(arrived, 0.99)),
        (END_P999, us(arrived, 0.999)),
    ] {
        if sheet.has(figure.name) {
            sheet.add(figure.name, value)?;
        }
    }
    Ok(())
}
