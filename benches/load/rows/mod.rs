//! The rows. Each drives one server at a time and gives figures; a file holds a family of them.

mod depth;
mod durable;
mod failover;
mod fanout;
mod fetch;
mod groups;
mod instructions;
mod latency;
mod memory;
mod partitions;
mod produce;
mod recovery;
mod replicated;
mod start;
mod topics;
mod waiting;

use crate::drive::Outcome;
use crate::figure::{Figure, Sheet};
use crate::fleet::{Fleet, Who};

/// How often a row runs on Kafka.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Rival {
    EachRound,
    /// Once, after the others: its set-up takes a minute, or memory that the others want.
    Once,
    Never,
}

type Measure = Box<dyn Fn(&mut Fleet, Who, &mut Sheet) -> Outcome<()>>;

pub struct Row {
    pub id: &'static str,
    /// In the list of benchmarks; empty for rows that only compare with rivals.
    pub number: &'static str,
    /// The load.
    pub what: &'static str,
    pub figures: Vec<Figure>,
    /// GB of fresh pages that a run takes, to be touched before it.
    pub touched_gb: f64,
    /// Whether the limit program takes part.
    pub limit: bool,
    pub rival: Rival,
    /// False for what is the same each time.
    pub rounds: bool,
    pub measure: Measure,
}

impl Row {
    fn new(
        id: &'static str,
        number: &'static str,
        what: &'static str,
        figures: Vec<Figure>,
        measure: impl Fn(&mut Fleet, Who, &mut Sheet) -> Outcome<()> + 'static,
    ) -> Row {
        let measure = Box::new(measure);
        Row { id, number, what, figures, touched_gb: 1.0, limit: true, rival: Rival::EachRound, rounds: true, measure }
    }

    fn touches(self, gb: f64) -> Row {
        Row { touched_gb: gb, ..self }
    }

    fn without_limit(self) -> Row {
        Row { limit: false, ..self }
    }

    fn rival(self, rival: Rival) -> Row {
        Row { rival, ..self }
    }

    /// Whether a word of `--rows` means this row: its number, its name, or the beginning of its name up to a hyphen.
    pub fn is_called(&self, word: &str) -> bool {
        self.number == word || self.id == word || self.id.strip_prefix(word).is_some_and(|rest| rest.starts_with('-'))
    }
}

/// What the command line says about the size of rows.
#[derive(Clone, Copy)]
pub struct Sizes {
    /// Seconds that a row which runs by time is measured.
    pub secs: f64,
    /// GB in the deep log.
    pub deep_gb: f64,
    /// Most partitions on one node.
    pub partitions: i32,
}

/// All rows in the order they run in.
pub fn all(sizes: Sizes) -> Vec<Row> {
    let mut rows = produce::rows(sizes);
    rows.extend(fetch::rows(sizes));
    rows.extend(fanout::rows(sizes));
    rows.extend(latency::rows(sizes));
    rows.push(durable::row(sizes));
    rows.extend(waiting::rows(sizes));
    rows.push(topics::row());
    rows.extend(groups::rows(sizes));
    rows.extend(start::rows(sizes));
    rows.push(memory::row(sizes));
    rows.push(recovery::row());
    rows.push(partitions::row(sizes));
    rows.push(depth::row(sizes));
    rows.extend(replicated::rows(sizes));
    rows.extend(failover::rows());
    rows.push(instructions::row());
    rows
}
