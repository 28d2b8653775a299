//! A broker is taken for dead while it is registered still ([`crate::cluster::suspicion`]), and lives again or is gone.
//!
//! A suspect is not live: it is elected for nothing, joins no ISR, is told nothing, and nobody is told that it is there. What
//! is written for its sake must be right if it lives after all: only states with a live leader out of the ISR, which its
//! old leader cannot commit against. None is elected from outside the ISR while a suspect is in it, whatever the
//! configuration says: where nobody else in it is live, the state is left untouched until the registration is gone.
//! It is taken out of an ISR only where `min.insync.replicas` remain: otherwise writers would be refused, where a short wait
//! may be all.
//!
//! Its registration gone, or a later one there: the rest of a broker's failure runs, once. The same registration is nothing
//! new, until it answers.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{AfterRead, Effect, Event, brokers, deletion, partitions};
use crate::cluster::suspicion::Incarnation;
use crate::controller::election::without_suspect;
use crate::controller::state::{Leadership, State};
use crate::types::{BrokerId, TopicPartition};

/// Nothing when it is not live here in just this life.
pub(super) fn suspected(state: &mut State, who: Incarnation) -> Vec<Effect> {
    let is_live = state.live.get(&who.id).is_some_and(|known| known.epoch == who.czxid);
    if !is_live || who.id == state.me {
        return Vec::new();
    }
    state.suspects.extend(state.live.remove_entry(&who.id));
    let (deleting, serving): (Vec<_>, Vec<_>) =
        state.partitions_on(who.id).into_iter().partition(|tp| state.is_being_deleted(&tp.topic));
    let deleting: Vec<_> = deleting.into_iter().map(|tp| (who.id, tp)).collect();
    deletion::replicas_failed(state, &deleting);
    state.tell_metadata(serving);
    let mut effects = look(state, who.id);
    effects.push(Effect::Decide(Event::SendBatch));
    effects
}

/// It answered: its replicas are told how things stand. It is still about to stop if it was.
pub(super) fn cleared(state: &mut State, who: Incarnation) -> Vec<Effect> {
    match state.suspects.get(&who.id).filter(|known| known.epoch == who.czxid).cloned() {
        Some(broker) => {
            state.suspects.remove(&who.id);
            brokers::started(state, vec![broker])
        }
        None => Vec::new(),
    }
}

/// What was left as it is may be written by now: brokers have come or gone.
pub(super) fn look_again(state: &State) -> Vec<Effect> {
    state.suspects.keys().flat_map(|id| look(state, *id)).collect()
}

/// Reads the states that lean on `suspect`.
fn look(state: &State, suspect: BrokerId) -> Vec<Effect> {
    let mut partitions = state.partitions_on(suspect);
    partitions.retain(|tp| {
        let leadership = state.partition(tp).and_then(|partition| partition.leadership.as_ref());
        let leans = leadership.is_some_and(|known| known.state.leader == suspect || known.state.isr.contains(&suspect));
        leans && !state.is_being_deleted(&tp.topic)
    });
    match partitions.is_empty() {
        true => Vec::new(),
        false => vec![Effect::ReadStates { partitions, then: AfterRead::Suspect(suspect) }],
    }
}

pub(super) fn read(suspect: BrokerId, states: Vec<(TopicPartition, Leadership)>) -> Vec<Effect> {
    match states.is_empty() {
        true => Vec::new(),
        false => vec![Effect::ReadMinIsr { suspect, states }],
    }
}

/// `min_isr` by topic; one that is missing could not be read, and the suspect stays in its ISRs.
pub(super) fn write(
    state: &mut State,
    suspect: BrokerId,
    states: Vec<(TopicPartition, Leadership)>,
    min_isr: &BTreeMap<Arc<str>, usize>,
) -> Vec<Effect> {
    let mut writes = Vec::new();
    for (tp, read) in states {
        let Some(partition) = state.partition(&tp).filter(|_| state.suspects.contains_key(&suspect)) else { continue };
        let min_isr = min_isr.get(&tp.topic).copied().unwrap_or(usize::MAX);
        let live = |id| state.is_online(id, &tp);
        match without_suspect(suspect, &partition.assignment.replicas, &read.state, live, min_isr, state.epoch) {
            Some(next) => writes.push((tp, next, read.partition_epoch)),
            None => {
                tracing::info!(partition = %tp, broker = %suspect, isr = ?read.state.isr, "left as it is for a suspect");
                if let Some(partition) = state.partition_mut(&tp) {
                    partition.leadership = Some(read);
                }
            }
        }
    }
    partitions::write_states(writes, AfterRead::Suspect(suspect))
}
