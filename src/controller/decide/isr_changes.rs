//! Leaders ask for other members of their ISRs (AlterPartition, KIP-497).
//!
//! The first check that fails answers. The request as a whole: STALE_BROKER_EPOCH unless its sender is registered under
//! just this epoch. Each partition: UNKNOWN_TOPIC_ID; UNKNOWN_TOPIC_OR_PARTITION; NOT_CONTROLLER when the leader knows a
//! later leader epoch or partition epoch than this controller; FENCED_LEADER_EPOCH; what is stored already is a success,
//! the reply to it was lost; INVALID_UPDATE_VERSION; INVALID_REQUEST; INELIGIBLE_REPLICA for a member that is not live, is
//! shutting down, or was last seen by the leader in another life than it is registered in (KIP-903). Then the state is
//! written if it still has the version this controller knows, else INVALID_UPDATE_VERSION.
//!
//! For a member that is suspected BROKER_NOT_AVAILABLE, upon which leaders ask again, Kafka's too, and count on it until they
//! are told more. Refused for good they would not, and the same request, under way once more, would be granted when the
//! suspect has answered.
//!
//! Order and codes were seen on a live 3.9.1, which checks neither that the sender leads the partition, nor that the ISR has
//! it, has nobody twice and only replicas, nor members' epochs. A leader without a mistake in it never sends such a thing:
//! INVALID_REQUEST.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{AfterRead, Effect, Event, partitions, reassignments};
use crate::controller::state::{Leadership, State};
use crate::metastore::schema::PartitionState;
use crate::types::{BrokerId, LeaderEpoch, TopicId, TopicPartition};
use crate::wire::error_code::ErrorCode;

/// One leader's request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlterPartition {
    /// Who asks: the leader of all of them.
    pub broker: BrokerId,
    pub broker_epoch: i64,
    pub partitions: Vec<IsrChange>,
}

/// How a request names a topic: by id from version 2 on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TopicKey {
    Id(TopicId),
    Name(Arc<str>),
}

/// What one partition's state shall be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IsrChange {
    pub topic: TopicKey,
    pub partition: i32,
    pub leader_epoch: LeaderEpoch,
    /// zkVersion of the state node as the leader knows it.
    pub partition_epoch: i32,
    /// In the order to be written.
    pub isr: Vec<IsrMember>,
    /// The leader was elected from outside the ISR and has not finished recovering.
    pub recovering: bool,
}

/// A member of the ISR wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IsrMember {
    pub broker: BrokerId,
    /// Of the member's last Fetch; -1 = not known to the leader, not checked.
    pub broker_epoch: i64,
}

/// A state that passed the checks, and the place of its question in the request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    pub at: usize,
    pub state: PartitionState,
}

pub(super) fn asked(state: &State, request: &AlterPartition) -> Vec<Effect> {
    if state.live.get(&request.broker).is_none_or(|known| known.epoch != request.broker_epoch) {
        return vec![Effect::Refused(ErrorCode::StaleBrokerEpoch)];
    }
    let mut effects = Vec::new();
    let (mut writes, mut wanted) = (Vec::new(), BTreeMap::new());
    for (at, change) in request.partitions.iter().enumerate() {
        let checked = partition_of(state, change).and_then(|(tp, known)| match wanted.contains_key(&tp) {
            true => Err(ErrorCode::InvalidRequest),
            false => Ok((check(state, request.broker, &tp, known, change)?, tp, known)),
        });
        match checked {
            Ok((None, tp, known)) => effects.push(Effect::IsrChanged { at, outcome: Ok((tp, known.clone())) }),
            Ok((Some(next), tp, known)) => {
                writes.push((tp.clone(), next.clone(), known.partition_epoch));
                wanted.insert(tp, Wanted { at, state: next });
            }
            Err(code) => effects.push(Effect::IsrChanged { at, outcome: Err(code) }),
        }
    }
    if !writes.is_empty() {
        effects.push(Effect::WriteStates { writes, then: AfterRead::ChangeIsr(wanted) });
        effects.push(Effect::Decide(Event::SendBatch));
    }
    effects
}

fn partition_of<'a>(state: &'a State, change: &IsrChange) -> Result<(TopicPartition, &'a Leadership), ErrorCode> {
    let name = match &change.topic {
        TopicKey::Id(id) => state.topic_named(*id).ok_or(ErrorCode::UnknownTopicId)?,
        TopicKey::Name(name) => name,
    };
    let tp = TopicPartition::new(Arc::clone(name), change.partition);
    let known = state.partition(&tp).and_then(|partition| partition.leadership.as_ref());
    known.map(|known| (tp, known)).ok_or(ErrorCode::UnknownTopicOrPartition)
}

