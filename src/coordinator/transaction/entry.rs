//! One transactional id: its producer, its transaction, and the step that is under way.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::State;
use super::records::Value;
use crate::types::TopicPartition;
use crate::wire::error_code::ErrorCode;

pub(super) const NO_ID: i64 = -1;
pub(super) const NO_EPOCH: i16 = -1;

/// No producer is given a higher epoch: one is left to fence it with.
pub(super) fn is_exhausted(epoch: i16) -> bool {
    epoch >= i16::MAX - 1
}

/// Kafka's `TransactionMetadata`.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub id: Arc<str>,
    pub producer_id: i64,
    /// The one before, for a producer that asks again after its epochs were used up. Lost with the coordinator.
    pub last_producer_id: i64,
    /// -1 until the first record is written.
    pub epoch: i16,
    /// The epoch that the current one was given in place of, to who asks again. Lost with the coordinator.
    pub last_epoch: i16,
    pub timeout_ms: i32,
    pub state: State,
    /// What its next record makes of it. Nothing else is begun meanwhile.
    pub pending: Option<State>,
    /// While it is prepared: those whose leaders have no marker yet.
    pub partitions: BTreeSet<TopicPartition>,
    /// Wall ms; -1 = none was begun.
    pub started_ms: i64,
    /// Wall ms.
    pub updated_ms: i64,
    /// The epoch was raised to fence the producer, and that was not written: it is not raised again.
    pub fence_failed: bool,
    /// A leader knows of a later coordinator: this one sends no markers any more.
    pub outdone: bool,
}

/// What a record makes of an entry.
#[derive(Clone, Debug)]
pub(super) struct Step {
    pub to: State,
    pub producer_id: i64,
    pub epoch: i16,
    pub last_epoch: i16,
    pub timeout_ms: i32,
    pub partitions: BTreeSet<TopicPartition>,
    pub started_ms: i64,
    pub updated_ms: i64,
}

impl Step {
    pub fn value(&self) -> Value {
        Value {
            producer_id: self.producer_id,
            producer_epoch: self.epoch,
            timeout_ms: self.timeout_ms,
            state: self.to,
            partitions: self.partitions.clone(),
            updated_ms: self.updated_ms,
            started_ms: self.started_ms,
        }
    }
}

impl Entry {
    /// Of a producer that never was here.
    pub fn new(id: Arc<str>, producer_id: i64, timeout_ms: i32, now_ms: i64) -> Entry {
        Entry {
            id,
            producer_id,
            last_producer_id: NO_ID,
            epoch: NO_EPOCH,
            last_epoch: NO_EPOCH,
            timeout_ms,
            state: State::Empty,
            pending: None,
            partitions: BTreeSet::new(),
            started_ms: -1,
            updated_ms: now_ms,
            fence_failed: false,
            outdone: false,
        }
    }

    pub fn restore(id: Arc<str>, value: Value) -> Entry {
        Entry {
            epoch: value.producer_epoch,
            state: value.state,
            partitions: value.partitions,
            started_ms: value.started_ms,
            ..Entry::new(id, value.producer_id, value.timeout_ms, value.updated_ms)
        }
    }

    fn begin(&mut self, step: Step) -> Step {
        self.pending = Some(step.to);
        step
    }

    /// As it is, but for the state.
    fn step(&self, to: State, updated_ms: i64) -> Step {
        Step {
            to,
            producer_id: self.producer_id,
            epoch: self.epoch,
            last_epoch: self.last_epoch,
            timeout_ms: self.timeout_ms,
            partitions: self.partitions.clone(),
            started_ms: self.started_ms,
            updated_ms,
        }
    }

    /// A producer begins anew: with the next epoch, or with `fresh` where the epochs are used up. `expected` is the epoch it
    /// says it has.
    pub fn begin_producer(
        &mut self,
        expected: Option<i16>,
        timeout_ms: i32,
        now_ms: i64,
        fresh: impl FnOnce() -> Result<i64, ErrorCode>,
    ) -> Result<Step, ErrorCode> {
        let empty = Step { timeout_ms, partitions: BTreeSet::new(), started_ms: -1, ..self.step(State::Empty, now_ms) };
        if is_exhausted(self.epoch) && expected.is_none_or(|epoch| epoch == self.epoch) {
            let last_epoch = if expected.is_some() { self.epoch } else { NO_EPOCH };
            return Ok(self.begin(Step { producer_id: fresh()?, epoch: 0, last_epoch, ..empty }));
        }
        let next = self.epoch.saturating_add(1);
        let (epoch, last_epoch) = match expected {
            None => (next, NO_EPOCH),
            Some(epoch) if self.epoch == NO_EPOCH || epoch == self.epoch => (next, self.epoch),
            // It asks again: its answer was lost. Anybody else's asking would have taken this epoch back.
            Some(epoch) if epoch == self.last_epoch => (self.epoch, self.last_epoch),
            Some(_) => return Err(ErrorCode::ProducerFenced),
        };
        Ok(self.begin(Step { epoch, last_epoch, ..empty }))
    }

    pub fn begin_adding(&mut self, partitions: impl IntoIterator<Item = TopicPartition>, now_ms: i64) -> Step {
        let started_ms = if self.state.is_idle() { now_ms } else { self.started_ms };
        let mut step = Step { started_ms, ..self.step(State::Ongoing, now_ms) };
        step.partitions.extend(partitions);
        self.begin(step)
    }

    /// Nobody may go on in its epoch: the one above, which nobody gets.
    pub fn begin_fence(&mut self) -> i16 {
        self.pending = Some(State::PrepareEpochFence);
        if self.fence_failed { self.epoch } else { self.epoch.saturating_add(1) }
    }

    pub fn begin_ending(&mut self, commit: bool, now_ms: i64) -> Step {
        let to = if commit { State::PrepareCommit } else { State::PrepareAbort };
        let step = self.step(to, now_ms);
        self.begin(step)
    }

    pub fn begin_completing(&mut self, now_ms: i64) -> Step {
        // Its end, the epoch included, is in the log.
        self.fence_failed = false;
        let to = if self.state == State::PrepareCommit { State::CompleteCommit } else { State::CompleteAbort };
        let step = Step { partitions: BTreeSet::new(), ..self.step(to, now_ms) };
        self.begin(step)
    }

    /// The record of `step` is replicated.
    pub fn finish(&mut self, step: Step) {
        match step.to {
            State::Empty => {
                self.last_producer_id = std::mem::replace(&mut self.producer_id, step.producer_id);
                self.epoch = step.epoch;
                self.last_epoch = step.last_epoch;
                self.timeout_ms = step.timeout_ms;
            }
            State::Ongoing => {
                self.started_ms = step.started_ms;
                self.partitions = step.partitions;
            }
            State::CompleteCommit | State::CompleteAbort => self.partitions.clear(),
            State::PrepareCommit | State::PrepareAbort | State::Dead | State::PrepareEpochFence => {}
        }
        self.updated_ms = step.updated_ms;
        self.state = step.to;
        self.pending = None;
    }
}
