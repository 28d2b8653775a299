//! A partition moves to other brokers: new replicas are added, and when all of the target are in sync the others go.
//!
//! ```text
//! asked ── U: topic node: target, then the rest of the old ones; adding, removing
//!       └─ read the ISR ── target not in sync ── A: leader epoch +1, everybody told, new replicas begin to copy
//!                       │                           …until a change of the ISR: read it again
//!                       └─ target in sync ── B: new replicas Online, leader within the target (or its epoch +1),
//!                                               others out of the ISR, stopped and deleted, topic node: the target alone
//! ```
//! The topic node says at each step what is left to be done, so that the next controller goes on with it. To cancel is to
//! go back to the original replicas. Steps and their order: Kafka's `onPartitionReassignment`. Differs: new replicas are told
//! once in A, where Kafka tells them twice; of several replicas that go at once, all are stopped in the leader epoch before the
//! first left the ISR, where Kafka counts on.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::{AfterRead, Effect, Event, brokers, partitions};
use crate::controller::election::Choice;
use crate::controller::state::{Leadership, State};
use crate::controller::status::ReplicaStatus;
use crate::metastore::schema::ReplicaAssignment;
use crate::types::{BrokerId, TopicPartition};
use crate::wire::error_code::ErrorCode;

/// New replicas of a partition, in order of preference; `None` cancels.
pub type Target = Option<Vec<BrokerId>>;

/// Checks per partition, first that holds: INVALID_REPLICA_ASSIGNMENT for no replicas, one twice, a negative id, or an
/// added one that is not live; NO_REASSIGNMENT_IN_PROGRESS when there is none to cancel; UNKNOWN_TOPIC_OR_PARTITION, also
/// for a topic that is being deleted. The answer is there when the first step is done.
pub(super) fn asked(state: &mut State, wanted: Vec<(TopicPartition, Target)>) -> Vec<Effect> {
    let mut effects = Vec::new();
    for (tp, target) in wanted {
        match next_assignment(state, &tp, target) {
            Ok(next) => {
                // What was wanted last counts.
                effects.extend(requests_over(state, vec![tp.clone()]));
                effects.push(Effect::Decide(Event::Reassign(tp, next)));
            }
            Err((code, why)) => effects.push(Effect::Reassigned(tp, Err((code, why)))),
        }
    }
    effects
}

/// The node that old tools write. What it says of a partition on its way there is known; what nobody can do is taken out.
/// Brokers need not be live: the partition waits for them.
pub(super) fn requested(state: &mut State, wanted: Vec<(TopicPartition, Vec<BrokerId>)>) -> Vec<Effect> {
    let (mut effects, mut over) = (Vec::new(), Vec::new());
    for (tp, target) in wanted {
        let known = state.partition(&tp).filter(|_| !state.is_being_deleted(&tp.topic));
        let refusal = nonsense(&target).or(known.is_none().then_some("there is no such partition"));
        let (Some(partition), None) = (known, refusal) else {
            tracing::warn!(partition = %tp, ?target, why = refusal, "reassignment refused");
            over.push(tp);
            continue;
        };
        let assignment = &partition.assignment;
        let on_its_way = assignment.is_being_reassigned() && assignment.target() == target;
        let next = assignment.towards(&target);
        state.reassign_requests.insert(tp.clone());
        // One that is already where it is to be is done at once, with a higher leader epoch (seen on a live 3.9.1).
        if !on_its_way {
            effects.push(Effect::Decide(Event::Reassign(tp, next)));
        }
    }
    if !over.is_empty() {
        effects.insert(0, Effect::RemoveReassignRequests(over));
    }
    effects
}

/// These are done or replaced: they go from the node if they are in it.
pub(super) fn requests_over(state: &mut State, mut partitions: Vec<TopicPartition>) -> Vec<Effect> {
    partitions.retain(|tp| state.reassign_requests.remove(tp));
    match partitions.is_empty() {
        true => Vec::new(),
        false => vec![Effect::RemoveReassignRequests(partitions)],
    }
}

