//! One group: its members, its generation, and the steps that all requests share.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;

use super::desk::{Desk, Effect, Life, Timer};
use super::join::JoinAnswer;
use super::member::{Member, Protocols};
use super::offsets::Offsets;
use super::rules::{Rule, holds};
use super::sync::SyncAnswer;
use crate::coordinator::cores::RequestId;
use crate::coordinator::records::{GroupValue, MemberValue};
use crate::coordinator::subscription;
use crate::wire::error_code::ErrorCode;

/// Kafka's states of a classic group. `Dead` is a group that is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    Empty,
    PreparingRebalance,
    CompletingRebalance,
    Stable,
    Dead,
}

impl State {
    /// As tools print it.
    pub fn name(self) -> &'static str {
        match self {
            State::Empty => "Empty",
            State::PreparingRebalance => "PreparingRebalance",
            State::CompletingRebalance => "CompletingRebalance",
            State::Stable => "Stable",
            State::Dead => "Dead",
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What a timer of the group is waiting for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    None,
    /// An empty group waits for more members; it may wait `remaining_ms` more in all.
    InitialDelay {
        number: u64,
        remaining_ms: i64,
    },
    Join(u64),
    Sync(u64),
}

#[derive(Debug)]
pub(super) struct Group {
    pub id: Arc<str>,
    pub life: Life,
    state: State,
    /// Wall ms of the last change of state; `None` when it was loaded from a record that does not say.
    pub state_since_ms: Option<i64>,
    pub protocol_type: Option<Arc<str>>,
    pub generation: i32,
    pub protocol: Option<Arc<str>>,
    pub leader: Option<Arc<str>>,
    pub members: BTreeMap<Arc<str>, Member>,
    /// Instance id → member id.
    pub static_members: HashMap<Arc<str>, Arc<str>>,
    /// Ids handed out and not yet used.
    pub pending_members: HashSet<Arc<str>>,
    /// Members that joined this generation and have not synced yet.
    pub pending_sync: BTreeSet<Arc<str>>,
    /// Members that support each protocol.
    support: HashMap<Arc<str>, usize>,
    /// Members whose join waits.
    joined: usize,
    /// Somebody came while an empty group waited for more.
    pub new_member_added: bool,
    pub phase: Phase,
    /// `None` = not known: all topics count as subscribed.
    pub subscribed: Option<HashSet<Arc<str>>>,
    pub offsets: Offsets,
}

impl Group {
    pub fn new(life: Life) -> Group {
        Group {
            id: life.group.clone(),
            life,
            state: State::Empty,
            state_since_ms: None,
            protocol_type: None,
            generation: 0,
            protocol: None,
            leader: None,
            members: BTreeMap::new(),
            static_members: HashMap::new(),
            pending_members: HashSet::new(),
            pending_sync: BTreeSet::new(),
            support: HashMap::new(),
            joined: 0,
            new_member_added: false,
            phase: Phase::None,
            subscribed: None,
            offsets: Offsets::default(),
        }
    }

    pub fn state(&self) -> State {
        self.state
    }

    pub fn enter(&mut self, desk: &Desk, state: State) {
        self.state = state;
        self.state_since_ms = Some(desk.now.wall_ms);
    }

    /// A group as its record has it: stable when it has members.
    pub fn restore(life: Life, value: GroupValue) -> Group {
        let mut group = Group::new(life);
        group.state = if value.members.is_empty() { State::Empty } else { State::Stable };
        group.state_since_ms = value.state_timestamp_ms;
        group.protocol_type = Some(value.protocol_type).filter(|name| !name.is_empty());
        group.generation = value.generation;
        group.protocol = value.protocol.clone();
        for member in value.members {
            let protocols = value.protocol.iter().map(|name| (name.clone(), member.subscription.clone())).collect();
            group.insert(Member {
                id: member.member_id,
                group_instance_id: member.group_instance_id,
                client_id: member.client_id,
                client_host: member.client_host,
                rebalance_timeout_ms: member.rebalance_timeout_ms,
                session_timeout_ms: member.session_timeout_ms,
                protocols,
                assignment: member.assignment,
                awaiting_join: None,
                awaiting_sync: None,
                is_new: false,
                session: Default::default(),
            });
        }
        group.leader = value.leader;
        group.note_subscriptions();
        group
    }

