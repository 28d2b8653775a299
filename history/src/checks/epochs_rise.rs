//! Along a replica's log offsets ascend and epochs never fall.

use crate::event::Partition;
use crate::story::{Log, Story};
use crate::verdict::Violation;

pub fn judge(story: &Story) -> Vec<Violation> {
    let mut found = Vec::new();
    for (partition, scene) in &story.scenes {
        let logs = scene.leader.iter().chain(scene.followers.values());
        found.extend(logs.flat_map(|log| falls(partition, log)));
    }
    found
}

fn falls(partition: &Partition, log: &Log) -> Vec<Violation> {
    let wrong = log.records.windows(2).filter(|pair| pair[0].offset >= pair[1].offset || pair[0].epoch > pair[1].epoch);
    wrong
        .map(|pair| Violation {
            says: format!("the log of {partition} on broker {} goes backwards", log.broker),
            facts: pair
                .iter()
                .map(|record| record.fact(format!("offset {} has epoch {}", record.offset, record.epoch)))
                .collect(),
        })
        .collect()
}
