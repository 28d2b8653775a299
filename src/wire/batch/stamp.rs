//! What a leader writes into a batch in place: offset and epoch outside the CRC, timestamps inside it.
//!
//! Every function takes exactly one whole batch of magic 2 (at least a header) and leaves anything shorter alone.

use super::header::{BatchHeader, HEADER_LEN};
use crate::types::{LeaderEpoch, Offset};
use crate::wire::crc32c::crc32c;

const CRC_AT: usize = 17;
const ATTRIBUTES_AT: usize = 21;

/// CRC-32C of a batch as it should stand in its header; 0 for bytes shorter than a header.
pub fn checksum(batch: &[u8]) -> u32 {
    batch.get(ATTRIBUTES_AT..).map_or(0, crc32c)
}

/// Outside the CRC: costs nothing more.
pub fn set_base_offset(batch: &mut [u8], offset: Offset) {
    write(batch, 0, offset.0.to_be_bytes());
}

/// Outside the CRC.
pub fn set_leader_epoch(batch: &mut [u8], epoch: LeaderEpoch) {
    write(batch, 12, epoch.0.to_be_bytes());
}

/// Sets maximum timestamp (ms) and timestamp type, and the CRC anew when either was different: in the batch and in `header`,
/// which is its own.
/// A change also clears attribute bits 7 to 15, which mean nothing, as Kafka does.
pub fn set_max_timestamp(batch: &mut [u8], header: &mut BatchHeader, log_append_time: bool, max_timestamp: i64) {
    if header.max_timestamp == max_timestamp && header.is_log_append_time() == log_append_time {
        return;
    }
    header.attributes = header.attributes & 0b111_0111 | i16::from(log_append_time) << 3;
    header.max_timestamp = max_timestamp;
    write(batch, ATTRIBUTES_AT, header.attributes.to_be_bytes());
    write(batch, 35, max_timestamp.to_be_bytes());
    header.crc = set_checksum(batch);
}

/// Makes the CRC fit the bytes. Returns it.
pub fn set_checksum(batch: &mut [u8]) -> u32 {
    let crc = checksum(batch);
    write(batch, CRC_AT, crc.to_be_bytes());
    crc
}

fn write<const N: usize>(batch: &mut [u8], at: usize, bytes: [u8; N]) {
    if batch.len() >= HEADER_LEN
        && let Some(field) = batch.get_mut(at..at + N)
    {
        field.copy_from_slice(&bytes);
    }
}
