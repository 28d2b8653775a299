//! The 61 bytes in front of a record batch of magic 2.
//!
//! ```text
//! 0 i64 base offset          17 u32 crc (CRC-32C of byte 21 to the end)   43 i64 producer id
//! 8 i32 batch length         21 i16 attributes                            51 i16 producer epoch
//! 12 i32 leader epoch        23 i32 last offset delta                     53 i32 base sequence
//! 16 i8 magic                27 i64 base timestamp                        57 i32 record count
//!                            35 i64 max timestamp                         61 records
//! ```
//! Base offset and leader epoch are the leader's to set; both lie outside the CRC.
//! Source: Kafka's `DefaultRecordBatch`.

use crate::types::{LeaderEpoch, Offset};
use crate::wire::compression::{Codec, UnknownCodec};

/// Base offset and batch length: what stands before the bytes that `batch length` counts.
pub const LOG_OVERHEAD: usize = 12;
/// Bytes before the first record.
pub const HEADER_LEN: usize = 61;

/// Why bytes are no batch of magic 2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeaderError {
    #[error("{0} bytes are left, fewer than a batch header")]
    Short(usize),
    #[error("magic {0} where 2 is expected")]
    Magic(i8),
    #[error("batch length {0} is smaller than a batch header")]
    Length(i32),
}

/// The header's fields, copied out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchHeader {
    pub base_offset: Offset,
    /// Bytes after the length field; the whole batch has [`LOG_OVERHEAD`] more.
    pub batch_length: i32,
    pub leader_epoch: LeaderEpoch,
    pub crc: u32,
    pub attributes: i16,
    pub last_offset_delta: i32,
    pub base_timestamp: i64,
    pub max_timestamp: i64,
    pub producer_id: i64,
    pub producer_epoch: i16,
    pub base_sequence: i32,
    pub record_count: i32,
}

impl BatchHeader {
    /// Reads a header of magic 2 from the front of `bytes`; the records need not be there yet.
    pub fn parse(bytes: &[u8]) -> Result<BatchHeader, HeaderError> {
        let Some(head) = bytes.first_chunk::<HEADER_LEN>() else {
            return Err(HeaderError::Short(bytes.len()));
        };
        let magic = head[16] as i8;
        if magic != 2 {
            return Err(HeaderError::Magic(magic));
        }
        let batch_length = i32_at(head, 8);
        if batch_length < (HEADER_LEN - LOG_OVERHEAD) as i32 {
            return Err(HeaderError::Length(batch_length));
        }
        Ok(BatchHeader {
            base_offset: Offset(i64_at(head, 0)),
            batch_length,
            leader_epoch: LeaderEpoch(i32_at(head, 12)),
            crc: i32_at(head, 17) as u32,
            attributes: i16_at(head, 21),
            last_offset_delta: i32_at(head, 23),
            base_timestamp: i64_at(head, 27),
            max_timestamp: i64_at(head, 35),
            producer_id: i64_at(head, 43),
            producer_epoch: i16_at(head, 51),
            base_sequence: i32_at(head, 53),
            record_count: i32_at(head, 57),
        })
    }

    /// The header as it stands in front of the records.
    pub fn to_bytes(&self) -> [u8; HEADER_LEN] {
        let mut head = [0; HEADER_LEN];
        head[0..8].copy_from_slice(&self.base_offset.0.to_be_bytes());
        head[8..12].copy_from_slice(&self.batch_length.to_be_bytes());
        head[12..16].copy_from_slice(&self.leader_epoch.0.to_be_bytes());
        head[16] = 2;
        head[17..21].copy_from_slice(&self.crc.to_be_bytes());
        head[21..23].copy_from_slice(&self.attributes.to_be_bytes());
        head[23..27].copy_from_slice(&self.last_offset_delta.to_be_bytes());
        head[27..35].copy_from_slice(&self.base_timestamp.to_be_bytes());
        head[35..43].copy_from_slice(&self.max_timestamp.to_be_bytes());
        head[43..51].copy_from_slice(&self.producer_id.to_be_bytes());
        head[51..53].copy_from_slice(&self.producer_epoch.to_be_bytes());
        head[53..57].copy_from_slice(&self.base_sequence.to_be_bytes());
        head[57..61].copy_from_slice(&self.record_count.to_be_bytes());
        head
    }

    /// Bytes of the whole batch, header included.
    pub fn size(&self) -> usize {
        LOG_OVERHEAD + self.batch_length as usize
    }

    /// Inclusive. Wraps on a header that was made to.
    pub fn last_offset(&self) -> Offset {
        Offset(self.base_offset.0.wrapping_add(self.last_offset_delta.into()))
    }

    /// Exclusive. Wraps like [`BatchHeader::last_offset`].
    pub fn next_offset(&self) -> Offset {
        Offset(self.last_offset().0.wrapping_add(1))
    }

    pub fn codec_bits(&self) -> u8 {
        (self.attributes & 0b111) as u8
    }

    pub fn codec(&self) -> Result<Codec, UnknownCodec> {
        Codec::from_bits(self.codec_bits())
    }

    pub fn is_log_append_time(&self) -> bool {
        self.attributes & 1 << 3 != 0
    }

    pub fn is_transactional(&self) -> bool {
        self.attributes & 1 << 4 != 0
    }

    pub fn is_control(&self) -> bool {
        self.attributes & 1 << 5 != 0
    }

    /// Set by the cleaner: `base_timestamp` then holds the delete horizon, ms.
    pub fn has_delete_horizon(&self) -> bool {
        self.attributes & 1 << 6 != 0
    }

    pub fn has_producer(&self) -> bool {
        self.producer_id >= 0
    }

    /// Absolute time of a record, ms: with LogAppendTime the batch's maximum, whatever the record says.
    /// Wraps on a batch that was made to, as Kafka's arithmetic does.
    pub fn record_timestamp(&self, delta: i64) -> i64 {
        if self.is_log_append_time() { self.max_timestamp } else { self.base_timestamp.wrapping_add(delta) }
    }

    /// Inclusive; after 2147483647 comes 0.
    pub fn last_sequence(&self) -> i32 {
        if self.base_sequence < 0 {
            return self.base_sequence;
        }
        let last = i64::from(self.base_sequence) + i64::from(self.last_offset_delta);
        (last % (i64::from(i32::MAX) + 1)) as i32
    }
}

fn i16_at(head: &[u8; HEADER_LEN], at: usize) -> i16 {
    i16::from_be_bytes([head[at], head[at + 1]])
}

fn i32_at(head: &[u8; HEADER_LEN], at: usize) -> i32 {
    i32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]])
}

fn i64_at(head: &[u8; HEADER_LEN], at: usize) -> i64 {
    (i64::from(i32_at(head, at)) << 32) | i64::from(i32_at(head, at + 4) as u32)
}