    /// The record of this group, with these assignments.
    pub fn record(&self, assignment: impl Fn(&Member) -> Bytes) -> GroupValue {
        let members = self.members.values().map(|member| MemberValue {
            member_id: member.id.clone(),
            group_instance_id: member.group_instance_id.clone(),
            client_id: member.client_id.clone(),
            client_host: member.client_host.clone(),
            rebalance_timeout_ms: member.rebalance_timeout_ms,
            session_timeout_ms: member.session_timeout_ms,
            subscription: member.metadata(self.protocol.as_deref()),
            assignment: assignment(member),
        });
        GroupValue {
            protocol_type: self.protocol_type.clone().unwrap_or_default(),
            generation: self.generation,
            protocol: self.protocol.clone(),
            leader: self.leader.clone(),
            state_timestamp_ms: self.state_since_ms,
            members: members.collect(),
        }
    }

    pub fn is_leader(&self, member_id: &str) -> bool {
        self.leader.as_deref() == Some(member_id)
    }

    /// FENCED_INSTANCE_ID when the instance is another member by now, UNKNOWN_MEMBER_ID when there is no such member.
    pub fn check_member(&self, member_id: &str, group_instance_id: Option<&str>) -> Result<(), ErrorCode> {
        if let Some(instance) = group_instance_id {
            match self.static_members.get(instance) {
                Some(current) if &**current != member_id => return Err(ErrorCode::FencedInstanceId),
                Some(_) => {}
                None => return Err(ErrorCode::UnknownMemberId),
            }
        }
        if self.members.contains_key(member_id) { Ok(()) } else { Err(ErrorCode::UnknownMemberId) }
    }

    /// Whether a member with these protocols could be in the group.
    pub fn supports(&self, protocol_type: &str, protocols: &Protocols) -> bool {
        if self.state == State::Empty {
            return !protocol_type.is_empty() && !protocols.is_empty();
        }
        self.protocol_type.as_deref() == Some(protocol_type) && protocols.iter().any(|(name, _)| self.all_have(name))
    }

    /// True of every protocol while there are no members: all have left, and those who were given an id have not come yet.
    fn all_have(&self, protocol: &Arc<str>) -> bool {
        let unsupported = if holds(Rule::NobodyIsAll) { 0 } else { usize::MAX };
        self.support.get(protocol).copied().unwrap_or(unsupported) == self.members.len()
    }

    /// The protocol most members prefer among those that all support; of equals the one that comes first in the leader's
    /// list.
    pub fn select_protocol(&self) -> Option<Arc<str>> {
        let mut votes: HashMap<&Arc<str>, usize> = HashMap::new();
        for member in self.members.values() {
            let vote = member.protocols.iter().map(|(name, _)| name).find(|name| self.all_have(name))?;
            *votes.entry(vote).or_default() += 1;
        }
        let leader = self.leader.as_ref().and_then(|leader| self.members.get(leader))?;
        let most = *votes.values().max()?;
        leader.protocols.iter().map(|(name, _)| name).find(|name| votes.get(name) == Some(&most)).cloned().or_else(
            || {
                // The leader may have voted otherwise.
                votes.iter().filter(|(_, count)| **count == most).map(|(name, _)| *name).min().cloned()
            },
        )
    }

    /// Longest rebalance timeout of the members, ms.
    pub fn rebalance_timeout_ms(&self) -> i64 {
        self.members.values().map(|member| i64::from(member.rebalance_timeout_ms)).max().unwrap_or(0)
    }

    /// Adds a member; the first one leads.
    pub fn insert(&mut self, member: Member) {
        self.count_protocols(&member.protocols, 1);
        self.joined += usize::from(member.awaiting_join.is_some());
        if let Some(instance) = &member.group_instance_id {
            self.static_members.insert(instance.clone(), member.id.clone());
        }
        self.pending_members.remove(&member.id);
        self.leader.get_or_insert_with(|| member.id.clone());
        self.members.insert(member.id.clone(), member);
    }

    /// Takes a member out. Whoever waits for it is told that it is unknown.
    pub fn remove(&mut self, desk: &mut Desk, member_id: &str) {
        if holds(Rule::RemovedAreTold) {
            self.answer_join(desk, member_id, JoinAnswer::refused("", ErrorCode::UnknownMemberId));
            self.answer_sync(desk, member_id, SyncAnswer::refused(ErrorCode::UnknownMemberId));
        }
        let Some(member) = self.members.remove(member_id) else { return };
        self.count_protocols(&member.protocols, -1);
        self.joined -= usize::from(member.awaiting_join.is_some());
        self.pending_sync.remove(member_id);
        if let Some(instance) = &member.group_instance_id
            && self.static_members.get(instance) == Some(&member.id)
        {
            self.static_members.remove(instance);
        }
        if self.is_leader(member_id) {
            self.leader = self.members.keys().next().cloned();
        }
    }

