//! Opening a log that lies on the disk: what an orderly stop left is believed, what a crash left is checked.
//!
//! ```text
//! list files → finish interrupted file changes → segments → unclean? walk the batches from the recovery point's segment on,
//! cut at the first that is not sound → log start, epochs, producers → one writable segment at the end
//! ```
//! Of a batch that lies below the recovery point only the head is read: it was fsynced before the checkpoint named that
//! point, and a cut lowers the checkpoint before other bytes come. The last of them are checked all the same, since a disk
//! that promised too much forgets what it got last; should they not fit, nothing is trusted. (Kafka reads the segment
//! whole.)
//!
//! Indexes come from the log, never the other way round. Rules: log-format of 3.9, `LogLoader` and `LogSegment.recover`.

use std::collections::BTreeSet;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64};

use arc_swap::ArcSwap;
use parking_lot::{Mutex, RwLock};

use super::append::{control_marker, take_in};
use super::check_window::{Unchecked, Window};
use super::entry::{Entry, HEAD_MAX, HeadScanner, Parsed, read_up_to};
use super::epoch_cache::EpochCache;
use super::file_cache::{FileHome, FileKind, file_name};
use super::log::{Log, Writer};
use super::log_dir::LogDir;
use super::partition_files::PartitionFiles;
use super::producer_state::ProducerStates;
use super::segment::Segment;
use super::view::LogView;
use super::{atomic_file, checkpoint, cleaner, producer_snapshot};
use crate::config::TopicConfig;
use crate::types::{Offset, TopicId, TopicPartition};

/// What opening a log needs to know.
#[derive(Debug)]
pub struct LoadParams {
    pub tp: TopicPartition,
    pub topic_id: TopicId,
    pub config: Arc<TopicConfig>,
    /// The checkpoints' entries for it, if any.
    pub recovery_point: Option<Offset>,
    pub log_start: Option<Offset>,
    pub high_watermark: Option<Offset>,
    pub cleaned: Option<Offset>,
    /// The last stop was orderly.
    pub clean: bool,
    /// `partition.metadata` is there and durable.
    pub home_durable: bool,
    /// The directory was made just now and is empty.
    pub fresh: bool,
    pub producer_id_expiration_ms: i64,
}

/// Bytes of a control batch that are looked at: head and one small record.
const MARKER_BYTES: u64 = 256;

