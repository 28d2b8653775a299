//! The controller's core: `decide(state, event) -> effects`.
//!
//! It knows no metastore and no sockets. The driver carries effects out strictly in order; an effect that has an
//! answer is answered with an event, whose own effects come before the rest. One event with all that follows from it is
//! thus finished before the next is looked at: the same order of znodes and messages as Kafka's single controller
//! thread. What an answer needs in order to go on travels with the effect and comes back in the event ([`AfterRead`]),
//! so that no half-done work lies in the state.
//!
//! Rules: Kafka's `KafkaController`, `PartitionStateMachine`, `ReplicaStateMachine`, `TopicDeletionManager`; seen in the
//! transaction log of a live 3.9.1 cluster.

mod bounces;
mod brokers;
mod deletion;
mod elections;
mod failover;
mod isr_changes;
mod partitions;
mod reassignments;
mod shutdown;
mod suspicion;
mod topics;

pub use elections::ElectionType;
pub use isr_changes::{AlterPartition, IsrChange, IsrMember, TopicKey, Wanted};
pub use reassignments::Target;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::election::Choice;
use super::message::{ControlAnswer, ControlBody, ControlRequest};
use super::state::{Leadership, State};
use crate::cluster::Broker;
use crate::cluster::suspicion::Incarnation;
use crate::metastore::schema::{PartitionState, ReplicaAssignment, TopicAssignment};
use crate::types::{BrokerId, TopicId, TopicPartition};
use crate::wire::error_code::ErrorCode;

/// What happened.
#[derive(Clone, Debug)]
pub enum Event {
    /// Elected, and everything is loaded.
    BecameController(Box<Context>),
    /// The live brokers are now these.
    BrokersChanged(Vec<Broker>),
    /// A live broker changed its registration (endpoints, features).
    BrokerChanged(Broker),
    /// A live broker is taken for dead, though it is registered.
    BrokerSuspected(Incarnation),
    /// A suspect answered under the same registration: it lives.
    SuspectAnswered(Incarnation),
    /// The topics are now `present`; `new` are those not known before.
    TopicsChanged { present: BTreeSet<String>, new: Vec<LoadedTopic> },
    /// A topic's node was written.
    TopicChanged { name: Arc<str>, assignment: TopicAssignment },
    /// The topics marked for deletion.
    DeleteRequestsChanged(BTreeSet<String>),
    /// A broker announced that log directories of its failed.
    LogDirsFailed(BTreeSet<BrokerId>),

    /// An administrator wants leaders elected. Each partition is answered with [`Effect::Elected`].
    ElectLeaders { partitions: Vec<TopicPartition>, kind: ElectionType },
    /// An administrator wants partitions moved. Each is answered with [`Effect::Reassigned`].
    AlterReassignments(Vec<(TopicPartition, Target)>),
    /// A leader wants other ISRs. Each partition is answered with [`Effect::IsrChanged`], or the request with
    /// [`Effect::Refused`].
    AlterPartition(AlterPartition),
    /// The leader of these partitions has its answer.
    IsrAnswered(Vec<TopicPartition>),
    /// A broker wants to stop; its epoch, if the request has one. Answered with [`Effect::StillLed`] or
    /// [`Effect::Refused`].
    ControlledShutdown { broker: BrokerId, broker_epoch: Option<i64> },
    /// `/admin/reassign_partitions` says so.
    ReassignRequested(Vec<(TopicPartition, Vec<BrokerId>)>),
    /// Time to look whether each broker leads what it should, all but `percentage` of it
    /// (`leader.imbalance.per.broker.percentage`).
    BalanceDue { percentage: i32 },
    /// Leaders wrote their ISRs themselves; what they are now was read.
    IsrChanged(Vec<(TopicPartition, Leadership)>),

    /// Answers [`Effect::CreateStates`].
    StatesCreated(Vec<(TopicPartition, Written)>),
    /// Answers [`Effect::ReadStates`]. `None` for a node that is missing or cannot be read.
    StatesRead { states: Vec<(TopicPartition, Option<Leadership>)>, then: AfterRead },
    /// Answers [`Effect::ReadUnclean`] with the topics that allow unclean election.
    UncleanRead { states: Vec<(TopicPartition, Leadership)>, allowed: BTreeSet<Arc<str>> },
    /// Answers [`Effect::ReadMinIsr`]: by topic `min.insync.replicas`, without those that could not be read.
    MinIsrRead { suspect: BrokerId, states: Vec<(TopicPartition, Leadership)>, min_isr: BTreeMap<Arc<str>, usize> },
    /// Answers [`Effect::WriteStates`].
    StatesWritten { written: Vec<(TopicPartition, PartitionState, Written)>, then: AfterRead },
    /// Answers [`Effect::DeleteTopic`].
    TopicDeleted { name: Arc<str>, deleted: bool },
    /// A broker answered `request`.
    Answered { from: BrokerId, request: ControlBody, answer: ControlAnswer },

