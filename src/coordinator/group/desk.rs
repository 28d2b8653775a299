//! What every step of a group may touch besides the group: the time, timers, appends under way, effects.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;

use super::commit::PendingCommit;
use super::join::{JoinAnswer, ReplacedMember};
use super::sync::SyncAnswer;
use crate::coordinator::cores::{Append, AppendId, Now, RequestId};
use crate::coordinator::records::{GroupValue, Key};
use crate::coordinator::timers::Timers;
use crate::storage::log::Verification;
use crate::wire::error_code::ErrorCode;

/// The broker's settings for groups; ms, bytes where the name says nothing else.
#[derive(Clone, Debug)]
pub struct Settings {
    pub min_session_timeout_ms: i32,
    pub max_session_timeout_ms: i32,
    pub initial_rebalance_delay_ms: i32,
    pub max_size: usize,
    /// `offset.metadata.max.bytes`: UTF-16 units, as Kafka counts them.
    pub offset_metadata_max: usize,
    pub offsets_retention_ms: i64,
}

/// What the driver does for the core.
#[derive(Debug)]
pub enum Effect {
    Joined(RequestId, JoinAnswer),
    Synced(RequestId, SyncAnswer),
    /// An error for each partition, in the order of the request.
    Committed(RequestId, Vec<ErrorCode>),
    Append(Append),
}

/// One life of a group: an append of a group that was deleted says nothing about its successor of the same name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Life {
    pub group: Arc<str>,
    pub number: u64,
}

/// What waits for an append.
#[derive(Debug)]
pub(super) enum PendingAppend {
    Commit(PendingCommit),
    Assignment {
        life: Life,
        generation: i32,
        assignments: HashMap<Arc<str>, Bytes>,
    },
    StaticMember(ReplacedMember),
    /// Nobody waits; a failure is logged.
    Noted {
        group: Arc<str>,
        what: &'static str,
    },
}

/// What fires.
#[derive(Debug)]
pub(super) enum Timer {
    Session {
        group: Arc<str>,
        member: Arc<str>,
    },
    PendingMember {
        group: Arc<str>,
        member: Arc<str>,
    },
    /// The join or sync phase with this number ends.
    Phase {
        group: Arc<str>,
        phase: u64,
    },
}

impl Timer {
    pub fn group(&self) -> &Arc<str> {
        match self {
            Timer::Session { group, .. } | Timer::PendingMember { group, .. } | Timer::Phase { group, .. } => group,
        }
    }
}

#[derive(Debug)]
pub(super) struct Desk {
    pub settings: Settings,
    pub now: Now,
    pub timers: Timers<Timer>,
    pub effects: Vec<Effect>,
    pub appends: HashMap<AppendId, PendingAppend>,
    next_append: u64,
    next_phase: u64,
    next_life: u64,
}

impl Desk {
    pub fn new(settings: Settings) -> Desk {
        Desk {
            settings,
            now: Now::default(),
            timers: Timers::default(),
            effects: Vec::new(),
            appends: HashMap::new(),
            next_append: 0,
            next_phase: 0,
            next_life: 0,
        }
    }

    pub fn begin_life(&mut self, group: Arc<str>) -> Life {
        self.next_life += 1;
        Life { group, number: self.next_life }
    }

    /// A phase of `group` that ends in `after_ms` at the latest. Numbers are never used again, not even by a group of the
    /// same name.
    pub fn begin_phase(&mut self, group: &Arc<str>, after_ms: i64) -> u64 {
        let phase = self.next_phase;
        self.next_phase += 1;
        self.timers.arm(self.now.monotonic_ms + after_ms.max(0), Timer::Phase { group: group.clone(), phase });
        phase
    }

    fn append(&mut self, pending: PendingAppend, append: impl FnOnce(AppendId) -> Append) {
        let id = AppendId(self.next_append);
        self.next_append += 1;
        self.appends.insert(id, pending);
        self.effects.push(Effect::Append(append(id)));
    }

    /// Offsets that a client committed, in a transaction of `producer` if there is one.
    pub fn append_offsets(&mut self, pending: PendingCommit, producer: Option<(i64, i16)>, verification: Verification) {
        let records = pending.records();
        self.append(PendingAppend::Commit(pending), |id| Append {
            id,
            records,
            base_sequence: 0,
            producer,
            verification,
            replicated: true,
            timeout_ms: None,
        });
    }

    /// A group's metadata.
    pub fn append_group(&mut self, group: &Arc<str>, value: &GroupValue, pending: PendingAppend) {
        let record = (Key::Group { group: group.clone() }.encode(), Some(value.encode()));
        self.append(pending, |id| Append {
            id,
            records: vec![record],
            base_sequence: -1,
            producer: None,
            verification: Verification::NotAsked,
            replicated: true,
            timeout_ms: None,
        });
    }

    /// Takes back what `keys` say.
    pub fn append_tombstones(&mut self, group: &Arc<str>, keys: Vec<Key>) {
        if keys.is_empty() {
            return;
        }
        let records = keys.iter().map(|key| (key.encode(), None)).collect();
        let pending = PendingAppend::Noted { group: group.clone(), what: "a tombstone" };
        self.append(pending, |id| Append {
            id,
            records,
            base_sequence: -1,
            producer: None,
            verification: Verification::NotAsked,
            replicated: false,
            timeout_ms: None,
        });
    }
}
