//! What handlers ask the active controller itself, beside what they write to the metastore: answered by its one task,
//! between two events.

use tokio::sync::{mpsc, oneshot};

use super::decide::{AlterPartition, ElectionType, Target};
use super::state::Leadership;
use crate::metastore::schema::ReplicaAssignment;
use crate::types::{BrokerId, TopicPartition};
use crate::wire::error_code::ErrorCode;

/// Questions that wait for the controller; who asks while so many wait, waits too.
const WAITING: usize = 64;

/// The new leader, or why there is none.
pub type Elected = Vec<(TopicPartition, Result<BrokerId, ErrorCode>)>;
/// Whether the reassignment has begun, else why not.
pub type Reassigned = Vec<(TopicPartition, Result<(), (ErrorCode, &'static str)>)>;
/// Partitions on their way to other replicas.
pub type Reassignments = Vec<(TopicPartition, ReplicaAssignment)>;
/// For each partition of an [`AlterPartition`], in its order: the state now, or why it is not what was wanted.
pub type AlteredIsrs = Vec<Result<Leadership, ErrorCode>>;

/// A question and where its answer goes. Dropped unanswered where nobody is active.
pub(super) enum Asked {
    ElectLeaders {
        partitions: Vec<TopicPartition>,
        kind: ElectionType,
        answer: oneshot::Sender<Elected>,
    },
    AlterReassignments {
        wanted: Vec<(TopicPartition, Target)>,
        answer: oneshot::Sender<Reassigned>,
    },
    AlterPartition {
        request: AlterPartition,
        answer: oneshot::Sender<Result<AlteredIsrs, ErrorCode>>,
    },
    ControlledShutdown {
        broker: BrokerId,
        broker_epoch: Option<i64>,
        answer: oneshot::Sender<Result<Vec<TopicPartition>, ErrorCode>>,
    },
    ListReassignments {
        answer: oneshot::Sender<Reassignments>,
    },
}

/// NOT_CONTROLLER: this broker is not the active controller, or ceased to be while it was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this broker is not the controller")]
pub struct NotController;

/// The way to the controller's task.
#[derive(Clone, Debug)]
pub struct Questions(mpsc::Sender<Asked>);

pub(super) fn questions() -> (Questions, mpsc::Receiver<Asked>) {
    let (sender, receiver) = mpsc::channel(WAITING);
    (Questions(sender), receiver)
}

impl Questions {
    /// Each partition once, in no order.
    pub async fn elect_leaders(
        &self,
        partitions: Vec<TopicPartition>,
        kind: ElectionType,
    ) -> Result<Elected, NotController> {
        self.ask(|answer| Asked::ElectLeaders { partitions, kind, answer }).await
    }

    /// Each partition once, in no order.
    pub async fn alter_reassignments(
        &self,
        wanted: Vec<(TopicPartition, Target)>,
    ) -> Result<Reassigned, NotController> {
        self.ask(|answer| Asked::AlterReassignments { wanted, answer }).await
    }

    pub async fn list_reassignments(&self) -> Result<Reassignments, NotController> {
        self.ask(|answer| Asked::ListReassignments { answer }).await
    }

    /// Changes ISRs as their leader wants. The inner error refuses the whole request: STALE_BROKER_EPOCH.
    pub async fn alter_partition(
        &self,
        request: AlterPartition,
    ) -> Result<Result<AlteredIsrs, ErrorCode>, NotController> {
        self.ask(|answer| Asked::AlterPartition { request, answer }).await
    }

    /// Makes others lead what `broker` leads, and takes it out of every ISR; what it leads after that. `broker_epoch` is
    /// `None` for a request that carries none (version 0 and 1). The inner error: BROKER_NOT_AVAILABLE,
    /// UNKNOWN_SERVER_ERROR or STALE_BROKER_EPOCH.
    pub async fn controlled_shutdown(
        &self,
        broker: BrokerId,
        broker_epoch: Option<i64>,
    ) -> Result<Result<Vec<TopicPartition>, ErrorCode>, NotController> {
        self.ask(|answer| Asked::ControlledShutdown { broker, broker_epoch, answer }).await
    }

    async fn ask<T>(&self, question: impl FnOnce(oneshot::Sender<T>) -> Asked) -> Result<T, NotController> {
        let (sender, answer) = oneshot::channel();
        self.0.send(question(sender)).await.map_err(|_| NotController)?;
        answer.await.map_err(|_| NotController)
    }
}

#[cfg(test)]
mod tests;
