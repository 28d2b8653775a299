//! Brokers come, go, return under a new epoch, and answer.

use std::collections::{BTreeMap, BTreeSet};

use super::{AfterRead, Effect, Event, deletion, partitions, suspicion};
use crate::cluster::Broker;
use crate::controller::message::{ControlAnswer, ControlBody};
use crate::controller::state::State;
use crate::controller::status::ReplicaStatus;
use crate::types::{BrokerId, TopicPartition};
use crate::wire::error_code::ErrorCode;

/// Compares ids and epochs: the same id under a larger epoch died and came back.
pub(super) fn changed(state: &mut State, live: Vec<Broker>) -> Vec<Effect> {
    let live: BTreeMap<BrokerId, Broker> = live.into_iter().map(|broker| (broker.id, broker)).collect();
    let newer = |now: &Broker, known: &Broker| now.epoch > known.epoch;
    let over = |known: &BTreeMap<BrokerId, Broker>| -> Vec<BrokerId> {
        let is_over = |(id, known): &(&BrokerId, &Broker)| live.get(id).is_none_or(|now| newer(now, known));
        known.iter().filter(is_over).map(|(id, _)| *id).collect()
    };
    let (mut dead, dead_suspects) = (over(&state.live), over(&state.suspects));
    dead.extend(&dead_suspects);
    // A suspect that is registered as before is nothing new.
    let is_new = |now: &Broker| state.registration(now.id).is_none_or(|known| newer(now, known));
    let started: Vec<Broker> = live.into_values().filter(is_new).collect();
    // What is put off from now on waits for the next news.
    let has_put_off = has_put_off(state);
    let mut effects = Vec::new();
    if !dead.is_empty() {
        effects.extend(failed(state, &dead));
    }
    if !dead_suspects.is_empty() {
        // Where nobody was elected for the sake of a suspect in the ISR.
        effects.push(Effect::Decide(Event::ElectOffline));
    }
    // Before the returns: who is gone is out of the ISRs before it may be elected.
    let try_again = has_put_off.then_some(Effect::Decide(Event::TryAgain));
    effects.extend(try_again.clone());
    if !started.is_empty() {
        // Only when all that follows from the deaths is done: it must not find the returned ones alive.
        effects.push(Effect::Decide(Event::BrokersStarted(started)));
        effects.extend(try_again);
    }
    effects
}

fn has_put_off(state: &State) -> bool {
    !state.still_in_isr.is_empty() || !state.still_to_raise.is_empty() || !state.suspects.is_empty()
}

/// What was not written because somebody had come back unseen, or for a suspect's sake.
pub(super) fn try_again(state: &mut State) -> Vec<Effect> {
    if !has_put_off(state) {
        return Vec::new();
    }
    let mut gone: BTreeMap<BrokerId, Vec<TopicPartition>> = BTreeMap::new();
    for (id, tp) in &state.still_in_isr {
        gone.entry(*id).or_default().push(tp.clone());
    }
    let remove = |(id, partitions)| Effect::ReadStates { partitions, then: AfterRead::RemoveFromIsr(id) };
    let mut effects: Vec<Effect> = gone.into_iter().map(remove).collect();
    for (tp, adding) in std::mem::take(&mut state.still_to_raise) {
        effects.push(Effect::ReadStates { partitions: vec![tp], then: AfterRead::RaiseEpoch { adding } });
    }
    effects.extend(suspicion::look_again(state));
    effects.push(Effect::Decide(Event::SendBatch));
    effects.push(Effect::Decide(Event::ElectOffline));
    effects
}

fn failed(state: &mut State, dead: &[BrokerId]) -> Vec<Effect> {
    let gone: Vec<(BrokerId, TopicPartition)> =
        dead.iter().flat_map(|id| state.partitions_on(*id).into_iter().map(|tp| (*id, tp))).collect();
    for id in dead {
        state.live.remove(id);
        state.suspects.remove(id);
        state.shutting_down.remove(id);
        state.offline_replicas.retain(|(of, _)| of != id);
    }
    // Everybody learns who is left, also when no partition was there.
    state.tell_metadata([]);
    partitions::replicas_offline(state, &gone)
}