    /// Lets `member_id` wait for the end of the join phase. A join of the same member that waited is told to come again.
    pub fn await_join(&mut self, desk: &mut Desk, member_id: &str, request: RequestId) {
        self.answer_join(desk, member_id, JoinAnswer::refused(member_id, ErrorCode::RebalanceInProgress));
        if let Some(member) = self.members.get_mut(member_id) {
            member.awaiting_join = Some(request);
            self.joined += 1;
        }
    }

    pub fn answer_join(&mut self, desk: &mut Desk, member_id: &str, answer: JoinAnswer) {
        if let Some(member) = self.members.get_mut(member_id)
            && let Some(request) = member.awaiting_join.take()
        {
            self.joined -= 1;
            desk.effects.push(Effect::Joined(request, answer));
        }
    }

    pub fn answer_sync(&mut self, desk: &mut Desk, member_id: &str, answer: SyncAnswer) {
        if let Some(member) = self.members.get_mut(member_id)
            && let Some(request) = member.awaiting_sync.take()
        {
            desk.effects.push(Effect::Synced(request, answer));
        }
    }

    /// Members whose join waits.
    pub fn joined(&self) -> usize {
        self.joined
    }

    /// Everyone is back and nobody is expected.
    pub fn all_joined(&self) -> bool {
        self.joined == self.members.len() && self.pending_members.is_empty()
    }

    pub fn set_protocols(&mut self, member_id: &str, protocols: Protocols) {
        let Some(member) = self.members.get_mut(member_id) else { return };
        let old = std::mem::replace(&mut member.protocols, protocols.clone());
        self.count_protocols(&old, -1);
        self.count_protocols(&protocols, 1);
    }

    fn count_protocols(&mut self, protocols: &Protocols, by: isize) {
        // A name listed twice counts once, as in a set.
        let names: HashSet<&Arc<str>> = protocols.iter().map(|(name, _)| name).collect();
        for name in names {
            let count = self.support.entry(name.clone()).or_default();
            *count = count.saturating_add_signed(by);
            if *count == 0 {
                self.support.remove(name);
            }
        }
    }

    /// Starts a member's session anew.
    pub fn touch(&mut self, desk: &mut Desk, member_id: &str) {
        let timeout_ms = self.members.get(member_id).map_or(0, |member| i64::from(member.session_timeout_ms));
        self.touch_for(desk, member_id, timeout_ms);
    }

    pub fn touch_for(&mut self, desk: &mut Desk, member_id: &str, timeout_ms: i64) {
        let Some(member) = self.members.get_mut(member_id) else { return };
        let due_ms = desk.now.monotonic_ms + timeout_ms;
        if member.session.set(due_ms) {
            desk.timers.arm(due_ms, Timer::Session { group: self.id.clone(), member: member.id.clone() });
        }
    }

    /// Reads the members' subscriptions. Groups of another protocol have none that could be read.
    pub fn note_subscriptions(&mut self) {
        self.subscribed = match (self.protocol_type.as_deref(), self.protocol.as_deref()) {
            (Some(subscription::CONSUMER), _) if self.members.is_empty() => Some(HashSet::new()),
            (Some(subscription::CONSUMER), Some(protocol)) => {
                let all = self.members.values().map(|member| subscription::topics(&member.metadata(Some(protocol))));
                let all: Result<Vec<_>, _> = all.collect();
                all.inspect_err(|error| {
                    tracing::warn!(group = %self.id, %error, "a subscription that cannot be read: its group's offsets do not expire");
                })
                .ok()
                .map(|topics| topics.into_iter().flatten().collect())
            }
            _ => None,
        };
    }

    pub fn is_subscribed(&self, topic: &str) -> bool {
        self.subscribed.as_ref().is_none_or(|topics| topics.contains(topic))
    }

    /// Answers every join and sync that waits.
    pub fn refuse_waiting(&mut self, desk: &mut Desk, error: ErrorCode) {
        let ids: Vec<Arc<str>> = self.members.keys().cloned().collect();
        for id in ids {
            self.answer_join(desk, &id, JoinAnswer::refused(&id, error));
            self.answer_sync(desk, &id, SyncAnswer::refused(error));
        }
    }
}
