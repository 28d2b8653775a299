//! What a log knows of its producers: sequences for idempotence, open transactions for the last stable offset.
//!
//! Per producer id: epoch, coordinator epoch, first offset of its open transaction and its last five batches. A batch
//! equal to one of the five (epoch, first and last sequence) is a duplicate and answered with the first time's offsets.
//! The last stable offset is the first offset of the oldest transaction that is open, or ended by a marker that is not
//! below the high watermark yet. Rules: log-format of 3.9, Kafka's `ProducerStateManager` and `ProducerAppendInfo`.

use std::collections::{BTreeMap, HashMap, VecDeque};

use super::log::Verification;
use crate::types::Offset;
use crate::wire::batch::{BatchHeader, Marker};
use crate::wire::error_code::ErrorCode;

/// Batches remembered per producer: what a producer may have in flight.
const BATCHES_KEPT: usize = 5;

/// A batch a producer sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProducerBatch {
    pub last_sequence: i32,
    pub last_offset: Offset,
    /// Records in it, minus one.
    pub offset_delta: i32,
    /// Largest timestamp, ms.
    pub timestamp_ms: i64,
}

impl ProducerBatch {
    pub fn first_sequence(&self) -> i32 {
        let first = i64::from(self.last_sequence) - i64::from(self.offset_delta);
        if first < 0 && self.last_sequence >= 0 { (first + (1 << 31)) as i32 } else { first as i32 }
    }

    pub fn first_offset(&self) -> Offset {
        self.last_offset + -i64::from(self.offset_delta)
    }
}

/// One producer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProducerState {
    /// -1 = known from nothing yet.
    pub epoch: i16,
    /// Of the last end marker; -1 = none.
    pub coordinator_epoch: i32,
    pub last_timestamp_ms: i64,
    pub txn_first_offset: Option<Offset>,
    /// Oldest first, at most five.
    batches: VecDeque<ProducerBatch>,
}

impl ProducerState {
    pub fn new() -> ProducerState {
        ProducerState {
            epoch: -1,
            coordinator_epoch: -1,
            last_timestamp_ms: -1,
            txn_first_offset: None,
            batches: VecDeque::new(),
        }
    }

    pub fn last_batch(&self) -> Option<&ProducerBatch> {
        self.batches.back()
    }

    /// -1 when only markers are known.
    pub fn last_sequence(&self) -> i32 {
        self.batches.back().map_or(-1, |batch| batch.last_sequence)
    }

    pub(super) fn push_batch(&mut self, batch: ProducerBatch) {
        if self.batches.len() == BATCHES_KEPT {
            self.batches.pop_front();
        }
        self.batches.push_back(batch);
    }

    fn set_epoch(&mut self, epoch: i16) {
        if self.epoch != epoch {
            self.epoch = epoch;
            self.batches.clear();
        }
    }
}

impl Default for ProducerState {
    fn default() -> ProducerState {
        ProducerState::new()
    }
}

/// A batch a producer may not send.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ProducerError {
    pub code: ErrorCode,
    pub message: String,
}

fn refused<T>(code: ErrorCode, message: String) -> Result<T, ProducerError> {
    Err(ProducerError { code, message })
}

/// What a batch is to its producer's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sequence {
    Next,
    Duplicate(ProducerBatch),
}

/// A transaction that a marker ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompletedTxn {
    pub producer_id: i64,
    pub first_offset: Offset,
    /// The marker's.
    pub last_offset: Offset,
    pub aborted: bool,
}

/// Shows that the coordinator was asked about this very transaction: a marker in between makes it worthless.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VerificationGuard(u64);

/// A producer whose first batch of a transaction is being verified. In memory only.
#[derive(Clone, Copy, Debug)]
struct Verifying {
    guard: VerificationGuard,
    epoch: i16,
    /// A batch behind the one that this began with is not let in before it.
    lowest_sequence: i32,
    /// Wall ms.
    since_ms: i64,
}

/// All producers of one log.
#[derive(Clone, Debug, Default)]
pub struct ProducerStates {
    producers: HashMap<i64, ProducerState>,
    verifying: HashMap<i64, Verifying>,
    /// Never the same twice, whatever else is forgotten.
    next_guard: u64,
    /// First offset of each open transaction → producer.
    open: BTreeMap<Offset, i64>,
    /// First offset → marker offset of transactions that ended at or above the high watermark.
    unreplicated: BTreeMap<Offset, Offset>,
    /// Something changed since the last snapshot.
    dirty: bool,
}

impl ProducerStates {
    pub fn get(&self, producer_id: i64) -> Option<&ProducerState> {
        self.producers.get(&producer_id)
    }

