//! Appending: as a leader (checked and stamped) or as a follower (the leader's bytes as they are).
//!
//! ```text
//! validate (no lock) → lock → offsets → producer checks → epoch → roll? → one write → indexes, producers → log end
//! ```
//! Nothing is published before the write has succeeded; a write that fails takes the directory offline, and what it
//! left behind the last whole batch is cut at the next start.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use smallvec::SmallVec;

use super::entry::{Entry, entries};
use super::file_cache::file_name;
use super::log::{AppendError, AppendInfo, AppendParams, Log, Origin, VerificationGuard, Writer};
use super::producer_state::{ProducerError, Sequence};
use super::segment::Segment;
use super::txn_index::AbortedTxn;
use super::validator::{self, Context, Refusal, Rule, Validated, Written};
use super::view::LogView;
use super::{atomic_file, producer_snapshot};
use crate::config::TopicConfig;
use crate::types::Offset;
use crate::wire::batch::{Batch, BatchHeader, ControlRecord, Marker, stamp};
use crate::wire::crc32c::crc32c;
use crate::wire::error_code::ErrorCode;

/// Records that [`Log::check`] has found good, where they lie or written anew.
#[derive(Debug)]
pub struct Checked(Option<Validated>);

impl Log {
    /// Checks, stamps (in place) and appends one partition's records of a produce request.
    /// The high watermark does not move: replication does that.
    pub fn append_as_leader(&self, records: &mut [u8], params: AppendParams) -> Result<AppendInfo, AppendError> {
        let config = self.config.load();
        let checked = self.check_under(&config, records, params)?;
        self.append_under(&config, records, checked, params)
    }

    /// The first half of [`Log::append_as_leader`], and all of it that can take long: without a lock, and without a trace in
    /// the log.
    pub fn check(&self, records: &mut [u8], params: AppendParams) -> Result<Checked, AppendError> {
        self.check_under(&self.config.load(), records, params)
    }

    /// The second half. The leader may be one of another epoch by now: that of `params` counts.
    pub fn append_checked(
        &self,
        records: &mut [u8],
        checked: Checked,
        params: AppendParams,
    ) -> Result<AppendInfo, AppendError> {
        self.append_under(&self.config.load(), records, checked, params)
    }

    fn check_under(
        &self,
        config: &TopicConfig,
        records: &mut [u8],
        params: AppendParams,
    ) -> Result<Checked, AppendError> {
        self.online().map_err(|e| self.append_failed(e))?;
        // Checked as if the log were empty, without the lock; the true offset is stamped under it, outside the CRC.
        let context = Context {
            origin: params.origin,
            config,
            next_offset: Offset::ZERO,
            leader_epoch: params.leader_epoch,
            now_ms: params.now_ms,
            decompressed_max: params.decompressed_max,
        };
        validator::validate(records, &context).map(Checked).map_err(|refusal| self.refused(refusal))
    }

    fn append_under(
        &self,
        config: &TopicConfig,
        records: &mut [u8],
        checked: Checked,
        params: AppendParams,
    ) -> Result<AppendInfo, AppendError> {
        let Checked(Some(mut validated)) = checked else {
            return Ok(AppendInfo {
                first_offset: Offset::NONE,
                last_offset: Offset::NONE,
                log_append_time_ms: -1,
                log_start_offset: self.log_start(),
                duplicate: false,
            });
        };
        let mut header = validated.header;
        let bytes = match &mut validated.written {
            Written::InPlace(len) => records.get_mut(..*len).unwrap_or_default(),
            Written::Rewritten(bytes) => bytes,
        };
        if bytes.len() as i64 > i64::from(config.segment_bytes) {
            return Err(AppendError::Refused {
                code: ErrorCode::RecordListTooLarge,
                message: format!(
                    "{} bytes of records are larger than segment.bytes {}",
                    bytes.len(),
                    config.segment_bytes
                ),
                record_errors: Vec::new(),
                tell_client: false,
                log_start_offset: Offset::NONE,
            });
        }

        let mut writer = self.writer.lock();
        self.online().map_err(|e| self.append_failed(e))?;
        if header.leader_epoch != params.leader_epoch {
            header.leader_epoch = params.leader_epoch;
            stamp::set_leader_epoch(bytes, header.leader_epoch);
        }
        let next = self.log_end();
        // A coordinator's batch may have gaps in front; its base is then not the log end.
        header.base_offset += next.0;
        stamp::set_base_offset(bytes, header.base_offset);

        let marker = control_marker(&header, bytes);
        let sequence = match marker {
            Some(marker) => writer
                .producers
                .check_marker(header.producer_id, header.producer_epoch, marker)
                .map(|()| Sequence::Next),
            None => {
                let is_client = matches!(params.origin, Origin::Client { .. });
                writer.producers.check(&header, is_client, params.verification)
            }
        };
        match sequence.map_err(|e| self.refused_producer(e))? {
            Sequence::Duplicate(batch) => Ok(AppendInfo {
                first_offset: batch.first_offset(),
                last_offset: batch.last_offset,
                log_append_time_ms: batch.timestamp_ms,
                log_start_offset: self.log_start(),
                duplicate: true,
            }),
            Sequence::Next => {
                let (heads, first) = ([(0, Entry::from(header))], header.base_offset.max(next));
                let written = self.write(&mut writer, config, bytes, &heads, first, params.now_ms);
                self.or_offline(written).map_err(|e| self.append_failed(e))?;
                Ok(AppendInfo {
                    first_offset: header.base_offset,
                    last_offset: header.last_offset(),
                    log_append_time_ms: validated.log_append_time_ms,
                    log_start_offset: self.log_start(),
                    duplicate: false,
                })
            }
        }
    }

