//! Both passes over one log.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use super::batches::SegmentBatches;
use super::filter::{Buffers, LastBatch, Rules, each_key, filter};
use super::groups::{Limits, Member, group};
use super::offset_map::{OffsetMap, SLOT};
use super::range::Range;
use super::transactions::Transactions;
use crate::storage::entry::{Entry, HeadScanner, Parsed};
use crate::storage::log::Log;
use crate::storage::producer_state::ProducerState;
use crate::storage::segment::Segment;
use crate::storage::txn_index::AbortedTxn;
use crate::types::Offset;

/// What one pass may use.
#[derive(Clone, Copy, Debug)]
pub struct Means {
    /// Bytes of the map of keys.
    pub map_bytes: usize,
    /// How full it may become.
    pub load_factor: f64,
    /// Bytes read at once, and bytes written at once.
    pub buffer_bytes: usize,
    /// Of the map's hash.
    pub secret: (u64, u64),
}

/// Looks after a pass from outside.
pub trait Pace {
    /// Bytes were read or written: rests for them where there is a limit.
    fn spent(&self, bytes: usize);
    /// Whether the pass is to go on.
    fn is_wanted(&self) -> bool;
}

/// What a pass did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cleaned {
    /// Below it every key is there once now.
    pub end: Offset,
    pub bytes_read: u64,
    pub bytes_written: u64,
    pub records_kept: u64,
    /// Keys found in the dirty part.
    pub keys: usize,
}

/// Why a pass ended early. What it has swapped in by then stays.
#[derive(Debug, thiserror::Error)]
pub enum PassError {
    /// The log was truncated, deleted, moved or closed, or the broker ends.
    #[error("given up")]
    GivenUp,
    /// The directory is offline by now when the disk is to blame.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Bytes after which what was written is synced: all of it at the end at once would hold up everybody else's fsync.
const SYNC_EVERY: u64 = 16 << 20;

impl Log {
    /// Cleans `range` and rewrites the log up to its end. Segments that are replaced are put into `gone`: their files have
    /// their `.deleted` names already, and the caller removes them after `file.delete.delay.ms`.
    pub(in crate::storage) fn clean(
        &self,
        range: Range,
        means: &Means,
        now_ms: i64,
        pace: &dyn Pace,
        gone: &mut Vec<Arc<Segment>>,
    ) -> Result<Cleaned, PassError> {
        let pass = Pass::new(self, range, means, now_ms, pace)?;
        let truncations = pass.truncations;
        let cleaned = pass.run(gone);
        let is_cut = || self.writer.lock().truncations != truncations;
        match cleaned {
            // Who cuts or removes what is being read has reasons that are no damage.
            Err(_) if !pace.is_wanted() || self.online().is_err() || is_cut() => Err(PassError::GivenUp),
            Err(PassError::Io(error)) if error.kind() == io::ErrorKind::NotFound => Err(PassError::GivenUp),
            other => other,
        }
    }
}

struct Pass<'a> {
    log: &'a Log,
    range: Range,
    means: &'a Means,
    now_ms: i64,
    pace: &'a dyn Pace,
    truncations: u64,
    /// All below the range's end, in order.
    segments: Vec<Arc<Segment>>,
    aborted: Vec<AbortedTxn>,
    read: Vec<u8>,
    write: Vec<u8>,
    buffers: Buffers,
    cleaned: Cleaned,
}