/// Opens (or begins) the log in `home`.
pub fn load(log_dir: &Arc<LogDir>, home: Arc<FileHome>, params: LoadParams) -> io::Result<Log> {
    let now_ms = log_dir.now_ms();
    let mut files = if params.fresh { PartitionFiles::default() } else { PartitionFiles::list(&home)? };
    files.finish_changes(&home)?;
    let interval = params.config.index_interval_bytes.max(0) as u64;
    let mut segments: Vec<Arc<Segment>> = Vec::with_capacity(files.logs.len());
    for (base, len) in &files.logs {
        let has_txn_index = files.has(*base, FileKind::TxnIndex);
        segments.push(Arc::new(Segment::open(&home, *base, *len, has_txn_index, interval, now_ms)));
    }

    let mut loading =
        Loading { home: &home, producers: Writer::new(files.snapshots.clone()), epochs: EpochCache::default() };
    // A Kafka that takes the directory over makes the file it misses.
    let epochs_known = params.fresh || loading.read_epochs(&segments)?;
    let epochs_before = loading.epochs.clone();
    let recovery_point = params.recovery_point.unwrap_or(Offset::ZERO);
    let first_to_check = if params.clean {
        first_damaged(&segments)
    } else {
        let holding = segments.partition_point(|segment| segment.base() <= recovery_point).saturating_sub(1);
        Some(first_damaged(&segments).unwrap_or(holding).min(holding))
    };
    let mut log_end = match segments.last() {
        None => Offset::ZERO,
        Some(_) => match first_to_check {
            Some(first) => {
                // What a cleaner made was synced before its checkpoint named it.
                let gaps_below = recovery_point.max(params.cleaned.unwrap_or(Offset::ZERO));
                loading.recover(&mut segments, first, gaps_below, recovery_point)?
            }
            None => match segments[segments.len() - 1].next_offset() {
                Ok(next) => next,
                // An orderly stop was claimed, and yet: check the one that new records would go to.
                Err(e) if e.kind() == io::ErrorKind::InvalidData => {
                    tracing::warn!("checking the last segment of {}: {e}", params.tp);
                    let last = segments.len() - 1;
                    loading.recover(&mut segments, last, Offset(i64::MAX), Offset::ZERO)?
                }
                Err(e) => return Err(e),
            },
        },
    };
    let recovered = first_to_check.is_some();

    if let Some(start) = params.log_start.filter(|start| *start > log_end) {
        // Everything left is older than what was deleted on purpose.
        for segment in segments.drain(..) {
            segment.rename_to_deleted()?;
            segment.remove()?;
        }
        loading.epochs.clear();
        loading.producers.producers.clear();
        log_end = start;
    }
    if segments.is_empty() {
        // They tell of records that are gone, and others will get their offsets.
        loading.drop_snapshots_past(Offset::NONE)?;
    }
    let first_base = segments.first().map(|segment| segment.base());
    if segments.is_empty() {
        let base = params.log_start.unwrap_or(Offset::ZERO);
        log_end = base;
        let preallocate = params.config.preallocate.then_some(params.config.segment_bytes.max(0) as u64);
        segments.push(Arc::new(Segment::begin(&home, base, preallocate, interval, now_ms)?));
        loading.producers.names_unsynced = preallocate.is_some();
    }
    let log_start = params.log_start.unwrap_or(Offset::ZERO).max(first_base.unwrap_or(log_end)).min(log_end);

    if !recovered && !segments.is_empty() {
        loading.load_producers(&segments, log_end, params.clean)?;
    }
    let mut writer = loading.producers;
    let mut epochs = loading.epochs;
    prepend_epochs(&mut epochs, &segments, log_start..log_end)?;
    epochs.truncate_from_start(log_start);
    epochs.truncate_from_end(log_end);
    let epochs_changed = epochs != epochs_before;

    let high_watermark = params.high_watermark.unwrap_or(Offset::ZERO).max(log_start).min(log_end);
    writer.producers.high_watermark_is(high_watermark);
    writer.producers.expire(now_ms, params.producer_id_expiration_ms);
    writer.home_durable = params.home_durable;
    writer.roll_jitter_ms = log_dir.jitter_ms(&params.config);

    let log = Log {
        tp: params.tp,
        topic_id: params.topic_id,
        log_dir: ArcSwap::new(log_dir.clone()),
        home: ArcSwap::new(home.clone()),
        config: ArcSwap::new(params.config),
        view: ArcSwap::from_pointee(LogView { segments }),
        log_start: AtomicI64::new(log_start.0),
        high_watermark: AtomicI64::new(high_watermark.0),
        log_end: AtomicI64::new(log_end.0),
        promised: AtomicI64::new(params.high_watermark.unwrap_or(Offset::ZERO).0),
        first_unstable: AtomicI64::new(i64::MAX),
        recovery_point: AtomicI64::new(if params.clean { log_end.0 } else { recovery_point.min(log_end).0 }),
        last_flush_ms: AtomicI64::new(log_dir.monotonic_ms()),
        epochs: RwLock::new(epochs),
        writing_epochs: Mutex::new(()),
        writer: Mutex::new(writer),
        flushing: Mutex::new(()),
        cleaning: Mutex::new(()),
        cleaner: cleaner::Mark::default(),
        closed: AtomicBool::new(false),
    };
    let no_epochs = log.epochs.read().entries().is_empty();
    if epochs_changed || (!epochs_known && !no_epochs) {
        log.write_epochs()?;
    }
    {
        let mut writer = log.writer.lock();
        log.publish_first_unstable(&writer.producers);
        if recovered {
            // Without an fsync, which would wait for what others wrote: what a power loss takes of it is made again.
            log.snapshot_producers(&mut writer, log_end, false)?;
        }
    }
    Ok(log)
}

