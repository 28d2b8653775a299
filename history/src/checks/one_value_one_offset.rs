//! An offset that was acknowledged by all, read, or is held at the end has one value; a value of an idempotent producer
//! has one offset. An offset that the leader alone acknowledged is left out: another record may have it afterwards.

use std::collections::{HashMap, HashSet};

use crate::event::{Acks, Outcome, Partition};
use crate::story::{Scene, Story};
use crate::verdict::{Fact, Violation};

pub fn judge(story: &Story) -> Vec<Violation> {
    story.scenes.iter().flat_map(|(partition, scene)| conflicts(partition, scene)).collect()
}

/// A value said to be at an offset, and by which line.
struct Said<'a> {
    offset: i64,
    value: &'a str,
    line: usize,
    by: String,
}

impl Said<'_> {
    fn fact(&self, partition: &Partition) -> Fact {
        Fact {
            line: self.line,
            says: format!("{}: {} is at offset {} of {partition}", self.by, self.value, self.offset),
        }
    }
}

fn sayings(scene: &Scene) -> Vec<Said<'_>> {
    let mut all = Vec::new();
    for send in scene.sends.iter().filter(|send| send.acks == Acks::All) {
        if let Outcome::Stored { offset } = send.outcome {
            all.push(Said { offset, value: &send.value, line: send.line, by: format!("{} was told", send.client) });
        }
    }
    for (poll, record) in scene.read() {
        let by = format!("{} read", poll.client);
        all.push(Said { offset: record.offset, value: &record.value, line: poll.line, by });
    }
    if let Some(log) = &scene.leader {
        for (value, record) in log.values() {
            let by = format!("broker {} holds", log.broker);
            all.push(Said { offset: record.offset, value, line: record.line, by });
        }
    }
    all
}

fn conflicts(partition: &Partition, scene: &Scene) -> Vec<Violation> {
    let once: HashSet<&str> =
        scene.sends.iter().filter(|send| send.idempotent).map(|send| send.value.as_str()).collect();
    let all = sayings(scene);
    let (mut by_offset, mut by_value) = (HashMap::<i64, &Said>::new(), HashMap::<&str, &Said>::new());
    let mut found = Vec::new();
    for said in &all {
        let first = *by_offset.entry(said.offset).or_insert(said);
        if first.value != said.value {
            found.push(Violation {
                says: format!("offset {} of {partition} has two values", said.offset),
                facts: vec![first.fact(partition), said.fact(partition)],
            });
        }
        if !once.contains(said.value) {
            continue;
        }
        let first = *by_value.entry(said.value).or_insert(said);
        if first.offset != said.offset {
            found.push(Violation {
                says: format!("{} of an idempotent producer is twice in {partition}", said.value),
                facts: vec![first.fact(partition), said.fact(partition)],
            });
        }
    }
    found
}
