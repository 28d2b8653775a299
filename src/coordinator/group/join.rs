//! JoinGroup and the join phase: who is in the next generation.

use std::sync::Arc;

use bytes::Bytes;

use super::desk::{Desk, Effect, Life, PendingAppend, Timer};
use super::member::{Member, Protocols};
use super::state::{Group, Phase, State};
use super::sync::SyncAnswer;
use super::{Groups, Now};
use crate::coordinator::cores::RequestId;
use crate::types::Offset;
use crate::wire::error_code::ErrorCode;

/// How long a join of a member that does not know its id yet may wait, ms: it has no session that could end.
const NEW_MEMBER_TIMEOUT_MS: i64 = 5 * 60 * 1000;

/// The least time for which static members that are away are waited for again, ms: a rebalance timeout is a client's
/// word, and one of zero would begin the wait again within the same moment, for ever.
const WAIT_AGAIN_MS: i64 = 100;

/// A JoinGroup request.
#[derive(Clone, Debug)]
pub struct Join {
    pub request: RequestId,
    pub group: Arc<str>,
    /// Empty for one that has none yet.
    pub member_id: Arc<str>,
    /// Never used before: what a member without an id gets.
    pub fresh_member_id: Arc<str>,
    pub group_instance_id: Option<Arc<str>>,
    pub client_id: Arc<str>,
    pub client_host: Arc<str>,
    pub session_timeout_ms: i32,
    pub rebalance_timeout_ms: i32,
    pub protocol_type: Arc<str>,
    /// Best first.
    pub protocols: Vec<(Arc<str>, Bytes)>,
    /// From version 4 on: a dynamic member is told its id first and joins with it.
    pub require_known_member_id: bool,
    /// From version 9 on: a leader can be told not to assign.
    pub may_skip_assignment: bool,
}

/// What a join is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JoinAnswer {
    pub error: ErrorCode,
    pub member_id: Arc<str>,
    /// -1 with an error.
    pub generation: i32,
    pub protocol_type: Option<Arc<str>>,
    pub protocol: Option<Arc<str>>,
    pub leader: Arc<str>,
    pub skip_assignment: bool,
    /// For the leader alone.
    pub members: Vec<JoinedMember>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JoinedMember {
    pub member_id: Arc<str>,
    pub group_instance_id: Option<Arc<str>>,
    pub metadata: Bytes,
}

impl JoinAnswer {
    pub fn refused(member_id: &str, error: ErrorCode) -> JoinAnswer {
        JoinAnswer {
            error,
            member_id: member_id.into(),
            generation: -1,
            protocol_type: None,
            protocol: None,
            leader: "".into(),
            skip_assignment: false,
            members: Vec::new(),
        }
    }
}

/// A static member whose new id is being written.
#[derive(Debug)]
pub(super) struct ReplacedMember {
    pub life: Life,
    request: RequestId,
    member_id: Arc<str>,
    may_skip_assignment: bool,
    /// As it was, for when the write fails.
    old_member_id: Arc<str>,
    old_protocols: Protocols,
    old_rebalance_timeout_ms: i32,
    old_session_timeout_ms: i32,
    /// Before the member came back.
    old_leader: Option<Arc<str>>,
}

impl ReplacedMember {
    pub fn refuse(self, desk: &mut Desk, error: ErrorCode) {
        desk.effects.push(Effect::Joined(self.request, JoinAnswer::refused("", error)));
    }
}

impl Groups {
    /// Answered with [`Effect::Joined`], at once or when the group has its members.
    pub fn join(&mut self, now: Now, join: Join) {
        self.desk.now = now;
        let (request, member_id) = (join.request, join.member_id.clone());
        if let Err(error) = self.try_join(join) {
            self.desk.effects.push(Effect::Joined(request, JoinAnswer::refused(&member_id, error)));
        }
    }

    fn try_join(&mut self, join: Join) -> Result<(), ErrorCode> {
        let desk = &mut self.desk;
        if !(desk.settings.min_session_timeout_ms..=desk.settings.max_session_timeout_ms)
            .contains(&join.session_timeout_ms)
        {
            return Err(ErrorCode::InvalidSessionTimeout);
        }
        let group = match self.groups.get_mut(&join.group) {
            Some(group) => group,
            None if !join.member_id.is_empty() => return Err(ErrorCode::UnknownMemberId),
            None => {
                let group = Group::new(desk.begin_life(join.group.clone()));
                self.groups.entry(join.group.clone()).or_insert(group)
            }
        };
        group.join(desk, join)
    }
}

