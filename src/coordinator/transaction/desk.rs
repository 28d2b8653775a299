//! What every step may touch besides its transactional id: the time, appends under way, effects.

use std::collections::HashMap;
use std::sync::Arc;

use super::entry::Step;
use super::records::Key;
use crate::coordinator::cores::{Append, AppendId, Effect, Now, RequestId};
use crate::coordinator::timers::Timers;
use crate::storage::log::Verification;
use crate::types::TopicPartition;
use crate::wire::error_code::ErrorCode;

/// Between two attempts to write that a transaction is complete, ms.
const BACK_OFF_MS: i64 = 100;

/// The broker's settings for transactions.
#[derive(Clone, Debug)]
pub struct Settings {
    pub id_expiration_ms: i64,
}

/// What who asked is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// InitProducerId: id and epoch.
    Initialized(Result<(i64, i16), ErrorCode>),
    Done(ErrorCode),
}

/// Markers to be sent to the leaders of `partitions`; what becomes of each is brought back with
/// [`Transactions::marked`](super::Transactions::marked).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Marking {
    pub transactional_id: Arc<str>,
    pub producer_id: i64,
    pub producer_epoch: i16,
    pub commit: bool,
    pub coordinator_epoch: i32,
    pub partitions: Vec<TopicPartition>,
    /// They were tried before, in vain: not at once.
    pub again: bool,
}

/// Who waits for the end of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    /// EndTxn.
    Client(RequestId),
    /// InitProducerId, which asks again when it has ended.
    Init(RequestId),
    /// It ran out of time.
    Time,
}

/// What waits for an append.
#[derive(Debug)]
pub(super) enum Pending {
    Initialized(RequestId),
    Added(RequestId),
    /// `fence`: the producer is fenced with it.
    Ended {
        asked: Asked,
        fence: bool,
    },
    Completed,
    /// Tombstones.
    Forgotten(Vec<Arc<str>>),
}

#[derive(Debug)]
pub(super) struct PendingAppend {
    /// Empty for tombstones.
    pub id: Arc<str>,
    pub step: Option<Step>,
    pub pending: Pending,
}

#[derive(Debug)]
pub(super) struct Desk {
    pub settings: Settings,
    pub epoch: i32,
    pub now: Now,
    pub effects: Vec<Effect<Answer, Marking>>,
    pub appends: HashMap<AppendId, PendingAppend>,
    /// Completions to be written again.
    pub retries: Timers<(Arc<str>, Step)>,
    next_append: u64,
}

impl Desk {
    pub fn new(settings: Settings, epoch: i32) -> Desk {
        Desk {
            settings,
            epoch,
            now: Now::default(),
            effects: Vec::new(),
            appends: HashMap::new(),
            retries: Timers::default(),
            next_append: 0,
        }
    }

    pub fn answer(&mut self, request: RequestId, answer: Answer) {
        self.effects.push(Effect::Answer(request, answer));
    }

    pub fn done(&mut self, request: RequestId, error: ErrorCode) {
        self.answer(request, Answer::Done(error));
    }

    /// Writes `step`.
    pub fn append(&mut self, id: &Arc<str>, step: Step, pending: Pending) {
        let record = (Key::TransactionalId(id.clone()).encode(), Some(step.value().encode()));
        let timeout_ms = Some(step.timeout_ms);
        self.push(PendingAppend { id: id.clone(), step: Some(step), pending }, vec![record], timeout_ms);
    }

    /// Writes that these are no more.
    pub fn append_tombstones(&mut self, ids: Vec<Arc<str>>) {
        let records = ids.iter().map(|id| (Key::TransactionalId(id.clone()).encode(), None)).collect();
        self.push(PendingAppend { id: "".into(), step: None, pending: Pending::Forgotten(ids) }, records, None);
    }

    fn push(
        &mut self,
        pending: PendingAppend,
        records: Vec<(bytes::Bytes, Option<bytes::Bytes>)>,
        timeout_ms: Option<i32>,
    ) {
        let id = AppendId(self.next_append);
        self.next_append += 1;
        self.appends.insert(id, pending);
        self.effects.push(Effect::Append(Append {
            id,
            records,
            base_sequence: -1,
            producer: None,
            verification: Verification::NotAsked,
            replicated: true,
            timeout_ms,
        }));
    }

    pub fn retry(&mut self, id: Arc<str>, step: Step) {
        self.retries.arm(self.now.monotonic_ms + BACK_OFF_MS, (id, step));
    }

    /// Tells who waits that the step was not taken.
    pub fn refuse(&mut self, pending: Pending, error: ErrorCode) {
        match pending {
            Pending::Initialized(request) | Pending::Ended { asked: Asked::Init(request), .. } => {
                self.answer(request, Answer::Initialized(Err(error)));
            }
            Pending::Added(request) | Pending::Ended { asked: Asked::Client(request), .. } => {
                self.done(request, error);
            }
            Pending::Ended { asked: Asked::Time, .. } | Pending::Completed | Pending::Forgotten(_) => {}
        }
    }
}
