//! Each client that reads goes on where it stopped, is given ascending offsets, and misses only control records, records
//! of aborted transactions when it reads committed ones, and what retention or compaction may have removed.

use std::collections::HashMap;

use crate::event::{End, Partition, Poll, Stored};
use crate::story::{At, Log, Read, Scene, Story};
use crate::verdict::Violation;

pub fn judge(story: &Story) -> Vec<Violation> {
    let mut found = Vec::new();
    for (partition, scene) in &story.scenes {
        let of = Values::of(scene);
        for reads in scene.polls.values() {
            let mut before: Option<&At<Poll>> = None;
            for read in reads {
                let Read::Poll(poll) = read else {
                    before = None;
                    continue;
                };
                found.extend(before.and_then(|before| jump(partition, scene, before, poll)));
                found.extend(descent(partition, poll));
                if let Some(log) = &scene.leader {
                    found.extend(gaps(story, partition, &of, log, poll));
                }
                before = Some(poll);
            }
        }
    }
    found
}

/// Which transaction a value was sent in.
struct Values<'a>(HashMap<&'a str, &'a str>);

impl<'a> Values<'a> {
    fn of(scene: &'a Scene) -> Values<'a> {
        let sent = scene.sends.iter();
        Values(sent.filter_map(|send| Some((send.value.as_str(), send.transaction.as_deref()?))).collect())
    }
}

fn jump(partition: &Partition, scene: &Scene, before: &At<Poll>, poll: &At<Poll>) -> Option<Violation> {
    let forward = scene.leader.as_ref().is_some_and(|log| poll.position <= log.log_start_offset);
    if poll.position == before.next || (forward && poll.position > before.next) {
        return None;
    }
    let client = &poll.client;
    Some(Violation {
        says: format!(
            "{client} jumped from {} to {} in {partition} without having asked for it",
            before.next, poll.position
        ),
        facts: vec![
            before.fact(format!("{client} would go on at {}", before.next)),
            poll.fact(format!("{client} reads from {}", poll.position)),
        ],
    })
}

fn descent(partition: &Partition, poll: &At<Poll>) -> Option<Violation> {
    let (client, from, next) = (&poll.client, poll.position, poll.next);
    let mut least = from;
    for record in &poll.records {
        if !(least..next).contains(&record.offset) {
            return Some(Violation {
                says: format!("{client} was given offset {} of {partition} out of its order", record.offset),
                facts: vec![poll.fact(format!("{client} read from {from} up to {next}, and had come to {least}"))],
            });
        }
        least = record.offset + 1;
    }
    None
}

fn gaps(story: &Story, partition: &Partition, of: &Values<'_>, log: &Log, poll: &At<Poll>) -> Vec<Violation> {
    let from = log.records.partition_point(|record| record.offset < poll.position);
    let held = log.records[from..].iter().take_while(|record| record.offset < poll.next);
    let mut given = poll.records.iter().map(|record| record.offset).peekable();
    let mut found = Vec::new();
    for record in held {
        while given.next_if(|&offset| offset < record.offset).is_some() {}
        if given.next_if_eq(&record.offset).is_some() || !must_be_given(story, of, poll, record) {
            continue;
        }
        let value = record.value.as_deref().unwrap_or_default();
        found.push(Violation {
            says: format!("{} was not given {value} of {partition}", poll.client),
            facts: vec![
                poll.fact(format!("{} read from {} and goes on at {}", poll.client, poll.position, poll.next)),
                record.fact(format!("broker {} holds {value} at offset {}", log.broker, record.offset)),
            ],
        });
    }
    found
}

/// What the log holds at the end it held always, so that compaction excuses nothing here.
fn must_be_given(story: &Story, of: &Values<'_>, poll: &Poll, record: &Stored) -> bool {
    let Some(value) = &record.value else { return false };
    match of.0.get(value.as_str()) {
        // One of unknown end is judged with its transaction.
        Some(transaction) if poll.read_committed => story.end(transaction) == End::Committed,
        _ => true,
    }
}
