//! Resident memory: row 9.

use std::time::Duration;

use super::{Rival, Row, Sizes, start};
use crate::admin::{create_topic, settle};
use crate::connection::Connection;
use crate::drive::{Amount, Closed, Ledger, Outcome, Peer};
use crate::figure::{Figure, Sheet};
use crate::fleet::{Fleet, Who};
use crate::meter::resident_mb;
use crate::wire::{Batch, Produce, Writer};

/// What a server is given to come to rest.
const REST: Duration = Duration::from_millis(1500);
const API_VERSIONS: i16 = 18;
const CONNECTIONS: usize = 1000;
const PRODUCERS: usize = 4000;
const SWARM_PARTITIONS: i32 = 16;

const IDLE: Figure = Figure::less("idle MB").of_value(16.0, 8.0);
const PARTITIONS: Figure = Figure::less("+1,000 partitions MB").of_value(12.0, 4.0);
const IDLE_CONNECTIONS: Figure = Figure::less("+1,000 idle connections MB").of_value(12.0, 4.0);
const LOADED: Figure = Figure::less("under row 2 MB").of_value(96.0, 48.0);
const SWARM: Figure = Figure::less("4,000 producers MB").of_value(384.0, 192.0);
const AFTER: Figure = Figure::less("afterwards MB");

pub fn row(sizes: Sizes) -> Row {
    let what = "resident, of a process of its own: at rest, with more, under load, and when all clients have gone";
    let figures = vec![IDLE, PARTITIONS, IDLE_CONNECTIONS, LOADED, SWARM, AFTER];
    Row::new("memory", "9", what, figures, move |fleet, who, sheet| run(fleet, who, sheet, sizes))
        .without_limit()
        .rival(Rival::Once)
        .touches(3.0)
}

fn run(fleet: &mut Fleet, who: Who, sheet: &mut Sheet, sizes: Sizes) -> Outcome<()> {
    let server = fleet.fresh(who)?;
    server.listening()?;
    let (peer, timestamp_ms) = (server.peer(), fleet.timestamp_ms);
    // Nothing tells that a server has come to rest: its last thread has stopped when memory no longer moves.
    std::thread::sleep(REST);
    let idle = resident_mb(peer.pid);
    sheet.add(IDLE.name, idle)?;

    start::make_partitions(&peer, "many", 1000, timestamp_ms)?;
    std::thread::sleep(REST);
    let with_partitions = resident_mb(peer.pid);
    sheet.add(PARTITIONS.name, with_partitions - idle)?;

    let connections = idle_connections(&peer, CONNECTIONS)?;
    std::thread::sleep(REST);
    sheet.add(IDLE_CONNECTIONS.name, resident_mb(peer.pid) - with_partitions)?;
    drop(connections);

    sheet.add(LOADED.name, loaded(&peer, timestamp_ms)?)?;
    sheet.add(SWARM.name, swarm(&peer, timestamp_ms, sizes)?)?;
    std::thread::sleep(REST);
    Ok(sheet.add(AFTER.name, resident_mb(peer.pid))?)
}

/// Connections that have asked one thing.
pub fn idle_connections(peer: &Peer, count: usize) -> Outcome<Vec<Connection>> {
    let mut open = Vec::new();
    for _ in 0..count {
        let mut connection = Connection::open(&peer.addr)?;
        connection.call(&Writer::request(API_VERSIONS, 0).done(0))?;
        open.push(connection);
    }
    Ok(open)
}

/// The most that is seen while 4 connections send 1 MiB requests.
fn loaded(peer: &Peer, timestamp_ms: i64) -> Outcome<f64> {
    let (topic, batch) = ("loaded", Batch::filling((1 << 20) / 6, 1024, timestamp_ms));
    create_topic(&peer.addr, topic, 6, &[])?;
    let request = Produce::many(topic, 0..6, 1, &batch);
    settle(&mut Connection::open(&peer.addr)?, &request)?;
    let mut ledger = Ledger::open(peer, topic, 6, &batch)?;
    let (warm, measured) = (Amount::Bytes(0), Amount::Bytes(2_000_000_000));
    let load = Closed { requests: &[request], connections: 4, window: 2, warm, measured };
    let produced = load.run(peer, &mut ledger)?;
    ledger.check()?;
    Ok(produced.peak_mb)
}

/// The most that is seen while 4,000 connections each have a request of 16 KiB in flight.
fn swarm(peer: &Peer, timestamp_ms: i64, sizes: Sizes) -> Outcome<f64> {
    let (topic, batch) = ("swarm", Batch::filling(16 << 10, 1024, timestamp_ms));
    create_topic(&peer.addr, topic, SWARM_PARTITIONS, &[])?;
    let requests: Vec<Produce> = (0..SWARM_PARTITIONS).map(|p| Produce::one(topic, p, 1, &batch)).collect();
    let mut connection = Connection::open(&peer.addr)?;
    requests.iter().try_for_each(|request| settle(&mut connection, request))?;
    let mut ledger = Ledger::open(peer, topic, SWARM_PARTITIONS, &batch)?;
    let (warm, measured) = (Amount::Secs(1.0), Amount::Secs(sizes.secs));
    let load = Closed { requests: &requests, connections: PRODUCERS, window: 1, warm, measured };
    let produced = load.run(peer, &mut ledger)?;
    ledger.check()?;
    Ok(produced.peak_mb)
}
