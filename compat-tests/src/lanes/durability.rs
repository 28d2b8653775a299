//! kill -9 at random points of a produce load; afterwards every acknowledged record is there once, in order.

use std::thread;
use std::time::Duration;

use anyhow::Result;

use super::load::{self, Ledger};
use super::{group_kills, move_kills};
use crate::broker::{Broker, On};
use crate::lane::{Run, skip};

const TOPIC: &str = "durability";
const WRITERS: usize = 3;
const PARTITIONS_EACH: i32 = 2;

pub fn lane(run: &mut Run) -> Result<()> {
    if matches!(run.on, On::At(_)) {
        return skip("a foreign broker cannot be killed");
    }
    let rounds = if run.full() { 50 } else { 5 };
    for (acks, settings) in [
        (-1, &[("log.segment.bytes", "200000"), ("log.index.interval.bytes", "1000")][..]),
        (1, &[("log.segment.bytes", "1000000")]),
        (-1, &[("log.flush.interval.messages", "1"), ("log.segment.bytes", "100000")]),
    ] {
        let mut all = vec![("log.retention.ms", "-1")];
        all.extend_from_slice(settings);
        let mut broker = Broker::start(&run.on, &all)?;
        load::create_topic(&broker.address(), TOPIC, WRITERS as i32 * PARTITIONS_EACH)?;
        let mut writers: Vec<Vec<(i32, Ledger)>> = (0..WRITERS as i32)
            .map(|writer| (0..PARTITIONS_EACH).map(|i| (writer * PARTITIONS_EACH + i, Ledger::default())).collect())
            .collect();
        let mut acknowledged = 0;
        for number in 1..=rounds {
            let result = round(&mut broker, acks, &mut writers);
            let failed = result.is_err();
            if let Ok(count) = result {
                acknowledged = count;
            }
            if failed || number == rounds {
                let name = format!(
                    "kill -9, acks {acks}, {settings:?}: round {number} of {rounds}, {acknowledged} acknowledged"
                );
                run.settled(name, result.map(|_| ()));
            }
            if failed {
                println!("{}", broker.log_tail(30));
                break;
            }
        }
        let clean = stop_and_start(&mut broker, &writers);
        run.settled(format!("clean stop after it, acks {acks}, {settings:?}"), clean);
    }
    group_kills::units(run)?;
    move_kills::units(run)
}

/// One kill and what is left. Answers how many records were acknowledged so far.
fn round(broker: &mut Broker, acks: i16, writers: &mut [Vec<(i32, Ledger)>]) -> Result<usize> {
    let address = broker.address();
    // The clock's lowest digits are random enough for the point of the kill.
    let moment = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?.subsec_micros() % 400;
    load::run(&address, TOPIC, acks, writers, |total| {
        load::await_count(total, 20, Duration::from_secs(30))?;
        thread::sleep(Duration::from_millis(moment.into()));
        broker.kill()
    })?;
    broker.start_again()?;
    verify(broker, writers)
}

fn verify(broker: &Broker, writers: &[Vec<(i32, Ledger)>]) -> Result<usize> {
    let mut acknowledged = 0;
    for (partition, ledger) in writers.iter().flatten() {
        load::verify(&broker.address(), TOPIC, *partition, ledger)?;
        acknowledged += ledger.acknowledged.len();
    }
    Ok(acknowledged)
}

fn stop_and_start(broker: &mut Broker, writers: &[Vec<(i32, Ledger)>]) -> Result<()> {
    broker.stop_in_order()?;
    broker.start_again()?;
    verify(broker, writers).map(|_| ())
}
