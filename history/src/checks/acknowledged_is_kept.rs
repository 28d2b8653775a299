//! What was acknowledged by all in-sync replicas is in the leader's log at the end, at the offset it was given. What the
//! leader alone acknowledged may be gone; so may what retention or a later record of its key has removed.

use crate::event::{Acks, Outcome, Partition, Send};
use crate::story::{At, Log, Scene, Story};
use crate::verdict::Violation;

pub fn judge(story: &Story) -> Vec<Violation> {
    let mut found = Vec::new();
    for (partition, scene) in &story.scenes {
        let Some(log) = &scene.leader else { continue };
        found.extend(scene.sends.iter().filter_map(|send| lost(partition, scene, log, send)));
    }
    found
}

fn lost(partition: &Partition, scene: &Scene, log: &Log, send: &At<Send>) -> Option<Violation> {
    let Outcome::Stored { offset } = send.outcome else { return None };
    if send.acks != Acks::All || scene.may_be_gone(log, offset, send.key.as_deref()) {
        return None;
    }
    let held = log.at(offset).and_then(|record| record.value.as_ref());
    (held != Some(&send.value)).then(|| Violation {
        says: format!("{} of {partition} is lost", send.value),
        facts: vec![
            send.fact(format!("{} was told that {} is at offset {offset}, acks=all", send.client, send.value)),
            log.fact(partition, offset),
        ],
    })
}

/// Whether an acknowledged send is at its offset in the end.
pub fn kept(log: &Log, send: &Send) -> Option<i64> {
    let Outcome::Stored { offset } = send.outcome else { return None };
    let held = log.at(offset).and_then(|record| record.value.as_ref());
    (held == Some(&send.value)).then_some(offset)
}