    /// These brokers are live from now on (only from [`Effect::Decide`]).
    BrokersStarted(Vec<Broker>),
    /// All was tried to make others lead what this one led (only from [`Effect::Decide`]).
    ShutdownWorkedOn(BrokerId),
    /// Brokers were read: what could not be written because one had come back unseen is decided again (only from
    /// [`Effect::Decide`]).
    TryAgain,
    /// What was collected is to be sent (only from [`Effect::Decide`]).
    SendBatch,
    /// Replicas of these topics are Offline: delete them (only from [`Effect::Decide`]).
    DeleteReplicas(BTreeSet<Arc<str>>),
    /// New replicas of these partitions are told; they are Online now (only from [`Effect::Decide`]).
    ReplicasOnline(Vec<TopicPartition>),
    /// Look at New and Offline partitions again: unclean election may be allowed by now.
    ElectOffline,
    /// Replicas that had died unseen are out of the ISRs (only from [`Effect::Decide`]).
    BouncedBack(Vec<(BrokerId, TopicPartition)>),
    /// Look at pending deletions again (only from [`Effect::Decide`]).
    ResumeDeletions,
    /// A new term goes on with the reassignments of the last (only from [`Effect::Decide`]).
    ResumeReassignments,
    /// A partition is to be as assigned here (only from [`Effect::Decide`]).
    Reassign(TopicPartition, ReplicaAssignment),
    /// One of a reassignment's target leads; these replicas go (only from [`Effect::Decide`]).
    ReassignmentMoved(TopicPartition, Vec<BrokerId>),
    /// The topic node has the target alone (only from [`Effect::Decide`]).
    ReassignmentDone(TopicPartition),
    /// Replicas are out of the ISR and stopped: deleted, nobody remembers them (only from [`Effect::Decide`]).
    ForgetReplicas(TopicPartition, Vec<BrokerId>),
}

/// What the metastore holds at the start of a term.
#[derive(Clone, Debug, Default)]
pub struct Context {
    pub brokers: Vec<Broker>,
    pub topics: Vec<LoadedTopic>,
    pub delete_requests: BTreeSet<String>,
}

/// A topic as read, with an id in any case and the states of those partitions that have a state node.
#[derive(Clone, Debug)]
pub struct LoadedTopic {
    pub name: Arc<str>,
    pub id: TopicId,
    pub assignment: TopicAssignment,
    pub states: Vec<LoadedState>,
}

/// A partition's state node.
#[derive(Clone, Debug)]
pub struct LoadedState {
    pub partition: i32,
    pub leadership: Leadership,
    /// Number of the transaction that wrote it last.
    pub mzxid: i64,
}

/// How a conditional write ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// With the node's version now.
    Done { version: i32 },
    /// Another version is there: read again, then decide again.
    Conflict,
    /// A member of its ISR has registered anew and was not seen yet: nothing was written, and what is to become of it is
    /// decided when the brokers are read.
    Unseen,
    /// It exists, is gone, or failed otherwise.
    Failed,
}

/// What partition states are read and written for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AfterRead {
    /// Elect a leader; of a type that was asked for, if it was.
    Elect(Choice, Option<ElectionType>),
    /// Replicas change: the same leader, told in a higher epoch; these begin anew.
    RaiseEpoch { adding: Vec<BrokerId> },
    /// A reassignment goes on by what the ISR is now.
    Reassign,
    /// A leader wants these states: what there is now instead.
    ChangeIsr(BTreeMap<TopicPartition, Wanted>),
    /// This replica went offline: take it out of the ISR, with all others that are gone.
    RemoveFromIsr(BrokerId),
    /// This broker is suspected: where others in the ISR are live they do without it.
    Suspect(BrokerId),
}

