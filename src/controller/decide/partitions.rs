//! Partitions come online (created or elected) and replicas go offline.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::{AfterRead, Effect, ElectionType, Event, Written, deletion, isr_changes, reassignments, suspicion};
use crate::controller::election::{Choice, elect, elect_unclean, remove_from_isr, same_leader};
use crate::controller::state::{Leadership, State};
use crate::controller::status::{PartitionStatus, ReplicaStatus};
use crate::metastore::schema::PartitionState;
use crate::types::{BrokerId, LeaderEpoch, TopicPartition};
use crate::wire::error_code::ErrorCode;

/// Creates the state nodes of New partitions and elects leaders for Offline ones.
pub(super) fn bring_online(state: &mut State, partitions: &[TopicPartition]) -> Vec<Effect> {
    let mut create = Vec::new();
    let mut elections = Vec::new();
    for tp in partitions {
        match state.partition(tp).map(|partition| partition.status) {
            Some(PartitionStatus::New) => create.extend(first_state(state, tp).map(|first| (tp.clone(), first))),
            Some(PartitionStatus::Offline) => elections.push(tp.clone()),
            Some(PartitionStatus::Online) | None => {}
        }
    }
    let mut effects = Vec::new();
    if !create.is_empty() {
        effects.push(Effect::CreateStates(create));
    }
    if !elections.is_empty() {
        effects.push(Effect::ReadStates { partitions: elections, then: AfterRead::Elect(Choice::Offline, None) });
    }
    if !effects.is_empty() {
        effects.push(Effect::Decide(Event::SendBatch));
    }
    effects
}

/// All live replicas are in sync, the first of them leads. `None` without a live replica: the partition stays New.
fn first_state(state: &State, tp: &TopicPartition) -> Option<PartitionState> {
    let replicas = &state.partition(tp)?.assignment.replicas;
    let isr: Vec<BrokerId> = replicas.iter().copied().filter(|id| state.is_online(*id, tp)).collect();
    let Some(leader) = isr.first().copied() else {
        tracing::warn!(partition = %tp, ?replicas, "no replica is live: the partition has no leader yet");
        return None;
    };
    Some(PartitionState { leader, leader_epoch: LeaderEpoch(0), controller_epoch: state.epoch, isr, recovering: false })
}

pub(super) fn created(state: &mut State, created: Vec<(TopicPartition, Written)>) -> Vec<Effect> {
    for (tp, outcome) in created {
        let Written::Done { version } = outcome else {
            tracing::error!(partition = %tp, "state node not created");
            continue;
        };
        // The driver wrote what `first_state` said, and nothing was decided in between.
        let Some(first) = first_state(state, &tp) else { continue };
        let told = first.isr.clone();
        if let Some(partition) = state.partition_mut(&tp) {
            partition.leadership = Some(Leadership { state: first, partition_epoch: version });
            partition.status = PartitionStatus::Online;
        }
        state.tell_leadership(&tp, &told, true);
    }
    Vec::new()
}

/// New replicas whose partitions were told to them are Online.
pub(super) fn replicas_online(state: &mut State, partitions: &[TopicPartition]) -> Vec<Effect> {
    for tp in partitions {
        let online: Vec<BrokerId> = match state.partition(tp) {
            Some(partition) => partition.assignment.replicas.clone(),
            None => continue,
        };
        if let Some(partition) = state.partition_mut(tp) {
            for id in online {
                if let Some(replica) = partition.replicas.get_mut(&id) {
                    replica.change(ReplicaStatus::Online);
                }
            }
        }
    }
    Vec::new()
}

/// Tries New and Offline partitions, except those of topics being deleted.
pub(super) fn elect_offline(state: &mut State) -> Vec<Effect> {
    let waiting: Vec<TopicPartition> = state
        .all_partitions()
        .into_iter()
        .filter(|tp| !state.is_being_deleted(&tp.topic))
        .filter(|tp| state.partition(tp).is_some_and(|partition| partition.status != PartitionStatus::Online))
        .collect();
    bring_online(state, &waiting)
}