impl Writer {
    fn new(snapshots: BTreeSet<Offset>) -> Writer {
        Writer {
            producers: ProducerStates::default(),
            snapshots,
            snapshot_synced: true,
            roll_jitter_ms: 0,
            home_durable: false,
            names_unsynced: false,
            epochs_unwritten: false,
            home_asked_for: false,
            truncations: 0,
        }
    }

    /// Removes the producer snapshots above `to`.
    pub(super) fn drop_snapshots_past(&mut self, home: &FileHome, to: Offset) -> io::Result<()> {
        for offset in self.snapshots.split_off(&(to + 1)) {
            let path = home.path().join(file_name(offset, "snapshot"));
            atomic_file::remove_if_there(home.disk.as_ref(), &path)?;
        }
        Ok(())
    }
}

/// The first segment whose aborted-transaction index no broker can have written: it is built again with the rest.
fn first_damaged(segments: &[Arc<Segment>]) -> Option<usize> {
    segments.iter().position(|segment| segment.txns.all().is_err())
}

/// A log on its way up.
struct Loading<'a> {
    home: &'a Arc<FileHome>,
    producers: Writer,
    epochs: EpochCache,
}

impl Loading<'_> {
    /// Takes the epochs from their file; a missing or damaged one is made again from the log. False when it must be
    /// written.
    fn read_epochs(&mut self, segments: &[Arc<Segment>]) -> io::Result<bool> {
        let disk = self.home.disk.as_ref();
        let path = self.home.path().join(checkpoint::LEADER_EPOCH);
        match checkpoint::read_epochs(disk, &path) {
            Ok(Some(entries)) => {
                self.epochs = EpochCache::from_entries(entries);
                return Ok(true);
            }
            Ok(None) => {}
            Err(e) if e.kind() == io::ErrorKind::InvalidData => {
                tracing::warn!("reading the leader epochs from the log again: {e}");
            }
            Err(e) => return Err(e),
        }
        for segment in segments.iter().filter(|segment| !segment.is_empty()) {
            let file = segment.log().get()?;
            let mut heads = HeadScanner::new(file.as_ref(), 0, segment.len());
            while let Some((_, entry)) = heads.next_entry()? {
                self.epochs.assign(entry.leader_epoch, entry.base_offset);
            }
        }
        Ok(false)
    }

    /// [`Loading::walk`], once more without trust when what lay below `trusted` did not deserve it.
    fn recover(
        &mut self,
        segments: &mut Vec<Arc<Segment>>,
        first: usize,
        gaps_below: Offset,
        trusted: Offset,
    ) -> io::Result<Offset> {
        if let Some(end) = self.walk(segments, first, gaps_below, trusted)? {
            return Ok(end);
        }
        tracing::warn!("checking {} from its beginning", segments[first].log().path().display());
        let end = self.walk(segments, first, gaps_below, Offset::ZERO)?;
        end.ok_or_else(|| io::Error::other("a walk that trusts nothing was disappointed"))
    }

    /// Walks every batch from segment `first` on, checks those that reach `trusted`; returns the log end, `None` when a
    /// trusted batch proved damaged. What follows the first unsound batch goes; so
    /// does a segment at or past `gaps_below` that does not begin where the one before it ends: a power loss can take
    /// the end of a file and leave the next file, and a log may lose only its end. Compaction leaves no such gap: the last
    /// batch of a segment stays, and a follower's next segment begins where the log ends, unless the gap is wider than a
    /// segment can be, and then all before it was synced first.
    fn walk(
        &mut self,
        segments: &mut Vec<Arc<Segment>>,
        first: usize,
        gaps_below: Offset,
        trusted: Offset,
    ) -> io::Result<Option<Offset>> {
        let base = segments[first].base();
        self.load_producers(segments, base, false)?;
        // From here on the batches tell: the file may be ahead of a cut that the crash undid.
        self.epochs.truncate_from_end(base);
        let mut next = base;
        let mut sound = segments.len();
        for (at, segment) in segments.iter().enumerate().skip(first) {
            let is_wide = segments[..at].last().is_none_or(|before| !before.can_hold(segment.base()));
            if at > first && segment.base() > next && segment.base() > gaps_below && !is_wide {
                tracing::warn!(
                    "dropping {} and what follows: the log before it ends at {next}",
                    segment.log().path().display()
                );
                sound = at;
                break;
            }
            next = next.max(segment.base());
            let before = segment.len();
            segment.begin_recovery()?;
            let Some((len, end)) = self.walk_batches(segment, next, trusted)? else { return Ok(None) };
            segment.end_recovery(len, end)?;
            next = end;
            if len < before {
                tracing::warn!(
                    "cut {} from {before} to {len} bytes, log end {next}: no sound batch follows",
                    segment.log().path().display()
                );
                sound = at + 1;
                break;
            }
            if at + 1 < segments.len() {
                segment.seal()?;
            }
        }
        for segment in segments.drain(sound..) {
            segment.rename_to_deleted()?;
            segment.remove()?;
            self.producers.snapshots.remove(&segment.base());
        }
        self.drop_snapshots_past(next)?;
        Ok(Some(next))
    }

    fn drop_snapshots_past(&mut self, to: Offset) -> io::Result<()> {
        self.producers.drop_snapshots_past(self.home, to)
    }

    /// Walks the batches of a segment, size and offsets, from `trusted` on and shortly before it the CRC too, and takes in
    /// what they say. Returns how many bytes are sound and the offset after them; `None` when a batch below `trusted` has
    /// the wrong CRC.
    fn walk_batches(
        &mut self,
        segment: &Segment,
        mut next: Offset,
        trusted: Offset,
    ) -> io::Result<Option<(u64, Offset)>> {
        let file = segment.log().get()?;
        let len = segment.len();
        let mut position = 0;
        let mut window = Window::new(file.as_ref(), len);
        let mut unchecked = Unchecked::default();
        loop {
            let head = match next < trusted {
                true => window.head_at(position, HEAD_MAX)?,
                false => window.at(position, HEAD_MAX)?,
            };
            let entry = match Entry::parse(head) {
                Parsed::Entry(entry) if entry.size <= len - position => entry,
                _ => break,
            };
            let begins = if entry.magic == 2 { entry.base_offset } else { entry.last_offset };
            if begins < next || !segment.can_hold(entry.last_offset) {
                break;
            }
            if entry.last_offset < trusted {
                unchecked.push(position, entry);
            } else if !unchecked.fit(&mut window)? {
                return Ok(None);
            } else if !window.crc_fits(position, &entry)? {
                break;
            }
            segment.recover_entry(position, &entry)?;
            if self.epochs.latest().is_none_or(|latest| entry.leader_epoch > latest) {
                self.epochs.assign(entry.leader_epoch, entry.base_offset);
            }
            if let Some(batch) = entry.batch {
                let bytes = match batch.is_control() {
                    true => window.at(position, entry.size.min(MARKER_BYTES) as usize)?,
                    false => &[],
                };
                let marker = control_marker(&batch, bytes);
                if let Some(aborted) = take_in(&mut self.producers, &batch, marker) {
                    segment.txns.push(aborted)?;
                }
            }
            next = entry.last_offset + 1;
            position += entry.size;
        }
        Ok(unchecked.fit(&mut window)?.then_some((position, next)))
    }

    /// Producers as of `to`: the newest sound snapshot, then the batches after it.
    fn load_producers(&mut self, segments: &[Arc<Segment>], to: Offset, clean: bool) -> io::Result<()> {
        let (from, producers) = newest_snapshot(self.home, &mut self.producers.snapshots, to)?;
        self.producers.producers = producers;
        let from = match from {
            Some(from) => from,
            // Written by a broker older than producer snapshots: there is nothing to know.
            None if clean => return Ok(()),
            None => Offset::ZERO,
        };
        replay(&mut self.producers, segments, from, to)
    }
}