fn nonsense(target: &[BrokerId]) -> Option<&'static str> {
    if target.is_empty() {
        return Some("no replicas are given");
    }
    if target.iter().collect::<BTreeSet<_>>().len() != target.len() {
        return Some("a replica is given twice");
    }
    target.iter().any(|id| id.0 < 0).then_some("a broker id is not negative")
}

fn next_assignment(
    state: &State,
    tp: &TopicPartition,
    target: Target,
) -> Result<ReplicaAssignment, (ErrorCode, &'static str)> {
    let unknown = ReplicaAssignment::default();
    let known = state.partition(tp).map(|partition| &partition.assignment);
    let current = known.unwrap_or(&unknown);
    let next = match target {
        Some(target) => {
            let invalid = |why| Err((ErrorCode::InvalidReplicaAssignment, why));
            if let Some(why) = nonsense(&target) {
                return invalid(why);
            }
            let next = current.towards(&target);
            if !next.adding.iter().all(|id| state.is_live(*id)) {
                return invalid("a broker to be added is not live");
            }
            next
        }
        None if current.is_being_reassigned() => current.towards(&current.original()),
        None => return Err((ErrorCode::NoReassignmentInProgress, "there is no reassignment to cancel")),
    };
    match known.is_some() && !state.is_being_deleted(&tp.topic) {
        true => Ok(next),
        false => Err((ErrorCode::UnknownTopicOrPartition, "there is no such partition")),
    }
}

/// U: what is wanted is written down, and replicas of a former target that are not wanted any more go.
pub(super) fn begin(state: &mut State, tp: TopicPartition, next: ReplicaAssignment) -> Vec<Effect> {
    let mut effects = Vec::new();
    if let Some(partition) = state.partition_mut(&tp)
        && partition.assignment != next
    {
        let unneeded: Vec<BrokerId> =
            partition.assignment.replicas.iter().copied().filter(|id| !next.replicas.contains(id)).collect();
        partition.assignment = next;
        for id in &partition.assignment.adding {
            partition.replicas.entry(*id).or_insert(ReplicaStatus::New);
        }
        effects.extend(write_topic(state, &tp));
        effects.extend(stop(state, &tp, unneeded));
    }
    effects.push(Effect::ReadStates { partitions: vec![tp.clone()], then: AfterRead::Reassign });
    effects.push(Effect::Decide(Event::SendBatch));
    effects.push(Effect::Reassigned(tp, Ok(())));
    effects
}

/// A or B, by the ISR as it was just read. A partition without a state node has nothing to wait for.
pub(super) fn advance(state: &mut State, read: Vec<(TopicPartition, Leadership)>) -> Vec<Effect> {
    let mut effects = Vec::new();
    for (tp, read) in read {
        let Some(partition) = state.partition_mut(&tp) else { continue };
        let in_sync = partition.assignment.target().iter().all(|id| read.state.isr.contains(id));
        let done = !partition.assignment.is_being_reassigned() || in_sync;
        partition.leadership = Some(read.clone());
        match done {
            true => effects.extend(finish(state, &tp, read)),
            false => {
                let adding = partition.assignment.adding.clone();
                effects.push(partitions::raise_epoch(state, &tp, &read, adding));
                effects.push(Effect::Decide(Event::SendBatch));
            }
        }
    }
    effects
}

/// B1 to B3: new replicas are Online, the target is all there is, and one of it leads.
fn finish(state: &mut State, tp: &TopicPartition, read: Leadership) -> Vec<Effect> {
    let Some(assignment) = state.partition(tp).map(|partition| partition.assignment.clone()) else { return Vec::new() };
    let target = assignment.target();
    let added: Vec<_> = assignment.adding.iter().map(|id| (*id, tp.clone())).collect();
    brokers::replicas_online(state, &added);
    let mut effects = state.send_batch();
    if let Some(partition) = state.partition_mut(tp) {
        partition.assignment = ReplicaAssignment::from(target.clone());
    }
    let leader = read.state.leader;
    effects.push(match target.contains(&leader) && state.is_online(leader, tp) {
        true => partitions::raise_epoch(state, tp, &read, Vec::new()),
        false => Effect::ReadStates { partitions: vec![tp.clone()], then: AfterRead::Elect(Choice::Reassign, None) },
    });
    effects.push(Effect::Decide(Event::SendBatch));
    effects.push(Effect::Decide(Event::ReassignmentMoved(tp.clone(), assignment.removing)));
    effects
}

