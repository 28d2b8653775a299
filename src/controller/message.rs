//! What the controller tells brokers (LeaderAndIsr, UpdateMetadata, StopReplica) and what they answer.
//!
//! Values, not bytes: a broker's own channel hands them over as they are, one to another broker writes them
//! ([`rpc`](super::rpc)).

use std::sync::Arc;

use crate::cluster::{Broker, PartitionMeta};
use crate::replication::table::LeaderAndIsr;
use crate::types::{BrokerId, LeaderEpoch, TopicId, TopicPartition};
use crate::wire::error_code::ErrorCode;

/// One message to one broker.
#[derive(Clone, Debug, PartialEq)]
pub struct ControlRequest {
    pub controller: BrokerId,
    pub controller_epoch: i32,
    /// The receiver's, as the controller knows it; -1 = not checked.
    pub broker_epoch: i64,
    pub body: ControlBody,
}

/// What it says.
#[derive(Clone, Debug, PartialEq)]
pub enum ControlBody {
    LeaderAndIsr(LeadershipUpdate),
    UpdateMetadata(Arc<MetadataUpdate>),
    StopReplica(Vec<StopReplica>),
}

/// Who leads and follows from now on.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LeadershipUpdate {
    pub partitions: Vec<LeaderAndIsr>,
    /// The live leaders among them. Receivers go by their metadata and do not look here.
    pub leaders: Vec<Broker>,
}

/// Merged into the receiver's metadata: listed partitions replace, the brokers replace the whole set.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MetadataUpdate {
    pub partitions: Vec<PartitionUpdate>,
    pub brokers: Vec<Broker>,
}

/// A partition's new metadata.
#[derive(Clone, Debug, PartialEq)]
pub struct PartitionUpdate {
    pub tp: TopicPartition,
    pub topic_id: TopicId,
    /// Of the last change of its state.
    pub controller_epoch: i32,
    /// Leader [`DURING_DELETE`] removes the partition.
    pub meta: PartitionMeta,
}

/// The leader UpdateMetadata names for a partition of a topic being deleted.
pub const DURING_DELETE: BrokerId = BrokerId(-2);
/// The leader epoch StopReplica carries for a topic being deleted: passes whatever the broker knows.
pub const EPOCH_DURING_DELETE: LeaderEpoch = LeaderEpoch(-2);

/// One partition of StopReplica.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StopReplica {
    pub tp: TopicPartition,
    pub leader_epoch: LeaderEpoch,
    pub delete: bool,
}

/// A broker's answer.
#[derive(Clone, Debug, PartialEq)]
pub struct ControlAnswer {
    /// For the whole request.
    pub error: ErrorCode,
    /// In the order asked; empty for UpdateMetadata, and for a StopReplica refused as a whole.
    pub partitions: Vec<(TopicPartition, ErrorCode)>,
}
