//! From exec to the first acknowledged produce: row 10.

use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::{Rival, Row, Sizes};
use crate::admin::{create_topic, settle};
use crate::connection::{Connection, wait_for};
use crate::drive::{Outcome, Peer};
use crate::figure::{Figure, Sheet};
use crate::fleet::{Fleet, Who};
use crate::meter::written_back;
use crate::process::Server;
use crate::wire::{Batch, Produce};

const LIMIT: Duration = Duration::from_secs(120);
/// The topic of a server that is started with partitions.
const TOPIC: &str = "many";

const LISTEN: Figure = Figure::less("listening ms");
const EMPTY: Figure = Figure::less("acked ms").of_value(50.0, 20.0);
const THOUSAND: Figure = Figure::less("1,000 partitions: acked ms").of_value(200.0, 80.0);
const MYRIAD: Figure = Figure::less("10,000 partitions: acked ms").of_value(1500.0, 500.0);

pub fn rows(sizes: Sizes) -> Vec<Row> {
    let what = "exec to first acknowledged produce, after a clean stop; P: exec to listening";
    let start = Row::new("start", "10", what, vec![LISTEN, EMPTY, THOUSAND], run);
    let what = "the same with 10,000 partitions";
    let measure = move |fleet: &mut Fleet, who, sheet: &mut Sheet| {
        let acked_ms = again_with(fleet, who, "many thousand", sizes.partitions)?;
        Ok(sheet.add(MYRIAD.name, acked_ms)?)
    };
    vec![start, Row::new("start-10000", "10", what, vec![MYRIAD], measure).without_limit().rival(Rival::Never)]
}

fn run(fleet: &mut Fleet, who: Who, sheet: &mut Sheet) -> Outcome<()> {
    if who == Who::Limit {
        let server = fleet.bare_listener()?;
        wait_for(&server.addr, LIMIT)?;
        return Ok(sheet.add(LISTEN.name, since_ms(server.started))?);
    }
    let server = fleet.fresh(who)?;
    wait_for(&server.addr, LIMIT)?;
    sheet.add(LISTEN.name, since_ms(server.started))?;
    create_topic(&server.addr, "first", 1, &[])?;
    sheet.add(EMPTY.name, until_acked(&server, "first", fleet.timestamp_ms)?)?;
    drop(server);

    let acked_ms = again_with(fleet, who, "thousand", 1000)?;
    Ok(sheet.add(THOUSAND.name, acked_ms)?)
}

/// Milliseconds to the first acknowledgement of a server that was stopped in order and has so many partitions.
fn again_with(fleet: &mut Fleet, who: Who, key: &'static str, partitions: i32) -> Outcome<f64> {
    let timestamp_ms = fleet.timestamp_ms;
    let server = fleet.kept(who, key, |server| make_partitions(&server.peer(), TOPIC, partitions, timestamp_ms))?;
    server.stop(Signal::TERM)?;
    written_back();
    server.again()?;
    until_acked(server, TOPIC, timestamp_ms)
}

/// Makes a topic with a record in every partition, as a used one has.
pub fn make_partitions(peer: &Peer, topic: &str, partitions: i32, timestamp_ms: i64) -> Outcome<()> {
    create_topic(&peer.addr, topic, partitions, &[])?;
    let (record, mut connection) = (Batch::new(1, 1024, timestamp_ms), Connection::open(&peer.addr)?);
    for partition in 0..partitions {
        settle(&mut connection, &Produce::one(topic, partition, 1, &record))?;
    }
    Ok(())
}

/// Milliseconds from the server's exec until a record to a topic it has is acknowledged.
pub fn until_acked(server: &Server, topic: &str, timestamp_ms: i64) -> Outcome<f64> {
    let request = Produce::one(topic, 0, 1, &Batch::new(1, 1024, timestamp_ms));
    let until = Instant::now() + LIMIT;
    loop {
        // One that listens before it serves may close what it accepted.
        let acked = wait_for(&server.addr, LIMIT).and_then(|mut connection| settle(&mut connection, &request));
        match acked {
            Ok(()) => return Ok(since_ms(server.started)),
            Err(why) if Instant::now() > until => return Err(why.into()),
            Err(_) => std::thread::sleep(Duration::from_millis(1)),
        }
    }
}

fn since_ms(start: Instant) -> f64 {
    start.elapsed().as_secs_f64() * 1e3
}
