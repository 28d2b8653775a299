//! What a timer asks for: fsync of what was rolled, `flush.ms`, checkpoints, retention, removals, idle producers.

use std::sync::Arc;

use super::{DirState, Gone, LogManager};
use crate::config::BrokerConfig;
use crate::storage::checkpoint_file::Offsets;
use crate::storage::in_parallel::in_parallel;
use crate::storage::log::Log;
use crate::types::Offset;

/// What a checkpoint file tells of each partition.
#[derive(Clone, Copy)]
enum Kind {
    RecoveryPoint,
    LogStart,
    HighWatermark,
    Cleaned,
}

/// When each task runs next, monotonic milliseconds.
#[derive(Debug)]
pub struct Due {
    high_watermarks: i64,
    recovery_points: i64,
    log_starts: i64,
    retention: i64,
    producers: i64,
}

impl Due {
    pub fn new(config: &BrokerConfig, now_ms: i64) -> Due {
        let initial = now_ms.saturating_add(config.log_initial_task_delay_ms);
        Due {
            high_watermarks: now_ms.saturating_add(config.replica_high_watermark_checkpoint_interval_ms),
            recovery_points: initial,
            log_starts: initial,
            retention: initial,
            producers: now_ms.saturating_add(config.producer_id_expiration_check_interval_ms.into()),
        }
    }
}

/// Whether the time has come; if so the next time is set.
fn reached(due: &mut i64, now_ms: i64, interval_ms: i64) -> bool {
    let reached = *due <= now_ms;
    if reached {
        *due = now_ms.saturating_add(interval_ms.max(1));
    }
    reached
}

/// fsyncs what `flush.ms` asks for; returns how soon to look again at the latest.
fn flush_due(logs: &[Arc<Log>], now_ms: i64) -> i64 {
    let mut soonest = i64::MAX;
    for log in logs {
        let flush_ms = log.config().flush_ms;
        if flush_ms != i64::MAX {
            soonest = soonest.min(flush_ms.max(1));
            if log.flush_is_due(now_ms) {
                let _ = log.flush();
            }
        }
    }
    soonest
}

impl LogManager {
    /// How many log directories there are, offline ones included: each has a timer of its own, so that none waits for
    /// another's disk.
    pub fn directories(&self) -> usize {
        self.dirs.len()
    }

    /// One pass over a log directory, named by its place: of retention, of delayed deletion, of checkpoints and of flush.ms.
    /// Called by the broker's timer, on the pool for what blocks. Returns the milliseconds until something is due again.
    pub fn run_due_tasks(&self, directory: usize) -> i64 {
        let Some(state) = self.dirs.get(directory) else { return i64::MAX };
        let now_ms = self.around.clock.monotonic_ms();
        let mut due = state.due.lock();
        let due = &mut *due;
        self.flush_asked(directory);
        let logs = self.logs_in(state);
        let flush_ms = flush_due(&logs, now_ms);
        let config = self.config.load();
        if reached(&mut due.retention, now_ms, config.log_retention_check_interval_ms) {
            self.run_retention(&logs);
        }
        if reached(&mut due.producers, now_ms, config.producer_id_expiration_check_interval_ms.into()) {
            let wall_ms = self.around.clock.wall_ms();
            for log in &logs {
                log.expire_producers(wall_ms, config.producer_id_expiration_ms);
            }
        }
        for (due, interval_ms, kind) in [
            (&mut due.recovery_points, config.log_flush_offset_checkpoint_interval_ms, Kind::RecoveryPoint),
            (&mut due.log_starts, config.log_flush_start_offset_checkpoint_interval_ms, Kind::LogStart),
            (&mut due.high_watermarks, config.replica_high_watermark_checkpoint_interval_ms, Kind::HighWatermark),
        ] {
            if reached(due, now_ms, interval_ms) && state.dir.is_online() && state.kept.lock().loaded {
                self.checkpoint(state, kind);
            }
        }
        let removal = self.remove_due(state, now_ms);
        let next = [due.high_watermarks, due.recovery_points, due.log_starts, due.retention, due.producers, removal];
        let next = next.into_iter().min().unwrap_or(i64::MAX);
        next.saturating_sub(self.around.clock.monotonic_ms()).clamp(1, flush_ms)
    }

    /// Of every log directory, one after the other.
    #[cfg(test)]
    pub(in crate::storage) fn run_all_due_tasks(&self) {
        (0..self.directories()).for_each(|directory| {
            self.run_due_tasks(directory);
        });
    }