impl<'a> Pass<'a> {
    fn new(
        log: &'a Log,
        range: Range,
        means: &'a Means,
        now_ms: i64,
        pace: &'a dyn Pace,
    ) -> Result<Pass<'a>, PassError> {
        let (view, truncations) = {
            let writer = log.writer.lock();
            (log.view.load_full(), writer.truncations)
        };
        let mut aborted = Vec::new();
        for segment in &view.segments {
            aborted.extend(segment.txns.all()?.iter().copied());
        }
        let sealed = view.segments.len().saturating_sub(1);
        let below = view.segments.iter().take(sealed).take_while(|segment| segment.base() < range.first_uncleanable);
        Ok(Pass {
            segments: below.cloned().collect(),
            log,
            range,
            means,
            now_ms,
            pace,
            truncations,
            aborted,
            read: vec![0; means.buffer_bytes.max(1)],
            write: Vec::new(),
            buffers: Buffers::default(),
            cleaned: Cleaned::default(),
        })
    }

    fn run(mut self, gone: &mut Vec<Arc<Segment>>) -> Result<Cleaned, PassError> {
        let map = self.map()?;
        let end = map.latest() + 1;
        self.cleaned.end = end;
        self.cleaned.keys = map.len();
        // What makes a record superfluous is on the disk before that record goes.
        self.log.flush_to(end)?;
        let config = self.log.config.load_full();
        let old_horizon_ms = self.old_horizon_ms(config.delete_retention_ms)?;
        let mut transactions = Transactions::new(self.aborted.iter().copied());
        let rewritten: Vec<_> = self.segments.iter().filter(|segment| segment.base() < end).cloned().collect();
        let members = rewritten.iter().map(|segment| member(segment)).collect::<io::Result<Vec<_>>>()?;
        let limits =
            Limits { bytes: config.segment_bytes.max(0) as u64, index_bytes: config.segment_index_bytes.max(0) as u64 };
        let producers = self.producers();
        // What is given up is removed: its half of a file set beside another pass's whole one would be taken for that one's.
        for group in group(&members, self.range.first_uncleanable, limits) {
            let old = rewritten.get(group).unwrap_or_default();
            let new = Arc::new(self.begin(old)?);
            let written = self.write_group(old, &new, &map, old_horizon_ms, &producers, &mut transactions);
            let replaced = match written {
                Ok(()) => self.log.replace(old, &new, self.truncations, self.pace)?,
                Err(error) => {
                    self.log.or_offline(new.remove())?;
                    return Err(error);
                }
            };
            if !replaced {
                self.log.or_offline(new.remove())?;
                return Err(PassError::GivenUp);
            }
            gone.extend_from_slice(old);
        }
        Ok(self.cleaned)
    }

    fn go_on(&self, bytes: usize) -> Result<(), PassError> {
        self.pace.spent(bytes);
        if self.pace.is_wanted() { Ok(()) } else { Err(PassError::GivenUp) }
    }

    /// Messages of the old formats without a value go when the last clean segment is that much younger.
    fn old_horizon_ms(&self, delete_retention_ms: i64) -> io::Result<i64> {
        let clean = self.segments.partition_point(|segment| segment.base() < self.range.first_dirty);
        match clean.checked_sub(1).and_then(|at| self.segments.get(at)) {
            Some(last) => Ok(last.modified_ms()?.saturating_sub(delete_retention_ms)),
            None => Ok(0),
        }
    }

    /// The keys of the dirty part, from its beginning as far as the map holds them.
    fn map(&mut self) -> Result<OffsetMap, PassError> {
        let Range { first_dirty, first_uncleanable } = self.range;
        let first = self.segments.partition_point(|segment| segment.base() <= first_dirty).saturating_sub(1);
        let dirty = self.segments.get(first..).unwrap_or_default().to_vec();
        let keys = self.count(&dirty)?;
        let mut map = OffsetMap::new(self.means.map_bytes, self.means.load_factor, keys, self.means.secret);
        map.set_latest(first_dirty + -1);
        let reaching = self.aborted.iter().filter(|txn| txn.last_offset >= first_dirty);
        let mut transactions = Transactions::new(reaching.copied());
        let mut read = std::mem::take(&mut self.read);
        'segments: for (at, segment) in dirty.iter().enumerate() {
            // An index is asked only where it is needed: damage of the log would be taken for the index's.
            let start = match first_dirty > segment.base() {
                true => segment.locate(first_dirty)?.map(|found| found.position),
                false => Some(0),
            };
            let Some(start) = start else { continue };
            let mut batches = SegmentBatches::new(segment, start, &mut read)?;
            let mut spent = 0;
            while let Some((entry, bytes)) = batches.next_batch()? {
                spent += bytes.len();
                let without_keys =
                    entry.batch.is_some_and(|batch| batch.is_control() || transactions.is_aborted(&batch));
                let all = without_keys
                    || each_key(bytes, &entry, &mut self.buffers, |key, offset| {
                        offset < first_dirty || map.put(key, offset).is_ok()
                    })?;
                if !all {
                    // Of this batch the map knows the keys up to the last one it took.
                    break 'segments;
                }
                map.set_latest(entry.last_offset.max(map.latest()));
                if spent >= self.means.buffer_bytes {
                    self.go_on(std::mem::take(&mut spent))?;
                }
            }
            self.go_on(spent)?;
            // A gap at the end of a segment holds no key.
            let next = dirty.get(at + 1).map_or(first_uncleanable, |next| next.base());
            map.set_latest(map.latest().max(next + -1));
        }
        self.read = read;
        Ok(map)
    }

    /// Records in `segments`, or more.
    fn count(&self, segments: &[Arc<Segment>]) -> io::Result<u64> {
        let enough = (self.means.map_bytes / SLOT) as u64;
        let mut count = 0;
        for segment in segments.iter().filter(|segment| !segment.is_empty()) {
            let file = segment.log().get()?;
            let mut heads = HeadScanner::new(file.as_ref(), 0, segment.len());
            while let Some((_, entry)) = heads.next_entry()?
                && count < enough
            {
                count += match entry.batch {
                    Some(batch) => batch.record_count.max(0) as u64,
                    // How many are inside is not known from outside.
                    None if entry.attributes & 0b111 != 0 => enough,
                    None => 1,
                };
            }
        }
        Ok(count)
    }

    fn producers(&self) -> HashMap<i64, LastBatch> {
        let last = |state: &ProducerState| LastBatch {
            data: state.last_batch().map(|batch| batch.last_offset),
            epoch: state.epoch,
        };
        self.log.producers().iter().map(|(id, state)| (*id, last(state))).collect()
    }

    fn begin(&self, old: &[Arc<Segment>]) -> io::Result<Segment> {
        let base = old.first().map_or(Offset::ZERO, |first| first.base());
        let interval = self.log.config.load().index_interval_bytes.max(0) as u64;
        let begun = Segment::create_cleaned(&self.log.home(), base, interval, self.now_ms);
        self.log.or_offline(begun)
    }

    /// Writes what is left of `old` to `new`, whole and durable but for its name.
    fn write_group(
        &mut self,
        old: &[Arc<Segment>],
        new: &Segment,
        map: &OffsetMap,
        old_horizon_ms: i64,
        producers: &HashMap<i64, LastBatch>,
        transactions: &mut Transactions,
    ) -> Result<(), PassError> {
        let mut last = Offset::NONE;
        for segment in old.iter().rev().filter(|segment| !segment.is_empty()).take(1) {
            last = segment.next_offset()? + -1;
        }
        let (mut read, mut synced) = (std::mem::take(&mut self.read), 0);
        for segment in old {
            let rules = Rules {
                map,
                now_ms: self.now_ms,
                delete_retention_ms: self.log.config.load().delete_retention_ms,
                keep_old_tombstones: segment.modified_ms()? > old_horizon_ms,
                producers,
                last,
            };
            let mut batches = SegmentBatches::new(segment, 0, &mut read)?;
            let mut spent = 0;
            while let Some((entry, bytes)) = batches.next_batch()? {
                spent += bytes.len();
                let kept = filter(bytes, &entry, &rules, transactions, &mut self.buffers, &mut self.write)?;
                self.cleaned.records_kept += kept;
                if self.write.len() >= self.means.buffer_bytes {
                    self.put(new)?;
                }
                if spent >= self.means.buffer_bytes {
                    self.cleaned.bytes_read += spent as u64;
                    self.go_on(std::mem::take(&mut spent))?;
                }
                if new.len() - synced >= SYNC_EVERY {
                    synced = new.len();
                    self.log.or_offline(new.log().get()?.sync())?;
                }
            }
            self.cleaned.bytes_read += spent as u64;
            self.put(new)?;
            self.go_on(spent)?;
        }
        self.read = read;
        let modified_ms = match old.last() {
            Some(last) => last.modified_ms()?,
            None => self.now_ms,
        };
        let settled = new
            .txns
            .fill(transactions.take_kept())
            .and_then(|()| new.seal())
            .and_then(|()| new.sync(true))
            .and_then(|()| new.set_modified_ms(modified_ms));
        Ok(self.log.or_offline(settled)?)
    }

    /// Writes what is gathered.
    fn put(&mut self, new: &Segment) -> Result<(), PassError> {
        if self.write.is_empty() {
            return Ok(());
        }
        let mut heads: Vec<(usize, Entry)> = Vec::new();
        let mut at = 0;
        while let Some(bytes) = self.write.get(at..).filter(|bytes| !bytes.is_empty()) {
            let Parsed::Entry(entry) = Entry::parse(bytes) else {
                let what = format!("cleaning {} made bytes that are no batch", self.log.tp);
                return Err(io::Error::new(io::ErrorKind::InvalidData, what).into());
            };
            heads.push((at, entry));
            at += entry.size as usize;
        }
        if new.len() + self.write.len() as u64 > i32::MAX as u64 {
            let what = format!("{} segments of {} do not fit into one", heads.len(), self.log.tp);
            return Err(io::Error::new(io::ErrorKind::InvalidData, what).into());
        }
        self.log.or_offline(new.append(&self.write, &heads))?;
        self.cleaned.bytes_written += self.write.len() as u64;
        self.pace.spent(self.write.len());
        self.write.clear();
        Ok(())
    }
}

fn member(segment: &Segment) -> io::Result<Member> {
    segment.check_indexes()?;
    Ok(Member {
        base: segment.base(),
        bytes: segment.len(),
        offset_index_bytes: segment.offsets.count()? * 8,
        time_index_bytes: segment.times.count()? * 12,
    })
}