/// Replicas are gone or their directories failed: partitions they led get new leaders, then every ISR loses them.
pub(super) fn replicas_offline(state: &mut State, gone: &[(BrokerId, TopicPartition)]) -> Vec<Effect> {
    let mut effects = Vec::new();
    let leaderless: Vec<TopicPartition> = gone
        .iter()
        .filter(|(id, tp)| {
            let leadership = state.partition(tp).and_then(|partition| partition.leadership.as_ref());
            leadership.is_some_and(|leadership| leadership.state.leader == *id) && !state.is_being_deleted(&tp.topic)
        })
        .map(|(_, tp)| tp.clone())
        .collect();
    for tp in &leaderless {
        if let Some(partition) = state.partition_mut(tp) {
            partition.status = PartitionStatus::Offline;
        }
    }
    effects.extend(bring_online(state, &leaderless));
    let (deleting, serving): (Vec<_>, Vec<_>) =
        gone.iter().cloned().partition(|(_, tp)| state.is_being_deleted(&tp.topic));
    deletion::replicas_failed(state, &deleting);
    effects.extend(take_offline(state, &serving));
    effects
}

/// Replicas become Offline: told to stop, out of every ISR, replica by replica; the messages go out at the end.
pub(super) fn take_offline(state: &mut State, gone: &[(BrokerId, TopicPartition)]) -> Vec<Effect> {
    let brokers: BTreeSet<BrokerId> = gone.iter().map(|(id, _)| *id).collect();
    let mut effects = Vec::new();
    for id in brokers {
        let mut with_leadership = Vec::new();
        for (_, tp) in gone.iter().filter(|(of, _)| *of == id) {
            let changed = state
                .partition_mut(tp)
                .and_then(|partition| partition.replicas.get_mut(&id))
                .is_some_and(|replica| replica.change(ReplicaStatus::Offline));
            if !changed {
                continue;
            }
            state.tell_stop(tp, id, false);
            if state.partition(tp).is_some_and(|partition| partition.leadership.is_some()) {
                with_leadership.push(tp.clone());
            }
        }
        if !with_leadership.is_empty() {
            effects.push(Effect::ReadStates { partitions: with_leadership, then: AfterRead::RemoveFromIsr(id) });
        }
    }
    effects.push(Effect::Decide(Event::SendBatch));
    effects
}

pub(super) fn states_read(
    state: &mut State,
    states: Vec<(TopicPartition, Option<Leadership>)>,
    then: AfterRead,
) -> Vec<Effect> {
    let mut known = Vec::new();
    let mut effects = Vec::new();
    for (tp, read) in states {
        match checked(state, &tp, read) {
            Some(read) => known.push((tp, read)),
            None => effects.extend(not_done(tp, &then)),
        }
    }
    effects.extend(match then {
        AfterRead::Elect(choice, asked) => elect_clean(state, known, choice, asked),
        AfterRead::RemoveFromIsr(replica) => remove_replica(state, replica, known),
        AfterRead::Suspect(suspect) => suspicion::read(suspect, known),
        AfterRead::RaiseEpoch { adding } => {
            known.iter().map(|(tp, read)| raise_epoch(state, tp, read, adding.clone())).collect()
        }
        AfterRead::Reassign => reassignments::advance(state, known),
        AfterRead::ChangeIsr(wanted) => isr_changes::read_back(state, known, &wanted),
    });
    effects
}

/// What was read, if this controller may decide on it.
fn checked(state: &State, tp: &TopicPartition, read: Option<Leadership>) -> Option<Leadership> {
    let Some(read) = read else {
        tracing::error!(partition = %tp, "state node is missing or unreadable");
        return None;
    };
    if read.state.controller_epoch > state.epoch {
        let (stored, own) = (read.state.controller_epoch, state.epoch);
        tracing::error!(partition = %tp, stored, own, "a later controller has decided: left alone");
        return None;
    }
    Some(read)
}

/// Who asked for it is told that nothing came of it.
fn not_done(tp: TopicPartition, then: &AfterRead) -> Option<Effect> {
    match then {
        AfterRead::Elect(_, Some(kind)) => Some(Effect::Elected(tp, Err(kind.nobody()))),
        AfterRead::ChangeIsr(wanted) => {
            let at = wanted.get(&tp)?.at;
            Some(Effect::IsrChanged { at, outcome: Err(ErrorCode::UnknownServerError) })
        }
        _ => None,
    }
}

