//! One segment: a file of batches whose offsets only grow, with its indexes.
//!
//! ```text
//! 00000000000000000042.log        batches from offset 42 on
//! 00000000000000000042.index      offset → position         (sparse)
//! 00000000000000000042.timeindex  timestamp → offset        (sparse)
//! 00000000000000000042.txnindex   aborted transactions      (only after an abort)
//! ```
//! The writer appends to the last segment of a log; every other one is sealed and never changes until it is deleted.
//! Readers see what lies below [`Segment::len`]. Never decides when to roll; never looks at records.

mod recent;
mod times;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

pub use self::recent::Located;
use self::recent::Recent;
use super::disk::DiskFile;
use super::entry::{Entry, HeadScanner};
use super::file_cache::{DELETED, FileHome, FileKind, LazyFile, Suffix, file_name};
use super::offset_index::{OffsetEntry, OffsetIndex};
use super::time_index::TimeIndex;
use super::txn_index::TxnIndex;
use crate::types::Offset;

/// Bytes of a segment up to which walking it is sooner done than opening its indexes.
const WALKED_WHOLE: u64 = 8 << 10;

/// A segment, active or sealed.
#[derive(Debug)]
pub struct Segment {
    base: Offset,
    home: Arc<FileHome>,
    log: Arc<LazyFile>,
    len: AtomicU64,
    pub(super) offsets: OffsetIndex,
    pub(super) times: TimeIndex,
    pub(super) txns: TxnIndex,
    /// Wall time at which this process made or opened it.
    created_ms: i64,
    index_interval: u64,
    tail: Mutex<Tail>,
    recent: Mutex<Recent>,
}

/// What appends carry from one to the next.
#[derive(Debug)]
struct Tail {
    /// The indexes are in memory and what follows is true of the whole segment.
    writable: bool,
    bytes_since_index_entry: u64,
    /// -1 without records.
    max_timestamp_ms: i64,
    /// Last offset of the first batch that has it.
    max_timestamp_offset: Offset,
    /// Largest timestamp of the first batch; `None` = not read yet.
    first_timestamp_ms: Option<i64>,
}

impl Tail {
    fn new(base: Offset) -> Tail {
        Tail {
            writable: false,
            bytes_since_index_entry: 0,
            max_timestamp_ms: -1,
            max_timestamp_offset: base,
            first_timestamp_ms: None,
        }
    }
}

impl Segment {
    /// A segment that lies in the directory; nothing is read yet. Without a batch its indexes are empty, whatever their
    /// files hold.
    pub fn open(
        home: &Arc<FileHome>,
        base: Offset,
        len: u64,
        has_txn_index: bool,
        index_interval: u64,
        now_ms: i64,
    ) -> Segment {
        let file = |kind| LazyFile::new(home.clone(), base, kind);
        Segment::of_files(home, base, len, has_txn_index, index_interval, now_ms, &file)
    }

    fn of_files(
        home: &Arc<FileHome>,
        base: Offset,
        len: u64,
        has_txn_index: bool,
        index_interval: u64,
        now_ms: i64,
        file: &dyn Fn(FileKind) -> Arc<LazyFile>,
    ) -> Segment {
        let (offset_file, time_file, txn_file) =
            (file(FileKind::OffsetIndex), file(FileKind::TimeIndex), file(FileKind::TxnIndex));
        Segment {
            base,
            home: home.clone(),
            log: file(FileKind::Log),
            len: AtomicU64::new(len),
            offsets: if len > 0 { OffsetIndex::unread(offset_file) } else { OffsetIndex::empty(offset_file) },
            times: if len > 0 { TimeIndex::unread(time_file) } else { TimeIndex::empty(time_file) },
            txns: if has_txn_index { TxnIndex::unread(base, txn_file) } else { TxnIndex::empty(base, txn_file) },
            created_ms: now_ms,
            index_interval,
            tail: Mutex::new(Tail { writable: len == 0, ..Tail::new(base) }),
            recent: Mutex::new(Recent::new((len == 0).then_some((base, 0)))),
        }
    }

    /// The first segment of a log without files. Its own is made by the first batch, unless `preallocate` asks for it now:
    /// of thousands of partitions that a broker is given at once most may never hold a record.
    pub fn begin(
        home: &Arc<FileHome>,
        base: Offset,
        preallocate: Option<u64>,
        index_interval: u64,
        now_ms: i64,
    ) -> io::Result<Segment> {
        match preallocate {
            Some(_) => Segment::create(home, base, preallocate, index_interval, now_ms),
            None => Ok(Segment::open(home, base, 0, false, index_interval, now_ms)),
        }
    }

