//! Making topics.

use std::time::Instant;

use super::Row;
use crate::admin::{create_topic, delete_topic};
use crate::drive::Outcome;
use crate::figure::{Figure, Sheet};
use crate::fleet::{Fleet, Who};
use crate::machine::server::Mode;

/// Topics made one after the other; the median is taken.
const TOPICS: usize = 5;
const PARTITIONS: i32 = 100;

const MS: Figure = Figure::less("ms");

pub fn row() -> Row {
    let what = "a topic of 100 partitions, until each has a leader";
    Row::new("topic-100", "", what, vec![MS], run).without_limit()
}

fn run(fleet: &mut Fleet, who: Who, sheet: &mut Sheet) -> Outcome<()> {
    let peer = fleet.peer(who, Mode::Sink)?;
    let mut times = Vec::new();
    for _ in 0..TOPICS {
        let topic = fleet.fresh_topic();
        let start = Instant::now();
        create_topic(&peer.addr, &topic, PARTITIONS, &[])?;
        times.push(start.elapsed().as_secs_f64() * 1e3);
        delete_topic(&peer.addr, &topic)?;
    }
    times.sort_by(f64::total_cmp);
    Ok(sheet.add(MS.name, times[TOPICS / 2])?)
}
