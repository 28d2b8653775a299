//! While one leader's epoch lasts, neither the high watermark nor the last stable offset that a client is shown falls.
//! Nobody is given a record above them, and what somebody was given once is there at the end.

use std::collections::HashMap;

use crate::event::{Partition, Poll, Polled};
use crate::story::{At, Scene, Story};
use crate::verdict::Violation;

pub fn judge(story: &Story) -> Vec<Violation> {
    let mut found = Vec::new();
    for (partition, scene) in &story.scenes {
        found.extend(fallen(partition, scene));
        found.extend(above(partition, scene));
        found.extend(missing(partition, scene));
    }
    found
}

type Mark = (&'static str, fn(&Poll) -> Option<i64>);
const MARKS: [Mark; 2] =
    [("high watermark", |poll| poll.high_watermark), ("last stable offset", |poll| poll.last_stable_offset)];

fn fallen(partition: &Partition, scene: &Scene) -> Vec<Violation> {
    let mut found = Vec::new();
    for (name, mark) in MARKS {
        let mut last: HashMap<(&str, i32), (i64, &At<Poll>)> = HashMap::new();
        for poll in scene.all_polls() {
            let (Some(epoch), Some(now)) = (poll.leader_epoch, mark(poll)) else { continue };
            let seen = last.insert((&poll.client, epoch), (now, poll));
            if let Some((before, earlier)) = seen.filter(|(before, _)| *before > now) {
                let client = &poll.client;
                found.push(Violation {
                    says: format!("the {name} of {partition} fell within epoch {epoch}"),
                    facts: vec![
                        earlier.fact(format!("{client} was shown {before}")),
                        poll.fact(format!("{client} was shown {now}")),
                    ],
                });
            }
        }
    }
    found
}

fn above(partition: &Partition, scene: &Scene) -> Vec<Violation> {
    let mut found = Vec::new();
    for (poll, record) in scene.read() {
        let stable = poll.last_stable_offset.filter(|_| poll.read_committed);
        let Some(limit) = stable.or(poll.high_watermark) else { continue };
        if record.offset >= limit {
            found.push(Violation {
                says: format!("{} was given offset {} of {partition} too early", poll.client, record.offset),
                facts: vec![poll.fact(format!("{} was shown that nothing from {limit} on may be read", poll.client))],
            });
        }
    }
    found
}

fn missing(partition: &Partition, scene: &Scene) -> Vec<Violation> {
    let Some(log) = &scene.leader else { return Vec::new() };
    let gone = |record: &Polled| {
        log.value_at(record.offset) != Some(&record.value)
            && !scene.may_be_gone(log, record.offset, record.key.as_deref())
    };
    let violation = |(poll, record): (&At<Poll>, &Polled)| Violation {
        says: format!("{} of {partition} was read and is missing", record.value),
        facts: vec![
            poll.fact(format!("{} read {} at offset {}", poll.client, record.value, record.offset)),
            log.fact(partition, record.offset),
        ],
    };
    scene.read().filter(|(_, record)| gone(record)).map(violation).collect()
}