    /// A new, empty segment; files left over at its base are replaced. With `preallocate` the `.log` gets that length
    /// at once, to be cut when sealed.
    pub fn create(
        home: &Arc<FileHome>,
        base: Offset,
        preallocate: Option<u64>,
        index_interval: u64,
        now_ms: i64,
    ) -> io::Result<Segment> {
        let segment = Segment::open(home, base, 0, false, index_interval, now_ms);
        segment.make_file(preallocate)?;
        Ok(segment)
    }

    /// A new, empty segment with `.cleaned` names, to take the place of others one day.
    pub fn create_cleaned(home: &Arc<FileHome>, base: Offset, index_interval: u64, now_ms: i64) -> io::Result<Segment> {
        let file = |kind| LazyFile::with_suffix(home.clone(), base, kind, Suffix::Cleaned);
        let segment = Segment::of_files(home, base, 0, false, index_interval, now_ms, &file);
        segment.make_file(None)?;
        Ok(segment)
    }

    fn make_file(&self, preallocate: Option<u64>) -> io::Result<()> {
        let file = self.log.create()?;
        if file.len()? > 0 {
            file.set_len(0)?;
        }
        for index in [self.offsets.file(), self.times.file(), self.txns.file()] {
            index.remove()?;
        }
        if let Some(len) = preallocate {
            file.set_len(len)?;
        }
        Ok(())
    }

    pub fn base(&self) -> Offset {
        self.base
    }

