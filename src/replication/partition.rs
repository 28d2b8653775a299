//! One partition on this broker: its log, its role, its in-sync replicas.
//!
//! ```text
//! append ── role (read lock) ── log ── high watermark ── waiters: produce, parked fetches
//! read   ── role (read lock) ── log view up to high watermark, last stable offset or log end
//! change of role (write lock): no append of the old role can follow it
//! ```
//! The role's lock is held shared by appends and reads and alone by a change of role, which holds it for no disk
//! (`role_changes`); the log orders appends itself. The high watermark has a lock of its own, so that of two moves the
//! later wins.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::{Mutex, RwLock, RwLockReadGuard};
use tokio::sync::Notify;

use super::flush::{FlushQueue, GroupCommit};
use super::role::{FollowerFetch, Leading, NotInCharge, Role};
use super::table::Surroundings;
use super::waiters::{Moves, OffsetWaiters, Parked, ParkedFetches};
use crate::config::TopicConfig;
use crate::storage::log::{
    AbortedTransaction, AppendError, AppendInfo, AppendParams, Checked, FileSlice, Log, LogOffsets, ReadError,
    TimestampOffset, VerificationGuard,
};
use crate::types::{Acks, BrokerId, IsolationLevel, LeaderEpoch, Offset, TopicId, TopicPartition};
use crate::wire::error_code::ErrorCode;

/// Who reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reader {
    Consumer(IsolationLevel),
    /// A follower with its id and broker epoch (-1 unknown).
    Replica {
        id: BrokerId,
        broker_epoch: i64,
    },
    /// Replica id -2: reads to the log end without being a replica.
    Debugging,
}

/// One partition of a fetch request.
#[derive(Clone, Copy, Debug)]
pub struct PartitionFetch {
    pub reader: Reader,
    pub offset: Offset,
    /// [`LeaderEpoch::NONE`] skips the check.
    pub current_leader_epoch: LeaderEpoch,
    /// KIP-595's divergence check (v12+); [`LeaderEpoch::NONE`] skips it.
    pub last_fetched_epoch: LeaderEpoch,
    /// Follower's log start, v5+; -1 unknown.
    pub log_start_offset: Offset,
    pub max_bytes: usize,
    pub min_one_batch: bool,
    /// Consumers of v11+ may read any replica.
    pub only_leader: bool,
}

/// What was read.
#[derive(Clone, Debug)]
pub struct PartitionRead {
    /// From before the read, for [`Partition::park`].
    pub moves: Moves,
    pub offsets: LogOffsets,
    pub slice: Option<FileSlice>,
    /// The slice is a part of the first batch: it did not fit `max_bytes` and `min_one_batch` was not asked for.
    pub first_batch_incomplete: bool,
    /// `Some` for read_committed.
    pub aborted: Option<Vec<AbortedTransaction>>,
    pub diverging: Option<(LeaderEpoch, Offset)>,
    /// The replica that should be read instead.
    pub elsewhere: Option<BrokerId>,
}

impl PartitionRead {
    fn nothing(moves: Moves, offsets: LogOffsets) -> PartitionRead {
        PartitionRead {
            moves,
            offsets,
            slice: None,
            first_batch_incomplete: false,
            aborted: None,
            diverging: None,
            elsewhere: None,
        }
    }
}

/// An append the leader made.
#[derive(Clone, Copy, Debug)]
pub struct LeaderAppend {
    pub info: AppendInfo,
    /// Wait with [`Partition::committed`] until the high watermark is at least this. `None` when there is nothing to
    /// wait for: acks is not all, or the append is committed already.
    pub committed_at: Option<Offset>,
    /// Acks=1 with `flush.messages` reached: wait with [`Partition::durable`] until an fsync covers this.
    pub durable_at: Option<Offset>,
}

/// Why a wait for the high watermark ended without it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotCommitted {
    NotLeader,
    NotEnoughReplicasAfterAppend,
    Storage,
}

impl NotCommitted {
    /// What Produce answers.
    pub fn code(self) -> ErrorCode {
        match self {
            NotCommitted::NotLeader => ErrorCode::NotLeaderOrFollower,
            NotCommitted::NotEnoughReplicasAfterAppend => ErrorCode::NotEnoughReplicasAfterAppend,
            NotCommitted::Storage => ErrorCode::KafkaStorageError,
        }
    }
}