/// Elects where a member of the ISR is live; what becomes of the rest depends on why one is elected.
fn elect_clean(
    state: &State,
    known: Vec<(TopicPartition, Leadership)>,
    choice: Choice,
    asked: Option<ElectionType>,
) -> Vec<Effect> {
    let then = AfterRead::Elect(choice, asked);
    let mut effects = Vec::new();
    let mut writes = Vec::new();
    let mut ask = Vec::new();
    for (tp, read) in known {
        let Some(partition) = state.partition(&tp) else { continue };
        let replicas = &partition.assignment.replicas;
        let live = |id| state.is_online(id, &tp);
        let elected = elect(choice, replicas, &read.state, live, state.epoch).or_else(|| match choice {
            Choice::Unclean if counts_on_suspect(state, &read) => None,
            // Who refused to lead for what it lost may be all there is: an operator asks for just that.
            Choice::Unclean => elect_unclean(replicas, &read.state, live, state.epoch)
                .or_else(|| elect_unclean(replicas, &read.state, |id| state.is_live(id), state.epoch)),
            _ => None,
        });
        match elected {
            Some(next) => writes.push((tp, next, read.partition_epoch)),
            None if choice == Choice::Offline => ask.push((tp, read)),
            None => {
                tracing::warn!(partition = %tp, isr = ?read.state.isr, ?choice, "nobody can be elected");
                effects.extend(not_done(tp, &then));
            }
        }
    }
    effects.extend(write_states(writes, then));
    if !ask.is_empty() {
        effects.push(Effect::ReadUnclean(ask));
    }
    effects
}

/// Elects from outside the ISR in topics that admit it; the others have no leader.
pub(super) fn elect_where_allowed(
    state: &mut State,
    states: Vec<(TopicPartition, Leadership)>,
    allowed: &BTreeSet<Arc<str>>,
) -> Vec<Effect> {
    let mut writes = Vec::new();
    for (tp, read) in states {
        let Some(partition) = state.partition(&tp) else { continue };
        let live = |id| state.is_online(id, &tp);
        let elected = match allowed.contains(&tp.topic) && !counts_on_suspect(state, &read) {
            true => elect_unclean(&partition.assignment.replicas, &read.state, live, state.epoch),
            false => None,
        };
        match elected {
            Some(next) => writes.push((tp, next, read.partition_epoch)),
            None => {
                tracing::warn!(partition = %tp, isr = ?read.state.isr, "no replica in sync is live: no leader");
                if let Some(partition) = state.partition_mut(&tp) {
                    partition.leadership = Some(read);
                }
            }
        }
    }
    write_states(writes, AfterRead::Elect(Choice::Offline, None))
}

/// A member of the ISR is suspected, and may have all that others lack.
fn counts_on_suspect(state: &State, read: &Leadership) -> bool {
    read.state.isr.iter().any(|id| state.suspects.contains_key(id))
}

/// Writes the same leadership under a higher epoch; all replicas are told, `adding` as new ones.
pub(super) fn raise_epoch(state: &State, tp: &TopicPartition, read: &Leadership, adding: Vec<BrokerId>) -> Effect {
    let writes = vec![(tp.clone(), same_leader(&read.state, state.epoch), read.partition_epoch)];
    Effect::WriteStates { writes, then: AfterRead::RaiseEpoch { adding } }
}

fn remove_replica(state: &mut State, replica: BrokerId, known: Vec<(TopicPartition, Leadership)>) -> Vec<Effect> {
    let mut writes = Vec::new();
    for (tp, read) in known {
        match remove_from_isr(replica, &read.state, state.epoch) {
            Some(mut next) => {
                // All that are gone in one write: those left would seem to have lived when it was written.
                // A suspect that was left in the ISR is not gone.
                if next.isr.iter().any(|id| state.is_there(*id, &tp)) {
                    next.isr.retain(|id| state.is_there(*id, &tp) || state.suspects.contains_key(id));
                }
                if !next.isr.contains(&next.leader) {
                    next.leader = BrokerId::NONE;
                }
                writes.push((tp, next, read.partition_epoch));
            }
            None => {
                if let Some(partition) = state.partition_mut(&tp) {
                    partition.leadership = Some(read);
                }
                state.still_in_isr.remove(&(replica, tp.clone()));
                tell_without(state, &tp, replica);
            }
        }
    }
    write_states(writes, AfterRead::RemoveFromIsr(replica))
}