impl Group {
    fn join(&mut self, desk: &mut Desk, join: Join) -> Result<(), ErrorCode> {
        if !self.has_room(desk.settings.max_size, &join.member_id) {
            self.remove(desk, &join.member_id);
            self.try_complete_join(desk);
            return Err(ErrorCode::GroupMaxSizeReached);
        }
        if !self.supports(&join.protocol_type, &join.protocols) {
            return Err(ErrorCode::InconsistentGroupProtocol);
        }
        let outcome = match join.member_id.is_empty() {
            true => self.join_unknown(desk, join),
            false => self.join_known(desk, join),
        };
        self.try_complete_join(desk);
        outcome
    }

    fn has_room(&self, max_size: usize, member_id: &str) -> bool {
        match self.state() {
            State::Empty | State::Dead => true,
            State::PreparingRebalance => {
                let waits = self.members.get(member_id).is_some_and(|member| member.awaiting_join.is_some());
                waits || self.joined() < max_size
            }
            State::CompletingRebalance | State::Stable => {
                self.members.contains_key(member_id) || self.members.len() < max_size
            }
        }
    }

    fn join_unknown(&mut self, desk: &mut Desk, join: Join) -> Result<(), ErrorCode> {
        let fresh = join.fresh_member_id.clone();
        match &join.group_instance_id {
            Some(instance) => match self.static_members.get(instance).cloned() {
                Some(old_member_id) => self.join_again(desk, old_member_id, join),
                None => self.admit(desk, fresh, join),
            },
            None if join.require_known_member_id => {
                self.pending_members.insert(fresh.clone());
                let timer = Timer::PendingMember { group: self.id.clone(), member: fresh.clone() };
                desk.timers.arm(desk.now.monotonic_ms + i64::from(join.session_timeout_ms), timer);
                let answer = JoinAnswer::refused(&fresh, ErrorCode::MemberIdRequired);
                desk.effects.push(Effect::Joined(join.request, answer));
            }
            None => self.admit(desk, fresh, join),
        }
        Ok(())
    }

    fn join_known(&mut self, desk: &mut Desk, join: Join) -> Result<(), ErrorCode> {
        let member_id = join.member_id.clone();
        if self.pending_members.contains(&member_id) {
            if join.group_instance_id.is_some() {
                // Kafka fails here inside.
                return Err(ErrorCode::UnknownServerError);
            }
            self.admit(desk, member_id, join);
            return Ok(());
        }
        self.check_member(&member_id, join.group_instance_id.as_deref())?;
        let unchanged = self.members.get(&member_id).is_some_and(|member| member.protocols == join.protocols);
        match self.state() {
            State::PreparingRebalance => self.rejoin(desk, &member_id, join),
            State::CompletingRebalance if unchanged => {
                let answer = self.joined_answer(&member_id);
                desk.effects.push(Effect::Joined(join.request, answer));
            }
            State::Stable if unchanged && !self.is_leader(&member_id) => {
                let answer = JoinAnswer { members: Vec::new(), ..self.joined_answer(&member_id) };
                desk.effects.push(Effect::Joined(join.request, answer));
            }
            State::CompletingRebalance | State::Stable => self.rejoin(desk, &member_id, join),
            State::Empty | State::Dead => return Err(ErrorCode::UnknownMemberId),
        }
        Ok(())
    }

    fn admit(&mut self, desk: &mut Desk, member_id: Arc<str>, join: Join) {
        if self.state() == State::PreparingRebalance && self.generation == 0 {
            self.new_member_added = true;
        }
        if self.state() == State::Empty {
            self.protocol_type = Some(join.protocol_type);
        }
        self.insert(Member {
            id: member_id.clone(),
            group_instance_id: join.group_instance_id,
            client_id: join.client_id,
            client_host: join.client_host,
            rebalance_timeout_ms: join.rebalance_timeout_ms,
            session_timeout_ms: join.session_timeout_ms,
            protocols: join.protocols,
            assignment: Bytes::new(),
            awaiting_join: Some(join.request),
            awaiting_sync: None,
            is_new: true,
            session: Default::default(),
        });
        self.touch_for(desk, &member_id, NEW_MEMBER_TIMEOUT_MS);
        self.rebalance(desk);
    }

    /// Takes over what the join says and lets it wait.
    fn rejoin(&mut self, desk: &mut Desk, member_id: &str, join: Join) {
        self.set_protocols(member_id, join.protocols);
        if let Some(member) = self.members.get_mut(member_id) {
            member.rebalance_timeout_ms = join.rebalance_timeout_ms;
            member.session_timeout_ms = join.session_timeout_ms;
        }
        self.await_join(desk, member_id, join.request);
        self.rebalance(desk);
    }