/// B4 to B8: the others go, the topic node has the target alone, everybody is told.
pub(super) fn moved(state: &mut State, tp: &TopicPartition, removing: Vec<BrokerId>) -> Vec<Effect> {
    let mut effects = stop(state, tp, removing);
    effects.extend(write_topic(state, tp));
    effects.push(Effect::Decide(Event::ReassignmentDone(tp.clone())));
    effects
}

pub(super) fn done(state: &mut State, tp: &TopicPartition) -> Vec<Effect> {
    let mut effects = requests_over(state, vec![tp.clone()]);
    state.tell_metadata([tp.clone()]);
    effects.extend(state.send_batch());
    // A deletion that was asked for meanwhile has waited.
    if let Some(deletion) = state.deletions.get_mut(&tp.topic) {
        deletion.ineligible = false;
        effects.push(Effect::Decide(Event::ResumeDeletions));
    }
    effects
}

/// Replicas leave the ISR and stop, then are deleted and forgotten.
fn stop(state: &mut State, tp: &TopicPartition, replicas: Vec<BrokerId>) -> Vec<Effect> {
    if replicas.is_empty() {
        return Vec::new();
    }
    let gone: Vec<_> = replicas.iter().map(|id| (*id, tp.clone())).collect();
    let mut effects = partitions::take_offline(state, &gone);
    effects.push(Effect::Decide(Event::ForgetReplicas(tp.clone(), replicas)));
    effects
}

pub(super) fn forget_replicas(state: &mut State, tp: &TopicPartition, replicas: &[BrokerId]) -> Vec<Effect> {
    for id in replicas {
        let known = state.partition_mut(tp).and_then(|partition| partition.replicas.remove(id));
        if known.is_some() {
            state.tell_stop(tp, *id, true);
        }
    }
    state.send_batch()
}

fn write_topic(state: &State, tp: &TopicPartition) -> Option<Effect> {
    let assignment = state.assignment_of(&tp.topic)?;
    Some(Effect::WriteTopic { name: Arc::clone(&tp.topic), assignment })
}

/// Goes on with all that are under way (a new term), or with those that `concerned` may have been waited for by.
pub(super) fn resume(state: &State, concerned: impl Fn(&TopicPartition) -> bool) -> Vec<Effect> {
    let running = state.reassignments().into_iter().map(|(tp, _)| tp);
    let partitions: Vec<TopicPartition> = running.filter(|tp| concerned(tp)).collect();
    match partitions.is_empty() {
        true => Vec::new(),
        false => vec![Effect::ReadStates { partitions, then: AfterRead::Reassign }, Effect::Decide(Event::SendBatch)],
    }
}

/// Leaders wrote their ISRs themselves (Kafka before `inter.broker.protocol.version` 2.7).
pub(super) fn isr_changed(state: &mut State, changed: Vec<(TopicPartition, Leadership)>) -> Vec<Effect> {
    let mut told = Vec::new();
    for (tp, leadership) in changed {
        if let Some(partition) = state.partition_mut(&tp) {
            partition.leadership = Some(leadership);
            told.push(tp);
        }
    }
    state.tell_metadata(told.iter().cloned());
    let mut effects = state.send_batch();
    effects.extend(resume_in_sync(state, &told));
    effects
}

/// Goes on with those of `partitions` whose target is in sync by now.
pub(super) fn resume_in_sync(state: &State, partitions: &[TopicPartition]) -> Vec<Effect> {
    let in_sync = |tp: &TopicPartition| {
        let Some(partition) = state.partition(tp) else { return false };
        let isr = partition.leadership.as_ref().map(|leadership| &leadership.state.isr);
        isr.is_some_and(|isr| partition.assignment.target().iter().all(|id| isr.contains(id)))
    };
    resume(state, |tp| partitions.contains(tp) && in_sync(tp))
}
