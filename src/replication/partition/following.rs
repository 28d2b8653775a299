//! The follower's side of a partition: what its leader sends goes into the log, in the role of the epoch it was asked in.
//!
//! The role is held shared meanwhile: once a change of role is through, nothing of the epoch before can follow it.

use super::Partition;
use crate::replication::follower::{FollowerLog, Held, Step};
use crate::storage::log::{AppendError, Log};
use crate::types::{LeaderEpoch, Offset};

/// Why a [`Step`] was not taken.
#[derive(Debug, thiserror::Error)]
pub enum NotTaken {
    /// The partition leads, is stopped, or follows in another epoch.
    #[error("no longer followed in this epoch")]
    NotFollowing,
    /// What the leader sent does not continue the log or is damaged; nothing was changed.
    #[error(transparent)]
    Refused(AppendError),
    /// The log directory is offline.
    #[error("the log directory is offline")]
    Storage,
}

impl FollowerLog for Log {
    fn held(&self) -> Held {
        let offsets = self.offsets();
        Held {
            log_start: offsets.log_start,
            high_watermark: offsets.high_watermark,
            log_end: offsets.log_end,
            last_epoch: self.latest_epoch().unwrap_or(LeaderEpoch::NONE),
        }
    }

    fn end_offset_for_epoch(&self, epoch: LeaderEpoch) -> Option<(LeaderEpoch, Offset)> {
        Log::end_offset_for_epoch(self, epoch)
    }
}

impl Partition {
    /// Does what a follower of `epoch` decided. `records` are those a [`Step::Take`] is about, as the leader sent them.
    ///
    /// Returns what [`Partition::durable`] must be waited for before the leader is told that they are here:
    /// `flush.messages` counts on every replica.
    pub fn follow(&self, epoch: LeaderEpoch, step: Step, records: &[u8]) -> Result<Option<Offset>, NotTaken> {
        let log = self.online_log().map_err(|_| NotTaken::Storage)?;
        let role = self.role();
        if !role.follows_in(epoch) {
            return Err(NotTaken::NotFollowing);
        }
        match step {
            Step::Nothing => Ok(None),
            Step::Take { high_watermark, log_start } => self.take(log, records, high_watermark, log_start),
            Step::Truncate(to) => {
                let before = log.offsets();
                self.cut(to, log.truncate_to(to))?;
                if to < before.high_watermark {
                    tracing::warn!(
                        partition = %self.tp, to = to.0, high_watermark = before.high_watermark.0,
                        "records below the high watermark were cut: an unclean election, or a replica that lost some"
                    );
                }
                Ok(None)
            }
            Step::RestartAt(at) => {
                tracing::warn!(
                    partition = %self.tp, at = at.0, log_end = log.offsets().log_end.0,
                    "the leader no longer has what this replica lacks: it begins again at the leader's log start"
                );
                self.cut(at, log.truncate_fully_and_start_at(at))?;
                Ok(None)
            }
        }
    }

    fn take(
        &self,
        log: &Log,
        records: &[u8],
        leader_mark: Offset,
        leader_start: Offset,
    ) -> Result<Option<Offset>, NotTaken> {
        let before = log.offsets();
        let now_ms = self.around.clock.wall_ms();
        let mut owed = None;
        if !records.is_empty() {
            log.append_as_follower(records, now_ms).map_err(|error| match error {
                AppendError::Storage { .. } => {
                    self.go_offline();
                    NotTaken::Storage
                }
                refused => NotTaken::Refused(refused),
            })?;
            let end = log.offsets().log_end;
            if log.config().flush_messages <= 1 || log.needs_flush(now_ms) {
                self.flush_to(end);
                owed = self.group_commit.owes(end).then_some(end);
            }
        }
        // What was known to be committed stays so: a leader that was elected a moment ago may know less.
        let mark = leader_mark.max(before.high_watermark);
        let moved = mark > before.high_watermark && log.set_high_watermark(mark) > before.high_watermark;
        if leader_start > before.log_start {
            log.raise_log_start(leader_start);
        }
        match moved {
            true => self.fetches.wake_all(),
            false if !records.is_empty() => self.fetches.wake_appended(),
            false => {}
        }
        Ok(owed)
    }

    fn cut(&self, to: Offset, outcome: std::io::Result<()>) -> Result<(), NotTaken> {
        if let Err(error) = outcome {
            tracing::error!(partition = %self.tp, to = to.0, %error, "truncation failed, directory taken as failed");
            self.go_offline();
            return Err(NotTaken::Storage);
        }
        if let Ok(log) = self.online_log() {
            self.group_commit.truncated(log.offsets().log_end);
        }
        self.fetches.wake_all();
        Ok(())
    }
}
