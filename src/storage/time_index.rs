//! `.timeindex`: from timestamps to offsets.
//!
//! ```text
//! i64 largest timestamp so far in the segment, ms; i32 last offset of the first batch that has it, minus base    12 bytes
//! ```
//! Written with each offset entry when the timestamp has risen since, and once more when the segment is sealed.

use std::io;

use super::entry::{i32_at, i64_at};
use super::index_file::{IndexEntry, IndexFile};

/// An entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeEntry {
    /// Milliseconds since the Unix epoch.
    pub timestamp_ms: i64,
    pub relative: i32,
}

impl IndexEntry for TimeEntry {
    const LEN: usize = 12;

    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.timestamp_ms.to_be_bytes());
        out.extend_from_slice(&self.relative.to_be_bytes());
    }

    fn decode(bytes: &[u8]) -> TimeEntry {
        TimeEntry { timestamp_ms: i64_at(bytes, 0), relative: i32_at(bytes, 8) }
    }
}

/// Timestamps to offsets.
pub type TimeIndex = IndexFile<TimeEntry>;

impl TimeIndex {
    /// Appends unless the timestamp has not risen since the last entry.
    pub fn push_if_risen(&self, timestamp_ms: i64, relative: i32) -> io::Result<()> {
        if timestamp_ms > self.last()?.map_or(-1, |last| last.timestamp_ms) {
            self.push(TimeEntry { timestamp_ms, relative });
        }
        Ok(())
    }

    /// Offset (relative to base) before which no record has a timestamp ≥ `timestamp_ms`.
    pub fn relative_before(&self, timestamp_ms: i64) -> io::Result<i64> {
        let (found, _) = self.split(|entry| entry.timestamp_ms < timestamp_ms)?;
        Ok(found.map_or(0, |entry| i64::from(entry.relative)))
    }

    /// Refuses content that no log can have led to: zero fill and the like.
    pub fn check(&self) -> io::Result<()> {
        if self.in_memory() {
            return Ok(());
        }
        match self.last()?.and_then(|last| last.insanity(self.count().ok()?)) {
            Some(what) => Err(self.insane(what)),
            None => Ok(()),
        }
    }
}

impl TimeEntry {
    /// What is impossible about an index of `count` entries that ends in this one.
    pub fn insanity(&self, count: u64) -> Option<String> {
        if self.relative < 0 {
            return Some(format!("a last offset {} below its base", self.relative));
        }
        (self.timestamp_ms <= 0 && count > 1).then(|| format!("a last timestamp {}", self.timestamp_ms))
    }
}
