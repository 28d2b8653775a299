//! One partition's log: an append-only sequence of segments with one active at the end.
//!
//! One writer at a time under the log's own lock; readers take an immutable [`LogView`] and never that lock.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use super::disk::DiskFile;
use crate::config::TopicConfig;
use crate::types::{LeaderEpoch, Offset, TopicId, TopicPartition};
use crate::wire::error_code::ErrorCode;

/// Who wrote the records; decides what is checked (Kafka's `AppendOrigin`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Produce, with the request's API version (below 3: message sets, converted up).
    Client { produce_version: i16 },
    /// Offset commits and transaction state of our own coordinators.
    Coordinator,
}

/// What an append needs to know beside the bytes.
#[derive(Clone, Copy, Debug)]
pub struct AppendParams {
    pub origin: Origin,
    pub leader_epoch: LeaderEpoch,
    /// Wall time.
    pub now_ms: i64,
}

/// Where the records went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AppendInfo {
    pub first_offset: Offset,
    /// Inclusive.
    pub last_offset: Offset,
    /// -1 unless the topic has LogAppendTime (or, for a duplicate, the stored batch timestamp).
    pub log_append_time_ms: i64,
    pub log_start_offset: Offset,
    /// The batch is one of the producer's last five: nothing was appended, the offsets are the first time's.
    pub duplicate: bool,
}

/// A record refused, for `record_errors` (Produce v8+, KIP-467).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordError {
    pub batch_index: i32,
    pub message: Option<String>,
}

/// Why nothing was appended.
#[derive(Debug, thiserror::Error)]
pub enum AppendError {
    /// The client's bytes are refused; `code` is what Produce answers.
    #[error("{code}: {message}")]
    Refused {
        code: ErrorCode,
        message: String,
        record_errors: Vec<RecordError>,
        /// `error_message` of Produce v8+ is filled only where Kafka fills it.
        tell_client: bool,
        /// Whether Produce answers the real log start offset (wire-level rule of 3.9) or -1.
        log_start_offset: Offset,
    },
    #[error("the log directory {dir} is offline: {source}")]
    Storage { dir: PathBuf, source: Arc<io::Error> },
}

/// Bytes of one segment file, to be sent as they are.
#[derive(Clone, Debug)]
pub struct FileSlice {
    pub file: Arc<dyn DiskFile>,
    pub position: u64,
    /// Bytes.
    pub len: usize,
}

/// An aborted transaction that overlaps a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AbortedTransaction {
    pub producer_id: i64,
    pub first_offset: Offset,
}

/// What a read found. `slice` begins at the batch that holds the asked offset, may end inside a batch,
/// and is empty at the end of the readable log.
#[derive(Clone, Debug, Default)]
pub struct LogRead {
    pub slice: Option<FileSlice>,
    /// Only filled by [`Log::aborted_transactions`]'s caller.
    pub first_batch_larger_than_limit: bool,
}

/// Asked beyond either end, or the disk failed.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error("offset {asked} is outside [{log_start}, {log_end}]")]
    OutOfRange { asked: Offset, log_start: Offset, log_end: Offset },
    #[error("the log directory {dir} is offline: {source}")]
    Storage { dir: PathBuf, source: Arc<io::Error> },
}

/// The offsets of a log at one moment: log start ≤ last stable ≤ high watermark ≤ log end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogOffsets {
    pub log_start: Offset,
    pub last_stable: Offset,
    pub high_watermark: Offset,
    pub log_end: Offset,
}

/// Offset and timestamp of a record found by time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimestampOffset {
    pub timestamp_ms: i64,
    pub offset: Offset,
    pub leader_epoch: LeaderEpoch,
}

/// One partition's log.
#[derive(Debug)]
pub struct Log {}

