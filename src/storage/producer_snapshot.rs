//! `.snapshot`: the producers of a log as they stand at an offset (exclusive), which is the file's name.
//!
//! ```text
//! i16 version 1, u32 crc (CRC-32C of byte 6 to the end), i32 count, then 46 bytes each:
//! i64 producer id, i16 epoch, i32 last sequence, i64 last offset, i32 offset delta, i64 timestamp,
//! i32 coordinator epoch, i64 first offset of the open transaction (-1 none)
//! ```
//! Only the newest batch of each producer is kept. Taken at each roll, at an orderly stop and after loading.

use std::io;
use std::path::Path;

use super::atomic_file;
use super::disk::{Disk, Open};
use super::entry::{i16_at, i32_at, i64_at};
use super::file_cache::file_name;
use super::producer_state::{ProducerBatch, ProducerState, ProducerStates};
use crate::types::Offset;
use crate::wire::crc32c::crc32c;

const VERSION: i16 = 1;
const HEAD: usize = 10;
const ENTRY: usize = 46;

/// Bytes of a snapshot.
pub fn encode(states: &ProducerStates) -> Vec<u8> {
    let mut out = Vec::with_capacity(HEAD + states.len() * ENTRY);
    out.extend_from_slice(&VERSION.to_be_bytes());
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&(states.len() as i32).to_be_bytes());
    let mut sorted: Vec<_> = states.iter().collect();
    sorted.sort_unstable_by_key(|(id, _)| *id);
    for (id, state) in sorted {
        let last = state.last_batch();
        out.extend_from_slice(&id.to_be_bytes());
        out.extend_from_slice(&state.epoch.to_be_bytes());
        out.extend_from_slice(&state.last_sequence().to_be_bytes());
        out.extend_from_slice(&last.map_or(-1, |batch| batch.last_offset.0).to_be_bytes());
        out.extend_from_slice(&last.map_or(0, |batch| batch.offset_delta).to_be_bytes());
        out.extend_from_slice(&state.last_timestamp_ms.to_be_bytes());
        out.extend_from_slice(&state.coordinator_epoch.to_be_bytes());
        out.extend_from_slice(&state.txn_first_offset.map_or(-1, |first| first.0).to_be_bytes());
    }
    let crc = crc32c(&out[6..]);
    out[2..6].copy_from_slice(&crc.to_be_bytes());
    out
}

/// The producers; `InvalidData` for anything no broker wrote.
pub fn decode(bytes: &[u8]) -> io::Result<ProducerStates> {
    let mut states = ProducerStates::default();
    decode_entries(bytes)?.into_iter().for_each(|(id, state)| states.restore(id, state));
    Ok(states)
}

/// Producer ids and states in the order of the file; `InvalidData` for anything no broker wrote.
pub fn decode_entries(bytes: &[u8]) -> io::Result<Vec<(i64, ProducerState)>> {
    let bad = |what: &str| io::Error::new(io::ErrorKind::InvalidData, format!("producer snapshot has {what}"));
    if bytes.len() < HEAD {
        return Err(bad("fewer bytes than its head"));
    }
    if i16_at(bytes, 0) != VERSION {
        return Err(bad("an unknown version"));
    }
    if crc32c(&bytes[6..]) != i32_at(bytes, 2) as u32 {
        return Err(bad("a wrong checksum"));
    }
    if i64::from(i32_at(bytes, 6)) != ((bytes.len() - HEAD) / ENTRY) as i64
        || !(bytes.len() - HEAD).is_multiple_of(ENTRY)
    {
        return Err(bad("a wrong count"));
    }
    let mut entries = Vec::with_capacity((bytes.len() - HEAD) / ENTRY);
    for entry in bytes[HEAD..].chunks_exact(ENTRY) {
        let mut state = ProducerState::new();
        state.epoch = i16_at(entry, 8);
        state.last_timestamp_ms = i64_at(entry, 26);
        state.coordinator_epoch = i32_at(entry, 34);
        state.txn_first_offset = (i64_at(entry, 38) >= 0).then(|| Offset(i64_at(entry, 38)));
        // Not by the sequence: the batches of a coordinator have none.
        if i64_at(entry, 14) >= 0 {
            state.push_batch(ProducerBatch {
                last_sequence: i32_at(entry, 10),
                last_offset: Offset(i64_at(entry, 14)),
                offset_delta: i32_at(entry, 22),
                timestamp_ms: state.last_timestamp_ms,
            });
        }
        entries.push((i64_at(entry, 0), state));
    }
    Ok(entries)
}

/// Writes the snapshot at `offset` into `dir`, with an fsync of the file if `sync`.
pub fn write(disk: &dyn Disk, dir: &Path, offset: Offset, states: &ProducerStates, sync: bool) -> io::Result<()> {
    let path = dir.join(file_name(offset, "snapshot"));
    let file = disk.open(&path, Open::Create)?;
    let bytes = encode(states);
    file.set_len(0)?;
    file.write_all_at(&bytes, 0)?;
    if sync { file.sync() } else { Ok(()) }
}

/// The producers of the newest sound snapshot at or below `at_most`, from `offsets` (ascending); damaged ones are
/// removed. `None` without any.
pub fn load_newest(
    disk: &dyn Disk,
    dir: &Path,
    offsets: &[Offset],
    at_most: Offset,
) -> io::Result<Option<(Offset, ProducerStates)>> {
    for offset in offsets.iter().rev().filter(|offset| **offset <= at_most) {
        let path = dir.join(file_name(*offset, "snapshot"));
        match atomic_file::read(disk, &path).and_then(|bytes| decode(&bytes)) {
            Ok(states) => return Ok(Some((*offset, states))),
            Err(e) if matches!(e.kind(), io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof) => {
                tracing::warn!("removing {}: {e}", path.display());
                atomic_file::remove_if_there(disk, &path)?;
            }
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(e) => return Err(e),
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_with_or_without_sequences_and_batches() {
        let mut states = ProducerStates::default();
        let mut expected = Vec::new();
        for (id, last_sequence) in [(1, None), (2, Some(-1)), (3, Some(0)), (4, Some(i32::MAX))] {
            let mut state = ProducerState::new();
            (state.epoch, state.coordinator_epoch) = (5, 6);
            if let Some(last_sequence) = last_sequence {
                state.last_timestamp_ms = 8;
                state.push_batch(ProducerBatch {
                    last_sequence,
                    last_offset: Offset(7),
                    offset_delta: 0,
                    timestamp_ms: 8,
                });
            }
            states.restore(id, state.clone());
            expected.push((id, state));
        }
        assert_eq!(decode_entries(&encode(&states)).expect("a snapshot"), expected);
    }
}
