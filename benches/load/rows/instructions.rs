//! User-space instructions for one batch, under callgrind: the figure without noise.
//!
//! Two run lengths are compared, so that start and stop cancel out. Valgrind knows no AVX-512 and does not announce it
//! either: Klamm's checksums and copies choose by what the processor announces and take their SSE4.2 and AVX2 ways.

use std::process::{Command, Stdio};

use rustix::process::Signal;

use super::{Rival, Row};
use crate::admin::{create_topic, settle};
use crate::connection::Connection;
use crate::drive::{Ledger, Outcome, whole_batches};
use crate::figure::{Figure, Sheet};
use crate::fleet::{Fleet, Who};
use crate::wire::{Batch, Produce, fetch, fetch_result};

/// Requests of the shorter and of the longer run.
const RUNS: [u64; 2] = [1000, 4000];
const TOPIC: &str = "counted";

struct Kind {
    fetched: bool,
    records: usize,
    figure: Figure,
}

const KINDS: [Kind; 4] = [
    Kind { fetched: false, records: 1, figure: Figure::less("produced, 1 record").of_value(12_000.0, 12_000.0) },
    Kind { fetched: false, records: 100, figure: Figure::less("produced, 100 records").of_value(12_000.0, 12_000.0) },
    Kind { fetched: true, records: 1, figure: Figure::less("fetched, 1 record").of_value(8000.0, 8000.0) },
    Kind { fetched: true, records: 100, figure: Figure::less("fetched, 100 records").of_value(8000.0, 8000.0) },
];

pub fn row() -> Row {
    let what = "user-space instructions of one request with one batch of 100-byte records, by callgrind";
    let figures = KINDS.iter().map(|kind| kind.figure).collect();
    Row { rounds: false, ..Row::new("instructions", "", what, figures, run).without_limit().rival(Rival::Never) }
}

fn run(fleet: &mut Fleet, _: Who, sheet: &mut Sheet) -> Outcome<()> {
    let found = Command::new("valgrind").arg("--version").stdout(Stdio::null()).status();
    if !found.is_ok_and(|status| status.success()) {
        return Err("valgrind is not installed".into());
    }
    for kind in KINDS {
        let [few, many] = [counted(fleet, &kind, RUNS[0])?, counted(fleet, &kind, RUNS[1])?];
        sheet.add(kind.figure.name, (many - few) / (RUNS[1] - RUNS[0]) as f64)?;
    }
    Ok(())
}

/// Instructions of a whole process that answers `requests` of a kind.
fn counted(fleet: &Fleet, kind: &Kind, requests: u64) -> Outcome<f64> {
    let mut server = fleet.counted()?;
    server.listening()?;
    let peer = server.peer();
    let batch = Batch::new(kind.records, 100, fleet.timestamp_ms);
    let produce = Produce::one(TOPIC, 0, 1, &batch);
    create_topic(&peer.addr, TOPIC, 1, &[])?;
    let mut connection = Connection::open(&peer.addr)?;
    settle(&mut connection, &produce)?;
    let mut ledger = Ledger::open(&peer, TOPIC, 1, &batch)?;
    let read = fetch(TOPIC, 0, 0, 1);
    for _ in 0..requests {
        if kind.fetched {
            whole_batches(fetch_result(connection.call(&read)?)?, 0, &batch, true)?;
        } else {
            connection.send(&produce.head, &produce.body)?;
            ledger.answered(connection.receive()?)?;
        }
    }
    drop(connection);
    ledger.check()?;
    server.stop(Signal::TERM)?;
    server.instructions()
}
