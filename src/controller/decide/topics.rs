//! Topics appear, grow, and disappear behind the controller's back.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::{Effect, Event, LoadedTopic, partitions};
use crate::controller::state::{Partition, State, Topic};
use crate::metastore::schema::TopicAssignment;
use crate::types::TopicPartition;

pub(super) fn changed(state: &mut State, present: &BTreeSet<String>, new: Vec<LoadedTopic>) -> Vec<Effect> {
    let gone: Vec<Arc<str>> = state.topics.keys().filter(|name| !present.contains(&***name)).cloned().collect();
    for name in gone {
        state.forget_topic(&name);
    }
    let mut added = Vec::new();
    for topic in new {
        let partitions = topic
            .assignment
            .partitions
            .into_iter()
            .map(|(index, assignment)| (index, Partition::new(assignment)))
            .collect();
        state.add_topic(Arc::clone(&topic.name), Topic { id: topic.id, partitions });
        added.extend(state.partitions_of(&topic.name));
    }
    create(state, added)
}

pub(super) fn topic_changed(state: &mut State, name: &Arc<str>, assignment: TopicAssignment) -> Vec<Effect> {
    let being_deleted = state.is_being_deleted(name);
    let Some(topic) = state.topics.get_mut(name) else { return Vec::new() };
    let new: Vec<_> =
        assignment.partitions.into_iter().filter(|(index, _)| !topic.partitions.contains_key(index)).collect();
    if new.is_empty() {
        return Vec::new();
    }
    if being_deleted {
        tracing::warn!(topic = %name, "partitions added to a topic that is being deleted: taken back");
        let assignment = state.assignment_of(name).unwrap_or_default();
        return vec![Effect::WriteTopic { name: Arc::clone(name), assignment }];
    }
    let added = new.iter().map(|(index, _)| TopicPartition::new(Arc::clone(name), *index)).collect();
    topic.partitions.extend(new.into_iter().map(|(index, assignment)| (index, Partition::new(assignment))));
    create(state, added)
}

/// Partitions and replicas are New, then Online.
fn create(state: &mut State, added: Vec<TopicPartition>) -> Vec<Effect> {
    if added.is_empty() {
        return Vec::new();
    }
    let mut effects = partitions::bring_online(state, &added);
    effects.push(Effect::Decide(Event::ReplicasOnline(added)));
    effects
}
