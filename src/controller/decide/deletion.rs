//! Topic deletion: stop and delete every replica, then the nodes. These wait for a dead or failing
//! replica; the live ones are gone by then (seen on a live 3.9.1).

use std::collections::BTreeSet;
use std::sync::Arc;

use super::{Effect, Event, partitions, reassignments};
use crate::controller::state::{Deletion, State};
use crate::controller::status::{PartitionStatus, ReplicaStatus};
use crate::types::{BrokerId, TopicPartition};
use crate::wire::error_code::ErrorCode;

/// `/admin/delete_topics` has these children now.
pub(super) fn requested(state: &mut State, topics: BTreeSet<String>) -> Vec<Effect> {
    let (known, unknown): (Vec<String>, Vec<String>) =
        topics.into_iter().partition(|name| state.topics.contains_key(name.as_str()));
    let (wanted, mut refused) = if state.deletion_enabled { (known, unknown) } else { (Vec::new(), known) };
    if !state.deletion_enabled {
        tracing::warn!(topics = ?refused, "topic deletion is disabled: requests removed");
    }
    let mut effects = Vec::new();
    refused.sort_unstable();
    if !refused.is_empty() {
        effects.push(Effect::RemoveDeleteRequests(refused));
    }
    for name in wanted {
        mark(state, &Arc::from(name));
    }
    effects.extend(resume(state));
    effects
}

/// A controller that takes over marks a topic: it waits while a replica of it is not online, too.
pub(super) fn mark_found(state: &mut State, name: &Arc<str>) {
    let waits = replicas_of(state, name).iter().any(|(id, tp)| !state.is_online(*id, tp));
    mark(state, name);
    if let Some(deletion) = state.deletions.get_mut(name) {
        deletion.ineligible |= waits;
    }
}

/// Marks a topic; it waits while a partition of it is being reassigned.
fn mark(state: &mut State, name: &Arc<str>) {
    if state.is_being_deleted(name) {
        return;
    }
    let moving =
        |tp: &TopicPartition| state.partition(tp).is_some_and(|partition| partition.assignment.is_being_reassigned());
    let ineligible = state.partitions_of(name).iter().any(moving);
    state.deletions.insert(Arc::clone(name), Deletion { begun: false, ineligible });
}

/// A broker is back: topics that waited for its replicas are tried again.
pub(super) fn replicas_back(state: &mut State, back: &[(BrokerId, TopicPartition)]) {
    for (_, tp) in back {
        if let Some(deletion) = state.deletions.get_mut(&tp.topic) {
            deletion.ineligible = false;
        }
    }
}

/// Does for every marked topic what can be done now.
pub(super) fn resume(state: &mut State) -> Vec<Effect> {
    let mut effects = Vec::new();
    let mut eligible = BTreeSet::new();
    for name in state.deletions.keys().cloned().collect::<Vec<_>>() {
        let statuses = statuses_of(state, &name);
        if statuses.iter().all(|status| *status == ReplicaStatus::DeletionSuccessful) {
            effects.push(Effect::DeleteTopic(name));
        } else if !statuses.contains(&ReplicaStatus::DeletionStarted)
            && state.deletions.get(&name).is_some_and(|deletion| !deletion.ineligible)
        {
            eligible.insert(name);
        }
    }
    if !eligible.is_empty() {
        effects.extend(begin(state, eligible));
    }
    effects
}

/// Partitions vanish from everybody's metadata; dead replicas wait, live ones stop, then delete.
fn begin(state: &mut State, topics: BTreeSet<Arc<str>>) -> Vec<Effect> {
    for name in &topics {
        let Some(deletion) = state.deletions.get_mut(name) else { continue };
        if std::mem::replace(&mut deletion.begun, true) {
            continue;
        }
        let partitions = state.partitions_of(name);
        for tp in &partitions {
            if let Some(partition) = state.partition_mut(tp) {
                partition.status = PartitionStatus::Offline;
            }
        }
        state.tell_metadata(partitions);
    }
    let mut effects = state.send_batch();
    let mut live = Vec::new();
    for name in &topics {
        for (id, tp) in replicas_of(state, name) {
            let online = state.is_online(id, &tp);
            let status = state.partition_mut(&tp).and_then(|partition| partition.replicas.get_mut(&id));
            match status {
                Some(ReplicaStatus::DeletionSuccessful) | None => {}
                Some(_) if online => live.push((id, tp)),
                Some(status) => {
                    if *status != ReplicaStatus::DeletionIneligible {
                        status.change(ReplicaStatus::Offline);
                        status.change(ReplicaStatus::DeletionIneligible);
                    }
                    if let Some(deletion) = state.deletions.get_mut(name) {
                        deletion.ineligible = true;
                    }
                }
            }
        }
    }
    effects.extend(partitions::take_offline(state, &live));
    effects.push(Effect::Decide(Event::DeleteReplicas(topics)));
    effects
}