    pub fn iter(&self) -> impl Iterator<Item = (i64, &ProducerState)> {
        self.producers.iter().map(|(id, state)| (*id, state))
    }

    pub fn len(&self) -> usize {
        self.producers.len()
    }

    pub fn is_empty(&self) -> bool {
        self.producers.is_empty()
    }

    /// Whether a snapshot would differ from the last one.
    pub fn is_dirty(&self) -> bool {
        self.dirty
    }

    pub fn set_clean(&mut self) {
        self.dirty = false;
    }

    /// Takes over a producer from a snapshot.
    pub fn restore(&mut self, producer_id: i64, state: ProducerState) {
        if let Some(first) = state.txn_first_offset {
            self.open.insert(first, producer_id);
        }
        self.producers.insert(producer_id, state);
    }

    pub fn clear(&mut self) {
        *self = ProducerStates { dirty: true, next_guard: self.next_guard, ..ProducerStates::default() };
    }

    /// Whether this producer's transaction is open here. One of an earlier epoch is another one, as from Kafka 4.0 on: a 3.9 lets
    /// whoever names a later epoch into an open transaction, and its marker is refused ever after.
    fn is_open(&self, producer_id: i64, epoch: i16) -> bool {
        let state = self.producers.get(&producer_id);
        state.is_some_and(|state| state.txn_first_offset.is_some() && state.epoch == epoch)
    }

    /// The coordinator is about to be asked whether the producer's transaction has this log: the guard that its batch is
    /// appended with. `None` when the transaction is open here.
    pub fn begin_verification(
        &mut self,
        producer_id: i64,
        epoch: i16,
        sequence: i32,
        now_ms: i64,
    ) -> Option<VerificationGuard> {
        if self.is_open(producer_id, epoch) {
            return None;
        }
        let next_guard = &mut self.next_guard;
        let verifying = self.verifying.entry(producer_id).or_insert_with(|| {
            *next_guard += 1;
            Verifying { guard: VerificationGuard(*next_guard), epoch, lowest_sequence: sequence, since_ms: now_ms }
        });
        if epoch > verifying.epoch {
            (verifying.epoch, verifying.lowest_sequence) = (epoch, sequence);
        } else if epoch == verifying.epoch {
            verifying.lowest_sequence = verifying.lowest_sequence.min(sequence);
        }
        Some(verifying.guard)
    }

    /// Whether a client may append this batch of data now. `check_sequence` is false for our own coordinators.
    pub fn check(
        &self,
        batch: &BatchHeader,
        check_sequence: bool,
        verification: Verification,
    ) -> Result<Sequence, ProducerError> {
        if !batch.has_producer() {
            return Ok(Sequence::Next);
        }
        let (id, epoch) = (batch.producer_id, batch.producer_epoch);
        let (first, last) = (batch.base_sequence, batch.last_sequence());
        let known = self.producers.get(&id);
        if let Some(state) = known.filter(|state| check_sequence && epoch == state.epoch) {
            let same = |kept: &&ProducerBatch| kept.first_sequence() == first && kept.last_sequence == last;
            if let Some(kept) = state.batches.iter().find(same) {
                return Ok(Sequence::Duplicate(*kept));
            }
        }
        let verifying = self.verifying.get(&id);
        if let Verification::Required(shown) = verification
            && batch.is_transactional()
            && !self.is_open(id, epoch)
            && (shown.is_none() || shown != verifying.map(|verifying| verifying.guard))
        {
            return refused(
                ErrorCode::InvalidTxnState,
                format!("the batch of producer {id} is not part of a transaction that is open"),
            );
        }
        let Some(state) = known else { return self.check_lowest(batch, check_sequence) };
        if epoch < state.epoch {
            return refused(
                ErrorCode::InvalidProducerEpoch,
                format!("epoch {epoch} of producer {id} is smaller than the last seen epoch {}", state.epoch),
            );
        }
        self.check_lowest(batch, check_sequence)?;
        if check_sequence && state.epoch != -1 {
            let expected = match state.last_sequence() {
                _ if epoch != state.epoch => 0,
                i32::MAX => 0,
                last => last + 1,
            };
            if first != expected {
                return refused(
                    ErrorCode::OutOfOrderSequenceNumber,
                    format!(
                        "producer {id} sends sequence {first} (epoch {epoch}) where {expected} is expected (last seen epoch {}, sequence {})",
                        state.epoch,
                        state.last_sequence()
                    ),
                );
            }
        }
        if state.txn_first_offset.is_some() && !batch.is_transactional() {
            return refused(
                ErrorCode::InvalidTxnState,
                format!("producer {id} sends a batch outside its open transaction"),
            );
        }
        Ok(Sequence::Next)
    }

