//! Of two records of a partition the one that was acknowledged before the other was sent has the lower offset, and those
//! of one idempotent producer have theirs in the order in which it was handed them. Records that are not held at the end
//! are left out: their offsets were given anew.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use crate::event::{Partition, Send};
use crate::story::{At, Log, Scene, Story};
use crate::verdict::{Fact, Violation};

pub fn judge(story: &Story) -> Vec<Violation> {
    let mut found = Vec::new();
    for (partition, scene) in &story.scenes {
        let Some(log) = &scene.leader else { continue };
        let kept = kept_sends(scene, log);
        found.extend(against_time(partition, &kept));
        found.extend(against_number(partition, &kept));
    }
    found
}

type Kept<'a> = (i64, &'a At<Send>);

fn kept_sends<'a>(scene: &'a Scene, log: &Log) -> Vec<Kept<'a>> {
    scene.sends.iter().filter_map(|send| Some((log.keeps(send)?, send))).collect()
}

fn fact((offset, send): &Kept<'_>) -> Fact {
    let Send { client, value, span, .. } = &send.it;
    let end = span.to_us.unwrap_or_default();
    send.fact(format!(
        "{client} sent {value} at {} µs and was told at {end} µs that it is at offset {offset}",
        span.from_us
    ))
}

/// In the order of their beginnings; those that had ended by then lie in a heap until their turn, and the one with the
/// highest offset of them is enough to compare with.
fn against_time(partition: &Partition, kept: &[Kept<'_>]) -> Vec<Violation> {
    let mut order: Vec<usize> = (0..kept.len()).collect();
    order.sort_by_key(|&i| kept[i].1.span.from_us);
    let mut open: BinaryHeap<Reverse<(u64, usize)>> = BinaryHeap::new();
    let mut highest: Option<usize> = None;
    let mut found = Vec::new();
    for i in order {
        let (offset, send) = kept[i];
        while let Some(&Reverse((end, other))) = open.peek() {
            if end >= send.span.from_us {
                break;
            }
            open.pop();
            if highest.is_none_or(|highest| kept[highest].0 < kept[other].0) {
                highest = Some(other);
            }
        }
        if let Some(earlier) = highest.map(|highest| &kept[highest]).filter(|earlier| earlier.0 > offset) {
            found.push(Violation {
                says: format!("{} of {partition} was sent later and has the lower offset", send.value),
                facts: vec![fact(earlier), fact(&kept[i])],
            });
        }
        if let Some(end) = send.span.to_us {
            open.push(Reverse((end, i)));
        }
    }
    found
}

fn against_number(partition: &Partition, kept: &[Kept<'_>]) -> Vec<Violation> {
    let mut by_client: BTreeMap<&str, Vec<&Kept>> = BTreeMap::new();
    for one in kept.iter().filter(|(_, send)| send.idempotent) {
        by_client.entry(&one.1.client).or_default().push(one);
    }
    let mut found = Vec::new();
    for (client, mut sends) in by_client {
        sends.sort_by_key(|(_, send)| send.number);
        for pair in sends.windows(2).filter(|pair| pair[0].0 >= pair[1].0) {
            found.push(Violation {
                says: format!(
                    "{client}'s records {} and {} change places in {partition}",
                    pair[0].1.number, pair[1].1.number
                ),
                facts: vec![fact(pair[0]), fact(pair[1])],
            });
        }
    }
    found
}