    /// A producer's first batch of a transaction here is to be verified: the guard with which it is appended then. `None` when
    /// its transaction is open here, which the coordinator knows of.
    pub fn begin_verification(
        &self,
        producer_id: i64,
        epoch: i16,
        sequence: i32,
        now_ms: i64,
    ) -> Option<VerificationGuard> {
        self.writer.lock().producers.begin_verification(producer_id, epoch, sequence, now_ms)
    }

    /// Appends a leader's bytes unchanged; offsets must continue the log. Bytes of an unfinished batch at the end are
    /// left out.
    pub fn append_as_follower(&self, records: &[u8], now_ms: i64) -> Result<AppendInfo, AppendError> {
        let mut writer = self.writer.lock();
        self.online().map_err(|e| self.append_failed(e))?;
        let config = self.config.load();
        let end = self.log_end();
        let (mut first, mut last, mut len) = (None, Offset::NONE, 0);
        let mut heads: SmallVec<[(usize, Entry); 1]> = SmallVec::new();
        for (position, entry) in entries(records) {
            let bytes = records.get(position..position + entry.size as usize).unwrap_or_default();
            if !crc_fits(bytes, &entry) {
                return Err(self.refuse(
                    ErrorCode::CorruptMessage,
                    format!("the batch at offset {} does not fit its crc", entry.base_offset),
                ));
            }
            let previous = if first.is_none() { end + -1 } else { last };
            // A wrapper of magic 0 or 1 names its last offset only.
            let begins = if entry.magic == 2 { entry.base_offset } else { entry.last_offset };
            if begins <= previous && !(first.is_none() && end == self.log_start()) {
                return Err(self.refuse(
                    ErrorCode::UnknownServerError,
                    format!("offset {begins} does not continue a log that ends at {}", previous + 1),
                ));
            }
            first.get_or_insert(begins);
            last = entry.last_offset;
            len = position + entry.size as usize;
            heads.push((position, entry));
        }
        let Some(first) = first else {
            return Ok(AppendInfo {
                first_offset: Offset::NONE,
                last_offset: Offset::NONE,
                log_append_time_ms: -1,
                log_start_offset: self.log_start(),
                duplicate: false,
            });
        };
        if first < end {
            // The log is empty and begins inside the leader's first batch (after DeleteRecords): begin with that batch.
            let restarted = self.restart_at(&mut writer, first, now_ms);
            self.or_offline(restarted).map_err(|e| self.append_failed(e))?;
        }
        let records = records.get(..len).unwrap_or_default();
        let written = self.write(&mut writer, &config, records, &heads, first, now_ms);
        self.or_offline(written).map_err(|e| self.append_failed(e))?;
        Ok(AppendInfo {
            first_offset: first,
            last_offset: last,
            log_append_time_ms: -1,
            log_start_offset: self.log_start(),
            duplicate: false,
        })
    }

