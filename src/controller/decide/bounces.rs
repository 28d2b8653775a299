//! Brokers that died and came back while no controller looked. Their session ended and a new one began between two
//! controllers, so nobody took them out of the ISR, though what they had not synced may be lost. A state node that was last
//! written before a member of its ISR registered tells it. Kafka goes on in the same leader epoch then: a leader that lost
//! its last records makes followers cut off what was committed. No later write hides it: see
//! [`Fence::write_states`](crate::controller::fence::Fence::write_states).
//!
//! Such a member is treated as failed, then started. Where all live ones are such nobody is better than the others: the
//! leader stays under a higher epoch. A partition with one replica has nobody who could disagree with it: nothing is done.

use std::collections::BTreeMap;

use super::{AfterRead, Effect, Event, LoadedTopic, brokers, partitions};
use crate::controller::state::State;
use crate::types::{BrokerId, TopicPartition};

/// Replicas that came back unseen, by partition.
pub(super) type Bounces = BTreeMap<TopicPartition, Vec<BrokerId>>;

/// Compares when brokers registered with when states were written, both as transaction numbers.
pub(super) fn find(state: &State, topics: &[LoadedTopic]) -> Bounces {
    let mut found = Bounces::new();
    for topic in topics {
        for loaded in &topic.states {
            let replicas = topic.assignment.partitions.get(&loaded.partition).map_or(0, |of| of.replicas.len());
            if replicas < 2 {
                continue;
            }
            let written = &loaded.leadership.state;
            let mut members = written.isr.clone();
            if !members.contains(&written.leader) {
                members.push(written.leader);
            }
            members.retain(|id| state.live.get(id).is_some_and(|broker| broker.epoch > loaded.mzxid));
            if !members.is_empty() {
                found.insert(TopicPartition::new(topic.name.clone(), loaded.partition), members);
            }
        }
    }
    found
}

pub(super) fn failed(state: &mut State, bounces: Bounces) -> Vec<Effect> {
    let (mut raise, mut gone) = (Vec::new(), Vec::new());
    for (tp, members) in bounces {
        let Some(leadership) = state.partition(&tp).and_then(|partition| partition.leadership.as_ref()) else {
            continue;
        };
        tracing::warn!(partition = %tp, brokers = ?members, "died and came back unseen: not counted on");
        let others = leadership.state.isr.iter().any(|id| !members.contains(id) && state.is_online(*id, &tp));
        match others {
            true => gone.extend(members.into_iter().map(|id| (id, tp.clone()))),
            // Without its leader it is elected for anyway.
            false if state.is_online(leadership.state.leader, &tp) => raise.push(tp),
            false => {}
        }
    }
    let mut effects = Vec::new();
    if !raise.is_empty() {
        effects.push(Effect::ReadStates { partitions: raise, then: AfterRead::RaiseEpoch { adding: Vec::new() } });
        effects.push(Effect::Decide(Event::SendBatch));
    }
    if !gone.is_empty() {
        state.offline_replicas.extend(gone.iter().cloned());
        effects.extend(partitions::replicas_offline(state, &gone));
        effects.push(Effect::Decide(Event::BouncedBack(gone)));
    }
    effects
}

/// They are out of every ISR: from now on they are followers that have just started.
pub(super) fn back(state: &mut State, gone: Vec<(BrokerId, TopicPartition)>) -> Vec<Effect> {
    for replica in &gone {
        state.offline_replicas.remove(replica);
    }
    brokers::replicas_online(state, &gone);
    state.send_batch()
}
