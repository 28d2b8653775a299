//! Reading: from an offset, by time, aborted transactions. Never takes the append lock.

use std::io;
use std::sync::Arc;

use super::entry::{HeadScanner, read_up_to};
use super::log::{AbortedTransaction, FileSlice, Log, LogRead, ReadError, TimestampOffset};
use super::records;
use super::segment::Segment;
use super::view::LogView;
use crate::types::Offset;

impl Log {
    /// Bytes from the batch that holds `from` up to `max_bytes`, nothing at or past `upper` (exclusive).
    /// With `min_one_batch` the first batch comes whole even when larger than `max_bytes`.
    pub fn read(
        &self,
        from: Offset,
        upper: Offset,
        max_bytes: usize,
        min_one_batch: bool,
    ) -> Result<LogRead, ReadError> {
        self.online().map_err(|e| self.read_failed(e))?;
        // Before the log start, which moves before segments go: one that is missing here lies below it.
        let view = self.view.load_full();
        let end = self.log_end();
        let start = self.log_start();
        if from < start || from > end {
            return Err(ReadError::OutOfRange { asked: from, log_start: start, log_end: end });
        }
        let upper = upper.min(end);
        if from >= upper {
            return Ok(LogRead::default());
        }
        match self.read_view(&view, from, upper, max_bytes, min_one_batch) {
            Ok(read) => Ok(read),
            // The segment went away under the view: what it held is below the log start now.
            Err(_) if from < self.log_start() => {
                Err(ReadError::OutOfRange { asked: from, log_start: self.log_start(), log_end: end })
            }
            Err(e) => Err(self.read_failed(e)),
        }
    }

    fn read_view(
        &self,
        view: &Arc<LogView>,
        from: Offset,
        upper: Offset,
        max_bytes: usize,
        min_one_batch: bool,
    ) -> io::Result<LogRead> {
        let Some(first) = view.index_of(from) else { return Ok(LogRead::default()) };
        // A compacted segment may end below `from`: then the next one has what comes after.
        for (at, segment) in view.segments.iter().enumerate().skip(first) {
            if segment.base() >= upper {
                break;
            }
            let Some(found) = segment.locate(from)? else { continue };
            let whole = view.segments.get(at + 1).is_some_and(|next| next.base() <= upper);
            let limit = if min_one_batch { found.size.max(max_bytes as u64) } else { max_bytes as u64 };
            let readable = readable_end(segment, whole, found.position + limit, upper)?;
            let len = limit.min(readable.saturating_sub(found.position));
            if len == 0 {
                break;
            }
            return Ok(LogRead {
                slice: Some(FileSlice { file: segment.log().get()?, position: found.position, len: len as usize }),
                first_batch_larger_than_limit: limit < found.size,
                found_in: Some((Arc::clone(view), at)),
            });
        }
        Ok(LogRead::default())
    }

    /// Aborted transactions that a read_committed consumer must skip in [from, upper bound of the slice read).
    pub fn aborted_transactions(&self, from: Offset, read: &LogRead) -> Result<Vec<AbortedTransaction>, ReadError> {
        let (Some(slice), Some((view, first))) = (&read.slice, &read.found_in) else { return Ok(Vec::new()) };
        // Not the view of now: the segment may be gone from it, and with it what the consumer must skip of the slice.
        self.aborted_in(view, *first, from, slice).map_err(|e| self.read_failed(e))
    }

