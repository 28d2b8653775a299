//! The table: medians of all rounds, ratios, what was asked and what is reached. As markdown and as JSON.

use serde::Serialize;

use crate::figure::{Basis, Better, Figure};
use crate::fleet::Who;
use crate::rows::Row;

/// A limit that moves by more than this part of itself during a row says nothing.
const SPREAD_MAX: f64 = 0.25;

#[derive(Clone, Copy, Serialize)]
pub struct Summary {
    pub median: f64,
    pub min: f64,
    pub max: f64,
    pub rounds: usize,
}

impl Summary {
    fn of(values: &[f64]) -> Option<Summary> {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let median = *sorted.get(sorted.len() / 2)?;
        Some(Summary { median, min: sorted[0], max: *sorted.last()?, rounds: sorted.len() })
    }

    /// Distance between the ends as a part of the median.
    fn spread(&self) -> f64 {
        (self.max - self.min) / self.median.abs()
    }

    fn cell(&self) -> String {
        let Summary { median, min, max, rounds } = *self;
        match rounds {
            1 => number(median),
            _ => format!("{} ({}..{})", number(median), number(min), number(max)),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Reached {
    Goal,
    Pass,
    Short,
    /// The limit moved too much for a ratio.
    Void,
    /// Nothing was asked.
    Unasked,
    /// Klamm gave no figure.
    Missing,
}

impl Reached {
    fn word(self) -> &'static str {
        match self {
            Reached::Goal => "goal",
            Reached::Pass => "pass",
            Reached::Short => "**short**",
            Reached::Void => "void",
            Reached::Unasked => "",
            Reached::Missing => "**missing**",
        }
    }
}

/// A line of the table.
#[derive(Serialize)]
pub struct Line {
    pub number: &'static str,
    pub row: &'static str,
    pub figure: &'static str,
    pub limit: Option<Summary>,
    pub klamm: Option<Summary>,
    pub kafka: Option<Summary>,
    /// Klamm's median to the limit's.
    pub ratio: Option<f64>,
    pub pass: Option<f64>,
    pub goal: Option<f64>,
    /// Whether `pass` and `goal` are asked of the ratio; otherwise of Klamm's median.
    pub asked_of_ratio: bool,
    pub reached: Reached,
    /// How many times better than Kafka.
    pub times_kafka: Option<f64>,
}

/// All values of a row's rounds, by server and figure.
pub type Values = std::collections::BTreeMap<(Who, &'static str), Vec<f64>>;

pub fn lines(row: &Row, values: &Values) -> Vec<Line> {
    row.figures.iter().map(|figure| line(row, figure, values)).collect()
}

fn line(row: &Row, figure: &Figure, values: &Values) -> Line {
    let summary = |who| values.get(&(who, figure.name)).and_then(|values| Summary::of(values));
    let (limit, klamm, kafka) = (summary(Who::Limit), summary(Who::Klamm), summary(Who::Kafka));
    let ratio = klamm.zip(limit).map(|(klamm, limit)| klamm.median / limit.median);
    let times = |klamm: Summary, kafka: Summary| match figure.better {
        Better::Less => kafka.median / klamm.median,
        Better::More => klamm.median / kafka.median,
    };
    Line {
        number: row.number,
        row: row.id,
        figure: figure.name,
        ratio,
        pass: figure.pass,
        goal: figure.goal,
        asked_of_ratio: figure.basis == Basis::Limit,
        reached: reached(figure, limit, klamm, ratio),
        // Nothing to nothing is no ratio.
        times_kafka: klamm.zip(kafka).map(|(klamm, kafka)| times(klamm, kafka)).filter(|times| !times.is_nan()),
        limit,
        klamm,
        kafka,
    }
}

fn reached(figure: &Figure, limit: Option<Summary>, klamm: Option<Summary>, ratio: Option<f64>) -> Reached {
    let Some(klamm) = klamm else { return Reached::Missing };
    let (value, moved) = match figure.basis {
        Basis::Value => (Some(klamm.median), false),
        Basis::Limit => (ratio, limit.is_some_and(|limit| limit.spread() > SPREAD_MAX)),
    };
    let Some(value) = value else { return Reached::Missing };
    let holds = |asked: Option<f64>| asked.map(|asked| figure.holds(value, asked));
    match (holds(figure.pass), holds(figure.goal)) {
        (None, None) => Reached::Unasked,
        _ if moved => Reached::Void,
        (_, Some(true)) => Reached::Goal,
        (Some(true), _) => Reached::Pass,
        (None, Some(false)) => Reached::Unasked,
        (Some(false), _) => Reached::Short,
    }
}

/// How the table came about and how it is read.
pub fn preamble(machine: &str, arguments: &[String], sender: &str) -> String {
    format!(
        "# Results\n\n`cargo bench --bench load -- {}`\n\n{machine}\n\n\
         P is the limit program: it frames requests and does one thing with them; fetches it answers by {sender}. \
         Kafka is\n3.9 in ZooKeeper mode with a heap of 1 GiB; its compiler threads are not counted. The broker runs on \
         core 0, the load on\ncore 1. Cells are medians (lowest..highest) of the rounds; GB and MB are decimal. `pass` \
         is what is asked, `goal` what\nmay be claimed: times P where P is said, else in the figure's unit. A row whose \
         P moved by more than a quarter is void.\nOnly ratios within one table mean anything.",
        arguments.join(" ")
    )
}

pub const HEAD: &str = "| # | row | figure | P | Klamm | Kafka | to P | pass | goal | reached | times Kafka |\n\
                        |---|---|---|---|---|---|---|---|---|---|---|";

impl Line {
    pub fn markdown(&self) -> String {
        let cell = |summary: &Option<Summary>| summary.as_ref().map_or(String::from("–"), Summary::cell);
        let or_none = |value: Option<f64>| value.map_or(String::from("–"), number);
        let asked = |value: Option<f64>| match (value, self.asked_of_ratio) {
            (None, _) => String::from("–"),
            (Some(value), true) => format!("{} P", number(value)),
            (Some(value), false) => number(value),
        };
        let mut limit = cell(&self.limit);
        if self.limit.is_some_and(|limit| limit.spread() > SPREAD_MAX) {
            limit += " unsteady";
        }
        let times = match self.times_kafka {
            Some(times) if times < 1.0 => format!("**{}**", number(times)),
            times => or_none(times),
        };
        format!(
            "| {} | {} | {} | {limit} | {} | {} | {} | {} | {} | {} | {times} |",
            self.number,
            self.row,
            self.figure,
            cell(&self.klamm),
            cell(&self.kafka),
            or_none(self.ratio),
            asked(self.pass),
            asked(self.goal),
            self.reached.word(),
        )
    }
}

/// One sentence over all lines.
pub fn sum(lines: &[Line]) -> String {
    let count = |reached| lines.iter().filter(|line| line.reached == reached).count();
    let against =
        |ahead: bool| lines.iter().filter_map(|line| line.times_kafka).filter(|t| (*t >= 1.0) == ahead).count();
    format!(
        "{} figures at their goal, {} at pass, {} short, {} void, {} missing; ahead of Kafka in {}, behind in {}.",
        count(Reached::Goal),
        count(Reached::Pass),
        count(Reached::Short),
        count(Reached::Void),
        count(Reached::Missing),
        against(true),
        against(false)
    )
}

fn number(value: f64) -> String {
    let digits = match value.abs() {
        size if size >= 100.0 => 0,
        size if size >= 10.0 => 1,
        size if size >= 0.1 => 2,
        _ => 3,
    };
    format!("{value:.digits$}")
}
