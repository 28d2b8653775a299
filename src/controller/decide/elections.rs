//! Elections that were asked for, or are due: to the preferred leader, or to whoever is live.
//!
//! Checks per partition, first that holds: UNKNOWN_TOPIC_OR_PARTITION; INVALID_TOPIC_EXCEPTION when its topic is being
//! deleted; ELECTION_NOT_NEEDED when the preferred replica leads already or (unclean) a live one does. When nobody can be
//! elected: PREFERRED_LEADER_NOT_AVAILABLE or ELIGIBLE_LEADERS_NOT_AVAILABLE. Rules: Kafka's
//! `processReplicaLeaderElection`.

use std::collections::BTreeMap;

use super::{AfterRead, Effect, Event};
use crate::controller::election::Choice;
use crate::controller::state::State;
use crate::types::{BrokerId, TopicPartition};
use crate::wire::error_code::ErrorCode;

/// What an administrator may ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ElectionType {
    Preferred,
    Unclean,
}

impl ElectionType {
    pub(super) fn choice(self) -> Choice {
        match self {
            ElectionType::Preferred => Choice::Preferred,
            ElectionType::Unclean => Choice::Unclean,
        }
    }

    /// When nobody can lead.
    pub(super) fn nobody(self) -> ErrorCode {
        match self {
            ElectionType::Preferred => ErrorCode::PreferredLeaderNotAvailable,
            ElectionType::Unclean => ErrorCode::EligibleLeadersNotAvailable,
        }
    }
}

pub(super) fn asked(state: &mut State, partitions: Vec<TopicPartition>, kind: ElectionType) -> Vec<Effect> {
    let mut effects = Vec::new();
    let mut wanted = Vec::new();
    for tp in partitions {
        match refusal(state, &tp, kind) {
            Some(code) => effects.push(Effect::Elected(tp, Err(code))),
            None => wanted.push(tp),
        }
    }
    if !wanted.is_empty() {
        effects.push(Effect::ReadStates { partitions: wanted, then: AfterRead::Elect(kind.choice(), Some(kind)) });
        effects.push(Effect::Decide(Event::SendBatch));
    }
    effects
}

/// Leadership goes back to where it is preferred, for brokers that miss more than `percentage` of what they should lead.
/// Not while partitions move. Rules: Kafka's `checkAndTriggerAutoLeaderRebalance`.
pub(super) fn balance(state: &State, percentage: i32) -> Vec<Effect> {
    #[derive(Default)]
    struct Share {
        partitions: usize,
        led_elsewhere: Vec<TopicPartition>,
    }
    let mut shares: BTreeMap<BrokerId, Share> = BTreeMap::new();
    for tp in state.all_partitions() {
        let Some(partition) = state.partition(&tp).filter(|_| !state.is_being_deleted(&tp.topic)) else { continue };
        if partition.assignment.is_being_reassigned() {
            return Vec::new();
        }
        let Some(preferred) = partition.assignment.replicas.first() else { continue };
        let share = shares.entry(*preferred).or_default();
        share.partitions += 1;
        if partition.leadership.is_some() && !partition.is_led_by(*preferred) {
            share.led_elsewhere.push(tp);
        }
    }
    let allowed = usize::try_from(percentage).unwrap_or(0);
    let mut partitions = Vec::new();
    for (preferred, Share { partitions: all, led_elsewhere }) in shares {
        if led_elsewhere.len() * 100 <= allowed * all {
            continue;
        }
        let can_lead = |tp: &TopicPartition| {
            let leadership = state.partition(tp).and_then(|partition| partition.leadership.as_ref());
            state.is_online(preferred, tp) && leadership.is_some_and(|known| known.state.isr.contains(&preferred))
        };
        partitions.extend(led_elsewhere.into_iter().filter(can_lead));
    }
    if partitions.is_empty() {
        return Vec::new();
    }
    tracing::info!(partitions = partitions.len(), "leadership goes back to preferred replicas");
    let then = AfterRead::Elect(Choice::Preferred, None);
    vec![Effect::ReadStates { partitions, then }, Effect::Decide(Event::SendBatch)]
}

fn refusal(state: &State, tp: &TopicPartition, kind: ElectionType) -> Option<ErrorCode> {
    let Some(partition) = state.partition(tp) else { return Some(ErrorCode::UnknownTopicOrPartition) };
    if state.is_being_deleted(&tp.topic) {
        return Some(ErrorCode::InvalidTopicException);
    }
    let leader = partition.leadership.as_ref().map_or(BrokerId::NONE, |leadership| leadership.state.leader);
    let needed = match kind {
        ElectionType::Preferred => partition.assignment.replicas.first() != Some(&leader),
        ElectionType::Unclean => !state.is_live(leader),
    };
    (!needed).then_some(ErrorCode::ElectionNotNeeded)
}
