//! Announcements and operators' requests: failed log directories, ISR changes, elections and reassignments by old tools.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::types::{BrokerId, TopicPartition};

use super::{Malformed, from_json, to_json};

/// `/log_dir_event_notification/log_dir_event_<n>`: a log directory of this broker failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogDirEvent(pub BrokerId);

#[derive(Serialize, Deserialize)]
struct LogDirEventJson {
    version: i32,
    broker: i32,
    event: i32,
}

impl LogDirEvent {
    pub fn decode(path: &str, bytes: &[u8]) -> Result<LogDirEvent, Malformed> {
        from_json(path, bytes).map(|json: LogDirEventJson| LogDirEvent(BrokerId(json.broker)))
    }

    pub fn encode(self) -> Bytes {
        to_json(&LogDirEventJson { version: 1, broker: self.0.0, event: 1 })
    }
}

/// `/isr_change_notification/isr_change_<n>` and `/admin/preferred_replica_election`: these partitions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PartitionList(pub Vec<TopicPartition>);

#[derive(Serialize, Deserialize)]
struct PartitionListJson {
    version: i32,
    partitions: Vec<PartitionJson>,
}

#[derive(Serialize, Deserialize)]
struct PartitionJson {
    topic: String,
    partition: i32,
}

impl PartitionList {
    pub fn decode(path: &str, bytes: &[u8]) -> Result<PartitionList, Malformed> {
        let json: PartitionListJson = from_json(path, bytes)?;
        let partition = |entry: PartitionJson| TopicPartition::new(entry.topic, entry.partition);
        Ok(PartitionList(json.partitions.into_iter().map(partition).collect()))
    }

    pub fn encode(&self) -> Bytes {
        let partition =
            |entry: &TopicPartition| PartitionJson { topic: entry.topic.to_string(), partition: entry.partition };
        to_json(&PartitionListJson { version: 1, partitions: self.0.iter().map(partition).collect() })
    }
}

/// `/admin/reassign_partitions`: the replicas these partitions shall have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReassignPartitions(pub Vec<(TopicPartition, Vec<BrokerId>)>);

#[derive(Serialize, Deserialize)]
struct ReassignPartitionsJson {
    version: i32,
    partitions: Vec<ReassignmentJson>,
}

#[derive(Serialize, Deserialize)]
struct ReassignmentJson {
    topic: String,
    partition: i32,
    replicas: Vec<i32>,
}

impl ReassignPartitions {
    pub fn decode(path: &str, bytes: &[u8]) -> Result<ReassignPartitions, Malformed> {
        let json: ReassignPartitionsJson = from_json(path, bytes)?;
        let reassignment = |entry: ReassignmentJson| {
            let replicas = entry.replicas.into_iter().map(BrokerId).collect();
            (TopicPartition::new(entry.topic, entry.partition), replicas)
        };
        Ok(ReassignPartitions(json.partitions.into_iter().map(reassignment).collect()))
    }

    pub fn encode(&self) -> Bytes {
        let reassignment = |(partition, replicas): &(TopicPartition, Vec<BrokerId>)| ReassignmentJson {
            topic: partition.topic.to_string(),
            partition: partition.partition,
            replicas: replicas.iter().map(|id| id.0).collect(),
        };
        to_json(&ReassignPartitionsJson { version: 1, partitions: self.0.iter().map(reassignment).collect() })
    }
}
