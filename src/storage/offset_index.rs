//! `.index`: from offsets to positions in the `.log` beside it.
//!
//! ```text
//! i32 offset - base, i32 position of the batch whose last offset that is      8 bytes, offsets strictly rise
//! ```
//! One entry at most per `index.interval.bytes` of log. A Kafka follower's entry may pair the last batch of a set with
//! the position of the set's first: a search goes on from the position and does not care.

use std::io;

use super::entry::i32_at;
use super::index_file::{IndexEntry, IndexFile};

/// An entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OffsetEntry {
    /// Last offset of a batch, minus the segment's base.
    pub relative: i32,
    /// Bytes from the beginning of the `.log`.
    pub position: i32,
}

impl IndexEntry for OffsetEntry {
    const LEN: usize = 8;

    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.relative.to_be_bytes());
        out.extend_from_slice(&self.position.to_be_bytes());
    }

    fn decode(bytes: &[u8]) -> OffsetEntry {
        OffsetEntry { relative: i32_at(bytes, 0), position: i32_at(bytes, 4) }
    }
}

/// Offsets to positions.
pub type OffsetIndex = IndexFile<OffsetEntry>;

impl OffsetIndex {
    /// Position of the entry with the greatest offset ≤ base + `relative`; 0 without one.
    pub fn position_at_or_before(&self, relative: i64) -> io::Result<u64> {
        let (found, _) = self.split(|entry| i64::from(entry.relative) <= relative)?;
        Ok(found.map_or(0, |entry| entry.position.max(0) as u64))
    }

    /// The first entry at or after a position.
    pub fn first_at_or_after(&self, position: u64) -> io::Result<Option<OffsetEntry>> {
        Ok(self.split(|entry| (entry.position.max(0) as u64) < position)?.1)
    }

    /// Refuses content that the log cannot have led to: zero fill, positions past the end of the log.
    pub fn check(&self, log_len: u64) -> io::Result<()> {
        if self.in_memory() {
            return Ok(());
        }
        match self.last()?.and_then(|last| last.insanity(self.count().ok()?, log_len)) {
            Some(what) => Err(self.insane(what)),
            None => Ok(()),
        }
    }
}

impl OffsetEntry {
    /// What is impossible about an index of `count` entries that ends in this one, beside a log of `log_len` bytes.
    pub fn insanity(&self, count: u64, log_len: u64) -> Option<String> {
        if self.relative < 0 || (self.relative == 0 && count > 1) {
            return Some(format!("a last offset {} not above its base", self.relative));
        }
        let beyond = self.position < 0 || self.position as u64 >= log_len.max(1);
        beyond.then(|| format!("a last position {} beyond the {log_len} bytes of its log", self.position))
    }
}
