//! One partition's log: an append-only sequence of segments with one active at the end.
//!
//! ```text
//! log start ─────── last stable ───── high watermark ───── log end
//!     │ readable by consumers │ … by read_uncommitted │ … by followers │
//! [ sealed segment ][ sealed segment ][ active segment ……]
//! ```
//! One writer at a time under the log's own lock; readers take an immutable [`LogView`] and never that lock.
//! Appends live in `append`, reads in `lookup`, fsync in `flush`, cuts in `truncate`, the oldest segments' end in
//! `retention`, opening in `recovery`.

use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use arc_swap::{ArcSwap, Guard};
use parking_lot::{Mutex, RwLock};

pub use super::append::Checked;
use super::checkpoint;
use super::cleaner;
use super::disk::DiskFile;
use super::epoch_cache::EpochCache;
use super::file_cache::FileHome;
use super::log_dir::LogDir;
pub use super::producer_state::VerificationGuard;
use super::producer_state::{ProducerState, ProducerStates};
use super::segment::Segment;
use super::view::LogView;
use crate::config::TopicConfig;
use crate::types::{LeaderEpoch, Offset, TopicId, TopicPartition};
use crate::wire::error_code::ErrorCode;

/// Who wrote the records; decides what is checked (Kafka's `AppendOrigin`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Produce, with the request's API version (below 3: message sets, converted up).
    Client { produce_version: i16 },
    /// Offset commits and transaction state of our own coordinators.
    Coordinator,
}

/// Whether a batch that begins a transaction here must have been verified (KIP-890), and what shows that it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verification {
    NotAsked,
    Required(Option<VerificationGuard>),
}

/// What an append needs to know beside the bytes.
#[derive(Clone, Copy, Debug)]
pub struct AppendParams {
    pub origin: Origin,
    pub verification: Verification,
    pub leader_epoch: LeaderEpoch,
    /// Wall time.
    pub now_ms: i64,
    /// Bytes that a batch may decompress to before the append is given up as [`AppendError::Lengthy`];
    /// [`DECOMPRESSED_MAX`](crate::wire::compression::DECOMPRESSED_MAX) where nobody waits for the thread.
    pub decompressed_max: usize,
}

/// Where the records went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AppendInfo {
    pub first_offset: Offset,
    /// Inclusive.
    pub last_offset: Offset,
    /// -1 unless the topic has LogAppendTime (or, for a duplicate, the stored batch timestamp).
    pub log_append_time_ms: i64,
    pub log_start_offset: Offset,
    /// The batch is one of the producer's last five: nothing was appended, the offsets are the first time's.
    pub duplicate: bool,
}

/// A record refused, for `record_errors` (Produce v8+, KIP-467).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordError {
    pub batch_index: i32,
    pub message: Option<String>,
}

/// Why nothing was appended.
#[derive(Debug, thiserror::Error)]
pub enum AppendError {
    /// The client's bytes are refused; `code` is what Produce answers.
    #[error("{code}: {message}")]
    Refused {
        code: ErrorCode,
        message: String,
        record_errors: Vec<RecordError>,
        /// `error_message` of Produce v8+ is filled only where Kafka fills it.
        tell_client: bool,
        /// Whether Produce answers the real log start offset (wire-level rule of 3.9) or -1.
        log_start_offset: Offset,
    },
    /// Nothing was looked at to its end, nothing was changed: more than [`AppendParams::decompressed_max`].
    #[error("the records decompress to more than the caller has time for")]
    Lengthy,
    /// Nothing was looked at, nothing was changed: the partition's next leader epoch is about to begin at the log end.
    #[error("the next leader epoch is about to begin")]
    Changing,
    #[error("the log directory {dir} is offline: {source}")]
    Storage { dir: PathBuf, source: Arc<io::Error> },
}

impl AppendError {
    /// What a client is told.
    pub fn code(&self) -> ErrorCode {
        match self {
            AppendError::Refused { code, .. } => *code,
            AppendError::Lengthy => ErrorCode::UnknownServerError,
            AppendError::Changing => ErrorCode::NotLeaderOrFollower,
            AppendError::Storage { .. } => ErrorCode::KafkaStorageError,
        }
    }
}

/// Bytes of one segment file, to be sent as they are.
#[derive(Clone, Debug)]
pub struct FileSlice {
    pub file: Arc<dyn DiskFile>,
    pub position: u64,
    /// Bytes.
    pub len: usize,
}

/// An aborted transaction that overlaps a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AbortedTransaction {
    pub producer_id: i64,
    pub first_offset: Offset,
}