/// Finds the epochs between the log start and the first known one: the log start moves in the checkpoint later than in
/// the epochs' file, and a crash can bring it back. Where none is known, those of the whole log: a file that names none
/// must not let a lower epoch in behind records that have one.
fn prepend_epochs(epochs: &mut EpochCache, segments: &[Arc<Segment>], log: Range<Offset>) -> io::Result<()> {
    let known = epochs.entries().first().map_or(log.end, |(_, start)| *start);
    if known <= log.start {
        return Ok(());
    }
    let mut earlier = EpochCache::default();
    'segments: for segment in segments.iter().filter(|segment| segment.base() < known && !segment.is_empty()) {
        let file = segment.log().get()?;
        let mut heads = HeadScanner::new(file.as_ref(), 0, segment.len());
        while let Some((_, entry)) = heads.next_entry()? {
            // Records older than epochs have none, nor has what comes before them.
            if entry.magic < 2 || entry.base_offset >= known {
                break 'segments;
            }
            earlier.assign(entry.leader_epoch, entry.base_offset);
        }
    }
    epochs.prepend(earlier);
    Ok(())
}

/// The newest sound snapshot at or below `to`, without which the producers are empty.
fn newest_snapshot(
    home: &FileHome,
    snapshots: &mut BTreeSet<Offset>,
    to: Offset,
) -> io::Result<(Option<Offset>, ProducerStates)> {
    let offsets: Vec<Offset> = snapshots.iter().copied().collect();
    match producer_snapshot::load_newest(home.disk.as_ref(), &home.path(), &offsets, to)? {
        Some((offset, states)) => {
            // Those above it and at or below `to` were damaged and are gone.
            snapshots.retain(|at| *at <= offset || *at > to);
            Ok((Some(offset), states))
        }
        None => {
            snapshots.retain(|at| *at > to);
            Ok((None, ProducerStates::default()))
        }
    }
}

