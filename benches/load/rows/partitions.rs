//! Many partitions on one node: row 13, and what row 11 asks of 10,000 of them.

use std::time::Duration;

use rustix::process::Signal;

use super::{Rival, Row, Sizes, recovery, start};
use crate::admin::end_offsets;
use crate::drive::{Amount, Closed, Ledger, Outcome, Peer};
use crate::figure::{Figure, Sheet};
use crate::fleet::{Fleet, Who};
use crate::meter::{descriptors, sleeps};
use crate::wire::{Batch, Produce};

const CLIENTS: usize = 64;
const REQUEST: usize = 16 << 10;
/// The same for every width.
const BYTES: u64 = 400_000_000;
const STILL: Duration = Duration::from_secs(4);

struct Width {
    partitions: i32,
    topic: &'static str,
    mb_s: Figure,
    to_one: Option<Figure>,
}

const WIDTHS: [Width; 4] = [
    Width { partitions: 1, topic: "one", mb_s: Figure::more("1 partition: MB/s"), to_one: None },
    Width {
        partitions: 100,
        topic: "hundred",
        mb_s: Figure::more("100: MB/s"),
        to_one: Some(Figure::more("100 to 1").of_value(0.8, 0.95)),
    },
    Width {
        partitions: 1000,
        topic: "thousand",
        mb_s: Figure::more("1,000: MB/s"),
        to_one: Some(Figure::more("1,000 to 1").of_value(0.6, 0.85)),
    },
    Width {
        partitions: 10_000,
        topic: "myriad",
        mb_s: Figure::more("10,000: MB/s"),
        to_one: Some(Figure::more("10,000 to 1").of_value(0.35, 0.6)),
    },
];
const DESCRIPTORS: Figure = Figure::less("open files").of_value(15_000.0, 4000.0);
const WAKE_UPS: Figure = Figure::less("idle wake-ups/s").of_value(50.0, 10.0);
const RECOVERY: Figure = Figure::less("row 11: kill -9, acked ms").of_value(4000.0, 1500.0);

pub fn row(sizes: Sizes) -> Row {
    let mut figures = Vec::new();
    for width in widths(sizes) {
        figures.push(width.mb_s);
        figures.extend(width.to_one);
    }
    figures.extend([DESCRIPTORS, WAKE_UPS, RECOVERY]);
    let what = "64 clients, 16 KiB requests, 400 MB spread over more and more of 11,101 partitions";
    Row::new("partitions", "13", what, figures, move |fleet, who, sheet| run(fleet, who, sheet, sizes))
        .without_limit()
        .rival(Rival::Once)
        .touches(2.0)
}

fn widths(sizes: Sizes) -> impl Iterator<Item = &'static Width> {
    WIDTHS.iter().filter(move |width| width.partitions <= sizes.partitions)
}

fn run(fleet: &mut Fleet, who: Who, sheet: &mut Sheet, sizes: Sizes) -> Outcome<()> {
    let timestamp_ms = fleet.timestamp_ms;
    let server = fleet.kept(who, "partitions", |server| {
        widths(sizes)
            .try_for_each(|width| start::make_partitions(&server.peer(), width.topic, width.partitions, timestamp_ms))
    })?;
    let last = widths(sizes).last().ok_or("no partitions asked for")?;
    server.stop(Signal::TERM)?;
    server.again()?;
    start::until_acked(server, last.topic, timestamp_ms)?;

    let (peer, mut one) = (server.peer(), None);
    for width in widths(sizes) {
        let mb_s = spread(&peer, width, timestamp_ms)?;
        sheet.add(width.mb_s.name, mb_s)?;
        let one = *one.get_or_insert(mb_s);
        if let Some(figure) = width.to_one {
            sheet.add(figure.name, mb_s / one)?;
        }
    }
    sheet.add(DESCRIPTORS.name, descriptors(peer.pid))?;
    std::thread::sleep(Duration::from_secs(1));
    let before = sleeps(peer.pid);
    std::thread::sleep(STILL);
    sheet.add(WAKE_UPS.name, (sleeps(peer.pid) - before) / STILL.as_secs_f64())?;

    let end = end_offsets(&peer.addr, last.topic, 1)?[0];
    server.stop(Signal::KILL)?;
    server.again()?;
    sheet.add(RECOVERY.name, start::until_acked(server, last.topic, timestamp_ms)?)?;
    recovery::survived(&server.addr, last.topic, end)
}

/// MB/s.
fn spread(peer: &Peer, width: &Width, timestamp_ms: i64) -> Outcome<f64> {
    let batch = Batch::filling(REQUEST, 1024, timestamp_ms);
    let requests: Vec<Produce> = (0..width.partitions).map(|p| Produce::one(width.topic, p, 1, &batch)).collect();
    let mut ledger = Ledger::open(peer, width.topic, width.partitions, &batch)?;
    let (warm, measured) = (Amount::Bytes(BYTES / 8), Amount::Bytes(BYTES));
    let load = Closed { requests: &requests, connections: CLIENTS, window: 1, warm, measured };
    let produced = load.run(peer, &mut ledger)?;
    ledger.check()?;
    Ok(produced.mb_s())
}
