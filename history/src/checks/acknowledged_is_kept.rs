//! What was acknowledged by all in-sync replicas is in the leader's log at the end, at the offset it was given. What the
//! leader alone acknowledged may be gone; so may what retention or a later record of its key has removed.

use std::collections::HashSet;

use crate::event::{Acks, Outcome, Partition, Send};
use crate::story::{At, Log, Scene, Story};
use crate::verdict::{Fact, Violation};

pub fn judge(story: &Story) -> Vec<Violation> {
    let mut found = Vec::new();
    for (partition, scene) in &story.scenes {
        let Some(log) = &scene.leader else { continue };
        found.extend(scene.sends.iter().filter_map(|send| lost(partition, scene, log, send)));
        found.extend(lost_somewhere(partition, scene, log));
    }
    found
}

/// Those that were acknowledged without an offset are looked for everywhere; what has gone since may have been theirs.
fn lost_somewhere(partition: &Partition, scene: &Scene, log: &Log) -> Vec<Violation> {
    if scene.compacted || log.log_start_offset > 0 {
        return Vec::new();
    }
    let held: HashSet<&str> = log.values().map(|(value, _)| value).collect();
    let told = scene.sends.iter().filter(|send| send.acks == Acks::All && send.outcome == Outcome::StoredBefore);
    let lost = told.filter(|send| !held.contains(send.value.as_str()));
    lost.map(|send| Violation {
        says: format!("{} of {partition} is lost", send.value),
        facts: vec![
            send.fact(format!("{} was told that {} is stored already, acks=all", send.client, send.value)),
            Fact { line: log.line, says: format!("broker {} does not hold it in {partition}", log.broker) },
        ],
    })
    .collect()
}

fn lost(partition: &Partition, scene: &Scene, log: &Log, send: &At<Send>) -> Option<Violation> {
    let Outcome::Stored { offset } = send.outcome else { return None };
    if send.acks != Acks::All || scene.may_be_gone(log, offset, send.key.as_deref()) {
        return None;
    }
    log.keeps(send).is_none().then(|| Violation {
        says: format!("{} of {partition} is lost", send.value),
        facts: vec![
            send.fact(format!("{} was told that {} is at offset {offset}, acks=all", send.client, send.value)),
            log.fact(partition, offset),
        ],
    })
}