/// What a read found. `slice` begins at the batch that holds the asked offset, may end inside a batch,
/// and is empty at the end of the readable log.
#[derive(Clone, Debug, Default)]
pub struct LogRead {
    pub slice: Option<FileSlice>,
    /// The first batch did not fit the limit and `min_one_batch` was not asked for: the slice holds a part of it.
    pub first_batch_larger_than_limit: bool,
    /// The view it was read from and the index of the slice's segment in it.
    pub(super) found_in: Option<(Arc<LogView>, usize)>,
}

/// Asked beyond either end, the disk failed, or what it holds is damaged.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error("offset {asked} is outside [{log_start}, {log_end}]")]
    OutOfRange { asked: Offset, log_start: Offset, log_end: Offset },
    #[error("the log directory {dir} is offline: {source}")]
    Storage { dir: PathBuf, source: Arc<io::Error> },
    /// What lies there is no batch. The disk answers; the directory stays online.
    #[error("{dir} holds damaged records: {source}")]
    Damaged { dir: PathBuf, source: Arc<io::Error> },
}

/// The offsets of a log at one moment: log start ≤ last stable ≤ high watermark ≤ log end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogOffsets {
    pub log_start: Offset,
    pub last_stable: Offset,
    pub high_watermark: Offset,
    pub log_end: Offset,
}

/// Offset and timestamp of a record found by time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimestampOffset {
    pub timestamp_ms: i64,
    pub offset: Offset,
    pub leader_epoch: LeaderEpoch,
}

/// One partition's log.
#[derive(Debug)]
pub struct Log {
    pub(super) tp: TopicPartition,
    pub(super) topic_id: TopicId,
    /// Another one once the log was moved between directories, as its home.
    pub(super) log_dir: ArcSwap<LogDir>,
    pub(super) home: ArcSwap<FileHome>,
    pub(super) config: ArcSwap<TopicConfig>,
    pub(super) view: ArcSwap<LogView>,
    pub(super) log_start: AtomicI64,
    pub(super) high_watermark: AtomicI64,
    pub(super) log_end: AtomicI64,
    /// The high watermark that the checkpoint named at the start. Beyond the log end: records known to be committed were here
    /// once and are not any more.
    pub(super) promised: AtomicI64,
    /// `i64::MAX` when no transaction is undecided.
    pub(super) first_unstable: AtomicI64,
    /// Everything below is fsynced.
    pub(super) recovery_point: AtomicI64,
    /// When the last fsync was, on the monotonic clock.
    pub(super) last_flush_ms: AtomicI64,
    pub(super) epochs: RwLock<EpochCache>,
    /// Held while their file is written, so that the later writer has the later epochs. Taken before `epochs`.
    pub(super) writing_epochs: Mutex<()>,
    pub(super) writer: Mutex<Writer>,
    /// Held by whoever is in an fsync, so that two never do the same work.
    pub(super) flushing: Mutex<()>,
    /// Held while cleaned segments take the place of others and while segments of the middle or the end go, so that neither
    /// meets the other half way. Taken before `flushing` and `writer`.
    pub(super) cleaning: Mutex<()>,
    pub(super) cleaner: cleaner::Mark,
    /// Deleted or closed: nothing is written any more.
    pub(super) closed: AtomicBool,
}

/// What only the holder of the append lock touches.
#[derive(Debug)]
pub(super) struct Writer {
    pub producers: ProducerStates,
    /// Offsets of the producer snapshots on disk.
    pub snapshots: BTreeSet<Offset>,
    /// The newest of them survives a power loss.
    pub snapshot_synced: bool,
    /// Subtracted from `segment.ms` for the active segment.
    pub roll_jitter_ms: i64,
    /// The directory, its name in the log directory and `partition.metadata` survive a power loss.
    pub home_durable: bool,
    /// Segment files were made since the directory was last synced.
    pub names_unsynced: bool,
    /// An epoch was assigned that `leader-epoch-checkpoint` does not name yet.
    pub epochs_unwritten: bool,
    /// The timer was asked to make the home durable.
    pub home_asked_for: bool,
    /// Counts cuts, so that an fsync that ran meanwhile does not raise the recovery point past one.
    pub truncations: u64,
}

impl Log {
    pub fn topic_partition(&self) -> &TopicPartition {
        &self.tp
    }

    pub fn topic_id(&self) -> TopicId {
        self.topic_id
    }

    /// The log directory it lies in.
    pub fn dir(&self) -> PathBuf {
        self.log_dir.load().path().to_path_buf()
    }

