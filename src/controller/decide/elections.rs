//! Elections that were asked for: to the preferred leader, or to whoever is live.
//!
//! Checks per partition, first that holds: UNKNOWN_TOPIC_OR_PARTITION; INVALID_TOPIC_EXCEPTION when its topic is being
//! deleted; ELECTION_NOT_NEEDED when the preferred replica leads already or (unclean) a live one does. When nobody can be
//! elected: PREFERRED_LEADER_NOT_AVAILABLE or ELIGIBLE_LEADERS_NOT_AVAILABLE. Rules: Kafka's
//! `processReplicaLeaderElection`.

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
