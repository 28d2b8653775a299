//! The first steps of a term, in the order of Kafka's `onControllerFailover`.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Context, Effect, Event, LoadedState, bounces, brokers, deletion, partitions};
use crate::controller::state::{Partition, State, Topic};
use crate::controller::status::{PartitionStatus, ReplicaStatus};
use crate::types::{BrokerId, TopicPartition};

pub(super) fn became_controller(state: &mut State, context: Context) -> Vec<Effect> {
    let delete_requests = context.delete_requests.clone();
    state.live = context.brokers.iter().map(|broker| (broker.id, broker.clone())).collect();
    let bounces = bounces::find(state, &context.topics);
    load(state, context);
    let mut effects = Vec::new();

    // Live brokers first, without partitions: what follows names brokers that must be known.
    state.tell_metadata([]);
    effects.extend(state.send_batch());

    let mut online = Vec::new();
    let mut offline = Vec::new();
    for tp in state.all_partitions() {
        let Some(partition) = state.partition(&tp) else { continue };
        for id in partition.assignment.replicas.clone() {
            match state.is_online(id, &tp) {
                // Leads or follows nobody under the old epoch.
                true if bounces.contains_key(&tp) => {}
                true => online.push((id, tp.clone())),
                false => offline.push((id, tp.clone())),
            }
        }
    }
    // Everybody learns the leaderships as they stand; brokers that know them already answer so.
    brokers::replicas_online(state, &online);
    // All partitions at once, those of bounced replicas too: a client that is shown a part of a topic's partitions takes
    // the others for gone.
    let all = state.all_partitions();
    all.iter().for_each(|tp| state.tell_change(tp));
    effects.extend(state.send_batch());
    // First: what is written later must not count on them.
    effects.extend(bounces::failed(state, bounces));
    let offline: Vec<(BrokerId, TopicPartition)> =
        offline.into_iter().filter(|(_, tp)| !state.is_being_deleted(&tp.topic)).collect();
    if !offline.is_empty() {
        effects.extend(partitions::take_offline(state, &offline));
    }
    effects.push(Effect::Decide(Event::ElectOffline));
    effects.push(Effect::Decide(Event::ResumeReassignments));
    effects.push(Effect::Decide(Event::DeleteRequestsChanged(delete_requests)));
    effects
}

fn load(state: &mut State, context: Context) {
    for loaded in context.topics {
        let mut partitions: BTreeMap<i32, Partition> = loaded
            .assignment
            .partitions
            .into_iter()
            .map(|(index, assignment)| (index, Partition::new(assignment)))
            .collect();
        for LoadedState { partition, leadership, .. } in loaded.states {
            let Some(partition) = partitions.get_mut(&partition) else { continue };
            let leader_is_live = state.live.contains_key(&leadership.state.leader);
            partition.status = if leader_is_live { PartitionStatus::Online } else { PartitionStatus::Offline };
            partition.leadership = Some(leadership);
        }
        for partition in partitions.values_mut() {
            for (id, replica) in &mut partition.replicas {
                let live = state.live.contains_key(id);
                *replica = if live { ReplicaStatus::Online } else { ReplicaStatus::DeletionIneligible };
            }
        }
        state.add_topic(Arc::clone(&loaded.name), Topic { id: loaded.id, partitions });
    }
    for name in context.delete_requests {
        let name: Arc<str> = Arc::from(name);
        if state.topics.contains_key(&name) && state.deletion_enabled {
            deletion::mark_found(state, &name);
        }
    }
}