/// One partition on this broker.
#[derive(Debug)]
pub struct Partition {
    me: Weak<Partition>,
    tp: TopicPartition,
    topic_id: TopicId,
    around: Arc<Surroundings>,
    /// `None` when its directory was offline from the start.
    log: Option<Arc<Log>>,
    /// The log's directory failed; once set it stays.
    offline: AtomicBool,
    role: RwLock<Role>,
    /// A change of role is over.
    settled: Notify,
    /// Held while the high watermark is computed and set.
    advancing: Mutex<()>,
    group_commit: GroupCommit,
    /// Of the directory the log was in at first: a log that moves keeps its place among the fsyncs.
    flushes: Option<Arc<FlushQueue>>,
    committed: OffsetWaiters,
    durable: OffsetWaiters,
    deleted: OffsetWaiters,
    fetches: ParkedFetches,
}

impl Partition {
    /// With no log: every access answers KAFKA_STORAGE_ERROR.
    pub(super) fn new(
        tp: TopicPartition,
        topic_id: TopicId,
        around: Arc<Surroundings>,
        log: Option<Arc<Log>>,
    ) -> Arc<Partition> {
        let log_end = log.as_ref().map_or(Offset::ZERO, |log| log.offsets().log_end);
        let flushes = log.as_ref().map(|log| around.flush_queue(&log.dir()));
        Arc::new_cyclic(|me| Partition {
            me: me.clone(),
            tp,
            topic_id,
            around,
            offline: AtomicBool::new(log.is_none()),
            log,
            role: RwLock::new(Role::unknown()),
            settled: Notify::new(),
            advancing: Mutex::new(()),
            group_commit: GroupCommit::new(log_end),
            flushes,
            committed: OffsetWaiters::default(),
            durable: OffsetWaiters::default(),
            deleted: OffsetWaiters::default(),
            fetches: ParkedFetches::default(),
        })
    }

    pub fn topic_partition(&self) -> &TopicPartition {
        &self.tp
    }
    pub fn topic_id(&self) -> TopicId {
        self.topic_id
    }
    /// The log; `KafkaStorageError` when its directory is offline.
    pub fn log(&self) -> Result<Arc<Log>, ErrorCode> {
        self.online_log().cloned()
    }
    pub fn is_leader(&self) -> bool {
        self.role().leading.is_some()
    }
    /// Whom the controller named; [`BrokerId::NONE`] when nobody.
    pub fn leader(&self) -> BrokerId {
        self.role().leader
    }
    pub fn leader_epoch(&self) -> LeaderEpoch {
        self.role().leader_epoch
    }
    /// The committed ISR; empty on a follower.
    pub fn isr(&self) -> Vec<BrokerId> {
        self.role().leading.as_ref().map_or_else(Vec::new, |leading| leading.isr())
    }
    /// Assignment order.
    pub fn replicas(&self) -> Vec<BrokerId> {
        self.role().replicas.clone()
    }
    /// KAFKA_STORAGE_ERROR, FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH, NOT_LEADER_OR_FOLLOWER: the first that holds.
    pub fn check(&self, current_leader_epoch: LeaderEpoch, only_leader: bool) -> Result<(), ErrorCode> {
        self.online_log()?;
        self.role().check(current_leader_epoch, only_leader)
    }

    /// Appends a client's (or coordinator's) records and moves the high watermark as far as it can go at once.
    /// The partition's own leader epoch is stamped, whatever `params` says.
    ///
    /// Refused before anything is appended: KAFKA_STORAGE_ERROR, NOT_LEADER_OR_FOLLOWER, while the next leader epoch
    /// begins [`AppendError::Changing`] (wait with [`Partition::settled`]), and for acks=all NOT_ENOUGH_REPLICAS while
    /// the committed ISR is below `min.insync.replicas`; then what the log refuses.
    pub fn append_to_leader(
        &self,
        records: &mut [u8],
        acks: Acks,
        params: AppendParams,
    ) -> Result<LeaderAppend, AppendError> {
        self.append(acks, params, |log, params| log.append_as_leader(records, params))
    }