    /// Bytes written.
    pub fn len(&self) -> u64 {
        self.len.load(Ordering::Acquire)
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn log(&self) -> &Arc<LazyFile> {
        &self.log
    }

    pub fn created_ms(&self) -> i64 {
        self.created_ms
    }

    /// Whether `offset` can be written relative to the base.
    pub fn can_hold(&self, offset: Offset) -> bool {
        let relative = offset - self.base;
        (0..=i64::from(i32::MAX)).contains(&relative)
    }

    /// Whether an index of `max_bytes` has no room for another entry (one of the time index is kept for sealing).
    pub fn indexes_full(&self, max_bytes: u64) -> io::Result<bool> {
        // The first append after a start may be the first to look for them.
        self.with_indexes(
            || Ok(()),
            || Ok(self.offsets.count()? >= max_bytes / 8 || self.times.count()? >= (max_bytes / 12).saturating_sub(1)),
        )
    }

    fn relative(&self, offset: Offset) -> i32 {
        (offset - self.base).clamp(0, i64::from(i32::MAX)) as i32
    }

    /// Appends whole batches: `heads` tells of each where it begins in `bytes`, and its head. They are readable once the
    /// log's end says so.
    pub fn append(&self, bytes: &[u8], heads: &[(usize, Entry)]) -> io::Result<()> {
        let file = self.file_to_write()?;
        let mut tail = self.tail.lock();
        self.make_writable(&mut tail)?;
        let at = self.len.load(Ordering::Relaxed);
        file.write_all_at(bytes, at)?;
        for (position, entry) in heads {
            self.note(&mut tail, at + *position as u64, entry)?;
        }
        self.recent.lock().push(at, heads);
        self.len.store(at + bytes.len() as u64, Ordering::Release);
        Ok(())
    }

    /// See [`Segment::begin`].
    fn file_to_write(&self) -> io::Result<Arc<dyn DiskFile>> {
        if self.is_empty() { self.log.create() } else { self.log.get() }
    }

    fn make_writable(&self, tail: &mut Tail) -> io::Result<()> {
        if tail.writable {
            return Ok(());
        }
        let read = || {
            self.sane()?;
            self.offsets.unseal()?;
            self.times.unseal()
        };
        if let Err(e) = read() {
            self.rebuild_indexes(e)?;
            read()?;
        }
        if let Some(last) = self.times.last()? {
            tail.max_timestamp_ms = last.timestamp_ms;
            tail.max_timestamp_offset = self.base + i64::from(last.relative);
        }
        tail.writable = true;
        Ok(())
    }

    /// What a batch means for the indexes.
    fn note(&self, tail: &mut Tail, position: u64, entry: &Entry) -> io::Result<()> {
        if position == 0 {
            tail.first_timestamp_ms = Some(entry.max_timestamp);
        }
        if entry.largest_timestamp() > tail.max_timestamp_ms {
            tail.max_timestamp_ms = entry.largest_timestamp();
            tail.max_timestamp_offset = entry.last_offset;
        }
        if tail.bytes_since_index_entry > self.index_interval {
            self.offsets.push(OffsetEntry { relative: self.relative(entry.last_offset), position: position as i32 });
            self.times.push_if_risen(tail.max_timestamp_ms, self.relative(tail.max_timestamp_offset))?;
            tail.bytes_since_index_entry = 0;
        }
        tail.bytes_since_index_entry += entry.size;
        Ok(())
    }

    /// Begins recovery: indexes forgotten, to be built again by [`Segment::recover_entry`].
    pub fn begin_recovery(&self) -> io::Result<()> {
        self.reset_indexes(&mut self.tail.lock());
        self.txns.reset()
    }

    /// Notes a batch that recovery found sound.
    pub fn recover_entry(&self, position: u64, entry: &Entry) -> io::Result<()> {
        self.note(&mut self.tail.lock(), position, entry)
    }

    /// Cuts the file to the batches found sound.
    pub fn end_recovery(&self, sound_len: u64, next_offset: Offset) -> io::Result<()> {
        self.cut(sound_len, next_offset)
    }

    fn reset_indexes(&self, tail: &mut Tail) {
        self.offsets.reset();
        self.times.reset();
        *tail = Tail { writable: true, ..Tail::new(self.base) };
    }

    fn cut(&self, len: u64, next_offset: Offset) -> io::Result<()> {
        let file = self.log.get()?;
        if file.len()? != len {
            file.set_len(len)?;
        }
        *self.recent.lock() = Recent::new(Some((next_offset, len)));
        self.len.store(len, Ordering::Release);
        Ok(())
    }

    /// Removes every batch that reaches `to` or beyond.
    pub fn truncate(&self, to: Offset) -> io::Result<()> {
        let Some(found) = self.locate(to)? else { return Ok(()) };
        let mut tail = self.tail.lock();
        self.make_writable(&mut tail)?;
        let relative = to - self.base;
        self.offsets.truncate(|entry| i64::from(entry.relative) < relative)?;
        self.times.truncate(|entry| i64::from(entry.relative) < relative)?;
        self.txns.truncate(to)?;
        self.cut(found.position, to)?;
        if found.position == 0 {
            self.reset_indexes(&mut tail);
        } else {
            // Not the true maximum when it lies behind the last entry, but never past the cut: find it again from there.
            let from = self.times.last()?;
            tail.max_timestamp_ms = from.map_or(-1, |last| last.timestamp_ms);
            tail.max_timestamp_offset = self.base + from.map_or(0, |last| i64::from(last.relative));
            let start = self.offsets.position_at_or_before(from.map_or(0, |last| i64::from(last.relative)))?;
            let file = self.log.get()?;
            let mut heads = HeadScanner::new(file.as_ref(), start, found.position);
            while let Some((_, entry)) = heads.next_entry()? {
                if entry.largest_timestamp() > tail.max_timestamp_ms {
                    tail.max_timestamp_ms = entry.largest_timestamp();
                    tail.max_timestamp_offset = entry.last_offset;
                }
            }
            tail.bytes_since_index_entry = 0;
        }
        Ok(())
    }

    /// As [`Segment::locate`], when that takes no look at index or file.
    pub fn located_recently(&self, target: Offset) -> Option<Option<Located>> {
        self.recent.lock().locate(target)
    }

    /// The first batch that reaches `target` or beyond; `None` when every batch lies below.
    pub fn locate(&self, target: Offset) -> io::Result<Option<Located>> {
        if let Some(found) = self.located_recently(target) {
            return Ok(found);
        }
        let len = self.len();
        self.with_sane_indexes(|| {
            let start = self.offsets.position_at_or_before(target - self.base)?;
            match self.locate_from(start, len, target) {
                Err(e) if e.kind() == io::ErrorKind::InvalidData && start > 0 => {
                    Err(self.offsets.insane(format!("a position {start} where no batch begins")))
                }
                other => other,
            }
        })
    }

    /// Base offset of the batch that holds `offset`; `None` when no batch reaches so far.
    pub fn batch_start(&self, offset: Offset) -> io::Result<Option<Offset>> {
        let Some(found) = self.locate(offset)? else { return Ok(None) };
        let file = self.log.get()?;
        let head = HeadScanner::new(file.as_ref(), found.position, self.len()).next_entry()?;
        // Of a wrapper of magic 0 or 1 only the last offset is known.
        Ok(head.map(|(_, entry)| if entry.magic == 2 { entry.base_offset.min(offset) } else { offset }))
    }

    fn locate_from(&self, start: u64, len: u64, target: Offset) -> io::Result<Option<Located>> {
        let file = self.log.get()?;
        let mut heads = HeadScanner::new(file.as_ref(), start, len);
        let mut first = true;
        while let Some((position, entry)) = heads.next_entry()? {
            if first && start > 0 && entry.base_offset > target && entry.magic == 2 {
                return Err(self.damaged(position));
            }
            first = false;
            if entry.last_offset >= target {
                return Ok(Some(Located { position, size: entry.size }));
            }
        }
        if heads.position() < len { Err(self.damaged(heads.position())) } else { Ok(None) }
    }

    fn damaged(&self, position: u64) -> io::Error {
        io::Error::new(
            io::ErrorKind::InvalidData,
            format!("no batch at position {position} of {}", self.log.path().display()),
        )
    }

    /// Whether the index files are there and can belong to this log.
    fn sane(&self) -> io::Result<()> {
        self.offsets.check(self.len())?;
        self.times.check()
    }

    /// Runs `look`; when an index proves missing or damaged, builds both again from the log and runs it once more.
    fn with_sane_indexes<T>(&self, look: impl Fn() -> io::Result<T>) -> io::Result<T> {
        self.with_indexes(|| self.sane(), look)
    }

    /// The same for one who needs no more than `check` looks at.
    fn with_indexes<T>(&self, check: impl Fn() -> io::Result<()>, look: impl Fn() -> io::Result<T>) -> io::Result<T> {
        match check().and_then(|()| look()) {
            Err(e) if is_insane(&e) => {
                let tail = self.tail.lock();
                // The indexes of a segment that is written to are this process's own.
                if !tail.writable && !self.log.is_deleted() {
                    self.rebuild_indexes(e)?;
                }
                drop(tail);
                look()
            }
            other => other,
        }
    }

    /// Builds offset and time index from the batch heads, because of `why`.
    fn rebuild_indexes(&self, why: io::Error) -> io::Result<()> {
        if !is_insane(&why) {
            return Err(why);
        }
        tracing::warn!("rebuilding the indexes of {}: {why}", self.log.path().display());
        let file = self.log.get()?;
        let len = self.len();
        let mut tail = Tail::new(self.base);
        self.offsets.reset();
        self.times.reset();
        let mut heads = HeadScanner::new(file.as_ref(), 0, len);
        while let Some((position, entry)) = heads.next_entry()? {
            self.note(&mut tail, position, &entry)?;
        }
        self.times.push_if_risen(tail.max_timestamp_ms, self.relative(tail.max_timestamp_offset))?;
        self.offsets.seal()?;
        self.times.seal()
    }

    /// Refuses index files that a crash left behind damaged, and builds them again.
    pub fn check_indexes(&self) -> io::Result<()> {
        self.with_sane_indexes(|| Ok(()))
    }

    /// Offset behind the last batch.
    pub fn next_offset(&self) -> io::Result<Offset> {
        let len = self.len();
        if len == 0 {
            return Ok(self.base);
        }
        let next = match len <= WALKED_WHOLE {
            true => self.end_from(0)?,
            false => self.with_indexes(
                || self.offsets.check(len),
                || self.end_from(self.offsets.last()?.map_or(0, |last| last.position.max(0) as u64)),
            )?,
        }?;
        *self.recent.lock() = Recent::new(Some((next, len)));
        Ok(next)
    }

    /// The offset behind the last batch, found by walking from the one at `start`, or what damage is in the way. When
    /// there is none at `start`, whoever said so is to blame.
    fn end_from(&self, start: u64) -> io::Result<io::Result<Offset>> {
        let (file, len) = (self.log.get()?, self.len());
        let mut heads = HeadScanner::new(file.as_ref(), start, len);
        let mut next: Option<Offset> = None;
        while let Some((position, entry)) = heads.next_entry()? {
            let begins = if entry.magic == 2 { entry.base_offset } else { entry.last_offset };
            if begins < next.unwrap_or(self.base) || !self.can_hold(entry.last_offset) {
                return Ok(Err(self.damaged(position)));
            }
            next = Some(entry.last_offset + 1);
        }
        match next {
            None => Err(self.damaged(start)),
            Some(_) if heads.position() < len => Ok(Err(self.damaged(heads.position()))),
            Some(next) => Ok(Ok(next)),
        }
    }

    /// Offset of the first index entry at or past a position.
    pub fn offset_at_or_after_position(&self, position: u64) -> io::Result<Option<Offset>> {
        self.with_sane_indexes(|| {
            Ok(self.offsets.first_at_or_after(position)?.map(|entry| self.base + i64::from(entry.relative)))
        })
    }

    /// Writes the indexes and cuts a preallocated file: what a Kafka expects of a segment nobody writes to. Whether there
    /// was anything to write.
    pub fn write_indexes(&self) -> io::Result<bool> {
        let mut tail = self.tail.lock();
        if !tail.writable {
            // Nothing was written since the files were.
            return Ok(false);
        }
        self.make_writable(&mut tail)?;
        let last = self.relative(tail.max_timestamp_offset);
        self.times.push_if_risen(tail.max_timestamp_ms, last)?;
        let file = self.file_to_write()?;
        if file.len()? != self.len() {
            file.set_len(self.len())?;
        }
        self.offsets.write()?;
        self.times.write()?;
        Ok(true)
    }

    /// [`Segment::write_indexes`] for good: no batch comes any more.
    pub fn seal(&self) -> io::Result<()> {
        self.write_indexes()?;
        let mut tail = self.tail.lock();
        self.offsets.seal()?;
        self.times.seal()?;
        // A cut of the log may make this the active one again: its indexes are then read back.
        tail.writable = false;
        drop(tail);
        self.recent.lock().forget();
        Ok(())
    }

    /// fsyncs the log, and with `indexes` the index files.
    pub fn sync(&self, indexes: bool) -> io::Result<()> {
        match self.is_empty() {
            true => self.log.sync_if_there()?,
            false => self.log.get()?.sync()?,
        }
        if indexes {
            self.sync_indexes()?;
        }
        if !self.txns.all()?.is_empty() {
            self.txns.sync()?;
        }
        Ok(())
    }

    pub fn sync_indexes(&self) -> io::Result<()> {
        self.offsets.sync()?;
        self.times.sync()
    }

    fn files(&self) -> [&Arc<LazyFile>; 4] {
        [&self.log, self.offsets.file(), self.times.file(), self.txns.file()]
    }

    /// First half of deletion: every file gets its `.deleted` name, the producer snapshot at the base too.
    pub fn rename_to_deleted(&self) -> io::Result<()> {
        self.rename(Suffix::Deleted)?;
        let snapshot = self.home.path().join(file_name(self.base, "snapshot"));
        match self.home.disk.rename(&snapshot, &super::atomic_file::with_suffix(&snapshot, DELETED)) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
            _ => Ok(()),
        }
    }

    /// Gives its own files names with another suffix. Nobody opens them meanwhile.
    pub fn rename(&self, suffix: Suffix) -> io::Result<()> {
        self.files().iter().try_for_each(|file| file.rename(suffix))
    }

    /// When the file counts as last written, for retention of records without timestamps, ms since the epoch.
    pub fn set_modified_ms(&self, ms: i64) -> io::Result<()> {
        self.home.disk.set_modified_ms(&self.log.path(), ms)
    }

    /// Second half: the files are gone.
    pub fn remove(&self) -> io::Result<()> {
        self.files().iter().try_for_each(|file| file.remove())?;
        let snapshot = self.home.path().join(file_name(self.base, "snapshot"));
        super::atomic_file::remove_if_there(
            self.home.disk.as_ref(),
            &super::atomic_file::with_suffix(&snapshot, DELETED),
        )
    }

    /// Lets go of the descriptors.
    pub fn close(&self) {
        self.files().iter().for_each(|file| file.close());
    }
}

fn is_insane(e: &io::Error) -> bool {
    matches!(e.kind(), io::ErrorKind::InvalidData | io::ErrorKind::NotFound | io::ErrorKind::UnexpectedEof)
}
