//! What a segment knows of time: the timestamps of its records, and when its file was written.

use std::io;

use super::Segment;
use crate::storage::entry::HeadScanner;
use crate::types::Offset;

impl Segment {
    /// Largest timestamp of a record; -1 when unknown or without records.
    pub fn max_timestamp(&self) -> io::Result<i64> {
        {
            let tail = self.tail.lock();
            if tail.writable {
                return Ok(tail.max_timestamp_ms);
            }
        }
        self.with_sane_indexes(|| Ok(self.times.last()?.map_or(-1, |last| last.timestamp_ms)))
    }

    /// Largest timestamp and the last offset of the first batch that has it.
    pub fn max_timestamp_and_offset(&self) -> io::Result<(i64, Offset)> {
        {
            let tail = self.tail.lock();
            if tail.writable {
                return Ok((tail.max_timestamp_ms, tail.max_timestamp_offset));
            }
        }
        self.with_sane_indexes(|| {
            Ok(self
                .times
                .last()?
                .map_or((-1, self.base), |last| (last.timestamp_ms, self.base + i64::from(last.relative))))
        })
    }

    /// What retention by time goes by: the largest timestamp, else the file's modification time.
    pub fn retention_timestamp(&self) -> io::Result<i64> {
        match self.max_timestamp()? {
            -1 => self.modified_ms(),
            timestamp => Ok(timestamp),
        }
    }

    /// When the file was last written, or is as good as, ms since the epoch.
    pub fn modified_ms(&self) -> io::Result<i64> {
        match self.home.disk.info(&self.log.path()) {
            Ok(info) => Ok(info.modified_ms),
            Err(e) if e.kind() == io::ErrorKind::NotFound && self.is_empty() => Ok(self.created_ms),
            Err(e) => Err(e),
        }
    }

    /// Largest timestamp of the first batch; -1 when that has none, `None` when there is no batch.
    pub fn first_timestamp(&self) -> io::Result<Option<i64>> {
        let mut tail = self.tail.lock();
        if tail.first_timestamp_ms.is_none() && !self.is_empty() {
            let file = self.log.get()?;
            tail.first_timestamp_ms =
                HeadScanner::new(file.as_ref(), 0, self.len()).next_entry()?.map(|(_, entry)| entry.max_timestamp);
        }
        Ok(tail.first_timestamp_ms)
    }

    /// A position before which no batch holds a record with a timestamp ≥ `timestamp_ms`.
    pub fn position_before_timestamp(&self, timestamp_ms: i64) -> io::Result<u64> {
        self.with_sane_indexes(|| {
            let relative = self.times.relative_before(timestamp_ms)?;
            self.offsets.position_at_or_before(relative)
        })
    }
}