    /// What can take long of [`Partition::append_to_leader`], holding nothing: neither an append nor a change of role waits
    /// for it. Only for records that were refused there as [`AppendError::Lengthy`].
    pub fn check_records(&self, records: &mut [u8], params: AppendParams) -> Result<Checked, AppendError> {
        let log = self.online_log().map_err(|code| refused(code, "the log directory is offline", Offset::NONE))?;
        log.check(records, params)
    }

    /// The rest of it, with all that is to be refused before.
    pub fn append_checked(
        &self,
        records: &mut [u8],
        checked: Checked,
        acks: Acks,
        params: AppendParams,
    ) -> Result<LeaderAppend, AppendError> {
        self.append(acks, params, |log, params| log.append_checked(records, checked, params))
    }

    #[inline]
    fn append(
        &self,
        acks: Acks,
        params: AppendParams,
        append: impl FnOnce(&Log, AppendParams) -> Result<AppendInfo, AppendError>,
    ) -> Result<LeaderAppend, AppendError> {
        let log = self.online_log().map_err(|code| refused(code, "the log directory is offline", Offset::NONE))?;
        let role = self.role();
        let leading = role.in_charge().map_err(|why| match why {
            NotInCharge::NotLeading => {
                refused(ErrorCode::NotLeaderOrFollower, "this broker does not lead", Offset::NONE)
            }
            NotInCharge::Changing => AppendError::Changing,
        })?;
        let config = log.config();
        let (in_sync, required) = (leading.in_sync(), role.effective_min_isr(config.min_insync_replicas));
        if acks == Acks::All && in_sync < required {
            let message = format!("{in_sync} replicas are in sync, {required} are required");
            return Err(refused(ErrorCode::NotEnoughReplicas, message, log.offsets().log_start));
        }
        let params = AppendParams { leader_epoch: role.leader_epoch, ..params };
        let info = append(log, params).inspect_err(|error| {
            if matches!(error, AppendError::Storage { .. }) {
                self.go_offline();
            }
        })?;
        let end = info.last_offset + 1;
        let flush = !info.duplicate && (config.flush_messages <= 1 || log.needs_flush(params.now_ms));
        if flush {
            self.flush_to(end);
        }
        let reached = self.advance(&role, log, &config);
        if !reached.moved {
            self.fetches.wake_appended();
        }
        Ok(LeaderAppend {
            info,
            committed_at: (acks == Acks::All && (reached.high_watermark < end || self.group_commit.owes(end)))
                .then_some(end),
            durable_at: (acks == Acks::Leader && self.group_commit.owes(end)).then_some(end),
        })
    }

    /// A producer's first batch of a transaction here is to be verified: the guard with which it is appended then, `None` when
    /// the transaction is open here already.
    pub fn begin_verification(
        &self,
        producer_id: i64,
        epoch: i16,
        sequence: i32,
        now_ms: i64,
    ) -> Result<Option<VerificationGuard>, ErrorCode> {
        let log = self.online_log()?;
        match self.role().leading.as_ref().filter(|leading| !leading.is_superseded()) {
            Some(_) => Ok(log.begin_verification(producer_id, epoch, sequence, now_ms)),
            None => Err(ErrorCode::NotLeaderOrFollower),
        }
    }

    /// Completes when the high watermark is at least `offset` (after the fsync that flush.messages asks for),
    /// or leadership is lost. The min ISR is checked once more then (NOT_ENOUGH_REPLICAS_AFTER_APPEND).
    pub async fn committed(&self, offset: Offset) -> Result<(), NotCommitted> {
        self.durable(offset).await?;
        let waiter = self.committed.register(offset);
        // Looked at after registering: a move in between finds either the waiter or this look.
        let reached = {
            let role = self.role();
            if role.leading.as_ref().is_none_or(Leading::is_superseded) {
                return Err(NotCommitted::NotLeader);
            }
            let log = self.online_log().map_err(|_| NotCommitted::Storage)?;
            log.offsets().high_watermark >= offset
        };
        if !reached {
            waiter.await?;
        }
        let role = self.role();
        let log = self.online_log().map_err(|_| NotCommitted::Storage)?;
        match &role.leading {
            None => Err(NotCommitted::NotLeader),
            Some(leading) if leading.at_most_in_sync() < role.effective_min_isr(log.config().min_insync_replicas) => {
                Err(NotCommitted::NotEnoughReplicasAfterAppend)
            }
            Some(_) => Ok(()),
        }
    }

