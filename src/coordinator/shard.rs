//! One partition of an internal topic that this broker leads, behind its lock: the core that lives in it, who waits for an
//! answer, and what waits for replicas.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{Notify, oneshot};

use super::cores::{AppendId, Core, Effect, RequestId};
use crate::replication::partition::{LeaderAppend, NotCommitted, Partition};
use crate::types::{LeaderEpoch, Offset};
use crate::wire::error_code::ErrorCode;

/// Loading, active or gone.
pub(super) struct Shard<C: Core> {
    pub partition: Arc<Partition>,
    pub epoch: LeaderEpoch,
    pub state: Mutex<Shardful<C>>,
    /// Something waits for replication, or the shard is gone.
    pub pump: Notify,
}

/// What a shard's lock protects.
pub(super) struct Shardful<C: Core> {
    pub phase: Phase<C>,
    pub waiting: BTreeMap<RequestId, oneshot::Sender<C::Answer>>,
    /// In the order of the log.
    pub replicating: VecDeque<Replicating>,
    /// Producers whose transactions ended while the core was being loaded; true = committed.
    pub ended: Vec<(i64, bool)>,
}

pub(super) enum Phase<C> {
    Loading,
    Active(Box<C>),
    /// Not led any more, or it cannot be read.
    Gone(ErrorCode),
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

impl<C: Core> Shard<C> {
    /// That has to be loaded.
    pub fn new(partition: Arc<Partition>, epoch: LeaderEpoch) -> Shard<C> {
        let state = Shardful {
            phase: Phase::Loading,
            waiting: BTreeMap::new(),
            replicating: VecDeque::new(),
            ended: Vec::new(),
        };
        Shard { partition, epoch, state: Mutex::new(state), pump: Notify::new() }
    }

    /// Tells everyone who waits that the coordinator is elsewhere.
    pub fn resign(&self) {
        let mut state = self.state.lock();
        let phase = std::mem::replace(&mut state.phase, Phase::Gone(ErrorCode::NotCoordinator));
        if let Phase::Active(core) = phase {
            for effect in core.resign() {
                if let Effect::Answer(request, answer) = effect {
                    state.answer(request, answer);
                }
            }
        }
        state.waiting.clear();
        state.replicating.clear();
        drop(state);
        self.pump.notify_one();
    }
}

impl<C: Core> Shardful<C> {
    pub fn active(&mut self) -> Result<&mut C, ErrorCode> {
        match &mut self.phase {
            Phase::Active(core) => Ok(core),
            Phase::Loading => Err(ErrorCode::CoordinatorLoadInProgress),
            Phase::Gone(error) => Err(*error),
        }
    }

    pub fn answer(&mut self, request: RequestId, answer: C::Answer) {
        if let Some(sender) = self.waiting.remove(&request) {
            // Whoever asked may be gone.
            let _ = sender.send(answer);
        }
    }
}