    /// Writes whole batches whose first offset is `first`, and takes in what they say; `heads` tells where each begins.
    fn write(
        &self,
        writer: &mut Writer,
        config: &TopicConfig,
        bytes: &[u8],
        heads: &[(usize, Entry)],
        first: Offset,
        now_ms: i64,
    ) -> io::Result<()> {
        if !writer.home_durable && !std::mem::replace(&mut writer.home_asked_for, true) {
            self.log_dir().flush_soon(&self.tp);
        }
        let (mut last, mut max_timestamp) = (first, -1);
        for (_, entry) in heads {
            last = entry.last_offset;
            max_timestamp = max_timestamp.max(entry.max_timestamp);
            if entry.magic < 2 {
                self.forget_epochs()?;
            } else if self.epochs.read().latest() != Some(entry.leader_epoch) {
                writer.epochs_unwritten |= self.epochs.write().assign(entry.leader_epoch, entry.base_offset);
            }
        }
        let mut active = self.active()?;
        if self.must_roll(writer, config, &active, bytes.len() as u64, max_timestamp, last, now_ms)? {
            let base = self.next_base(first, last);
            if base > self.log_end() {
                self.sync_before_gap()?;
            }
            active = self.roll(writer, config, base, now_ms)?;
        }
        // The first batch may make the file.
        writer.names_unsynced |= active.is_empty();
        active.append(bytes, heads)?;
        let mut txns = false;
        for (position, entry) in heads {
            let Some(batch) = entry.batch else { continue };
            let bytes = bytes.get(*position..*position + entry.size as usize).unwrap_or_default();
            let marker = control_marker(&batch, bytes);
            txns |= batch.is_transactional();
            if let Some(aborted) = take_in(writer, &batch, marker) {
                active.txns.push(aborted)?;
            }
        }
        if txns {
            self.publish_first_unstable(&writer.producers);
        }
        self.log_end.store(last.0 + 1, Ordering::Release);
        Ok(())
    }

    /// Where a segment for offsets from `first` to `last` begins: at the log end, so that recovery can tell a gap that a
    /// leader's cleaner made from a lost segment; at `first` where offsets do not reach so far.
    fn next_base(&self, first: Offset, last: Offset) -> Offset {
        let end = self.log_end();
        if last - end <= i64::from(i32::MAX) { end } else { first }
    }

    /// Whether the next set belongs into a new segment.
    #[allow(clippy::too_many_arguments)]
    fn must_roll(
        &self,
        writer: &Writer,
        config: &TopicConfig,
        active: &Segment,
        bytes: u64,
        max_timestamp: i64,
        last: Offset,
        now_ms: i64,
    ) -> io::Result<bool> {
        let size = active.len();
        let waited = || -> io::Result<bool> {
            let waited = match active.first_timestamp()? {
                Some(first) if first >= 0 => max_timestamp.saturating_sub(first),
                _ => now_ms.saturating_sub(active.created_ms()),
            };
            Ok(waited > segment_ms(config).saturating_sub(writer.roll_jitter_ms))
        };
        Ok(size > 0 && (size + bytes > config.segment_bytes.max(0) as u64 || waited()?)
            || active.indexes_full(config.segment_index_bytes.max(0) as u64)?
            || !active.can_hold(last))
    }

    /// Seals the active segment and begins a new one at `base` or the log end, whichever is later.
    pub(super) fn roll(
        &self,
        writer: &mut Writer,
        config: &TopicConfig,
        base: Offset,
        now_ms: i64,
    ) -> io::Result<Arc<Segment>> {
        let base = base.max(self.log_end());
        let old = self.active()?;
        let replaced = old.base() == base && old.is_empty();
        if !replaced {
            old.seal()?;
            if self.recovery_point() >= base {
                // Its records are synced already, so that no start builds these indexes again: they must be whole.
                old.sync(true)?;
            }
        }
        let preallocate = config.preallocate.then_some(config.segment_bytes.max(0) as u64);
        let new = Segment::create(&self.home(), base, preallocate, config.index_interval_bytes.max(0) as u64, now_ms)?;
        let new = Arc::new(new);
        writer.names_unsynced = true;
        writer.roll_jitter_ms = self.log_dir().jitter_ms(config);
        if !replaced {
            self.snapshot_producers(writer, base, false)?;
        }
        let mut segments = self.view.load().segments.clone();
        if replaced {
            segments.pop();
        }
        segments.push(new.clone());
        self.view.store(Arc::new(LogView { segments }));
        // fsync of what was sealed is asked for, not waited for.
        self.log_dir().flush_soon(&self.tp);
        Ok(new)
    }