    /// Completes when no fsync that `flush.messages` asked for is owed below `offset`.
    pub async fn durable(&self, offset: Offset) -> Result<(), NotCommitted> {
        if !self.group_commit.owes(offset) {
            return Ok(());
        }
        let waiter = self.durable.register(offset);
        if self.online_log().is_err() {
            return Err(NotCommitted::Storage);
        }
        if !self.group_commit.owes(offset) {
            return Ok(());
        }
        waiter.await
    }

    /// Reads for `fetch.reader`: consumers to the high watermark or last stable offset, replicas to the log end.
    ///
    /// First failing check wins: KAFKA_STORAGE_ERROR, FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH,
    /// NOT_LEADER_OR_FOLLOWER, a replica id that is not assigned (UNKNOWN_LEADER_EPOCH when an epoch was given, else
    /// NOT_LEADER_OR_FOLLOWER), diverging epoch (no error), OFFSET_OUT_OF_RANGE outside [log start, log end].
    pub fn read(&self, fetch: PartitionFetch) -> Result<PartitionRead, ErrorCode> {
        // Before anything is looked at: what changes from here on counts as a move.
        let moves = self.fetches.moves();
        let log = self.online_log()?;
        let role = self.role();
        if let Err(code) = role.check(fetch.current_leader_epoch, fetch.only_leader) {
            if let (ErrorCode::UnknownLeaderEpoch, Reader::Replica { id, .. }) = (code, fetch.reader)
                && role.leading.is_some()
                && role.replicas.contains(&id)
            {
                self.doubt();
            }
            return Err(code);
        }
        if let (Reader::Replica { id, .. }, Some(_)) = (fetch.reader, &role.leading)
            && (id == self.around.broker || !role.replicas.contains(&id))
        {
            return Err(match fetch.current_leader_epoch {
                LeaderEpoch::NONE => ErrorCode::NotLeaderOrFollower,
                _ => ErrorCode::UnknownLeaderEpoch,
            });
        }
        // Taken before the data: what is read is at least as new as what the answer says about it.
        let offsets = log.offsets();
        if fetch.last_fetched_epoch != LeaderEpoch::NONE {
            if fetch.offset < offsets.log_start {
                return Err(ErrorCode::OffsetOutOfRange);
            }
            let Some((epoch, end)) = log.end_offset_for_epoch(fetch.last_fetched_epoch) else {
                return Err(ErrorCode::OffsetOutOfRange);
            };
            if epoch < fetch.last_fetched_epoch || end < fetch.offset {
                let diverging = Some((epoch, end));
                return Ok(PartitionRead { diverging, ..PartitionRead::nothing(moves, offsets) });
            }
        }
        if fetch.offset < offsets.log_start || fetch.offset > offsets.log_end {
            return Err(ErrorCode::OffsetOutOfRange);
        }
        let upper = readable(&offsets, fetch.reader);
        let read_committed = fetch.reader == Reader::Consumer(IsolationLevel::ReadCommitted);
        if fetch.offset >= upper {
            return Ok(PartitionRead {
                aborted: read_committed.then(Vec::new),
                ..PartitionRead::nothing(moves, offsets)
            });
        }
        let read = log
            .read(fetch.offset, upper, fetch.max_bytes, fetch.min_one_batch)
            .map_err(|error| self.read_failed(error))?;
        let aborted = match read_committed {
            true => Some(log.aborted_transactions(fetch.offset, &read).map_err(|error| self.read_failed(error))?),
            false => None,
        };
        let first_batch_incomplete = read.first_batch_larger_than_limit;
        Ok(PartitionRead {
            slice: read.slice,
            first_batch_incomplete,
            aborted,
            ..PartitionRead::nothing(moves, offsets)
        })
    }

