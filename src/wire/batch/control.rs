//! Control records: the markers that end transactions, and the kinds that only a KRaft log holds.
//!
//! ```text
//! key: i16 version | i16 type      value of a marker: i16 version | i32 coordinator epoch
//! ```
//! Versions above 0 are read as 0. Source: Kafka's `ControlRecordType` and `EndTransactionMarker`.

use super::builder::{BatchBuilder, BatchOptions, BuildError};
use super::records::Record;
use crate::types::{LeaderEpoch, Offset};

/// What a control record says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ControlRecord {
    /// The producer's transaction ends here.
    EndTransaction(Marker),
    /// Of a type that a ZooKeeper-mode broker never writes.
    Other { kind: i16 },
}

/// End of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Marker {
    pub commit: bool,
    /// Of the transaction coordinator that wrote it.
    pub coordinator_epoch: i32,
}

/// Bytes of a control record that are too short or of a negative version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a control record with an unreadable {0}")]
pub struct BadControlRecord(&'static str);

impl ControlRecord {
    /// Reads a record of a control batch.
    pub fn parse(record: &Record<'_>) -> Result<ControlRecord, BadControlRecord> {
        let Some([v0, v1, k0, k1, ..]) = record.key else { return Err(BadControlRecord("key")) };
        if i16::from_be_bytes([*v0, *v1]) < 0 {
            return Err(BadControlRecord("key version"));
        }
        let kind = i16::from_be_bytes([*k0, *k1]);
        if !(0..=1).contains(&kind) {
            return Ok(ControlRecord::Other { kind });
        }
        let Some([v0, v1, epoch @ ..]) = record.value else { return Err(BadControlRecord("value")) };
        let Some(epoch) = epoch.first_chunk().filter(|_| i16::from_be_bytes([*v0, *v1]) >= 0) else {
            return Err(BadControlRecord("value"));
        };
        let coordinator_epoch = i32::from_be_bytes(*epoch);
        Ok(ControlRecord::EndTransaction(Marker { commit: kind == 1, coordinator_epoch }))
    }
}

/// A whole batch with one marker, ready for an append by the coordinator.
pub fn marker_batch(
    producer_id: i64,
    producer_epoch: i16,
    marker: Marker,
    timestamp_ms: i64,
) -> Result<Vec<u8>, BuildError> {
    let mut batch = BatchBuilder::new(BatchOptions {
        base_offset: Offset::ZERO,
        leader_epoch: LeaderEpoch::NONE,
        producer_id,
        producer_epoch,
        transactional: true,
        control: true,
        ..BatchOptions::default()
    })?;
    let key = [0, 0, 0, u8::from(marker.commit)];
    let mut value = vec![0, 0];
    value.extend(marker.coordinator_epoch.to_be_bytes());
    batch.append(timestamp_ms, Some(&key), Some(&value), &[])?;
    batch.finish()
}
