//! EndTxn, and what follows of it: the decision, the markers, the completion.

use std::sync::Arc;

use super::desk::{Answer, Asked, Marking, Pending};
use super::entry::{Entry, NO_EPOCH, Step};
use super::rules::{Rule, holds};
use super::{State, Transactions};
use crate::coordinator::cores::{Effect, Now, RequestId};
use crate::types::TopicPartition;
use crate::wire::error_code::ErrorCode;

/// An EndTxn request.
#[derive(Clone, Debug)]
pub struct End {
    pub request: RequestId,
    pub transactional_id: Arc<str>,
    pub producer_id: i64,
    pub producer_epoch: i16,
    pub commit: bool,
}

impl Transactions {
    /// Answered with [`Answer::Done`] when it is decided, before any marker is written.
    ///
    /// First failing check: an id that is not known, or another producer's (INVALID_PRODUCER_ID_MAPPING), another epoch
    /// (PRODUCER_FENCED), something under way (CONCURRENT_TRANSACTIONS), then by state: an end that was asked for again is
    /// NONE, one that contradicts is INVALID_TXN_STATE, and so is one of nothing.
    pub fn end(&mut self, now: Now, end: End) {
        self.desk.now = now;
        let asked = Asked::Client(end.request);
        let outcome = self.try_end(&end.transactional_id, end.producer_id, end.producer_epoch, end.commit, asked);
        if let Err(error) = outcome {
            self.desk.done(end.request, error);
        }
    }

    /// An end that has been reached already is the error NONE.
    fn try_end(&mut self, id: &str, producer_id: i64, epoch: i16, commit: bool, asked: Asked) -> Result<(), ErrorCode> {
        let now_ms = self.desk.now.wall_ms;
        let entry = self.by_id.get_mut(id).filter(|entry| entry.producer_id == producer_id);
        let entry = entry.ok_or(ErrorCode::InvalidProducerIdMapping)?;
        let by_client = matches!(asked, Asked::Client(_));
        if (by_client && epoch != entry.epoch || epoch < entry.epoch) && holds(Rule::EpochIsChecked) {
            return Err(ErrorCode::ProducerFenced);
        }
        let fencing = entry.pending == Some(State::PrepareEpochFence);
        if entry.pending.is_some() && !fencing && holds(Rule::OneAtATime) {
            return Err(ErrorCode::ConcurrentTransactions);
        }
        match (entry.state, commit) {
            (State::Ongoing, _) => {}
            (State::CompleteCommit, true) | (State::CompleteAbort, false) => return Err(ErrorCode::None),
            (State::PrepareCommit, true) | (State::PrepareAbort, false) => {
                return Err(ErrorCode::ConcurrentTransactions);
            }
            _ => return Err(ErrorCode::InvalidTxnState),
        }
        let fence = fencing && !commit;
        if fence {
            entry.epoch = epoch;
            entry.last_epoch = NO_EPOCH;
        }
        let step = entry.begin_ending(commit, now_ms);
        let id = entry.id.clone();
        if !holds(Rule::MarkersAfterDecision) {
            let marking = marking(entry, self.desk.epoch, commit, entry.partitions.iter().cloned().collect(), false);
            self.desk.effects.push(Effect::Task(marking));
        }
        self.desk.append(&id, step, Pending::Ended { asked, fence });
        Ok(())
    }

    /// Aborts an open transaction and raises the epoch above its producer's.
    pub(super) fn fence(&mut self, id: &str, asked: Asked) -> Result<(), ErrorCode> {
        let entry = self.by_id.get_mut(id).ok_or(ErrorCode::UnknownServerError)?;
        let epoch = entry.begin_fence();
        let epoch = if holds(Rule::FenceRaisesEpoch) { epoch } else { entry.epoch };
        let producer_id = entry.producer_id;
        self.try_end(id, producer_id, epoch, false, asked)
    }

    /// Ends what is open longer than its producer said it would be.
    pub fn abort_timed_out(&mut self, now: Now) {
        self.desk.now = now;
        let is_late = |entry: &&Entry| {
            let due_ms = entry.started_ms.saturating_add(i64::from(entry.timeout_ms));
            entry.pending.is_none() && entry.state == State::Ongoing && due_ms < now.wall_ms
        };
        let mut late: Vec<Arc<str>> = self.by_id.values().filter(is_late).map(|entry| entry.id.clone()).collect();
        late.sort_unstable();
        for id in late {
            match self.fence(&id, Asked::Time) {
                Ok(()) => tracing::info!(transactional_id = &*id, "its transaction ran out of time and is aborted"),
                Err(error) => tracing::warn!(transactional_id = &*id, %error, "it is out of time, and is not aborted"),
            }
        }
    }