/// What is to be done. All writes are fenced with the controller epoch; when the fence fails the term is over.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Queues a message on the broker's channel.
    Send {
        to: BrokerId,
        request: ControlRequest,
    },
    /// Creates `partitions`, each `<p>` and each `<p>/state`.
    CreateStates(Vec<(TopicPartition, PartitionState)>),
    ReadStates {
        partitions: Vec<TopicPartition>,
        then: AfterRead,
    },
    /// Which of these partitions' topics set (or inherit) `unclean.leader.election.enable`.
    ReadUnclean(Vec<(TopicPartition, Leadership)>),
    /// What `min.insync.replicas` is for these partitions' topics.
    ReadMinIsr {
        suspect: BrokerId,
        states: Vec<(TopicPartition, Leadership)>,
    },
    /// Tells who asked who leads now, or why nobody was elected.
    Elected(TopicPartition, Result<BrokerId, ErrorCode>),
    /// Tells who asked that the reassignment has begun, or why not.
    Reassigned(TopicPartition, Result<(), (ErrorCode, &'static str)>),
    /// Tells a leader its partition's state now, or why it is not what it wanted.
    IsrChanged {
        /// The partition's place in the request.
        at: usize,
        outcome: Result<(TopicPartition, Leadership), ErrorCode>,
    },
    /// Tells a broker that wants to stop what it still leads.
    StillLed(Vec<TopicPartition>),
    /// Tells who asked that the whole request is refused.
    Refused(ErrorCode),
    /// Sets each state where its node still has the given version.
    WriteStates {
        writes: Vec<(TopicPartition, PartitionState, i32)>,
        then: AfterRead,
    },
    /// Sets the topic's node.
    WriteTopic {
        name: Arc<str>,
        assignment: TopicAssignment,
    },
    /// Deletes a topic's nodes, its config node and its delete request.
    DeleteTopic(Arc<str>),
    RemoveDeleteRequests(Vec<String>),
    /// Takes partitions out of `/admin/reassign_partitions`; the node goes with the last.
    RemoveReassignRequests(Vec<TopicPartition>),
    /// Feeds the event back after everything before it.
    Decide(Event),
}

impl PartialEq for Event {
    /// Events inside effects are compared by what they print: tests only.
    fn eq(&self, other: &Event) -> bool {
        format!("{self:?}") == format!("{other:?}")
    }
}

/// The one transition function.
pub fn decide(state: &mut State, event: Event) -> Vec<Effect> {
    match event {
        Event::BecameController(context) => failover::became_controller(state, *context),
        Event::BrokersChanged(live) => brokers::changed(state, live),
        Event::BrokerChanged(broker) => brokers::updated(state, broker),
        Event::BrokerSuspected(who) => suspicion::suspected(state, who),
        Event::SuspectAnswered(who) => suspicion::cleared(state, who),
        Event::MinIsrRead { suspect, states, min_isr } => suspicion::write(state, suspect, states, &min_isr),
        Event::TopicsChanged { present, new } => topics::changed(state, &present, new),
        Event::TopicChanged { name, assignment } => topics::topic_changed(state, &name, assignment),
        Event::DeleteRequestsChanged(topics) => deletion::requested(state, topics),
        Event::LogDirsFailed(brokers) => brokers::log_dirs_failed(state, &brokers),
        Event::ElectLeaders { partitions, kind } => elections::asked(state, partitions, kind),
        Event::AlterReassignments(wanted) => reassignments::asked(state, wanted),
        Event::AlterPartition(request) => isr_changes::asked(state, &request),
        Event::IsrAnswered(partitions) => isr_changes::answered(state, &partitions),
        Event::ControlledShutdown { broker, broker_epoch } => shutdown::asked(state, broker, broker_epoch),
        Event::ShutdownWorkedOn(broker) => shutdown::worked_on(state, broker),
        Event::ReassignRequested(wanted) => reassignments::requested(state, wanted),
        Event::BalanceDue { percentage } => elections::balance(state, percentage),
        Event::BouncedBack(gone) => bounces::back(state, gone),
        Event::IsrChanged(changed) => reassignments::isr_changed(state, changed),
        Event::StatesCreated(created) => partitions::created(state, created),
        Event::StatesRead { states, then } => partitions::states_read(state, states, then),
        Event::UncleanRead { states, allowed } => partitions::elect_where_allowed(state, states, &allowed),
        Event::StatesWritten { written, then } => partitions::states_written(state, written, then),
        Event::TopicDeleted { name, deleted } => deletion::deleted(state, &name, deleted),
        Event::Answered { from, request, answer } => brokers::answered(state, from, &request, &answer),
        Event::BrokersStarted(brokers) => brokers::started(state, brokers),
        Event::TryAgain => brokers::try_again(state),
        Event::SendBatch => state.send_batch(),
        Event::DeleteReplicas(topics) => deletion::delete_replicas(state, &topics),
        Event::ReplicasOnline(partitions) => partitions::replicas_online(state, &partitions),
        Event::ElectOffline => partitions::elect_offline(state),
        Event::ResumeDeletions => deletion::resume(state),
        Event::ResumeReassignments => reassignments::resume(state, |_| true),
        Event::Reassign(tp, next) => reassignments::begin(state, tp, next),
        Event::ReassignmentMoved(tp, removing) => reassignments::moved(state, &tp, removing),
        Event::ReassignmentDone(tp) => reassignments::done(state, &tp),
        Event::ForgetReplicas(tp, replicas) => reassignments::forget_replicas(state, &tp, &replicas),
    }
}

#[cfg(test)]
mod tests;