/// Old brokers learn of the new ones; everyone gets all partitions; the new ones' replicas come online.
pub(super) fn started(state: &mut State, brokers: Vec<Broker>) -> Vec<Effect> {
    let old: Vec<BrokerId> = state.live.keys().copied().collect();
    let new: Vec<BrokerId> = brokers.iter().map(|broker| broker.id).collect();
    for broker in brokers {
        state.live.insert(broker.id, broker);
    }
    let mut effects = Vec::new();
    for id in old {
        effects.extend(state.metadata_for(id, &[]));
    }
    state.tell_metadata(state.all_partitions());
    effects.extend(state.send_batch());
    let back: Vec<(BrokerId, TopicPartition)> =
        new.iter().flat_map(|id| state.partitions_on(*id).into_iter().map(|tp| (*id, tp))).collect();
    replicas_online(state, &back);
    effects.extend(state.send_batch());
    deletion::replicas_back(state, &back);
    effects.push(Effect::Decide(Event::ElectOffline));
    effects.push(Effect::Decide(Event::ResumeDeletions));
    effects
}

/// Replicas are Online and are told the leadership as it stands; new ones have heard it when they became new.
pub(super) fn replicas_online(state: &mut State, back: &[(BrokerId, TopicPartition)]) {
    for (id, tp) in back {
        let being_deleted = state.is_being_deleted(&tp.topic);
        let before = state.partition_mut(tp).and_then(|partition| partition.replicas.get_mut(id)).and_then(|replica| {
            let before = *replica;
            (!being_deleted && replica.change(ReplicaStatus::Online)).then_some(before)
        });
        if before.is_some_and(|before| before != ReplicaStatus::New) {
            state.tell_leadership(tp, &[*id], false);
        }
    }
}

/// Its registration was rewritten: everybody learns it.
pub(super) fn updated(state: &mut State, broker: Broker) -> Vec<Effect> {
    if let Some(suspect) = state.suspects.get_mut(&broker.id).filter(|known| known.epoch == broker.epoch) {
        *suspect = broker;
        return Vec::new();
    }
    match state.live.get_mut(&broker.id) {
        Some(known) if known.epoch == broker.epoch && *known != broker => *known = broker,
        // A new epoch is a death and a return: the child event's business.
        _ => return Vec::new(),
    }
    state.tell_metadata([]);
    state.send_batch()
}

/// Asks the brokers which of their replicas are still there: those in a failed directory answer KAFKA_STORAGE_ERROR.
pub(super) fn log_dirs_failed(state: &mut State, brokers: &BTreeSet<BrokerId>) -> Vec<Effect> {
    for id in brokers {
        for tp in state.partitions_on(*id) {
            state.tell_leadership(&tp, &[*id], false);
        }
    }
    state.send_batch()
}

/// What a broker answered matters for failed directories and for deletions; other errors are only noted.
pub(super) fn answered(
    state: &mut State,
    from: BrokerId,
    request: &ControlBody,
    answer: &ControlAnswer,
) -> Vec<Effect> {
    if answer.error.is_error() {
        tracing::warn!(broker = %from, error = %answer.error, "control request refused");
    }
    match request {
        ControlBody::UpdateMetadata(_) => Vec::new(),
        ControlBody::LeaderAndIsr(_) => leader_and_isr_answered(state, from, answer),
        ControlBody::StopReplica(asked) if asked.iter().any(|one| one.delete) => {
            deletion::answered(state, from, &answer.partitions)
        }
        ControlBody::StopReplica(_) => Vec::new(),
    }
}

fn leader_and_isr_answered(state: &mut State, from: BrokerId, answer: &ControlAnswer) -> Vec<Effect> {
    let mut newly_offline = Vec::new();
    for (tp, error) in &answer.partitions {
        let replica = (from, tp.clone());
        match error {
            ErrorCode::KafkaStorageError => {
                if state.live.contains_key(&from) && state.offline_replicas.insert(replica.clone()) {
                    newly_offline.push(replica);
                }
            }
            ErrorCode::None => {
                state.offline_replicas.remove(&replica);
            }
            // Already known there: normal after a failover and in second batches.
            ErrorCode::StaleControllerEpoch => {}
            error => tracing::warn!(broker = %from, partition = %tp, %error, "leadership not taken over"),
        }
    }
    match newly_offline.is_empty() {
        true => Vec::new(),
        false => partitions::replicas_offline(state, &newly_offline),
    }
}