    /// Writes the producers' state as of `offset` (exclusive) unless the newest snapshot says just that. Whether it did.
    /// Where nothing changed it is written all the same: a start reads every batch behind the newest one.
    pub(super) fn snapshot_producers(&self, writer: &mut Writer, offset: Offset, sync: bool) -> io::Result<bool> {
        let as_it_is = !writer.producers.is_dirty() && writer.snapshots.last() == Some(&offset);
        if as_it_is && (writer.snapshot_synced || !sync) {
            return Ok(false);
        }
        let home = self.home();
        producer_snapshot::write(home.disk.as_ref(), &home.path(), offset, &writer.producers, sync)?;
        writer.snapshots.insert(offset);
        writer.snapshot_synced = sync;
        writer.producers.set_clean();
        self.drop_stray_snapshots(writer)?;
        Ok(true)
    }

    /// Keeps the snapshots at segment bases and the newest one.
    fn drop_stray_snapshots(&self, writer: &mut Writer) -> io::Result<()> {
        let view = self.view.load();
        let newest = writer.snapshots.last().copied();
        let stray: Vec<Offset> = writer
            .snapshots
            .iter()
            .copied()
            .filter(|offset| Some(*offset) != newest && !view.segments.iter().any(|segment| segment.base() == *offset))
            .collect();
        for offset in stray {
            let home = self.home();
            let path = home.path().join(file_name(offset, "snapshot"));
            atomic_file::remove_if_there(home.disk.as_ref(), &path)?;
            writer.snapshots.remove(&offset);
        }
        Ok(())
    }

    pub(super) fn refuse(&self, code: ErrorCode, message: String) -> AppendError {
        AppendError::Refused {
            code,
            message,
            record_errors: Vec::new(),
            tell_client: false,
            log_start_offset: self.log_start(),
        }
    }

    fn refused_producer(&self, error: ProducerError) -> AppendError {
        self.refuse(error.code, error.message)
    }

    fn refused(&self, refusal: Refusal) -> AppendError {
        if refusal.rule == Rule::Lengthy {
            return AppendError::Lengthy;
        }
        AppendError::Refused {
            code: refusal.code(),
            tell_client: refusal.rule.tells_client(),
            log_start_offset: if refusal.rule.answers_log_start() { self.log_start() } else { Offset::NONE },
            message: refusal.message,
            record_errors: refusal.record_errors,
        }
    }
}

/// Compacted topics roll early enough for `max.compaction.lag.ms`.
pub(super) fn segment_ms(config: &TopicConfig) -> i64 {
    if config.cleanup_compact { config.segment_ms.min(config.max_compaction_lag_ms) } else { config.segment_ms }
}

/// The end marker that a control batch of a producer holds.
pub(super) fn control_marker(batch: &BatchHeader, bytes: &[u8]) -> Option<Marker> {
    if !batch.is_control() || !batch.has_producer() {
        return None;
    }
    let record = Batch::parse(bytes).ok()?.records().next()?.ok()?;
    match ControlRecord::parse(&record) {
        Ok(ControlRecord::EndTransaction(marker)) => Some(marker),
        _ => None,
    }
}

/// Tells the producers' state of a batch; an aborted transaction is returned, for the index.
pub(super) fn take_in(writer: &mut Writer, batch: &BatchHeader, marker: Option<Marker>) -> Option<AbortedTxn> {
    match marker {
        Some(marker) => {
            let txn = writer.producers.apply_marker(batch, marker)?;
            txn.aborted.then(|| AbortedTxn {
                producer_id: txn.producer_id,
                first_offset: txn.first_offset,
                last_offset: txn.last_offset,
                last_stable_offset: writer.producers.first_open().unwrap_or(txn.last_offset + 1),
            })
        }
        None => {
            if !batch.is_control() {
                writer.producers.apply(batch);
            }
            None
        }
    }
}

/// Whether the whole entry in `bytes` has the CRC it names.
pub(super) fn crc_fits(bytes: &[u8], entry: &Entry) -> bool {
    let covered = bytes.get(entry.crc_start() as usize..).unwrap_or_default();
    match entry.magic {
        2 => crc32c(covered) == entry.crc,
        _ => crc32fast::hash(covered) == entry.crc,
    }
}