impl Log {
    pub fn topic_partition(&self) -> &TopicPartition {
        todo!()
    }
    pub fn topic_id(&self) -> TopicId {
        todo!()
    }
    /// The log directory it lies in.
    pub fn dir(&self) -> PathBuf {
        todo!()
    }
    pub fn config(&self) -> Arc<TopicConfig> {
        todo!()
    }
    /// Takes effect at once; segments are rolled by it from the next append on.
    pub fn set_config(&self, _config: Arc<TopicConfig>) {
        todo!()
    }
    /// Without the append lock.
    pub fn offsets(&self) -> LogOffsets {
        todo!()
    }
    /// Bytes of all segments.
    pub fn size(&self) -> u64 {
        todo!()
    }

    /// Checks, stamps (in place) and appends one partition's records of a produce request.
    /// The high watermark does not move: replication does that.
    pub fn append_as_leader(&self, _records: &mut [u8], _params: AppendParams) -> Result<AppendInfo, AppendError> {
        todo!()
    }
    /// Appends a leader's bytes unchanged; offsets must continue the log.
    pub fn append_as_follower(&self, _records: &[u8], _now_ms: i64) -> Result<AppendInfo, AppendError> {
        todo!()
    }

    /// Bytes from the batch that holds `from` up to `max_bytes`, nothing at or past `upper` (exclusive).
    /// With `min_one_batch` the first batch comes whole even when larger than `max_bytes`.
    pub fn read(
        &self,
        _from: Offset,
        _upper: Offset,
        _max_bytes: usize,
        _min_one_batch: bool,
    ) -> Result<LogRead, ReadError> {
        todo!()
    }
    /// Aborted transactions that a read_committed consumer must skip in [from, upper bound of `slice_bytes`).
    pub fn aborted_transactions(&self, _from: Offset, _read: &LogRead) -> Result<Vec<AbortedTransaction>, ReadError> {
        todo!()
    }

    /// First record at or after `timestamp_ms`, below `upper`.
    pub fn offset_for_timestamp(
        &self,
        _timestamp_ms: i64,
        _upper: Offset,
    ) -> Result<Option<TimestampOffset>, ReadError> {
        todo!()
    }
    /// First record with the largest timestamp.
    pub fn offset_of_max_timestamp(&self) -> Result<Option<TimestampOffset>, ReadError> {
        todo!()
    }
    /// The largest epoch ≤ `epoch` in the cache with its end offset (replication.md §1); `None` when undefined.
    pub fn end_offset_for_epoch(&self, _epoch: LeaderEpoch) -> Option<(LeaderEpoch, Offset)> {
        todo!()
    }
    pub fn latest_epoch(&self) -> Option<LeaderEpoch> {
        todo!()
    }
    /// Epoch whose records hold `offset`.
    pub fn epoch_for_offset(&self, _offset: Offset) -> LeaderEpoch {
        todo!()
    }
    /// Notes that `epoch` begins at the log end (on becoming leader), durably.
    pub fn assign_epoch(&self, _epoch: LeaderEpoch) -> io::Result<()> {
        todo!()
    }

    /// Raises (or, after truncation, lowers) the high watermark, kept within [log start, log end]. Returns the new one.
    pub fn set_high_watermark(&self, _to: Offset) -> Offset {
        todo!()
    }
    /// DeleteRecords: raises the log start; files go at the next retention run. `to` ≤ high watermark is the caller's check.
    pub fn raise_log_start(&self, _to: Offset) {
        todo!()
    }
    pub fn truncate_to(&self, _to: Offset) -> io::Result<()> {
        todo!()
    }
    pub fn truncate_fully_and_start_at(&self, _at: Offset) -> io::Result<()> {
        todo!()
    }
    /// fsyncs up to the log end and raises the recovery point.
    pub fn flush(&self) -> io::Result<()> {
        todo!()
    }
    /// Whether `flush.messages`/`flush.ms` ask for an fsync before this offset may be acknowledged:
    /// the caller then awaits the directory's group commit.
    pub fn needs_flush(&self, _now_ms: i64) -> bool {
        todo!()
    }
}
