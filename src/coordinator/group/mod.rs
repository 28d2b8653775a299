//! Groups of the classic protocol as a value: one partition of `__consumer_offsets` with the groups that live in it.
//!
//! ```text
//! request, timer, outcome of an append ─► Groups ─► answers, appends, the next timer
//!
//! Empty ─join─► PreparingRebalance ─all joined, or time is up─► CompletingRebalance ─leader's sync is written─► Stable
//!   ▲                  ▲──────────────────member comes, goes, or changes its mind──────────┴───────────────────────┘
//!   └── nobody joined ─┘
//! ```
//! Nothing here knows clocks, sockets or logs: times, fresh member ids and what became of an append come in as
//! arguments. A committed offset is seen by readers once its append has succeeded, never before.
//! Rules: Kafka 3.9's `GroupCoordinator`, seen on a live 3.9.1.

mod as_core;
mod desk;
mod member;
mod offsets;
mod rules;
mod state;
mod transactions;
// What is asked of a group.
mod commit;
mod describe;
mod join;
mod leave;
mod sync;
// What happens to groups by themselves.
mod expiry;
mod load;

#[cfg(test)]
mod bad_days;
#[cfg(test)]
mod pool;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

pub use super::cores::{Append, AppendId, Now, RequestId};
pub use as_core::Answer;
pub use commit::{Commit, CommitPartition, Fetched, InTransaction};
pub use describe::{Described, DescribedMember, Listed};
pub use desk::{Effect, Settings};
pub use join::{Join, JoinAnswer, JoinedMember};
pub use leave::Leaving;
pub use load::Loading;
pub use state::State;
pub use sync::{Sync, SyncAnswer};
#[cfg(test)]
pub use testing::settings;

use desk::{Desk, Life, PendingAppend, Timer};
use state::Group;
use transactions::Transactions;

use crate::types::Offset;
use crate::wire::error_code::ErrorCode;

/// Who speaks for which member in which generation.
#[derive(Clone, Debug)]
pub struct Speaker {
    /// -1 = outside of any generation.
    pub generation: i32,
    /// Empty = no member.
    pub member_id: Arc<str>,
    pub group_instance_id: Option<Arc<str>>,
}

/// The groups of one partition of `__consumer_offsets`.
#[derive(Debug)]
pub struct Groups {
    groups: BTreeMap<Arc<str>, Group>,
    transactions: Transactions,
    desk: Desk,
}

impl Groups {
    pub fn new(settings: Settings) -> Groups {
        Groups { groups: BTreeMap::new(), transactions: Transactions::default(), desk: Desk::new(settings) }
    }

    /// What the last calls asked for, in order. Appends are to be made in this order, and each outcome brought back with
    /// [`Groups::appended`].
    pub fn take_effects(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.desk.effects)
    }

    /// Monotonic ms at which [`Groups::tick`] has something to do.
    pub fn next_due_ms(&self) -> Option<i64> {
        self.desk.timers.next_due_ms()
    }

    /// Lets the timers fire that are due.
    pub fn tick(&mut self, now: Now) {
        self.desk.now = now;
        while let Some(timer) = self.desk.timers.fire(now.monotonic_ms) {
            let Some(group) = self.groups.get_mut(timer.group()) else { continue };
            match timer {
                Timer::Session { member, .. } => group.session_fired(&mut self.desk, &member),
                Timer::PendingMember { member, .. } => group.pending_member_fired(&mut self.desk, &member),
                Timer::Phase { phase, .. } => group.phase_fired(&mut self.desk, phase),
            }
        }
    }

    /// The outcome of an append: the offset of its first record, replicated as its `acks` ask, or the log's error.
    pub fn appended(&mut self, now: Now, id: AppendId, outcome: Result<Offset, ErrorCode>) {
        self.desk.now = now;
        match self.desk.appends.remove(&id) {
            None => {}
            Some(PendingAppend::Commit(commit)) => self.commit_appended(commit, outcome),
            Some(PendingAppend::Assignment { life, generation, assignments }) => {
                if let Some(group) = alive(&mut self.groups, &life) {
                    group.assignment_appended(&mut self.desk, generation, assignments, outcome);
                }
            }
            Some(PendingAppend::StaticMember(replaced)) => match alive(&mut self.groups, &replaced.life) {
                Some(group) => group.static_member_appended(&mut self.desk, replaced, outcome),
                None => replaced.refuse(&mut self.desk, ErrorCode::UnknownMemberId),
            },
            Some(PendingAppend::Noted { group, what }) => {
                if let Err(error) = outcome {
                    tracing::warn!(%group, %error, "{what} is not written");
                }
            }
        }
    }

    /// Answers everyone who waits: this partition is not ours any more.
    pub fn resign(mut self) -> Vec<Effect> {
        for group in self.groups.values_mut() {
            group.refuse_waiting(&mut self.desk, ErrorCode::NotCoordinator);
        }
        let appends = std::mem::take(&mut self.desk.appends);
        let mut appends: Vec<_> = appends.into_iter().collect();
        appends.sort_by_key(|(id, _)| *id);
        for (_, append) in appends {
            match append {
                PendingAppend::Commit(commit) => commit.refuse(&mut self.desk, ErrorCode::NotCoordinator),
                PendingAppend::StaticMember(replaced) => replaced.refuse(&mut self.desk, ErrorCode::NotCoordinator),
                PendingAppend::Assignment { .. } | PendingAppend::Noted { .. } => {}
            }
        }
        self.take_effects()
    }

    fn alive(&mut self, life: &Life) -> Option<&mut Group> {
        alive(&mut self.groups, life)
    }

    /// COORDINATOR errors of an append that carries group metadata.
    fn group_error(error: ErrorCode) -> ErrorCode {
        match error {
            ErrorCode::UnknownTopicOrPartition
            | ErrorCode::NotEnoughReplicas
            | ErrorCode::NotEnoughReplicasAfterAppend => ErrorCode::CoordinatorNotAvailable,
            ErrorCode::NotLeaderOrFollower | ErrorCode::KafkaStorageError => ErrorCode::NotCoordinator,
            ErrorCode::RequestTimedOut => ErrorCode::RebalanceInProgress,
            ErrorCode::MessageTooLarge | ErrorCode::RecordListTooLarge | ErrorCode::InvalidFetchSize => {
                ErrorCode::UnknownServerError
            }
            other => other,
        }
    }
}

/// The group in this life; `None` when it was deleted, even if there is another of its name.
fn alive<'a>(groups: &'a mut BTreeMap<Arc<str>, Group>, life: &Life) -> Option<&'a mut Group> {
    groups.get_mut(&life.group).filter(|group| group.life == *life)
}
