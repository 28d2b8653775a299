//! One partition on this broker: its log, its role, its in-sync replicas.

use std::sync::Arc;

use super::waiters::Parked;
use crate::storage::log::{
    AbortedTransaction, AppendError, AppendInfo, AppendParams, FileSlice, Log, LogOffsets, TimestampOffset,
};
use crate::types::{Acks, BrokerId, IsolationLevel, LeaderEpoch, Offset, TopicId, TopicPartition};
use crate::wire::error_code::ErrorCode;

/// Who reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reader {
    Consumer(IsolationLevel),
    /// A follower with its id and broker epoch (-1 unknown), or the debugging consumer.
    Replica {
        id: BrokerId,
        broker_epoch: i64,
    },
    /// Replica id -2: reads to the log end without being a replica.
    Debugging,
}

/// One partition of a fetch request.
#[derive(Clone, Copy, Debug)]
pub struct PartitionFetch {
    pub reader: Reader,
    pub offset: Offset,
    /// [`LeaderEpoch::NONE`] skips the check.
    pub current_leader_epoch: LeaderEpoch,
    /// KIP-595's divergence check (v12+); [`LeaderEpoch::NONE`] skips it.
    pub last_fetched_epoch: LeaderEpoch,
    /// Follower's log start, v5+; -1 unknown.
    pub log_start_offset: Offset,
    pub max_bytes: usize,
    pub min_one_batch: bool,
    /// Consumers of v11+ may read any replica.
    pub only_leader: bool,
}

/// What was read.
#[derive(Clone, Debug)]
pub struct PartitionRead {
    pub offsets: LogOffsets,
    pub slice: Option<FileSlice>,
    /// `Some` for read_committed.
    pub aborted: Option<Vec<AbortedTransaction>>,
    pub diverging: Option<(LeaderEpoch, Offset)>,
}

/// An append the leader made.
#[derive(Clone, Copy, Debug)]
pub struct LeaderAppend {
    pub info: AppendInfo,
    /// Acks=all: wait until the high watermark is at least this.
    pub committed_at: Option<Offset>,
}

/// Why a wait for the high watermark ended without it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotCommitted {
    NotLeader,
    NotEnoughReplicasAfterAppend,
    Storage,
}

/// One partition on this broker.
#[derive(Debug)]
pub struct Partition {}

impl Partition {
    pub fn topic_partition(&self) -> &TopicPartition {
        todo!()
    }
    pub fn topic_id(&self) -> TopicId {
        todo!()
    }
    /// The log; `KafkaStorageError` when its directory is offline.
    pub fn log(&self) -> Result<Arc<Log>, ErrorCode> {
        todo!()
    }
    pub fn is_leader(&self) -> bool {
        todo!()
    }
    pub fn leader_epoch(&self) -> LeaderEpoch {
        todo!()
    }
    pub fn isr(&self) -> Vec<BrokerId> {
        todo!()
    }
    /// FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH, NOT_LEADER_OR_FOLLOWER, KAFKA_STORAGE_ERROR in Kafka's order.
    pub fn check(&self, _current_leader_epoch: LeaderEpoch, _only_leader: bool) -> Result<(), ErrorCode> {
        todo!()
    }

    /// min.insync.replicas is checked first for acks=all (NOT_ENOUGH_REPLICAS, nothing appended).
    pub fn append_to_leader(
        &self,
        _records: &mut [u8],
        _acks: Acks,
        _params: AppendParams,
    ) -> Result<LeaderAppend, AppendError> {
        todo!()
    }
    /// Completes when the high watermark is at least `offset` (after the fsync that flush.messages asks for),
    /// or leadership is lost.
    pub async fn committed(&self, _offset: Offset) -> Result<(), NotCommitted> {
        todo!()
    }

    pub fn read(&self, _fetch: PartitionFetch) -> Result<PartitionRead, ErrorCode> {
        todo!()
    }
    /// Wakes `parked` when something beyond what `reader` sees at `offset` may be readable.
    pub fn park(&self, _parked: &Arc<Parked>, _reader: Reader) {
        todo!()
    }

    /// What `reader` may see: high watermark, last stable offset, or log end.
    pub fn upper_bound(&self, _reader: Reader) -> Result<Offset, ErrorCode> {
        todo!()
    }
    pub fn offset_for_timestamp(
        &self,
        _timestamp_ms: i64,
        _reader: Reader,
    ) -> Result<Option<TimestampOffset>, ErrorCode> {
        todo!()
    }
    pub fn end_offset_for_epoch(&self, _epoch: LeaderEpoch) -> Result<Option<(LeaderEpoch, Offset)>, ErrorCode> {
        todo!()
    }
    /// DeleteRecords on the leader; -1 = high watermark. Returns the new low watermark.
    pub fn delete_records(&self, _to: Offset) -> Result<Offset, ErrorCode> {
        todo!()
    }
}