    pub(super) fn log_dir(&self) -> Arc<LogDir> {
        self.log_dir.load_full()
    }

    pub(super) fn home(&self) -> Arc<FileHome> {
        self.home.load_full()
    }

    /// As it is now; to be cloned by who keeps it.
    pub fn config(&self) -> Guard<Arc<TopicConfig>> {
        self.config.load()
    }

    /// Takes effect at once; segments are rolled by it from the next append on.
    pub fn set_config(&self, config: Arc<TopicConfig>) {
        self.config.store(config);
    }

    /// Without the append lock.
    pub fn offsets(&self) -> LogOffsets {
        self.offsets_while(|| {})
    }

    /// With `meanwhile` happening between the two reads whose order matters.
    pub(super) fn offsets_while(&self, meanwhile: impl FnOnce()) -> LogOffsets {
        // The smaller ones first: each only grows, so what is read later is not below.
        let log_start = self.log_start();
        let high_watermark = self.high_watermark();
        meanwhile();
        // After the high watermark: a transaction whose records that covers is noted here before they are in the log.
        // Read before it, one that begins and is replicated in between would be taken for decided.
        let first_unstable = Offset(self.first_unstable.load(Ordering::Acquire));
        let log_end = self.log_end();
        let log_start = log_start.min(log_end);
        let high_watermark = high_watermark.min(log_end).max(log_start);
        let last_stable = first_unstable.min(high_watermark).max(log_start);
        LogOffsets { log_start, last_stable, high_watermark, log_end }
    }

    pub(super) fn log_start(&self) -> Offset {
        Offset(self.log_start.load(Ordering::Acquire))
    }

    pub(super) fn log_end(&self) -> Offset {
        Offset(self.log_end.load(Ordering::Acquire))
    }

    pub(super) fn high_watermark(&self) -> Offset {
        Offset(self.high_watermark.load(Ordering::Acquire))
    }

    /// The high watermark that a checkpoint of before names, while the log ends below it: a disk that lost what it had not
    /// synced, or an older one. Such a log must not lead as long as another may hold what is missing (KAFKA-14139).
    pub fn falls_short_of(&self) -> Option<Offset> {
        let promised = Offset(self.promised.load(Ordering::Acquire));
        (promised > self.log_end()).then_some(promised)
    }

    /// What is missing is given up: an unclean election made another history the partition's.
    pub fn give_up_what_is_missing(&self) {
        self.promised.store(0, Ordering::Release);
    }

    /// The high watermark as the checkpoint is to name it: what a log falls short of stays known until it is here again.
    pub(super) fn checkpointed_high_watermark(&self) -> Offset {
        self.offsets().high_watermark.max(self.falls_short_of().unwrap_or(Offset::ZERO))
    }

    /// Everything below is fsynced.
    pub fn recovery_point(&self) -> Offset {
        Offset(self.recovery_point.load(Ordering::Acquire))
    }

    /// Base of the oldest segment: where the log start is when no DeleteRecords moved it.
    pub fn first_segment_base(&self) -> Offset {
        self.view.load().first_base()
    }

    /// Bytes of all segments.
    pub fn size(&self) -> u64 {
        self.view.load().size()
    }

    /// The largest epoch ≤ `epoch` in the cache with its end offset (replication.md §1); `None` when undefined.
    pub fn end_offset_for_epoch(&self, epoch: LeaderEpoch) -> Option<(LeaderEpoch, Offset)> {
        self.epochs.read().end_offset_for(epoch, self.log_end())
    }

    pub fn latest_epoch(&self) -> Option<LeaderEpoch> {
        self.epochs.read().latest()
    }

    /// Epoch whose records hold `offset`; [`LeaderEpoch::NONE`] when the cache does not reach back to it.
    pub fn epoch_for_offset(&self, offset: Offset) -> LeaderEpoch {
        self.epochs.read().epoch_for(offset).unwrap_or(LeaderEpoch::NONE)
    }

    /// Notes that `epoch` begins at the log end (on becoming leader). The file is written before an fsync makes a record
    /// of that epoch durable, and at an orderly stop if it has records: behind the recovery point a start takes the epochs
    /// from the batches. So a broker that becomes leader of thousands of partitions at once does not wait for thousands
    /// of fsyncs, nor does the first append to each.
    pub fn assign_epoch(&self, epoch: LeaderEpoch) -> io::Result<()> {
        let mut writer = self.writer.lock();
        self.online()?;
        writer.epochs_unwritten |= self.epochs.write().assign(epoch, self.log_end());
        Ok(())
    }

