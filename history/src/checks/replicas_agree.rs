//! Below the lower of their high watermarks two replicas hold the same records in the same batches, from where the later
//! of them begins.

use crate::event::{Partition, Stored};
use crate::story::{At, Log, Story};
use crate::verdict::Violation;

pub fn judge(story: &Story) -> Vec<Violation> {
    let mut found = Vec::new();
    for (partition, scene) in &story.scenes {
        // Those of a compacted topic were cleaned at different times.
        let Some(leader) = scene.leader.as_ref().filter(|_| !scene.compacted) else { continue };
        found.extend(scene.followers.values().filter_map(|follower| difference(partition, leader, follower)));
    }
    found
}

/// The first offset at which two logs differ.
fn difference(partition: &Partition, leader: &Log, follower: &Log) -> Option<Violation> {
    let from = leader.log_start_offset.max(follower.log_start_offset);
    let to = leader.high_watermark.min(follower.high_watermark);
    let range = |log: &'_ Log| -> Vec<At<Stored>> {
        log.records.iter().filter(|record| (from..to).contains(&record.offset)).cloned().collect()
    };
    let (ours, theirs) = (range(leader), range(follower));
    let same = ours.iter().zip(&theirs).take_while(|(one, other)| one.it == other.it).count();
    let differ = [ours.get(same), theirs.get(same)];
    let offset = differ.iter().flatten().map(|record| record.offset).min()?;
    let how = match differ {
        [Some(one), Some(other)] if one.value == other.value => match (one.crc, other.crc) {
            (Some(ours), Some(theirs)) if ours != theirs => format!(": batches with checksums {ours} and {theirs}"),
            _ => format!(": epochs {} and {}", one.epoch, other.epoch),
        },
        _ => String::new(),
    };
    Some(Violation {
        says: format!(
            "brokers {} and {} differ at offset {offset} of {partition}{how}",
            leader.broker, follower.broker
        ),
        facts: vec![leader.fact(partition, offset), follower.fact(partition, offset)],
    })
}