/// The state to be written; `None` when it is there already.
fn check(
    state: &State,
    leader: BrokerId,
    tp: &TopicPartition,
    known: &Leadership,
    change: &IsrChange,
) -> Result<Option<PartitionState>, ErrorCode> {
    let stored = &known.state;
    if change.leader_epoch > stored.leader_epoch || change.partition_epoch > known.partition_epoch {
        return Err(ErrorCode::NotController);
    }
    if change.leader_epoch < stored.leader_epoch {
        return Err(ErrorCode::FencedLeaderEpoch);
    }
    let isr: Vec<BrokerId> = change.isr.iter().map(|member| member.broker).collect();
    if leader == stored.leader && isr == stored.isr && change.recovering == stored.recovering {
        return Ok(None);
    }
    if change.partition_epoch < known.partition_epoch {
        return Err(ErrorCode::InvalidUpdateVersion);
    }
    let replicas = state.partition(tp).map_or(&[][..], |partition| &partition.assignment.replicas);
    if let Some(why) = nonsense(leader, stored, &isr, change.recovering, replicas) {
        tracing::warn!(partition = %tp, broker = %leader, ?isr, why, "change of the ISR refused");
        return Err(ErrorCode::InvalidRequest);
    }
    let eligible = |member: &IsrMember| {
        let registered = state.live.get(&member.broker).filter(|_| state.is_live(member.broker));
        registered.is_some_and(|broker| member.broker_epoch == -1 || member.broker_epoch == broker.epoch)
    };
    if !change.isr.iter().all(eligible) {
        let is_suspect = |member: &IsrMember| {
            let suspect = state.suspects.get(&member.broker);
            suspect.is_some_and(|broker| member.broker_epoch == -1 || member.broker_epoch == broker.epoch)
        };
        let only_for_suspects = change.isr.iter().all(|member| eligible(member) || is_suspect(member));
        return Err(if only_for_suspects { ErrorCode::BrokerNotAvailable } else { ErrorCode::IneligibleReplica });
    }
    let leader_epoch = stored.leader_epoch;
    Ok(Some(PartitionState { leader, leader_epoch, controller_epoch: state.epoch, isr, recovering: change.recovering }))
}

/// Why a leader cannot mean this.
fn nonsense(
    leader: BrokerId,
    stored: &PartitionState,
    isr: &[BrokerId],
    recovering: bool,
    replicas: &[BrokerId],
) -> Option<&'static str> {
    if recovering && isr.len() > 1 {
        return Some("nobody joins a leader that is still recovering");
    }
    if recovering && !stored.recovering {
        return Some("a leader that has recovered does not recover again");
    }
    if leader != stored.leader {
        return Some("it does not lead the partition");
    }
    if !isr.contains(&leader) {
        return Some("the leader is not in it");
    }
    if isr.iter().collect::<BTreeSet<_>>().len() != isr.len() {
        return Some("a broker stands twice in it");
    }
    if !isr.iter().all(|id| replicas.contains(id)) {
        return Some("a broker in it has no replica");
    }
    None
}

/// Written: everybody hears of it, and the leader is answered.
pub(super) fn written(state: &mut State, tp: TopicPartition, leadership: Leadership, at: usize) -> Effect {
    if let Some(partition) = state.partition_mut(&tp) {
        partition.leadership = Some(leadership.clone());
    }
    state.tell_change(&tp);
    Effect::IsrChanged { at, outcome: Ok((tp, leadership)) }
}

/// Another version was there than this controller knew: its own, of a try whose reply was lost, or a stranger's, which
/// the leader has not heard of and learns under a higher epoch.
pub(super) fn read_back(
    state: &mut State,
    read: Vec<(TopicPartition, Leadership)>,
    wanted: &BTreeMap<TopicPartition, Wanted>,
) -> Vec<Effect> {
    let mut effects = Vec::new();
    for (tp, read) in read {
        let Some(Wanted { at, state: next }) = wanted.get(&tp) else { continue };
        if read.state == *next {
            effects.push(written(state, tp, read, *at));
            continue;
        }
        tracing::warn!(partition = %tp, state = ?read.state, "its state was written by somebody else");
        effects.push(Effect::IsrChanged { at: *at, outcome: Err(ErrorCode::InvalidUpdateVersion) });
        effects.push(partitions::raise_epoch(state, &tp, &read, Vec::new()));
    }
    effects
}

/// The leader has its answer: reassignments that waited for this go on.
pub(super) fn answered(state: &State, partitions: &[TopicPartition]) -> Vec<Effect> {
    reassignments::resume_in_sync(state, partitions)
}
