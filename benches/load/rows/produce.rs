//! Produce in a closed loop: rows 1 to 3, and the shapes that rivals were measured with.

use super::{Row, Sizes};
use crate::admin::{create_topic, delete_topic, settle};
use crate::connection::Connection;
use crate::drive::{Amount, Closed, Ledger, Outcome, Produced};
use crate::figure::{Figure, Sheet};
use crate::fleet::{Fleet, Who};
use crate::machine::server::Mode;
use crate::wire::{Batch, Produce};

/// Before anything is measured.
const WARM_BYTES: u64 = 256 << 20;
const WARM_SECS: f64 = 0.5;
/// 1 MiB in six batches.
const SIXTH: usize = (1 << 20) / 6;

#[derive(Clone, Copy)]
enum Contents {
    /// A batch of about so many bytes, of records of so many.
    Plain(usize, usize),
    /// The same, compressed.
    Lz4(usize, usize),
    OneRecord(usize),
}

#[derive(Clone, Copy)]
struct Shape {
    contents: Contents,
    /// All of them in each request.
    partitions: i32,
    acks: i16,
    connections: usize,
    window: usize,
    /// Bytes measured; none: by time.
    bytes: Option<u64>,
    floor: Mode,
}

const LARGE: Shape = Shape {
    contents: Contents::Plain(512 << 10, 1024),
    partitions: 1,
    acks: 1,
    connections: 1,
    window: 4,
    bytes: Some(1_500_000_000),
    floor: Mode::Sink,
};
const SIX: Shape = Shape { contents: Contents::Plain(SIXTH, 1024), partitions: 6, bytes: Some(4_000_000_000), ..LARGE };
const SMALL: Shape = Shape { contents: Contents::OneRecord(100), bytes: None, window: 1, connections: 64, ..LARGE };
const MEDIUM: Shape = Shape { contents: Contents::Plain(16 << 10, 1024), bytes: None, window: 16, ..LARGE };

const S_GB: Figure = Figure::less("CPU s/GB");
const MB_S: Figure = Figure::more("MB/s");
const REQ_S: Figure = Figure::more("requests/s");
const REC_S: Figure = Figure::more("records/s");
const US_REQ: Figure = Figure::less("CPU µs/request");

pub fn rows(sizes: Sizes) -> Vec<Row> {
    let row = |id, number, what, figures: &[Figure], shape: Shape| {
        let gb = shape.bytes.map_or(2.0, |bytes| bytes as f64 / 1e9 + 0.5);
        let measure = move |fleet: &mut Fleet, who, sheet: &mut Sheet| run(fleet, who, sheet, shape, sizes);
        Row::new(id, number, what, figures.to_vec(), measure).touches(gb)
    };
    vec![
        row(
            "produce-1m",
            "1",
            "1 KiB records, 1 MiB requests of 6 batches, 6 partitions, acks=1, 4 GB",
            &[S_GB.of_limit(2.0, 1.4), MB_S],
            SIX,
        ),
        row(
            "produce-1m-4",
            "2",
            "the same on 4 connections",
            &[MB_S.of_limit(0.40, 0.60), S_GB],
            Shape { connections: 4, window: 2, ..SIX },
        ),
        row(
            "small-64",
            "3",
            "1 record of 100 B per request, 64 connections, acks=1; P: echo by one tokio thread",
            &[REQ_S.of_limit(0.45, 0.65), US_REQ],
            Shape { floor: Mode::Echo, ..SMALL },
        ),
        row("produce-512k", "", "512 KiB requests, acks=1", &[S_GB.pass_of_limit(2.0), MB_S.pass_of_limit(0.4)], LARGE),
        row("produce-512k-all", "", "512 KiB requests, acks=all", &[S_GB, MB_S], Shape { acks: -1, ..LARGE }),
        row("produce-16k", "", "16 KiB requests, 16 in flight", &[US_REQ.pass_of_limit(3.0), MB_S], MEDIUM),
        row(
            "produce-100b",
            "",
            "100-byte records in 16 KiB requests, 16 in flight",
            &[REC_S.pass_of_limit(0.3), S_GB],
            Shape { contents: Contents::Plain(16 << 10, 100), ..MEDIUM },
        ),
        row(
            "produce-lz4",
            "",
            "lz4, 64 KiB before compression, 8 in flight; bytes as on the wire",
            &[S_GB.pass_of_limit(3.0), MB_S],
            Shape { contents: Contents::Lz4(64 << 10, 1024), window: 8, ..MEDIUM },
        ),
        row(
            "produce-1rec",
            "",
            "1 record of 100 B per request, 64 in flight on one connection",
            &[REQ_S.pass_of_limit(0.4), US_REQ],
            Shape { connections: 1, window: 64, ..SMALL },
        ),
        row(
            "produce-1rec-64",
            "",
            "1 record of 100 B per request, 64 connections; P: a thread per connection",
            &[REQ_S.pass_of_limit(0.8), US_REQ],
            SMALL,
        ),
    ]
}

fn run(fleet: &mut Fleet, who: Who, sheet: &mut Sheet, shape: Shape, sizes: Sizes) -> Outcome<()> {
    let batch = match shape.contents {
        Contents::Plain(bytes, record) => Batch::filling(bytes, record, fleet.timestamp_ms),
        Contents::Lz4(bytes, record) => Batch::lz4(bytes, record, fleet.timestamp_ms)?,
        Contents::OneRecord(record) => Batch::new(1, record, fleet.timestamp_ms),
    };
    let produced = produce(fleet, who, &batch, shape, sizes)?;
    let records = produced.requests * batch.records as f64 * f64::from(shape.partitions);
    for (figure, value) in [
        (S_GB, produced.cpu_per_gb()),
        (MB_S, produced.mb_s()),
        (REQ_S, produced.requests_s()),
        (REC_S, records / produced.spent.secs),
        (US_REQ, produced.cpu_us_per_request()),
    ] {
        if sheet.has(figure.name) {
            sheet.add(figure.name, value)?;
        }
    }
    Ok(())
}

fn produce(fleet: &mut Fleet, who: Who, batch: &Batch, shape: Shape, sizes: Sizes) -> Outcome<Produced> {
    let (peer, topic) = (fleet.peer(who, shape.floor)?, fleet.fresh_topic());
    let request = if shape.partitions == 1 {
        Produce::one(&topic, 0, shape.acks, batch)
    } else {
        Produce::many(&topic, 0..shape.partitions, shape.acks, batch)
    };
    if peer.broker {
        create_topic(&peer.addr, &topic, shape.partitions, &[])?;
        settle(&mut Connection::open(&peer.addr)?, &request)?;
    }
    let mut ledger = Ledger::open(&peer, &topic, shape.partitions, batch)?;
    let (warm, measured) = match shape.bytes {
        Some(bytes) => (Amount::Bytes(WARM_BYTES), Amount::Bytes(bytes)),
        None => (Amount::Secs(WARM_SECS), Amount::Secs(sizes.secs)),
    };
    let (connections, window) = (shape.connections, shape.window);
    let load = Closed { requests: &[request], connections, window, warm, measured };
    let produced = load.run(&peer, &mut ledger)?;
    ledger.check()?;
    if peer.broker {
        delete_topic(&peer.addr, &topic)?;
    }
    Ok(produced)
}
