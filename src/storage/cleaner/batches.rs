//! The batches of a sealed segment, whole and in order, through one buffer.

use std::io;
use std::sync::Arc;

use crate::storage::disk::DiskFile;
use crate::storage::entry::{Entry, HEAD_MAX, Parsed};
use crate::storage::segment::Segment;

/// A cursor.
pub struct SegmentBatches<'b> {
    file: Arc<dyn DiskFile>,
    path: String,
    /// Of the next batch, bytes.
    position: u64,
    len: u64,
    /// Holds the file's bytes from `position` on.
    buffer: &'b mut Vec<u8>,
    begin: usize,
    end: usize,
}

impl<'b> SegmentBatches<'b> {
    /// From `position`, where a batch begins. `buffer` has as many bytes as are to be read at once; a batch that is larger
    /// makes it larger.
    pub fn new(segment: &Segment, position: u64, buffer: &'b mut Vec<u8>) -> io::Result<SegmentBatches<'b>> {
        let (file, len) = (segment.log().get()?, segment.len());
        let path = segment.log().path().display().to_string();
        Ok(SegmentBatches { file, path, position, len, buffer, begin: 0, end: 0 })
    }

    /// The next batch and its bytes.
    pub fn next_batch(&mut self) -> io::Result<Option<(Entry, &[u8])>> {
        if self.position == self.len {
            return Ok(None);
        }
        self.fill(HEAD_MAX)?;
        let entry = match Entry::parse(&self.buffer[self.begin..self.end]) {
            Parsed::Entry(entry) if entry.size <= self.len - self.position => entry,
            _ => {
                let what = format!("no batch at position {} of {}", self.position, self.path);
                return Err(io::Error::new(io::ErrorKind::InvalidData, what));
            }
        };
        // It lies in the file: a buffer of its size is no stranger's wish.
        let size = entry.size as usize;
        self.fill(size)?;
        let at = self.begin;
        if self.end - at < size {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.begin += size;
        self.position += entry.size;
        Ok(Some((entry, &self.buffer[at..at + size])))
    }

    /// Has `wanted` bytes in the buffer, or those that the segment still has.
    fn fill(&mut self, wanted: usize) -> io::Result<()> {
        let here = self.end - self.begin;
        if here >= wanted || here as u64 == self.len - self.position {
            return Ok(());
        }
        self.buffer.copy_within(self.begin..self.end, 0);
        (self.begin, self.end) = (0, here);
        if self.buffer.len() < wanted {
            self.buffer.resize(wanted, 0);
        }
        while self.end < wanted {
            let left = self.len - self.position - self.end as u64;
            let room = (self.buffer.len() - self.end).min(usize::try_from(left).unwrap_or(usize::MAX));
            let target = &mut self.buffer[self.end..self.end + room];
            match self.file.read_at(target, self.position + self.end as u64)? {
                0 => break,
                read => self.end += read,
            }
        }
        Ok(())
    }
}