    fn logs_in(&self, state: &DirState) -> Vec<Arc<Log>> {
        self.logs.read().values().filter(|log| Arc::ptr_eq(&log.log_dir(), &state.dir)).cloned().collect()
    }

    /// Completes when an fsync was asked for in a log directory that [`LogManager::flush_asked`] makes.
    pub async fn flush_is_asked(&self, directory: usize) {
        match self.dirs.get(directory) {
            Some(state) => state.dir.flush_is_asked().await,
            None => std::future::pending().await,
        }
    }

    /// fsyncs what rolls left behind and the homes of new logs.
    pub fn flush_asked(&self, directory: usize) {
        let Some(state) = self.dirs.get(directory).filter(|state| state.dir.is_online()) else { return };
        in_parallel(self.around.disk.concurrency(), &state.dir.take_flushes(), |tp| {
            let Some(log) = self.get(tp) else { return };
            let sealed_end = log.view.load().active().map_or(Offset::ZERO, |active| active.base());
            // A failure has taken the directory offline and been reported.
            let _ = log.flush_to(sealed_end);
        });
    }

    fn run_retention(&self, logs: &[Arc<Log>]) {
        let wall_ms = self.around.clock.wall_ms();
        // Cleaners look after what is compacted.
        let cleaned = |log: &Log| self.config.load().cleaner.enable && log.config().cleanup_compact;
        logs.iter().filter(|log| !cleaned(log)).for_each(|log| self.retain(log, wall_ms));
    }

    pub(super) fn retain(&self, log: &Log, wall_ms: i64) {
        match log.apply_retention(wall_ms) {
            Ok(gone) if gone.is_empty() => {}
            Ok(gone) => self.remove_later(&log.log_dir(), log.config().file_delete_delay_ms, Gone::Segments(gone)),
            Err(e) => tracing::warn!("retention of {} ends early: {e}", log.tp),
        }
    }

    /// Removes what is due; returns when the next is.
    fn remove_due(&self, state: &DirState, now_ms: i64) -> i64 {
        let due: Vec<_> = state.removals.lock().extract_if(.., |removal| removal.due_ms <= now_ms).collect();
        for removal in due.iter().filter(|_| state.dir.is_online()) {
            let removed = match &removal.what {
                Gone::Directory(path) => self.around.disk.remove_dir_all(path),
                Gone::Segments(segments) => segments.iter().try_for_each(|segment| segment.remove()),
            };
            match removed {
                Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                    state.dir.fail(&e, "removing deleted files failed")
                }
                _ => {}
            }
        }
        state.removals.lock().iter().map(|removal| removal.due_ms).min().unwrap_or(i64::MAX)
    }

    /// All checkpoint files, now.
    pub(super) fn write_checkpoints(&self, state: &DirState) {
        for kind in [Kind::RecoveryPoint, Kind::LogStart, Kind::HighWatermark, Kind::Cleaned] {
            self.checkpoint(state, kind);
        }
    }

    /// Writes one checkpoint file if it would differ from the last time. Entries of directories left alone stay.
    fn checkpoint(&self, state: &DirState, kind: Kind) {
        let logs = self.logs_in(state);
        let checkpoints = state.dir.checkpoints();
        let file = match kind {
            Kind::RecoveryPoint => &checkpoints.recovery_points,
            Kind::LogStart => &checkpoints.log_starts,
            Kind::HighWatermark => &checkpoints.high_watermarks,
            Kind::Cleaned => &checkpoints.cleaned,
        };
        // Not locked while the disk is waited for: who makes a log elsewhere looks at it. Nothing is ever added.
        let left_alone = state.kept.lock().left_alone.clone();
        let written = file.update(|says| {
            let kept = says.iter().filter(|(tp, _)| left_alone.contains(tp));
            let mut now: Offsets = kept.map(|(tp, at)| (tp.clone(), *at)).collect();
            for log in &logs {
                let offset = match kind {
                    Kind::RecoveryPoint => Some(log.recovery_point()),
                    Kind::LogStart => Some(log.log_start()).filter(|start| *start > log.first_segment_base()),
                    Kind::HighWatermark => Some(log.checkpointed_high_watermark()),
                    // Written by each pass; what is no log's any more goes.
                    Kind::Cleaned => says.get(&log.tp).copied(),
                };
                now.extend(offset.map(|offset| (log.tp.clone(), offset)));
            }
            now
        });
        if let Err(e) = written {
            state.dir.fail(&e, &format!("{} cannot be written", file.path().display()));
        }
    }
}
