//! What storage and replication say, as Kafka's error codes. The one place where it is decided.

use crate::replication::partition::NotCommitted;
use crate::storage::log::ReadError;
use crate::wire::error_code::ErrorCode;

/// A produce whose records are in the log, but were not committed.
pub fn of_commit(error: NotCommitted) -> ErrorCode {
    match error {
        NotCommitted::NotLeader => ErrorCode::NotLeaderOrFollower,
        NotCommitted::NotEnoughReplicasAfterAppend => ErrorCode::NotEnoughReplicasAfterAppend,
        NotCommitted::Storage => ErrorCode::KafkaStorageError,
    }
}

/// A read that the log refused.
pub fn of_read(error: &ReadError) -> ErrorCode {
    match error {
        ReadError::OutOfRange { .. } => ErrorCode::OffsetOutOfRange,
        ReadError::Storage { .. } => ErrorCode::KafkaStorageError,
    }
}
