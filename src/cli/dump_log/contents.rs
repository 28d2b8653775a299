//! A `.log` file batch by batch.

use std::io;
use std::path::Path;
use std::sync::Arc;

use crate::storage::disk::{Disk, DiskFile, Open};
use crate::storage::disk_real::RealDisk;
use crate::storage::entry::{Entry, HEAD_MAX, HeadScanner, Parsed, read_up_to};
use crate::wire::batch::RawBatch;

/// Fewer bytes are no head of a batch, but an end.
const HEAD_MIN: u64 = 17;

/// An open `.log`.
pub struct LogFile {
    file: Arc<dyn DiskFile>,
    /// Bytes.
    pub len: u64,
}

impl LogFile {
    pub fn open(path: &Path) -> io::Result<LogFile> {
        let file = RealDisk.open(path, Open::Read)?;
        Ok(LogFile { len: file.len()?, file })
    }

    /// Batch heads from `start` to `end`, bytes.
    pub fn heads(&self, start: u64, end: u64) -> HeadScanner<'_> {
        HeadScanner::new(self.file.as_ref(), start, end.min(self.len))
    }

    /// What `heads` ended on, if that was not the end or an unfinished batch.
    pub fn damage(&self, heads: &HeadScanner<'_>, end: u64) -> io::Result<Option<String>> {
        let left = end.min(self.len).saturating_sub(heads.position());
        if left < HEAD_MIN {
            return Ok(None);
        }
        let mut head = vec![0; left.min(HEAD_MAX as u64) as usize];
        read_up_to(self.file.as_ref(), &mut head, heads.position())?;
        Ok(match Entry::parse(&head) {
            Parsed::Damaged(what) => Some(what),
            Parsed::Entry(_) | Parsed::Short => None,
        })
    }

    /// The whole batch in `buffer`. `entry` is one that a scan of this file found, so its size is proven.
    pub fn read<'b>(&self, position: u64, entry: &Entry, buffer: &'b mut Vec<u8>) -> io::Result<RawBatch<'b>> {
        buffer.resize(entry.size as usize, 0);
        self.file.read_exact_at(buffer, position)?;
        Ok(RawBatch { magic: entry.magic, bytes: buffer })
    }
}

/// As Java prints an `OptionalLong`.
pub fn optional_long(value: Option<i64>) -> String {
    value.map_or("OptionalLong.empty".to_owned(), |value| format!("OptionalLong[{value}]"))
}
