//! InitProducerId, AddPartitionsToTxn, AddOffsetsToTxn: a producer and its transaction begin.

use std::sync::Arc;

use super::desk::{Answer, Asked, Pending};
use super::entry::{Entry, is_exhausted};
use super::rules::{Rule, holds};
use super::{State, Transactions};
use crate::coordinator::cores::{Now, RequestId};
use crate::types::TopicPartition;
use crate::wire::error_code::ErrorCode;

/// An InitProducerId with a transactional id.
#[derive(Clone, Debug)]
pub struct Init {
    pub request: RequestId,
    pub transactional_id: Arc<str>,
    pub timeout_ms: i32,
    /// Id and epoch that the producer says it has (KIP-360).
    pub expected: Option<(i64, i16)>,
}

/// Partitions that a producer is about to write to, or the one its offsets go to.
#[derive(Clone, Debug)]
pub struct AddPartitions {
    pub request: RequestId,
    pub transactional_id: Arc<str>,
    pub producer_id: i64,
    pub producer_epoch: i16,
    pub partitions: Vec<TopicPartition>,
}

impl Transactions {
    /// Answered with [`Answer::Initialized`]. `fresh` makes a producer id that nobody had.
    ///
    /// CONCURRENT_TRANSACTIONS while something else is under way, also after it has begun to abort the transaction of the
    /// producer that this one takes over from: it asks again. PRODUCER_FENCED for an id or epoch that is not the last one.
    pub fn init(&mut self, now: Now, init: Init, fresh: impl FnOnce() -> Result<i64, ErrorCode>) {
        self.desk.now = now;
        let request = init.request;
        if let Err(error) = self.try_init(init, fresh) {
            self.desk.answer(request, Answer::Initialized(Err(error)));
        }
    }

    fn try_init(&mut self, init: Init, fresh: impl FnOnce() -> Result<i64, ErrorCode>) -> Result<(), ErrorCode> {
        let id = init.transactional_id;
        let mut fresh = Some(fresh);
        let mut fresh = || fresh.take().map_or(Err(ErrorCode::UnknownServerError), |fresh| fresh());
        let now_ms = self.desk.now.wall_ms;
        if !self.by_id.contains_key(&id) {
            let entry = Entry::new(id.clone(), fresh()?, init.timeout_ms, now_ms);
            self.by_id.insert(id.clone(), entry);
        }
        let entry = self.by_id.get_mut(&id).ok_or(ErrorCode::UnknownServerError)?;
        if entry.pending.is_some() {
            return Err(ErrorCode::ConcurrentTransactions);
        }
        if let Some((producer_id, epoch)) = init.expected {
            let is_new = entry.epoch < 0;
            let is_rotated = producer_id == entry.last_producer_id && is_exhausted(epoch);
            if !is_new && producer_id != entry.producer_id && !is_rotated {
                return Err(ErrorCode::ProducerFenced);
            }
        }
        match entry.state {
            State::Empty | State::CompleteCommit | State::CompleteAbort => {
                let expected = init.expected.map(|(_, epoch)| epoch);
                let step = entry.begin_producer(expected, init.timeout_ms, now_ms, fresh)?;
                self.desk.append(&id, step, Pending::Initialized(init.request));
                Ok(())
            }
            State::Ongoing => self.fence(&id, Asked::Init(init.request)),
            _ => Err(ErrorCode::ConcurrentTransactions),
        }
    }

    /// Answered with [`Answer::Done`].
    ///
    /// First failing check: an id that is not known, or another producer's (INVALID_PRODUCER_ID_MAPPING), another epoch
    /// (PRODUCER_FENCED), something under way or being ended (CONCURRENT_TRANSACTIONS).
    pub fn add_partitions(&mut self, now: Now, add: AddPartitions) {
        self.desk.now = now;
        let request = add.request;
        match self.try_add(add) {
            Ok(true) => {}
            Ok(false) => self.desk.done(request, ErrorCode::None),
            Err(error) => self.desk.done(request, error),
        }
    }

    /// False when they are in it already.
    fn try_add(&mut self, add: AddPartitions) -> Result<bool, ErrorCode> {
        let entry = self.entry_of(&add.transactional_id, add.producer_id, add.producer_epoch)?;
        if (entry.pending.is_some() || entry.state.is_prepared()) && holds(Rule::OneAtATime) {
            return Err(ErrorCode::ConcurrentTransactions);
        }
        if entry.state == State::Ongoing && add.partitions.iter().all(|at| entry.partitions.contains(at)) {
            return Ok(false);
        }
        let (id, now_ms) = (entry.id.clone(), self.desk.now.wall_ms);
        let Some(entry) = self.by_id.get_mut(&id) else { return Ok(false) };
        let step = entry.begin_adding(add.partitions, now_ms);
        self.desk.append(&id, step, Pending::Added(add.request));
        Ok(true)
    }

    /// Whether partitions are in the transaction of this producer, as their leaders ask before they append the first batch
    /// (KIP-890): TRANSACTION_ABORTABLE for those that are not. What is under way is not looked at, for the log looks once
    /// more.
    pub fn verify(
        &self,
        transactional_id: &str,
        producer_id: i64,
        producer_epoch: i16,
        partitions: &[TopicPartition],
    ) -> Result<Vec<ErrorCode>, ErrorCode> {
        let entry = self.entry_of(transactional_id, producer_id, producer_epoch)?;
        if entry.state.is_prepared() {
            return Err(ErrorCode::ConcurrentTransactions);
        }
        let one = |at| match entry.partitions.contains(at) {
            true => ErrorCode::None,
            false => ErrorCode::TransactionAbortable,
        };
        Ok(partitions.iter().map(one).collect())
    }

    fn entry_of(&self, id: &str, producer_id: i64, producer_epoch: i16) -> Result<&Entry, ErrorCode> {
        let entry = self.by_id.get(id).filter(|entry| entry.producer_id == producer_id);
        let entry = entry.ok_or(ErrorCode::InvalidProducerIdMapping)?;
        if entry.epoch != producer_epoch && holds(Rule::EpochIsChecked) {
            return Err(ErrorCode::ProducerFenced);
        }
        Ok(entry)
    }
}
