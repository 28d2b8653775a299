//! Five seconds after everything is whole again, whoever reads a partition has been given all that was acknowledged by all
//! in-sync replicas. A record that is acknowledged later has its own five seconds.

use std::collections::HashMap;

use crate::event::{Acks, End, Outcome, Partition};
use crate::story::{At, Scene, Story};
use crate::verdict::Violation;

const PATIENCE_US: u64 = 5_000_000;

pub fn judge(story: &Story) -> Vec<Violation> {
    let Some(healed) = &story.healed_us else { return Vec::new() };
    story.scenes.iter().flat_map(|(partition, scene)| unseen(story, healed, partition, scene)).collect()
}

fn unseen(story: &Story, healed: &At<u64>, partition: &Partition, scene: &Scene) -> Vec<Violation> {
    let mut seen: HashMap<&str, u64> = HashMap::new();
    let (mut last_poll, mut first_read) = (0, i64::MAX);
    for poll in scene.all_polls() {
        let end = poll.span.to_us.unwrap_or(u64::MAX);
        last_poll = last_poll.max(end);
        first_read = first_read.min(poll.position);
        for record in &poll.records {
            seen.entry(&record.value).and_modify(|first| *first = end.min(*first)).or_insert(end);
        }
    }
    let mut found = Vec::new();
    for send in &scene.sends {
        let (Outcome::Stored { offset }, Some(told)) = (send.outcome, send.span.to_us) else { continue };
        // Nobody read so far back, or the readers had left by then.
        let due = told.max(healed.it) + PATIENCE_US;
        let aborted = send.transaction.as_ref().is_some_and(|transaction| story.end(transaction) != End::Committed);
        if send.acks != Acks::All || offset < first_read || due > last_poll || aborted {
            continue;
        }
        let when = seen.get(send.value.as_str());
        if when.is_some_and(|&when| when <= due) {
            continue;
        }
        let gone = scene.leader.as_ref().is_some_and(|log| scene.may_be_gone(log, offset, send.key.as_deref()));
        if gone {
            continue;
        }
        let when = when.map_or("never".to_owned(), |when| format!("first at {when} µs"));
        found.push(Violation {
            says: format!("{} of {partition} was acknowledged and not read in time", send.value),
            facts: vec![
                healed.fact(format!("everything is whole at {} µs", healed.it)),
                send.fact(format!("{} was told at {told} µs that it is stored; it was read {when}", send.client)),
            ],
        });
    }
    found
}