    /// A static member that lost its id: it gets a new one and takes over. Whoever still uses the old one is fenced.
    fn join_again(&mut self, desk: &mut Desk, old_member_id: Arc<str>, join: Join) {
        let old_leader = self.leader.clone();
        let member_id = join.fresh_member_id.clone();
        self.rename(desk, &old_member_id, member_id.clone());
        self.touch(desk, &member_id);
        let Some(member) = self.members.get(&member_id) else { return };
        let replaced = ReplacedMember {
            life: self.life.clone(),
            request: join.request,
            member_id: member_id.clone(),
            may_skip_assignment: join.may_skip_assignment,
            old_member_id,
            old_protocols: member.protocols.clone(),
            old_rebalance_timeout_ms: member.rebalance_timeout_ms,
            old_session_timeout_ms: member.session_timeout_ms,
            old_leader,
        };
        if self.state() != State::Stable {
            self.rejoin(desk, &member_id, join);
            return;
        }
        self.set_protocols(&member_id, join.protocols.clone());
        if self.select_protocol() != self.protocol {
            self.rejoin(desk, &member_id, join);
            return;
        }
        if let Some(member) = self.members.get_mut(&member_id) {
            member.rebalance_timeout_ms = join.rebalance_timeout_ms;
            member.session_timeout_ms = join.session_timeout_ms;
        }
        let record = self.record(|member| member.assignment.clone());
        desk.append_group(&self.id, &record, PendingAppend::StaticMember(replaced));
    }

    fn rename(&mut self, desk: &mut Desk, old: &str, new: Arc<str>) {
        self.answer_join(desk, old, JoinAnswer::refused(old, ErrorCode::FencedInstanceId));
        self.answer_sync(desk, old, SyncAnswer::refused(ErrorCode::FencedInstanceId));
        let Some(mut member) = self.members.remove(old) else { return };
        member.id = new.clone();
        member.session = Default::default();
        if let Some(instance) = &member.group_instance_id {
            self.static_members.insert(instance.clone(), new.clone());
        }
        if self.is_leader(old) {
            self.leader = Some(new.clone());
        }
        if self.pending_sync.remove(old) {
            self.pending_sync.insert(new.clone());
        }
        self.members.insert(new, member);
    }

    pub(super) fn static_member_appended(
        &mut self,
        desk: &mut Desk,
        replaced: ReplacedMember,
        outcome: Result<Offset, ErrorCode>,
    ) {
        let ReplacedMember { request, member_id, old_member_id, old_leader, .. } = replaced;
        if !self.members.contains_key(&member_id) {
            // It left, or came back once more, while its first return was written.
            let answer = JoinAnswer::refused(&member_id, ErrorCode::FencedInstanceId);
            desk.effects.push(Effect::Joined(request, answer));
            return;
        }
        if let Err(error) = outcome {
            tracing::warn!(group = %self.id, %error, "a static member's new id is not written: it keeps the old one");
            self.set_protocols(&member_id, replaced.old_protocols);
            if let Some(member) = self.members.get_mut(&member_id) {
                member.rebalance_timeout_ms = replaced.old_rebalance_timeout_ms;
                member.session_timeout_ms = replaced.old_session_timeout_ms;
            }
            self.rename(desk, &member_id, old_member_id.clone());
            self.touch(desk, &old_member_id);
            let answer = JoinAnswer {
                generation: self.generation,
                protocol_type: self.protocol_type.clone(),
                protocol: self.protocol.clone(),
                leader: old_leader.unwrap_or_default(),
                ..JoinAnswer::refused("", Groups::group_error(error))
            };
            desk.effects.push(Effect::Joined(request, answer));
            return;
        }
        self.touch(desk, &member_id);
        let answer = self.joined_answer(&member_id);
        let answer = match replaced.may_skip_assignment {
            true => JoinAnswer { skip_assignment: self.is_leader(&member_id), ..answer },
            // It must not think that it leads: it would assign anew what nobody would take over.
            false => JoinAnswer { members: Vec::new(), leader: old_leader.unwrap_or_default(), ..answer },
        };
        desk.effects.push(Effect::Joined(request, answer));
    }

    /// The current generation, as a member is told.
    fn joined_answer(&self, member_id: &str) -> JoinAnswer {
        let members = match self.is_leader(member_id) {
            false => Vec::new(),
            true => self
                .members
                .values()
                .map(|member| JoinedMember {
                    member_id: member.id.clone(),
                    group_instance_id: member.group_instance_id.clone(),
                    metadata: member.metadata(self.protocol.as_deref()),
                })
                .collect(),
        };
        JoinAnswer {
            error: ErrorCode::None,
            member_id: member_id.into(),
            generation: self.generation,
            protocol_type: self.protocol_type.clone(),
            protocol: self.protocol.clone(),
            leader: self.leader.clone().unwrap_or_default(),
            skip_assignment: false,
            members,
        }
    }