pub(super) fn states_written(
    state: &mut State,
    written: Vec<(TopicPartition, PartitionState, Written)>,
    then: AfterRead,
) -> Vec<Effect> {
    let mut again = Vec::new();
    let mut effects = Vec::new();
    for (tp, next, outcome) in written {
        match outcome {
            Written::Done { version } => {
                let leader = next.leader;
                let leadership = Leadership { state: next, partition_epoch: version };
                if let Some(partition) = state.partition_mut(&tp) {
                    partition.leadership = Some(leadership.clone());
                }
                match &then {
                    AfterRead::Elect(choice, asked) => {
                        if let Some(partition) = state.partition_mut(&tp) {
                            partition.status = PartitionStatus::Online;
                        }
                        tell_elected(state, &tp, *choice);
                        effects.extend(asked.map(|_| Effect::Elected(tp, Ok(leader))));
                    }
                    AfterRead::RaiseEpoch { adding } => tell_raised(state, &tp, adding),
                    AfterRead::Suspect(suspect) => {
                        if let Some(partition) = state.partition_mut(&tp) {
                            partition.status = PartitionStatus::Online;
                        }
                        tell_without(state, &tp, *suspect);
                    }
                    AfterRead::ChangeIsr(wanted) => {
                        let Some(wanted) = wanted.get(&tp) else { continue };
                        effects.push(isr_changes::written(state, tp, leadership, wanted.at));
                    }
                    // Read for, never written for.
                    AfterRead::Reassign => {}
                    AfterRead::RemoveFromIsr(replica) => {
                        let replica = *replica;
                        state.still_in_isr.remove(&(replica, tp.clone()));
                        let has_leader = state
                            .partition(&tp)
                            .and_then(|partition| partition.leadership.as_ref())
                            .is_some_and(|leadership| leadership.state.leader != BrokerId::NONE);
                        if let (false, Some(partition)) = (has_leader, state.partition_mut(&tp)) {
                            partition.status = PartitionStatus::Offline;
                        }
                        tell_without(state, &tp, replica);
                    }
                }
            }
            Written::Conflict => again.push(tp),
            Written::Unseen => {
                tracing::warn!(partition = %tp, isr = ?next.isr, "a member of the ISR came back unseen");
                match &then {
                    AfterRead::RemoveFromIsr(replica) => drop(state.still_in_isr.insert((*replica, tp))),
                    AfterRead::RaiseEpoch { adding } => drop(state.still_to_raise.insert(tp, adding.clone())),
                    AfterRead::ChangeIsr(wanted) => effects.extend(wanted.get(&tp).map(|wanted| Effect::IsrChanged {
                        at: wanted.at,
                        outcome: Err(ErrorCode::IneligibleReplica),
                    })),
                    // Without a leader it is elected for again as soon as somebody starts.
                    // And what is left for a suspect's sake is looked at again with every change of the brokers.
                    AfterRead::Elect(..) | AfterRead::Reassign | AfterRead::Suspect(_) => {
                        effects.extend(not_done(tp, &then))
                    }
                }
            }
            Written::Failed => {
                tracing::error!(partition = %tp, "state node not written");
                effects.extend(not_done(tp, &then));
            }
        }
    }
    if !again.is_empty() {
        effects.push(Effect::ReadStates { partitions: again, then });
    }
    effects
}

/// LeaderAndIsr to every replica, to `adding` as new ones.
fn tell_raised(state: &mut State, tp: &TopicPartition, adding: &[BrokerId]) {
    let Some(partition) = state.partition(tp) else { return };
    let (new, old): (Vec<BrokerId>, Vec<BrokerId>) =
        partition.assignment.replicas.iter().copied().partition(|id| adding.contains(id));
    state.tell_leadership(tp, &old, false);
    state.tell_leadership(tp, &new, true);
}

/// LeaderAndIsr to every live replica, the one that is shutting down included if it led.
fn tell_elected(state: &mut State, tp: &TopicPartition, choice: Choice) {
    let Some(partition) = state.partition(tp) else { return };
    let told = |id: BrokerId| match choice {
        Choice::ControlledShutdown => state.is_there(id, tp),
        Choice::Unclean => state.is_live(id),
        _ => state.is_online(id, tp),
    };
    let to: Vec<BrokerId> = partition.assignment.replicas.iter().copied().filter(|id| told(*id)).collect();
    state.tell_leadership(tp, &to, false);
}

/// LeaderAndIsr to the other replicas, and to `replica` if it is back; nothing about a topic that goes anyway.
fn tell_without(state: &mut State, tp: &TopicPartition, replica: BrokerId) {
    if state.is_being_deleted(&tp.topic) {
        return;
    }
    let Some(partition) = state.partition(tp) else { return };
    let is_back = partition.replicas.get(&replica) == Some(&ReplicaStatus::Online);
    let told = |id: &BrokerId| (*id != replica || is_back) && state.is_online(*id, tp);
    let to: Vec<BrokerId> = partition.assignment.replicas.iter().copied().filter(told).collect();
    state.tell_leadership(tp, &to, false);
}

pub(super) fn write_states(writes: Vec<(TopicPartition, PartitionState, i32)>, then: AfterRead) -> Vec<Effect> {
    match writes.is_empty() {
        true => Vec::new(),
        false => vec![Effect::WriteStates { writes, then }],
    }
}
