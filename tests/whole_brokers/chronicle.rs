//! What happened: the history that is judged, the trace that two runs are compared by, and what was counted.

use std::collections::BTreeMap;
use std::fmt;

use history::event::{Event, Partition, Span, Stored};
use klamm::sim::brokers::Trace;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

/// How often things happened, to see that they did.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Counts {
    pub elections: u64,
    pub truncations: u64,
    pub isr_changes: u64,
    pub expiries: u64,
    pub kills: u64,
    pub lossy: u64,
    pub stops: u64,
    pub stands: u64,
    pub cuts: u64,
    pub resignations: u64,
    pub moves: u64,
    pub topics: u64,
    pub acknowledged: u64,
    pub unknown: u64,
    pub read: u64,
    pub commits: u64,
    /// Records that the leader alone acknowledged, and that are gone.
    pub lost_as_allowed: u64,
}

impl Counts {
    fn all(&self) -> [(&'static str, u64); 17] {
        [
            ("elections", self.elections),
            ("truncations", self.truncations),
            ("ISR changes", self.isr_changes),
            ("expiries", self.expiries),
            ("kills", self.kills),
            ("power cuts and wipes", self.lossy),
            ("planned stops", self.stops),
            ("stands", self.stands),
            ("cuts", self.cuts),
            ("resignations", self.resignations),
            ("moves", self.moves),
            ("topics", self.topics),
            ("acknowledged", self.acknowledged),
            ("unknown", self.unknown),
            ("read", self.read),
            ("commits", self.commits),
            ("lost as allowed", self.lost_as_allowed),
        ]
    }

    pub fn add(&mut self, other: &Counts) {
        self.elections += other.elections;
        self.truncations += other.truncations;
        self.isr_changes += other.isr_changes;
        self.expiries += other.expiries;
        self.kills += other.kills;
        self.lossy += other.lossy;
        self.stops += other.stops;
        self.stands += other.stands;
        self.cuts += other.cuts;
        self.resignations += other.resignations;
        self.moves += other.moves;
        self.topics += other.topics;
        self.acknowledged += other.acknowledged;
        self.unknown += other.unknown;
        self.read += other.read;
        self.commits += other.commits;
        self.lost_as_allowed += other.lost_as_allowed;
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all: Vec<String> = self.all().iter().map(|(name, count)| format!("{count} {name}")).collect();
        f.write_str(&all.join(", "))
    }
}

/// A topic's id as text, partition and leader epoch.
type Reign = (String, i32, i32);

#[derive(Default)]
struct State {
    last_us: u64,
    history: Vec<u8>,
    leaders: BTreeMap<Reign, i32>,
    wrong: Vec<String>,
    counts: Counts,
    /// What a leader alone acknowledged: topic, partition, offset, value.
    by_leaders: Vec<(String, i32, i64, String)>,
}

pub struct Chronicle {
    start: Instant,
    trace: Trace,
    /// What is noted is printed at once: `KLAMM_TELL`.
    is_loud: bool,
    state: Mutex<State>,
}

impl Chronicle {
    pub fn new(trace: Trace) -> Chronicle {
        Chronicle {
            start: Instant::now(),
            trace,
            is_loud: std::env::var_os("KLAMM_TELL").is_some(),
            state: Mutex::default(),
        }
    }

    /// Simulated time, never twice the same: what comes later is later.
    pub fn now_us(&self) -> u64 {
        let now_us = u64::try_from(self.start.elapsed().as_micros()).unwrap_or(u64::MAX);
        let mut state = self.state.lock();
        state.last_us = now_us.max(state.last_us + 1);
        state.last_us
    }

    /// What began then and ends now.
    pub fn since(&self, from_us: u64) -> Span {
        Span { from_us, to_us: Some(self.now_us()) }
    }

    pub fn note(&self, what: impl fmt::Display) {
        let now_ms = self.start.elapsed().as_millis();
        if self.is_loud {
            println!("{now_ms} {what}");
        }
        self.trace.note(format_args!("{now_ms} {what}"));
    }

    pub fn write(&self, event: &Event) {
        let line = serde_json::to_string(event).expect("an event is JSON");
        self.note(&line);
        let history = &mut self.state.lock().history;
        history.extend(line.as_bytes());
        history.push(b'\n');
    }

    /// A leader alone has acknowledged a record.
    pub fn acknowledged_by_leader(&self, at: &Partition, offset: i64, value: &str) {
        self.state.lock().by_leaders.push((at.topic.clone(), at.partition, offset, value.to_owned()));
    }

    /// What a partition holds in the end.
    pub fn holds(&self, topic: &str, partition: i32, records: &[Stored]) {
        let mut state = self.state.lock();
        let is_held = |offset: i64, value: &str| {
            let at = records.binary_search_by_key(&offset, |record| record.offset);
            at.is_ok_and(|at| records[at].value.as_deref() == Some(value))
        };
        let of_it = state.by_leaders.iter().filter(|(of, number, ..)| of == topic && *number == partition);
        let lost = of_it.filter(|(.., offset, value)| !is_held(*offset, value)).count() as u64;
        state.counts.lost_as_allowed += lost;
    }

    /// Something that no run may show, told at the end.
    pub fn wrong(&self, what: impl fmt::Display) {
        self.note(format_args!("WRONG: {what}"));
        self.state.lock().wrong.push(what.to_string());
    }

    /// Somebody says who leads in an epoch: everybody must.
    pub fn leads(&self, topic_id: impl fmt::Display, partition: i32, epoch: i32, leader: i32) {
        let reign = (topic_id.to_string(), partition, epoch);
        let first = *self.state.lock().leaders.entry(reign.clone()).or_insert(leader);
        if first != leader {
            self.wrong(format_args!("{reign:?} has two leaders: {first} and {leader}"));
        }
    }

    pub fn count(&self, count: impl FnOnce(&mut Counts)) {
        count(&mut self.state.lock().counts);
    }

    pub fn counts(&self) -> Counts {
        self.state.lock().counts
    }

    pub fn trace(&self) -> String {
        self.trace.text()
    }

    /// What is wrong with it all.
    pub fn judge(&self) -> Vec<String> {
        let state = self.state.lock();
        let mut wrong = state.wrong.clone();
        match history::judge(state.history.as_slice()).expect("a history") {
            history::verdict::Verdict::Sound => {}
            verdict => wrong.push(verdict.to_string()),
        }
        wrong
    }
}