    /// Writes the epochs as they are now, durably.
    pub(super) fn write_epochs(&self) -> io::Result<()> {
        let _later_ones_win = self.writing_epochs.lock();
        let entries = self.epochs.read().entries().to_vec();
        let home = self.home();
        let path = home.path().join(checkpoint::LEADER_EPOCH);
        checkpoint::write_epochs(home.disk.as_ref(), &path, &entries)
    }

    /// Raises (or, after truncation, lowers) the high watermark, kept within [log start, log end]. Returns the new one.
    pub fn set_high_watermark(&self, to: Offset) -> Offset {
        let end = self.log_end();
        let to = to.min(end).max(self.log_start().min(end));
        self.high_watermark.store(to.0, Ordering::Release);
        if self.first_unstable.load(Ordering::Acquire) != i64::MAX {
            let mut writer = self.writer.lock();
            writer.producers.high_watermark_is(to);
            self.publish_first_unstable(&writer.producers);
        }
        to
    }

    pub(super) fn publish_first_unstable(&self, producers: &ProducerStates) {
        let first = producers.first_unstable().map_or(i64::MAX, |offset| offset.0.max(self.log_start().0));
        self.first_unstable.store(first, Ordering::Release);
    }

    /// DeleteRecords: raises the log start; files go at the next retention run. `to` ≤ high watermark is the caller's check.
    pub fn raise_log_start(&self, to: Offset) {
        self.start_at_least(&mut self.writer.lock(), to);
    }

    /// With the append lock held.
    pub(super) fn start_at_least(&self, writer: &mut Writer, to: Offset) {
        let to = to.min(self.log_end());
        if to <= self.log_start() {
            return;
        }
        self.log_start.store(to.0, Ordering::Release);
        if self.high_watermark() < to {
            self.high_watermark.store(to.0, Ordering::Release);
        }
        if self.epochs.write().truncate_from_start(to) {
            self.write_epochs_later();
        }
        self.publish_first_unstable(&writer.producers);
    }

    /// No record has an epoch any more. The file says so before records without one come.
    pub(super) fn forget_epochs(&self) -> io::Result<()> {
        if self.epochs.read().entries().is_empty() {
            return Ok(());
        }
        self.epochs.write().clear();
        self.write_epochs()
    }

    /// After a cut the file may be behind: loading drops what lies outside the log. Failure takes the directory offline.
    pub(super) fn write_epochs_later(&self) {
        let written = self.write_epochs();
        let _ = self.or_offline(written);
    }

    /// What `shown` makes of each producer active on the partition, by its id. Appends wait meanwhile; `None` while one is
    /// under way.
    pub fn producers_as<T>(&self, mut shown: impl FnMut(i64, &ProducerState) -> T) -> Option<Vec<T>> {
        Some(self.writer.try_lock()?.producers.iter().map(|(id, state)| shown(id, state)).collect())
    }

    /// The producers active on the partition, by id.
    pub fn producers(&self) -> Vec<(i64, ProducerState)> {
        self.writer.lock().producers.iter().map(|(id, state)| (id, state.clone())).collect()
    }

    /// Forgets producers idle for `expiration_ms` without an open transaction.
    pub fn expire_producers(&self, now_ms: i64, expiration_ms: i64) {
        self.writer.lock().producers.expire(now_ms, expiration_ms);
    }

    /// Whether its log directory still serves.
    pub fn is_online(&self) -> bool {
        self.log_dir.load().is_online()
    }

    /// Error when the directory is offline or the log is closed.
    pub(super) fn online(&self) -> io::Result<()> {
        if let Some(error) = self.log_dir.load().failure() {
            return Err(io::Error::new(error.kind(), error.to_string()));
        }
        if self.closed.load(Ordering::Acquire) {
            return Err(io::Error::new(io::ErrorKind::NotFound, format!("the log of {} is closed", self.tp)));
        }
        Ok(())
    }

    /// A failure of the disk takes the whole directory offline at once.
    pub(super) fn or_offline<T>(&self, result: io::Result<T>) -> io::Result<T> {
        result.inspect_err(|error| self.log_dir().fail(error, &self.tp.to_string()))
    }

    pub(super) fn append_failed(&self, error: io::Error) -> AppendError {
        AppendError::Storage { dir: self.dir(), source: Arc::new(error) }
    }

    /// Active segment.
    pub(super) fn active(&self) -> io::Result<Arc<Segment>> {
        let view = self.view.load();
        view.active().cloned().ok_or_else(|| io::Error::other(format!("the log of {} has no segment", self.tp)))
    }
}

#[cfg(test)]
mod transcripts;