/// Offline replicas get StopReplica with delete.
pub(super) fn delete_replicas(state: &mut State, topics: &BTreeSet<Arc<str>>) -> Vec<Effect> {
    for name in topics {
        for (id, tp) in replicas_of(state, name) {
            let online = state.is_online(id, &tp);
            let status = state.partition_mut(&tp).and_then(|partition| partition.replicas.get_mut(&id));
            if let Some(status) = status
                && online
                && *status == ReplicaStatus::Offline
                && status.change(ReplicaStatus::DeletionStarted)
            {
                state.tell_stop(&tp, id, true);
            }
        }
    }
    state.send_batch()
}

/// A broker answered StopReplica with delete.
pub(super) fn answered(state: &mut State, from: BrokerId, answers: &[(TopicPartition, ErrorCode)]) -> Vec<Effect> {
    for (tp, error) in answers {
        let Some(status) = state.partition_mut(tp).and_then(|partition| partition.replicas.get_mut(&from)) else {
            continue;
        };
        if *status != ReplicaStatus::DeletionStarted {
            continue;
        }
        if error.is_error() {
            tracing::warn!(partition = %tp, broker = %from, %error, "replica not deleted: tried again when the broker returns");
            status.change(ReplicaStatus::DeletionIneligible);
            if let Some(deletion) = state.deletions.get_mut(&tp.topic) {
                deletion.ineligible = true;
            }
        } else {
            status.change(ReplicaStatus::DeletionSuccessful);
        }
    }
    resume(state)
}

/// Replicas of topics being deleted went offline: those topics wait for them.
pub(super) fn replicas_failed(state: &mut State, gone: &[(BrokerId, TopicPartition)]) {
    for (id, tp) in gone {
        if let Some(status) = state.partition_mut(tp).and_then(|partition| partition.replicas.get_mut(id))
            && *status != ReplicaStatus::DeletionSuccessful
        {
            if *status != ReplicaStatus::DeletionStarted {
                status.change(ReplicaStatus::Offline);
            }
            status.change(ReplicaStatus::DeletionIneligible);
        }
        if let Some(deletion) = state.deletions.get_mut(&tp.topic) {
            deletion.ineligible = true;
        }
    }
}

/// The topic's nodes are gone (or could not be deleted: tried again at the next look).
pub(super) fn deleted(state: &mut State, name: &Arc<str>, deleted: bool) -> Vec<Effect> {
    if deleted {
        state.forget_topic(name);
        state.deletions.remove(name);
        state.offline_replicas.retain(|(_, tp)| tp.topic != *name);
        let requests: Vec<_> = state.reassign_requests.iter().filter(|tp| tp.topic == *name).cloned().collect();
        return reassignments::requests_over(state, requests);
    }
    Vec::new()
}

fn replicas_of(state: &State, name: &str) -> Vec<(BrokerId, TopicPartition)> {
    let of = |tp: TopicPartition| {
        let replicas = state.partition(&tp).map_or_else(Vec::new, |partition| partition.assignment.replicas.clone());
        replicas.into_iter().map(move |id| (id, tp.clone()))
    };
    state.partitions_of(name).into_iter().flat_map(of).collect()
}

fn statuses_of(state: &State, name: &str) -> Vec<ReplicaStatus> {
    state.topics.get(name).map_or_else(Vec::new, |topic| {
        topic.partitions.values().flat_map(|partition| partition.replicas.values().copied()).collect()
    })
}