    /// The record of a step was appended, or failed.
    pub(super) fn stepped(
        &mut self,
        id: &Arc<str>,
        step: Option<Step>,
        pending: Pending,
        outcome: Result<(), ErrorCode>,
    ) {
        let (Some(step), Some(entry)) = (step, self.by_id.get_mut(id)) else {
            return self.desk.refuse(pending, ErrorCode::NotCoordinator);
        };
        if let Err(error) = outcome {
            return self.not_stepped(id, step, pending, error);
        }
        let producer = (step.producer_id, step.epoch);
        entry.finish(step);
        match pending {
            Pending::Initialized(request) => self.desk.answer(request, Answer::Initialized(Ok(producer))),
            Pending::Added(request) => self.desk.done(request, ErrorCode::None),
            Pending::Ended { asked, .. } => {
                match asked {
                    Asked::Client(request) => self.desk.done(request, ErrorCode::None),
                    // It gets its own epoch when the transaction has ended.
                    Asked::Init(request) => {
                        self.desk.answer(request, Answer::Initialized(Err(ErrorCode::ConcurrentTransactions)));
                    }
                    Asked::Time => {}
                }
                self.complete(id);
            }
            Pending::Completed | Pending::Forgotten(_) => {}
        }
    }

    fn not_stepped(&mut self, id: &Arc<str>, step: Step, pending: Pending, error: ErrorCode) {
        let Some(entry) = self.by_id.get_mut(id) else { return };
        match &pending {
            // The log is another broker's, who completes it.
            Pending::Completed if error == ErrorCode::NotCoordinator => {}
            Pending::Completed => return self.desk.retry(id.clone(), step),
            Pending::Ended { fence: true, .. } => {
                entry.fence_failed = true;
                entry.pending = None;
                tracing::warn!(
                    transactional_id = &**id,
                    %error,
                    "its producer is fenced with epoch {}, and that is not written",
                    step.epoch
                );
            }
            _ => entry.pending = None,
        }
        self.desk.refuse(pending, error);
    }

    /// It is decided: every leader is to know.
    pub(super) fn complete(&mut self, id: &str) {
        let Some(entry) = self.by_id.get_mut(id) else { return };
        let commit = entry.state == State::PrepareCommit;
        entry.pending = Some(if commit { State::CompleteCommit } else { State::CompleteAbort });
        entry.outdone = false;
        let partitions: Vec<TopicPartition> = entry.partitions.iter().cloned().collect();
        if !partitions.is_empty() {
            self.desk.effects.push(Effect::Task(marking(entry, self.desk.epoch, commit, partitions, false)));
        }
        self.complete_if_marked(id);
    }

    fn complete_if_marked(&mut self, id: &str) {
        let now_ms = self.desk.now.wall_ms;
        let Some(entry) = self.by_id.get_mut(id) else { return };
        if !entry.partitions.is_empty() && holds(Rule::CompleteWhenMarked) {
            return;
        }
        let (id, step) = (entry.id.clone(), entry.begin_completing(now_ms));
        self.desk.append(&id, step, Pending::Completed);
    }

    /// What became of the markers of one [`Marking`]: `Ok` also for partitions that are no more.
    ///
    /// INVALID_PRODUCER_EPOCH says that a later epoch has written there, which it can only where this transaction is not open:
    /// that partition wants no marker any more. TRANSACTION_COORDINATOR_FENCED says that another broker coordinates, and this
    /// one stops. Everything else is tried again.
    pub fn marked(&mut self, now: Now, marking_of: &Marking, outcomes: &[(TopicPartition, Result<(), ErrorCode>)]) {
        self.desk.now = now;
        let Some(entry) = self.by_id.get_mut(&marking_of.transactional_id) else { return };
        let is_of_this = (entry.producer_id, entry.epoch) == (marking_of.producer_id, marking_of.producer_epoch);
        if !is_of_this || !entry.state.is_prepared() || entry.outdone {
            return;
        }
        let mut again = Vec::new();
        for (at, outcome) in outcomes {
            match outcome {
                Ok(())
                | Err(
                    ErrorCode::InvalidProducerEpoch
                    | ErrorCode::UnsupportedForMessageFormat
                    | ErrorCode::UnsupportedVersion,
                ) => {
                    entry.partitions.remove(at);
                }
                Err(ErrorCode::TransactionCoordinatorFenced) => entry.outdone = true,
                Err(_) => again.push(at.clone()),
            }
        }
        if entry.outdone {
            let id = &*entry.id;
            tracing::warn!(transactional_id = id, "a leader knows of a later coordinator: no more markers are sent");
            return;
        }
        match again.is_empty() {
            true => self.complete_if_marked(&marking_of.transactional_id),
            false => {
                let marking = marking(entry, self.desk.epoch, marking_of.commit, again, true);
                self.desk.effects.push(Effect::Task(marking));
            }
        }
    }
}

fn marking(
    entry: &Entry,
    coordinator_epoch: i32,
    commit: bool,
    partitions: Vec<TopicPartition>,
    again: bool,
) -> Marking {
    Marking {
        transactional_id: entry.id.clone(),
        producer_id: entry.producer_id,
        producer_epoch: entry.epoch,
        commit,
        coordinator_epoch,
        partitions,
        again,
    }
}
