//! All partitions this broker has a replica of, and how the controller's messages change them.

use std::sync::Arc;

use super::partition::Partition;
use crate::storage::manager::LogManager;
use crate::types::{BrokerId, LeaderEpoch, TopicId, TopicPartition};
use crate::wire::error_code::ErrorCode;

/// One partition of a LeaderAndIsr request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaderAndIsr {
    pub tp: TopicPartition,
    pub topic_id: TopicId,
    pub controller_epoch: i32,
    pub leader: BrokerId,
    pub leader_epoch: LeaderEpoch,
    pub isr: Vec<BrokerId>,
    pub partition_epoch: i32,
    pub replicas: Vec<BrokerId>,
    pub is_new: bool,
}

/// Kafka's `ReplicaManager`, minus what lives in [`Partition`].
#[derive(Debug)]
pub struct PartitionTable {}

impl PartitionTable {
    pub fn new(_broker: BrokerId, _logs: Arc<LogManager>) -> PartitionTable {
        todo!()
    }
    pub fn get(&self, _topic: &str, _partition: i32) -> Option<Arc<Partition>> {
        todo!()
    }
    pub fn all(&self) -> Vec<Arc<Partition>> {
        todo!()
    }
    pub fn logs(&self) -> &Arc<LogManager> {
        todo!()
    }
    /// Applies one controller message; one answer per partition, in order.
    pub fn apply_leader_and_isr(&self, _changes: &[LeaderAndIsr]) -> Vec<ErrorCode> {
        todo!()
    }
    /// StopReplica; with `delete` the directory goes as well.
    pub fn stop_replica(&self, _tp: &TopicPartition, _leader_epoch: LeaderEpoch, _delete: bool) -> ErrorCode {
        todo!()
    }
}
