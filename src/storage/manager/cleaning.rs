//! Which log is cleaned next, by whom and how fast.
//!
//! Whoever calls [`LogManager::clean_dirtiest`] is a cleaner; several may at once, each on another log. A log that is being
//! moved between directories is left alone, and one in which damage was met, which is said once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use tokio::sync::Notify;

use super::{Gone, LogManager};
use crate::config::CleanerConfig;
use crate::storage::cleaner::pass::{Cleaned, Means, Pace, PassError};
use crate::storage::cleaner::range::{Candidate, Facts, SegmentFacts, Wishes, dirtiest};
use crate::storage::cleaner::throttle::Throttle;
use crate::storage::log::Log;
use crate::types::Offset;

/// A smaller limit than a byte a second is none, and a rest ends to look whether the limit is still the same.
const SLOWEST: f64 = 1.0;
const LONGEST_REST_MS: i64 = 10_000;

/// What cleaners share.
#[derive(Debug, Default)]
pub(super) struct Cleaning {
    /// Held while a log is chosen.
    choosing: Mutex<()>,
    throttle: Mutex<Throttle>,
    stopped: AtomicBool,
    /// Ends the rests of those who went too fast.
    resting: Mutex<()>,
    woken: Condvar,
    /// Told when the configuration changes.
    changed: Notify,
}

/// What a cleaner found to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CleanOutcome {
    Cleaned,
    /// It began, and did not come to an end.
    GivenUp,
    NothingToDo,
}

/// A cleaner at work on a log.
struct AtWork<'a> {
    manager: &'a LogManager,
    log: &'a Arc<Log>,
}

impl Drop for AtWork<'_> {
    fn drop(&mut self) {
        self.log.cleaner.end();
    }
}

impl Pace for AtWork<'_> {
    fn spent(&self, bytes: usize) {
        let (cleaning, around) = (&self.manager.cleaning, &self.manager.around);
        let rate = self.manager.config.load().cleaner.io_max_bytes_per_second.max(SLOWEST);
        let rest_ms = cleaning.throttle.lock().spend(bytes, rate, around.clock.monotonic_ms());
        if let Ok(rest_ms @ 1..) = u64::try_from(rest_ms.min(LONGEST_REST_MS)) {
            let mut resting = cleaning.resting.lock();
            if !cleaning.stopped.load(Ordering::Acquire) {
                cleaning.woken.wait_for(&mut resting, Duration::from_millis(rest_ms));
            }
        }
    }

    fn is_wanted(&self) -> bool {
        !self.manager.cleaning.stopped.load(Ordering::Acquire)
            && self.log.config().cleanup_compact
            && !self.manager.is_being_moved(&self.log.tp)
    }
}

impl LogManager {
    /// Cleans the log that needs it most, if one does; then lets go of old segments of compacted logs, as retention asks.
    /// Blocks for as long as that takes.
    pub fn clean_dirtiest(&self) -> CleanOutcome {
        let outcome = match self.choose_dirtiest() {
            Some((log, candidate)) => {
                let work = AtWork { manager: self, log: &log };
                self.clean(&work, &candidate)
            }
            None => CleanOutcome::NothingToDo,
        };
        let wall_ms = self.around.clock.wall_ms();
        for log in self.compacted() {
            if log.cleaner.begin() {
                let work = AtWork { manager: self, log: &log };
                if work.is_wanted() {
                    self.retain(&log, wall_ms);
                }
            }
        }
        outcome
    }

    /// As it is now.
    pub fn cleaner_config(&self) -> CleanerConfig {
        self.config.load().cleaner.clone()
    }

    /// Completes when the configuration has changed.
    pub async fn cleaner_config_is_changed(&self) {
        self.cleaning.changed.notified().await;
    }

    pub(super) fn tell_cleaners(&self) {
        self.cleaning.changed.notify_waiters();
    }

    /// Passes under way end soon, and no other begins.
    pub fn stop_cleaning(&self) {
        let _resting = self.cleaning.resting.lock();
        self.cleaning.stopped.store(true, Ordering::Release);
        self.cleaning.woken.notify_all();
    }

    fn compacted(&self) -> Vec<Arc<Log>> {
        let wanted = |log: &&Arc<Log>| log.config().cleanup_compact && log.is_online() && !log.cleaner.is_uncleanable();
        self.logs.read().values().filter(wanted).cloned().collect()
    }

    /// The one that needs it most; its mark is set.
    fn choose_dirtiest(&self) -> Option<(Arc<Log>, Candidate)> {
        let _choosing = self.cleaning.choosing.lock();
        if self.cleaning.stopped.load(Ordering::Acquire) {
            return None;
        }
        let now_ms = self.around.clock.wall_ms();
        let mut candidates = Vec::new();
        for log in self.compacted() {
            if self.is_being_moved(&log.tp) || log.cleaner.is_under_way() {
                continue;
            }
            let wishes = Wishes::of(&log.config());
            match facts(&log, &wishes) {
                Ok(facts) => candidates.push((log, facts.candidate(&wishes, now_ms), wishes)),
                Err(error) => give_up_on(&log, &error),
            }
        }
        for (log, candidate, _) in candidates.iter().filter(|(_, candidate, _)| candidate.checkpoint_is_wrong) {
            let first_dirty = candidate.range.first_dirty;
            if !log.config().cleanup_delete {
                tracing::warn!("{} is cleaned from {first_dirty} on: its checkpoint names no offset of it", log.tp);
            }
            self.note(log, Some(first_dirty));
        }
        let (log, candidate) = dirtiest(candidates)?;
        log.cleaner.begin().then_some((log, candidate))
    }

