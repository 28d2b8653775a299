//! An fsync before each acknowledgement: row 7.

use std::time::Duration;

use super::{Row, Sizes};
use crate::admin::{create_topic, settle};
use crate::connection::Connection;
use crate::drive::{Amount, Closed, Ledger, Outcome, Produced};
use crate::figure::{Figure, Sheet};
use crate::fleet::{Fleet, Who};
use crate::machine::disk::best_synced;
use crate::machine::server::Mode;
use crate::wire::{Batch, Produce};

const REQUEST: usize = 64 << 10;
const CLIENTS: usize = 64;
const WARM_SECS: f64 = 0.5;

struct Width {
    partitions: i32,
    mb_s: Figure,
    p99: Figure,
}

const WIDTHS: [Width; 3] = [
    Width {
        partitions: 1,
        mb_s: Figure::more("1 partition: MB/s").of_limit(0.5, 0.8),
        p99: Figure::less("1 partition: p99 ms").of_limit(3.0, 2.0),
    },
    Width {
        partitions: 64,
        mb_s: Figure::more("64 partitions: MB/s").of_limit(0.5, 0.8),
        p99: Figure::less("64 partitions: p99 ms").of_limit(3.0, 2.0),
    },
    Width {
        partitions: 1000,
        mb_s: Figure::more("1,000 partitions: MB/s").of_limit(0.5, 0.8),
        p99: Figure::less("1,000 partitions: p99 ms").of_limit(3.0, 2.0),
    },
];
const WIDE_TO_NARROW: Figure = Figure::more("1,000 partitions to 1: MB/s").goal_of_value(0.7);

pub fn row(sizes: Sizes) -> Row {
    let mut figures: Vec<Figure> = WIDTHS.iter().flat_map(|width| [width.mb_s, width.p99]).collect();
    figures.push(WIDE_TO_NARROW);
    let what = "flush.messages=1, acks=all, 64 clients with 64 KiB each in flight; P: best append + fdatasync";
    Row::new("durable", "7", what, figures, move |fleet, who, sheet| run(fleet, who, sheet, sizes)).touches(2.0)
}

fn run(fleet: &mut Fleet, who: Who, sheet: &mut Sheet, sizes: Sizes) -> Outcome<()> {
    if who == Who::Limit {
        let as_long = Duration::from_secs_f64(sizes.secs * WIDTHS.len() as f64);
        let best = best_synced(&fleet.dir, Duration::from_millis(60), as_long)?;
        for width in WIDTHS {
            sheet.add(width.mb_s.name, best.mb_s)?;
            sheet.add(width.p99.name, best.p99_ms)?;
        }
        return Ok(());
    }
    let mut speeds = Vec::new();
    for width in WIDTHS {
        let produced = synced(fleet, who, width.partitions, sizes)?;
        sheet.add(width.mb_s.name, produced.mb_s())?;
        sheet.add(width.p99.name, produced.answered.value_at_quantile(0.99) as f64 / 1e6)?;
        speeds.push(produced.mb_s());
    }
    Ok(sheet.add(WIDE_TO_NARROW.name, speeds[2] / speeds[0])?)
}

fn synced(fleet: &mut Fleet, who: Who, partitions: i32, sizes: Sizes) -> Outcome<Produced> {
    let peer = fleet.peer(who, Mode::Sink)?;
    let first = Batch::new(1, 100, fleet.timestamp_ms);
    let topic = fleet.topic(who, &format!("durable-{partitions}"), |topic| {
        create_topic(&peer.addr, topic, partitions, &[("flush.messages", "1")])?;
        // Files are made by the first append; that is not what is measured.
        let mut connection = Connection::open(&peer.addr)?;
        (0..partitions).try_for_each(|p| Ok(settle(&mut connection, &Produce::one(topic, p, -1, &first))?))
    })?;
    let batch = Batch::filling(REQUEST, 1024, fleet.timestamp_ms);
    let requests: Vec<Produce> = (0..partitions).map(|p| Produce::one(&topic, p, -1, &batch)).collect();
    let mut ledger = Ledger::open(&peer, &topic, partitions, &batch)?;
    let (warm, measured) = (Amount::Secs(WARM_SECS), Amount::Secs(sizes.secs));
    let load = Closed { requests: &requests, connections: CLIENTS, window: 1, warm, measured };
    let produced = load.run(&peer, &mut ledger)?;
    ledger.check()?;
    Ok(produced)
}
