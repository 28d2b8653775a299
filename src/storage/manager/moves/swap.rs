//! How a copy takes its log's place.

use std::io;
use std::sync::atomic::Ordering;

use super::super::{Gone, LogManager};
use crate::storage::log::{Log, Writer};
use crate::storage::log_dir::LogDir;
use crate::storage::partition_dir;
use crate::storage::producer_snapshot;
use crate::types::TopicPartition;

impl LogManager {
    /// Puts the copy in the log's place. Appends wait for its end, reads do not. The lock of changes is held.
    pub(super) fn swap(&self, tp: &TopicPartition, log: &Log, future: &Log, buffer: &mut Vec<u8>) -> io::Result<()> {
        let (from, to) = (log.log_dir(), future.log_dir());
        let noted = note(tp, log, future, &to);
        noted.inspect_err(|error| to.fail(error, &format!("the checkpoints cannot tell of {tp}")))?;
        let _cleaning = log.cleaning.lock();
        let _flushing = log.flushing.lock();
        let mut writer = log.writer.lock();
        log.online()?;
        while log.log_end() != future.log_end() {
            self.copy(log, future, buffer)?;
        }
        future.raise_log_start(log.log_start());
        // A log whose start fell back to an older checkpoint has records that were deleted for good.
        log.start_at_least(&mut writer, future.log_start());
        future.flush()?;
        let mut copied = future.writer.lock();
        let kept = keep_beside_records(log, future, &writer, &mut copied);
        kept.inspect_err(|error| to.fail(error, &format!("{tp} cannot be put there")))?;
        let disk = self.around.disk.as_ref();
        let (old, new) = (log.home(), future.home());
        let (serving, copying) = (old.path(), new.path());
        let removed = from.path().join(partition_dir::delete_name(tp, self.around.random.uuid()));
        old.rename_dir(removed.clone()).and_then(|()| disk.sync_dir(from.path())).inspect_err(|error| {
            from.fail(error, &format!("{tp} cannot leave it"));
        })?;
        let renamed = new.rename_dir(to.path().join(tp.to_string())).and_then(|()| disk.sync_dir(to.path()));
        if let Err(error) = renamed {
            to.fail(&error, &format!("{tp} cannot be put there"));
            // The log serves on where it was, unless the copy cannot be told apart from it any more.
            let renamed_back = if new.path() == copying { Ok(()) } else { new.rename_dir(copying) };
            let back = renamed_back.and_then(|()| old.rename_dir(serving));
            back.inspect_err(|error| from.fail(error, &format!("{tp} cannot come back to it")))?;
            return Err(error);
        }
        log.view.store(future.view.load_full());
        log.recovery_point.store(future.recovery_point().0, Ordering::Release);
        log.home.store(new);
        log.log_dir.store(to.clone());
        writer.snapshots = std::mem::take(&mut copied.snapshots);
        writer.snapshot_synced = copied.snapshot_synced;
        writer.home_durable = copied.home_durable;
        writer.names_unsynced = copied.names_unsynced;
        // The copy's file knows the epochs that records have, not those that were assigned since.
        writer.epochs_unwritten = true;
        writer.truncations += 1;
        drop(copied);
        drop(writer);
        if let Some(state) = self.state_of(to.path()) {
            state.logs.fetch_add(1, Ordering::Relaxed);
        }
        if let Some(state) = self.state_of(from.path()) {
            state.logs.fetch_sub(1, Ordering::Relaxed);
        }
        self.remove_later(&from, log.config().file_delete_delay_ms, Gone::Directory(removed));
        tracing::info!(partition = %tp, from = %from.path().display(), to = %to.path().display(), "moved");
        Ok(())
    }
}

/// Has the checkpoints of the new directory tell of the log before it is there: until they are written by their timers, a
/// start would bring back what DeleteRecords deleted, and would believe what they say of an earlier stay.
fn note(tp: &TopicPartition, log: &Log, future: &Log, to: &LogDir) -> io::Result<()> {
    let (offsets, checkpoints) = (log.offsets(), to.checkpoints());
    checkpoints.recovery_points.set(tp, Some(future.recovery_point()))?;
    checkpoints.high_watermarks.set(tp, Some(log.checkpointed_high_watermark()))?;
    // Nothing was cleaned while it was copied.
    checkpoints.cleaned.set(tp, log.log_dir().checkpoints().cleaned.get(tp))?;
    let log_start = Some(offsets.log_start).filter(|start| *start > future.first_segment_base());
    checkpoints.log_starts.set(tp, log_start)
}

/// Has the copy keep what is not in its records: where it begins if it has none, and producers whose records are deleted.
/// Those only for an orderly stop, without an fsync: Kafka forgets them here.
fn keep_beside_records(log: &Log, future: &Log, writer: &Writer, copied: &mut Writer) -> io::Result<()> {
    future.settle_home(copied)?;
    let (home, end) = (future.home(), log.log_end());
    producer_snapshot::write(home.disk.as_ref(), &home.path(), end, &writer.producers, false)?;
    copied.snapshots.insert(end);
    copied.snapshot_synced = false;
    Ok(())
}