    fn clean(&self, work: &AtWork<'_>, candidate: &Candidate) -> CleanOutcome {
        let log = work.log;
        let config = self.config.load().cleaner.clone();
        let threads = config.threads.max(1);
        let means = Means {
            map_bytes: usize::try_from(config.dedupe_buffer_bytes / i64::from(threads)).unwrap_or(0),
            load_factor: config.load_factor,
            buffer_bytes: usize::try_from(config.io_buffer_bytes / threads / 2).unwrap_or(0),
            secret: (self.around.random.next_u64(), self.around.random.next_u64()),
        };
        let begun_ms = self.around.clock.monotonic_ms();
        let mut gone = Vec::new();
        let truncations = log.writer.lock().truncations;
        let cleaned = log.clean(candidate.range, &means, self.around.clock.wall_ms(), work, &mut gone);
        if !gone.is_empty() {
            self.remove_later(&log.log_dir(), log.config().file_delete_delay_ms, Gone::Segments(gone));
        }
        match cleaned {
            Ok(cleaned) => {
                let took_ms = self.around.clock.monotonic_ms() - begun_ms;
                report(log, candidate, &cleaned, took_ms);
                let _cleaning = log.cleaning.lock();
                // A cut has lowered what the checkpoint said, and what comes there now is dirty.
                if log.writer.lock().truncations == truncations {
                    self.note(log, Some(cleaned.end));
                }
                CleanOutcome::Cleaned
            }
            Err(PassError::GivenUp) => CleanOutcome::GivenUp,
            Err(PassError::Io(error)) => {
                give_up_on(log, &error);
                CleanOutcome::GivenUp
            }
        }
    }

    fn note(&self, log: &Log, at: Option<Offset>) {
        let dir = log.log_dir();
        if let Err(error) = dir.checkpoints().cleaned.set(&log.tp, at) {
            dir.fail(&error, &format!("{} cannot be written", dir.checkpoints().cleaned.path().display()));
        }
    }
}

fn report(log: &Log, candidate: &Candidate, cleaned: &Cleaned, took_ms: i64) {
    tracing::info!(
        partition = %log.tp,
        from = %candidate.range.first_dirty,
        to = %cleaned.end,
        keys = cleaned.keys,
        records_kept = cleaned.records_kept,
        "cleaned: {} bytes became {} in {took_ms} ms",
        cleaned.bytes_read,
        cleaned.bytes_written
    );
}

/// A disk that fails is offline; what else is in the way is in the log and stays there.
fn give_up_on(log: &Log, error: &std::io::Error) {
    use std::io::ErrorKind::{InvalidData, NotFound, UnexpectedEof};
    if !log.is_online() {
        return;
    }
    if !matches!(error.kind(), InvalidData | NotFound | UnexpectedEof) {
        log.log_dir().fail(error, &format!("cleaning {}", log.tp));
        return;
    }
    log.cleaner.set_uncleanable();
    tracing::error!("{} is not cleaned any more, and grows: {error}", log.tp);
}

/// What the choice asks of a log. Timestamps only where a rule needs them: they are read from files.
fn facts(log: &Log, wishes: &Wishes) -> std::io::Result<Facts> {
    let checkpoint = log.log_dir().checkpoints().cleaned.get(&log.tp);
    let view = log.view.load_full();
    let offsets = log.offsets();
    let first_dirty = checkpoint.unwrap_or(Offset::ZERO);
    let mut segments = Vec::with_capacity(view.segments.len());
    for (at, segment) in view.segments.iter().enumerate() {
        let next = view.segments.get(at + 1).map(|next| next.base());
        let is_dirty = next.is_some_and(|next| next > first_dirty);
        let largest = is_dirty && wishes.ask_for_largest_timestamps();
        let first = is_dirty && wishes.ask_for_first_timestamps();
        segments.push(SegmentFacts {
            base: segment.base(),
            bytes: segment.len(),
            // Without timestamps, or without a record that has one: the file's age.
            largest_timestamp_ms: if largest { segment.retention_timestamp()? } else { -1 },
            first_timestamp_ms: if first { segment.first_timestamp()?.unwrap_or(-1) } else { -1 },
        });
    }
    Ok(Facts {
        log_start: offsets.log_start,
        log_end: offsets.log_end,
        last_stable: offsets.last_stable,
        checkpoint,
        segments,
    })
}

#[cfg(test)]
mod tests;