    /// Begins a rebalance unless one is being prepared.
    pub(super) fn rebalance(&mut self, desk: &mut Desk) {
        if self.state() == State::PreparingRebalance {
            return;
        }
        if self.state() == State::CompletingRebalance {
            self.refuse_syncs(desk, ErrorCode::RebalanceInProgress);
        }
        self.pending_sync.clear();
        let timeout_ms = self.rebalance_timeout_ms();
        self.phase = match self.state() {
            State::Empty => {
                let delay_ms = i64::from(desk.settings.initial_rebalance_delay_ms);
                let number = desk.begin_phase(&self.id, delay_ms);
                Phase::InitialDelay { number, remaining_ms: (timeout_ms - delay_ms).max(0) }
            }
            _ => Phase::Join(desk.begin_phase(&self.id, timeout_ms)),
        };
        self.enter(desk, State::PreparingRebalance);
        self.try_complete_join(desk);
    }

    /// Somebody left. What follows depends on where the group is.
    pub(super) fn membership_changed(&mut self, desk: &mut Desk) {
        match self.state() {
            State::Empty | State::Dead => {}
            State::Stable | State::CompletingRebalance => self.rebalance(desk),
            State::PreparingRebalance => self.try_complete_join(desk),
        }
    }

    pub(super) fn try_complete_join(&mut self, desk: &mut Desk) {
        if self.state() == State::PreparingRebalance && matches!(self.phase, Phase::Join(_)) && self.all_joined() {
            self.complete_join(desk);
        }
    }

    /// The time of a phase is up.
    pub(super) fn phase_fired(&mut self, desk: &mut Desk, fired: u64) {
        match self.phase {
            Phase::InitialDelay { number, remaining_ms } if number == fired => {
                if self.new_member_added && remaining_ms != 0 {
                    self.new_member_added = false;
                    let delay_ms = i64::from(desk.settings.initial_rebalance_delay_ms).min(remaining_ms);
                    let number = desk.begin_phase(&self.id, delay_ms);
                    self.phase = Phase::InitialDelay { number, remaining_ms: remaining_ms - delay_ms };
                } else {
                    self.complete_join(desk);
                }
            }
            Phase::Join(number) if number == fired => self.complete_join(desk),
            Phase::Sync(number) if number == fired => self.sync_phase_ended(desk),
            _ => {}
        }
    }

    fn complete_join(&mut self, desk: &mut Desk) {
        let gone: Vec<Arc<str>> = self
            .members
            .values()
            .filter(|member| member.awaiting_join.is_none() && !member.is_static())
            .map(|member| member.id.clone())
            .collect();
        for member_id in gone {
            self.remove(desk, &member_id);
        }
        if !self.members.is_empty() && !self.elect_joined_leader() {
            // Static members that are away: until their sessions end.
            let timeout_ms = self.rebalance_timeout_ms().max(WAIT_AGAIN_MS);
            self.phase = Phase::Join(desk.begin_phase(&self.id, timeout_ms));
            return;
        }
        self.generation = self.generation.wrapping_add(1);
        self.new_member_added = false;
        if self.members.is_empty() {
            self.protocol = None;
            self.leader = None;
            self.phase = Phase::None;
            self.note_subscriptions();
            self.enter(desk, State::Empty);
            let record = self.record(|_| Bytes::new());
            let pending = PendingAppend::Noted { group: self.id.clone(), what: "that the group is empty" };
            desk.append_group(&self.id, &record, pending);
            return;
        }
        self.protocol = self.select_protocol();
        self.note_subscriptions();
        self.enter(desk, State::CompletingRebalance);
        let ids: Vec<Arc<str>> = self.members.keys().cloned().collect();
        for member_id in ids {
            let answer = self.joined_answer(&member_id);
            self.answer_join(desk, &member_id, answer);
            self.touch(desk, &member_id);
            if let Some(member) = self.members.get_mut(&member_id) {
                member.is_new = false;
            }
            self.pending_sync.insert(member_id);
        }
        let timeout_ms = self.rebalance_timeout_ms();
        self.phase = Phase::Sync(desk.begin_phase(&self.id, timeout_ms));
    }

    /// Keeps a leader that joined, or makes another that did. False when nobody joined.
    fn elect_joined_leader(&mut self) -> bool {
        let joined = |member: &&Member| member.awaiting_join.is_some();
        if self.leader.as_ref().and_then(|leader| self.members.get(leader)).is_some_and(|leader| joined(&leader)) {
            return true;
        }
        match self.members.values().find(joined) {
            Some(member) => {
                self.leader = Some(member.id.clone());
                true
            }
            None => false,
        }
    }

    /// A member id that was handed out has not been used.
    pub(super) fn pending_member_fired(&mut self, desk: &mut Desk, member_id: &str) {
        if self.pending_members.remove(member_id) {
            self.try_complete_join(desk);
        }
    }
}