    fn aborted_in(
        &self,
        view: &LogView,
        first: usize,
        from: Offset,
        slice: &FileSlice,
    ) -> io::Result<Vec<AbortedTransaction>> {
        let Some(segment) = view.segments.get(first) else { return Ok(Vec::new()) };
        let upper = match segment.offset_at_or_after_position(slice.position + slice.len as u64)? {
            Some(offset) => offset,
            None => view.segments.get(first + 1).map_or(self.log_end(), |next| next.base()),
        };
        let mut aborted = Vec::new();
        'segments: for segment in &view.segments[first..] {
            for txn in segment.txns.all()?.iter() {
                if txn.last_offset >= from && txn.first_offset < upper {
                    aborted.push(AbortedTransaction { producer_id: txn.producer_id, first_offset: txn.first_offset });
                }
                // No transaction that ended later began below this.
                if txn.last_stable_offset >= upper {
                    break 'segments;
                }
            }
        }
        Ok(aborted)
    }

    /// Base of every segment, oldest first, and when it was last written: what ListOffsets v0 looks at.
    pub fn segments_modified(&self) -> Result<Vec<(Offset, i64)>, ReadError> {
        self.online().map_err(|e| self.read_failed(e))?;
        let view = self.view.load();
        let modified = view.segments.iter().map(|segment| Ok((segment.base(), segment.modified_ms()?)));
        modified.collect::<io::Result<_>>().map_err(|e| self.read_failed(e))
    }

    /// First record at or after `timestamp_ms`, below `upper`.
    pub fn offset_for_timestamp(&self, timestamp_ms: i64, upper: Offset) -> Result<Option<TimestampOffset>, ReadError> {
        self.online().map_err(|e| self.read_failed(e))?;
        let view = self.view.load();
        self.find_timestamp(&view, timestamp_ms, upper).map_err(|e| self.read_failed(e))
    }

    fn find_timestamp(&self, view: &LogView, timestamp_ms: i64, upper: Offset) -> io::Result<Option<TimestampOffset>> {
        let start = self.log_start();
        for segment in &view.segments {
            if segment.max_timestamp()? < timestamp_ms {
                continue;
            }
            let position = segment.position_before_timestamp(timestamp_ms)?;
            if let Some(found) = first_record_at(segment, position, timestamp_ms, start)? {
                return Ok(Some(found).filter(|found| found.offset < upper));
            }
        }
        Ok(None)
    }

    /// First record with the largest timestamp.
    pub fn offset_of_max_timestamp(&self) -> Result<Option<TimestampOffset>, ReadError> {
        self.online().map_err(|e| self.read_failed(e))?;
        let view = self.view.load();
        let find = || {
            let mut largest: Option<(i64, Offset, &Arc<Segment>)> = None;
            for segment in &view.segments {
                let (timestamp, offset) = segment.max_timestamp_and_offset()?;
                if timestamp > largest.map_or(-1, |(largest, ..)| largest) {
                    largest = Some((timestamp, offset, segment));
                }
            }
            let Some((timestamp, offset, segment)) = largest else { return Ok(None) };
            let Some(batch) = segment.locate(offset)? else { return Ok(None) };
            first_record_at(segment, batch.position, timestamp, self.log_start())
        };
        find().map_err(|e| self.read_failed(e))
    }

    fn read_failed(&self, error: io::Error) -> ReadError {
        if error.kind() == io::ErrorKind::InvalidData {
            return ReadError::Damaged { dir: self.dir(), source: Arc::new(error) };
        }
        // Files that went away are not the disk's failure.
        if !matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::UnexpectedEof) {
            self.log_dir().fail(&error, &self.tp.to_string());
        }
        ReadError::Storage { dir: self.dir(), source: Arc::new(error) }
    }
}

/// Where the bytes below `upper` end in `segment`; exact only below `wanted`, past which nobody reads.
fn readable_end(segment: &Segment, whole: bool, wanted: u64, upper: Offset) -> io::Result<u64> {
    let len = segment.len();
    if whole {
        return Ok(len);
    }
    // At the tail the newest batches know.
    if let Some(found) = segment.located_recently(upper) {
        return Ok(found.map_or(len, |found| found.position));
    }
    // Far below the upper bound an index entry says so without a search for the bound itself.
    if segment.offset_at_or_after_position(wanted)?.is_some_and(|offset| offset < upper) {
        return Ok(len.min(wanted));
    }
    Ok(segment.locate(upper)?.map_or(len, |found| found.position))
}

/// The first record from `position` on with a timestamp ≥ `timestamp_ms` and an offset ≥ `start`.
fn first_record_at(
    segment: &Segment,
    position: u64,
    timestamp_ms: i64,
    start: Offset,
) -> io::Result<Option<TimestampOffset>> {
    let file = segment.log().get()?;
    let mut heads = HeadScanner::new(file.as_ref(), position, segment.len());
    while let Some((position, entry)) = heads.next_entry()? {
        if entry.max_timestamp < timestamp_ms || entry.last_offset < start {
            continue;
        }
        let mut bytes = vec![0; entry.size as usize];
        read_up_to(file.as_ref(), &mut bytes, position)?;
        let wanted = |offset, timestamp| timestamp >= timestamp_ms && offset >= start;
        if let Some((offset, timestamp_ms)) = records::find(&bytes, &entry, wanted)? {
            return Ok(Some(TimestampOffset { timestamp_ms, offset, leader_epoch: entry.leader_epoch }));
        }
    }
    Ok(None)
}
