//! Transactions as a value: one partition of `__transaction_state` with the transactional ids that live in it.
//!
//! ```text
//! InitProducerId ─► Empty ─AddPartitions─► Ongoing ─EndTxn─► PrepareCommit ─every leader has its marker─► CompleteCommit ─┐
//!                     ▲                      │  ▲              (decided)                                                   │
//!                     │      fenced, timeout ▼  └──────────────────AddPartitions───────────────────────────────────────────┤
//!                     │                 PrepareAbort ─every leader has its marker─► CompleteAbort ────────────────────────┤
//!                     └──────────────────────────────InitProducerId───────────────────────────────────────────────────────┘
//! ```
//! A step counts when its record is replicated; until then nothing else is begun with that id (CONCURRENT_TRANSACTIONS). What
//! is decided is completed, however long it takes, by this coordinator or by the next one.
//! Nothing here knows clocks, sockets or logs. Rules: Kafka 3.9's `TransactionCoordinator` and `TransactionMetadata`, seen on a
//! live 3.9.1.

pub mod records;

mod desk;
mod entry;
mod rules;
mod state;
// What is asked of a transactional id.
mod begin;
mod describe;
mod end;
// What happens to them by themselves.
mod expiry;
mod load;

#[cfg(test)]
mod pool;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

pub use begin::{AddPartitions, Init};
pub use describe::{Described, Filter, Listed};
pub use desk::{Answer, Marking, Settings};
pub use end::End;
pub use load::Loading;
pub use state::State;

use desk::{Desk, Pending};
use entry::Entry;

use super::cores::{AppendId, Core, Effect, Now};
use crate::types::Offset;
use crate::wire::error_code::ErrorCode;

/// The transactional ids of one partition of `__transaction_state`.
#[derive(Debug)]
pub struct Transactions {
    by_id: BTreeMap<Arc<str>, Entry>,
    desk: Desk,
}

impl Transactions {
    /// `epoch` is the leader epoch in which they are coordinated here.
    pub fn new(settings: Settings, epoch: i32) -> Transactions {
        Transactions { by_id: BTreeMap::new(), desk: Desk::new(settings, epoch) }
    }
}

impl Core for Transactions {
    type Answer = Answer;
    type Task = Marking;

    fn take_effects(&mut self) -> Vec<Effect<Answer, Marking>> {
        std::mem::take(&mut self.desk.effects)
    }

    fn next_due_ms(&self) -> Option<i64> {
        self.desk.retries.next_due_ms()
    }

    fn tick(&mut self, now: Now) {
        self.desk.now = now;
        while let Some((id, step)) = self.desk.retries.fire(now.monotonic_ms) {
            self.desk.append(&id, step, Pending::Completed);
        }
    }

    fn appended(&mut self, now: Now, id: AppendId, outcome: Result<Offset, ErrorCode>) {
        self.desk.now = now;
        let Some(append) = self.desk.appends.remove(&id) else { return };
        let outcome = outcome.map(drop).map_err(coordinator_error);
        match append.pending {
            Pending::Forgotten(ids) => self.forgotten(&ids, outcome),
            pending => self.stepped(&append.id, append.step, pending, outcome),
        }
    }

    /// No producer commits anything here: its markers go elsewhere.
    fn end_transaction(&mut self, _producer_id: i64, _commit: bool) {}

    fn resign(mut self) -> Vec<Effect<Answer, Marking>> {
        let mut appends: Vec<_> = std::mem::take(&mut self.desk.appends).into_iter().collect();
        appends.sort_by_key(|(id, _)| *id);
        self.desk.effects.clear();
        for (_, append) in appends {
            self.desk.refuse(append.pending, ErrorCode::NotCoordinator);
        }
        self.take_effects()
    }
}

/// What a failed append is to who asked for the step.
fn coordinator_error(error: ErrorCode) -> ErrorCode {
    match error {
        ErrorCode::UnknownTopicOrPartition
        | ErrorCode::NotEnoughReplicas
        | ErrorCode::NotEnoughReplicasAfterAppend
        // The record may be there nevertheless: who asks again is answered by what the log says then.
        | ErrorCode::RequestTimedOut => ErrorCode::CoordinatorNotAvailable,
        ErrorCode::NotLeaderOrFollower | ErrorCode::KafkaStorageError => ErrorCode::NotCoordinator,
        ErrorCode::MessageTooLarge | ErrorCode::RecordListTooLarge => ErrorCode::UnknownServerError,
        other => other,
    }
}
