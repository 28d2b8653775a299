//! One partition of `__consumer_offsets` that this broker leads, behind its lock: the groups, who waits for them, and what
//! waits for replicas.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{Notify, oneshot};

use super::group::{AppendId, Effect, Groups, JoinAnswer, RequestId, SyncAnswer};
use crate::replication::partition::{LeaderAppend, NotCommitted, Partition};
use crate::types::{LeaderEpoch, Offset};
use crate::wire::error_code::ErrorCode;

/// Loading, active or gone.
pub(super) struct Shard {
    pub partition: Arc<Partition>,
    pub epoch: LeaderEpoch,
    pub state: Mutex<Shardful>,
    /// Something waits for replication, or the shard is gone.
    pub pump: Notify,
}

/// What a shard's lock protects.
pub(super) struct Shardful {
    pub phase: Phase,
    pub waiting: BTreeMap<RequestId, Waiter>,
    /// In the order of the log.
    pub replicating: VecDeque<Replicating>,
    /// Producers whose transactions ended while the groups were being loaded; true = committed.
    pub ended: Vec<(i64, bool)>,
}

pub(super) enum Phase {
    Loading,
    Active(Box<Groups>),
    /// Not led any more, or it cannot be read.
    Gone(ErrorCode),
}

/// Who is told.
pub(super) enum Waiter {
    Join(oneshot::Sender<JoinAnswer>),
    Sync(oneshot::Sender<SyncAnswer>),
    Commit(oneshot::Sender<Vec<ErrorCode>>),
}

#[derive(Clone, Copy)]
pub(super) struct Replicating {
    pub id: AppendId,
    pub first: Offset,
    pub awaited: Awaited,
    pub deadline_ms: i64,
}

/// Up to an offset, exclusive.
#[derive(Clone, Copy)]
pub(super) enum Awaited {
    Committed(Offset),
    Durable(Offset),
}

impl Awaited {
    /// `None` when there is nothing to wait for.
    pub fn of(append: &LeaderAppend) -> Option<Awaited> {
        append.committed_at.map(Awaited::Committed).or(append.durable_at.map(Awaited::Durable))
    }

    pub async fn on(self, partition: &Partition) -> Result<(), NotCommitted> {
        match self {
            Awaited::Committed(end) => partition.committed(end).await,
            Awaited::Durable(end) => partition.durable(end).await,
        }
    }
}

impl Shard {
    /// Groups that have to be loaded.
    pub fn new(partition: Arc<Partition>, epoch: LeaderEpoch) -> Shard {
        let state = Shardful {
            phase: Phase::Loading,
            waiting: BTreeMap::new(),
            replicating: VecDeque::new(),
            ended: Vec::new(),
        };
        Shard { partition, epoch, state: Mutex::new(state), pump: Notify::new() }
    }

    /// Tells everyone who waits that the groups are elsewhere.
    pub fn resign(&self) {
        let mut state = self.state.lock();
        let phase = std::mem::replace(&mut state.phase, Phase::Gone(ErrorCode::NotCoordinator));
        if let Phase::Active(groups) = phase {
            for effect in groups.resign() {
                state.answer(effect);
            }
        }
        state.waiting.clear();
        state.replicating.clear();
        drop(state);
        self.pump.notify_one();
    }
}

impl Shardful {
    pub fn active(&mut self) -> Result<&mut Groups, ErrorCode> {
        match &mut self.phase {
            Phase::Active(groups) => Ok(groups),
            Phase::Loading => Err(ErrorCode::CoordinatorLoadInProgress),
            Phase::Gone(error) => Err(*error),
        }
    }

    /// Whoever asked may be gone.
    pub fn answer(&mut self, effect: Effect) {
        let (Effect::Joined(request, _) | Effect::Synced(request, _) | Effect::Committed(request, _)) = &effect else {
            return;
        };
        let waiter = self.waiting.remove(request);
        match (effect, waiter) {
            (Effect::Joined(_, answer), Some(Waiter::Join(sender))) => drop(sender.send(answer)),
            (Effect::Synced(_, answer), Some(Waiter::Sync(sender))) => drop(sender.send(answer)),
            (Effect::Committed(_, answer), Some(Waiter::Commit(sender))) => drop(sender.send(answer)),
            _ => {}
        }
    }
}