/// Tells the producers' state of every batch in [from, to).
fn replay(writer: &mut Writer, segments: &[Arc<Segment>], from: Offset, to: Offset) -> io::Result<()> {
    if from >= to {
        return Ok(());
    }
    let first = segments.partition_point(|segment| segment.base() <= from).saturating_sub(1);
    for segment in segments.iter().skip(first) {
        if segment.base() >= to {
            break;
        }
        let Some(start) = segment.locate(from)? else { continue };
        let file = segment.log().get()?;
        let mut heads = HeadScanner::new(file.as_ref(), start.position, segment.len());
        while let Some((position, entry)) = heads.next_entry()? {
            if entry.base_offset >= to {
                return Ok(());
            }
            let Some(batch) = entry.batch else { continue };
            let mut bytes = Vec::new();
            if batch.is_control() {
                bytes.resize(entry.size.min(MARKER_BYTES) as usize, 0);
                read_up_to(file.as_ref(), &mut bytes, position)?;
            }
            take_in(writer, &batch, control_marker(&batch, &bytes));
        }
    }
    Ok(())
}

impl Log {
    /// With the append lock held, after a cut: producers as of `to`.
    pub(super) fn rebuild_producers(&self, writer: &mut Writer, to: Offset) -> io::Result<()> {
        let (from, producers) = newest_snapshot(&self.home(), &mut writer.snapshots, to)?;
        writer.producers = producers;
        let view = self.view.load();
        replay(writer, &view.segments, from.unwrap_or(Offset::ZERO), to)?;
        writer.producers.high_watermark_is(self.high_watermark());
        Ok(())
    }
}

#[cfg(test)]
mod tests;