    /// Notes how far a follower is, from a fetch that `read` served with `read` (not one that diverged, and only the
    /// first time a request is looked at, not when it is looked at again after a wait). Moves the high watermark.
    pub fn record_follower_fetch(&self, fetch: &PartitionFetch, read: &PartitionRead) -> Result<(), ErrorCode> {
        let Reader::Replica { id, broker_epoch } = fetch.reader else { return Ok(()) };
        if read.diverging.is_some() {
            return Ok(());
        }
        let log = self.online_log()?;
        let role = self.role();
        let leading = role.leading.as_ref().ok_or(ErrorCode::NotLeaderOrFollower)?;
        let log_start_rose = leading.record(&FollowerFetch {
            id,
            broker_epoch,
            offset: fetch.offset,
            log_start: fetch.log_start_offset,
            leader_end: read.offsets.log_end,
            now_ms: self.around.clock.monotonic_ms(),
        })?;
        self.advance(&role, log, &log.config());
        if log_start_rose {
            self.deleted.passed(self.low_watermark(leading, log));
        }
        if let Some(proposal) = self.joining(leading, log, id) {
            self.propose(proposal);
        }
        Ok(())
    }

    /// Wakes `parked` when something beyond what `reader` saw may be readable, for as long as it lives. `place` is this
    /// partition's in the fetch, `seen` the [`PartitionRead::moves`] of what it read: what moved since wakes it at once.
    pub fn park(&self, parked: &Arc<Parked>, place: usize, reader: Reader, seen: Moves) {
        self.fetches.park(parked, place, reader, seen);
    }

    /// Fetches parked, those that ended since the last wake included.
    #[cfg(test)]
    pub fn parked(&self) -> usize {
        self.fetches.len()
    }

    /// What `reader` may see: high watermark, last stable offset, or log end.
    /// A consumer of a leader that does not know yet how far its predecessor committed gets OFFSET_NOT_AVAILABLE
    /// (KIP-207).
    pub fn upper_bound(&self, reader: Reader) -> Result<Offset, ErrorCode> {
        let log = self.online_log()?;
        let offsets = log.offsets();
        self.knows_committed(reader, &offsets)?;
        Ok(readable(&offsets, reader))
    }
    /// First record at or after `timestamp_ms` that `reader` may see.
    pub fn offset_for_timestamp(
        &self,
        timestamp_ms: i64,
        reader: Reader,
    ) -> Result<Option<TimestampOffset>, ErrorCode> {
        let log = self.online_log()?;
        let offsets = log.offsets();
        let found = log
            .offset_for_timestamp(timestamp_ms, readable(&offsets, reader))
            .map_err(|error| self.read_failed(error))?;
        if found.is_none() {
            // It may be there, beyond what this leader knows to be committed.
            self.knows_committed(reader, &offsets)?;
        }
        Ok(found)
    }
    /// OffsetForLeaderEpoch: the largest epoch not above `epoch` and where it ends; `None` when undefined.
    pub fn end_offset_for_epoch(&self, epoch: LeaderEpoch) -> Result<Option<(LeaderEpoch, Offset)>, ErrorCode> {
        Ok(self.online_log()?.end_offset_for_epoch(epoch))
    }
    /// Whether its log lies in this log directory.
    pub(super) fn lies_in(&self, dir: &Path) -> bool {
        self.log.as_ref().is_some_and(|log| log.dir() == dir)
    }

    /// The directory failed.
    pub fn go_offline(&self) {
        if !self.offline.swap(true, Ordering::AcqRel) {
            self.stop_waiting(NotCommitted::Storage);
        }
    }

    fn stop_waiting(&self, why: NotCommitted) {
        self.committed.fail(why);
        self.durable.fail(why);
        self.deleted.fail(why);
        self.fetches.wake_all();
    }