    /// While a batch is verified none with a later sequence passes it: it would be out of order for good.
    fn check_lowest(&self, batch: &BatchHeader, check_sequence: bool) -> Result<Sequence, ProducerError> {
        let verifying = self.verifying.get(&batch.producer_id).filter(|_| check_sequence);
        match verifying {
            Some(verifying) if batch.base_sequence > verifying.lowest_sequence => refused(
                ErrorCode::OutOfOrderSequenceNumber,
                format!(
                    "producer {} sends sequence {} before {}, which is being verified",
                    batch.producer_id, batch.base_sequence, verifying.lowest_sequence
                ),
            ),
            _ => Ok(Sequence::Next),
        }
    }

    /// Whether a coordinator may write this marker now.
    pub fn check_marker(&self, producer_id: i64, epoch: i16, marker: Marker) -> Result<(), ProducerError> {
        let Some(state) = self.producers.get(&producer_id) else { return Ok(()) };
        if epoch < state.epoch {
            return refused(
                ErrorCode::InvalidProducerEpoch,
                format!("marker with epoch {epoch} for producer {producer_id}, whose epoch is {}", state.epoch),
            );
        }
        if marker.coordinator_epoch < state.coordinator_epoch {
            return refused(
                ErrorCode::TransactionCoordinatorFenced,
                format!(
                    "marker for producer {producer_id} with coordinator epoch {} below {}",
                    marker.coordinator_epoch, state.coordinator_epoch
                ),
            );
        }
        Ok(())
    }

    /// Takes in a batch of data that is in the log.
    pub fn apply(&mut self, batch: &BatchHeader) {
        if !batch.has_producer() {
            return;
        }
        self.dirty = true;
        if batch.is_transactional() {
            self.verifying.remove(&batch.producer_id);
        }
        let state = self.producers.entry(batch.producer_id).or_default();
        state.set_epoch(batch.producer_epoch);
        state.last_timestamp_ms = batch.max_timestamp;
        state.push_batch(ProducerBatch {
            last_sequence: batch.last_sequence(),
            last_offset: batch.last_offset(),
            offset_delta: batch.last_offset_delta,
            timestamp_ms: batch.max_timestamp,
        });
        if batch.is_transactional() && state.txn_first_offset.is_none() {
            state.txn_first_offset = Some(batch.base_offset);
            self.open.insert(batch.base_offset, batch.producer_id);
        }
    }

    /// Takes in an end marker that is in the log; tells which transaction it ended, if one was open.
    pub fn apply_marker(&mut self, batch: &BatchHeader, marker: Marker) -> Option<CompletedTxn> {
        self.dirty = true;
        self.verifying.remove(&batch.producer_id);
        let state = self.producers.entry(batch.producer_id).or_default();
        state.set_epoch(batch.producer_epoch);
        state.coordinator_epoch = marker.coordinator_epoch;
        // Its one record's time; the base timestamp may be a delete horizon.
        state.last_timestamp_ms = batch.max_timestamp;
        let first_offset = state.txn_first_offset.take()?;
        self.open.remove(&first_offset);
        self.unreplicated.insert(first_offset, batch.last_offset());
        Some(CompletedTxn {
            producer_id: batch.producer_id,
            first_offset,
            last_offset: batch.last_offset(),
            aborted: !marker.commit,
        })
    }

    /// First offset of the oldest transaction still open.
    pub fn first_open(&self) -> Option<Offset> {
        self.open.keys().next().copied()
    }

    /// First offset whose outcome a read_committed reader cannot know yet.
    pub fn first_unstable(&self) -> Option<Offset> {
        let unreplicated = self.unreplicated.keys().next().copied();
        match (self.first_open(), unreplicated) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// Transactions whose marker lies below the high watermark are decided for every reader.
    pub fn high_watermark_is(&mut self, high_watermark: Offset) {
        self.unreplicated.retain(|_, marker| *marker >= high_watermark);
    }

    /// Forgets producers idle for `expiration_ms` without an open transaction.
    pub fn expire(&mut self, now_ms: i64, expiration_ms: i64) {
        let before = self.producers.len();
        self.producers.retain(|_, state| {
            state.txn_first_offset.is_some() || now_ms.saturating_sub(state.last_timestamp_ms) < expiration_ms
        });
        self.dirty |= self.producers.len() < before;
        self.verifying.retain(|_, verifying| now_ms.saturating_sub(verifying.since_ms) < expiration_ms);
    }
}

#[cfg(test)]
mod tests;