    /// The role, which stays as long as the guard lives. Waits for nothing that lasts: a change of role that waits for an
    /// append, which waits for its disk, keeps nobody else out.
    fn role(&self) -> RwLockReadGuard<'_, Role> {
        self.role.read_recursive()
    }

    fn online_log(&self) -> Result<&Arc<Log>, ErrorCode> {
        match &self.log {
            Some(log) if log.is_online() && !self.offline.load(Ordering::Acquire) => Ok(log),
            _ => Err(ErrorCode::KafkaStorageError),
        }
    }

    fn knows_committed(&self, reader: Reader, offsets: &LogOffsets) -> Result<(), ErrorCode> {
        let role = self.role();
        match (&role.leading, reader) {
            (Some(leading), Reader::Consumer(_)) if offsets.high_watermark < leading.epoch_start => {
                Err(ErrorCode::OffsetNotAvailable)
            }
            _ => Ok(()),
        }
    }

    /// Moves the high watermark as far as the replicas allow and wakes whom that concerns.
    fn advance(&self, role: &Role, log: &Log, config: &TopicConfig) -> Reached {
        let Some(leading) = &role.leading else {
            return Reached { high_watermark: log.offsets().high_watermark, moved: false };
        };
        let reached = {
            let _later_move_wins = self.advancing.lock();
            let offsets = log.offsets();
            // With flush.messages=1 nothing is shown or acknowledged that a power cut could still take.
            let local_end = match config.flush_messages <= 1 {
                true => offsets.log_end.min(self.group_commit.durable()),
                false => offsets.log_end,
            };
            let to = leading.high_watermark(
                offsets.high_watermark,
                local_end,
                role.effective_min_isr(config.min_insync_replicas),
                self.around.clock.monotonic_ms(),
                self.around.replica_lag_time_max_ms,
                |id, epoch| self.around.may_join(id, epoch),
            );
            let moved = to > offsets.high_watermark;
            if moved {
                log.set_high_watermark(to);
            }
            Reached { high_watermark: to, moved }
        };
        if reached.moved {
            self.committed.passed(reached.high_watermark);
            self.fetches.wake_all();
        }
        reached
    }

    /// Has everything below `end` fsynced, together with what arrives until that begins.
    fn flush_to(&self, end: Offset) {
        if self.group_commit.want(end)
            && let Some(flushes) = &self.flushes
        {
            flushes.add(self.me.clone());
        }
    }

    /// fsyncs the log. True when more was asked for while it ran.
    pub(super) fn flush_once(&self) -> bool {
        let Ok(log) = self.online_log() else {
            self.group_commit.failed();
            return false;
        };
        let end = log.offsets().log_end;
        if let Err(error) = log.flush() {
            tracing::error!(partition = %self.tp, %error, "fsync failed, directory taken as failed");
            self.group_commit.failed();
            self.go_offline();
            return false;
        }
        let more = self.group_commit.flushed(end);
        self.durable.passed(end);
        self.advance(&self.role(), log, &log.config());
        more
    }

    fn read_failed(&self, error: ReadError) -> ErrorCode {
        match error {
            ReadError::OutOfRange { .. } => ErrorCode::OffsetOutOfRange,
            ReadError::Storage { dir, source } => {
                tracing::error!(partition = %self.tp, dir = %dir.display(), %source, "read failed");
                ErrorCode::KafkaStorageError
            }
            ReadError::Damaged { dir, source } => {
                tracing::error!(partition = %self.tp, dir = %dir.display(), %source, "damaged records");
                ErrorCode::CorruptMessage
            }
        }
    }
}

/// Where a look at the high watermark left it.
struct Reached {
    high_watermark: Offset,
    moved: bool,
}

/// First offset `reader` may not see.
fn readable(offsets: &LogOffsets, reader: Reader) -> Offset {
    match reader {
        Reader::Consumer(IsolationLevel::ReadUncommitted) => offsets.high_watermark,
        Reader::Consumer(IsolationLevel::ReadCommitted) => offsets.last_stable,
        Reader::Replica { .. } | Reader::Debugging => offsets.log_end,
    }
}

fn refused(code: ErrorCode, message: impl Into<String>, log_start_offset: Offset) -> AppendError {
    AppendError::Refused {
        code,
        message: message.into(),
        record_errors: Vec::new(),
        tell_client: false,
        log_start_offset,
    }
}

mod deletion;
mod following;
mod membership;
mod nearest;
mod role_changes;
mod superseded;
mod throttling;
pub use deletion::Deleted;
pub use following::NotTaken;
pub use nearest::Place;

#[cfg(test)]
mod tests;
