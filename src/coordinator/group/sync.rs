//! SyncGroup, the sync phase and heartbeats: who is assigned what, and who is still there.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;

use super::desk::{Desk, Effect, PendingAppend, Timer};
use super::rules::{Rule, holds};
use super::state::{Group, Phase, State};
use super::{Groups, Now, Speaker};
use crate::coordinator::cores::RequestId;
use crate::coordinator::timers::Fired;
use crate::types::Offset;
use crate::wire::error_code::ErrorCode;

/// A SyncGroup request.
#[derive(Clone, Debug)]
pub struct Sync {
    pub request: RequestId,
    pub group: Arc<str>,
    pub speaker: Speaker,
    /// From version 5 on; must be the group's.
    pub protocol_type: Option<Arc<str>>,
    pub protocol: Option<Arc<str>>,
    /// Of the leader; others send none.
    pub assignments: Vec<(Arc<str>, Bytes)>,
}

/// What a sync is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyncAnswer {
    pub error: ErrorCode,
    pub protocol_type: Option<Arc<str>>,
    pub protocol: Option<Arc<str>>,
    pub assignment: Bytes,
}

impl SyncAnswer {
    pub fn refused(error: ErrorCode) -> SyncAnswer {
        SyncAnswer { error, protocol_type: None, protocol: None, assignment: Bytes::new() }
    }
}

impl Groups {
    /// Answered with [`Effect::Synced`], at once or when the leader's assignment is written.
    pub fn sync(&mut self, now: Now, sync: Sync) {
        self.desk.now = now;
        let request = sync.request;
        let outcome = match self.groups.get_mut(&sync.group) {
            Some(group) => group.sync(&mut self.desk, sync),
            None => Err(ErrorCode::UnknownMemberId),
        };
        if let Err(error) = outcome {
            self.desk.effects.push(Effect::Synced(request, SyncAnswer::refused(error)));
        }
    }

    /// Keeps a member's session; REBALANCE_IN_PROGRESS tells it to join again.
    pub fn heartbeat(&mut self, now: Now, group: &str, speaker: &Speaker) -> ErrorCode {
        self.desk.now = now;
        match self.groups.get_mut(group) {
            Some(group) => group.heartbeat(&mut self.desk, speaker).err().unwrap_or(ErrorCode::None),
            None => ErrorCode::UnknownMemberId,
        }
    }
}

impl Group {
    fn sync(&mut self, desk: &mut Desk, sync: Sync) -> Result<(), ErrorCode> {
        let member_id = sync.speaker.member_id.clone();
        self.check_member(&member_id, sync.speaker.group_instance_id.as_deref())?;
        if sync.speaker.generation != self.generation {
            return Err(ErrorCode::IllegalGeneration);
        }
        let differs = |given: &Option<Arc<str>>, ours: &Option<Arc<str>>| given.is_some() && given != ours;
        if differs(&sync.protocol_type, &self.protocol_type) || differs(&sync.protocol, &self.protocol) {
            return Err(ErrorCode::InconsistentGroupProtocol);
        }
        match self.state() {
            State::Empty | State::Dead => Err(ErrorCode::UnknownMemberId),
            State::PreparingRebalance => Err(ErrorCode::RebalanceInProgress),
            State::CompletingRebalance => {
                self.await_sync(desk, &member_id, sync.request);
                if self.is_leader(&member_id) || !holds(Rule::LeaderAssigns) {
                    self.write_assignment(desk, sync.assignments);
                }
                Ok(())
            }
            State::Stable => {
                self.pending_sync.remove(&member_id);
                let answer = self.assigned(&member_id);
                desk.effects.push(Effect::Synced(sync.request, answer));
                self.touch(desk, &member_id);
                Ok(())
            }
        }
    }

    /// A sync of the same member that waited is told to come again.
    fn await_sync(&mut self, desk: &mut Desk, member_id: &str, request: RequestId) {
        self.answer_sync(desk, member_id, SyncAnswer::refused(ErrorCode::RebalanceInProgress));
        if let Some(member) = self.members.get_mut(member_id) {
            member.awaiting_sync = Some(request);
        }
        self.pending_sync.remove(member_id);
    }

    /// Members that the leader forgot get nothing; what it assigns to strangers is dropped.
    fn write_assignment(&mut self, desk: &mut Desk, given: Vec<(Arc<str>, Bytes)>) {
        let assignments: HashMap<Arc<str>, Bytes> =
            given.into_iter().filter(|(member_id, _)| self.members.contains_key(member_id)).collect();
        let record = self.record(|member| assignments.get(&member.id).cloned().unwrap_or_default());
        let pending = PendingAppend::Assignment { life: self.life.clone(), generation: self.generation, assignments };
        desk.append_group(&self.id, &record, pending);
    }

    pub(super) fn assignment_appended(
        &mut self,
        desk: &mut Desk,
        generation: i32,
        mut assignments: HashMap<Arc<str>, Bytes>,
        outcome: Result<Offset, ErrorCode>,
    ) {
        // Somebody may have come or gone meanwhile: then this assignment is nobody's.
        let late = self.state() != State::CompletingRebalance || self.generation != generation;
        if late && holds(Rule::AssignmentOfGeneration) {
            return;
        }
        if let Err(error) = outcome {
            tracing::warn!(group = %self.id, generation, %error, "an assignment is not written");
            self.refuse_syncs(desk, Groups::group_error(error));
            self.rebalance(desk);
            return;
        }
        for member in self.members.values_mut() {
            member.assignment = assignments.remove(&member.id).unwrap_or_default();
        }
        self.enter(desk, State::Stable);
        let ids: Vec<Arc<str>> = self.members.keys().cloned().collect();
        for member_id in ids {
            let waits = self.members.get(&member_id).is_some_and(|member| member.awaiting_sync.is_some());
            if waits {
                let answer = self.assigned(&member_id);
                self.answer_sync(desk, &member_id, answer);
                self.touch(desk, &member_id);
            }
        }
    }

    fn assigned(&self, member_id: &str) -> SyncAnswer {
        SyncAnswer {
            error: ErrorCode::None,
            protocol_type: self.protocol_type.clone(),
            protocol: self.protocol.clone(),
            assignment: self.members.get(member_id).map(|member| member.assignment.clone()).unwrap_or_default(),
        }
    }

    /// No assignment holds; those who wait for one are told `error`.
    pub(super) fn refuse_syncs(&mut self, desk: &mut Desk, error: ErrorCode) {
        let ids: Vec<Arc<str>> = self.members.keys().cloned().collect();
        for member_id in ids {
            let Some(member) = self.members.get_mut(&member_id) else { continue };
            member.assignment = Bytes::new();
            if member.awaiting_sync.is_some() {
                self.answer_sync(desk, &member_id, SyncAnswer::refused(error));
                self.touch(desk, &member_id);
            }
        }
    }

    /// Members that joined and did not ask for their assignment in time are gone.
    pub(super) fn sync_phase_ended(&mut self, desk: &mut Desk) {
        self.phase = Phase::None;
        if !matches!(self.state(), State::CompletingRebalance | State::Stable) || self.pending_sync.is_empty() {
            return;
        }
        for member_id in std::mem::take(&mut self.pending_sync) {
            self.remove(desk, &member_id);
        }
        self.rebalance(desk);
    }

    fn heartbeat(&mut self, desk: &mut Desk, speaker: &Speaker) -> Result<(), ErrorCode> {
        self.check_member(&speaker.member_id, speaker.group_instance_id.as_deref())?;
        if speaker.generation != self.generation && holds(Rule::GenerationOfHeartbeat) {
            return Err(ErrorCode::IllegalGeneration);
        }
        match self.state() {
            State::Empty | State::Dead => Err(ErrorCode::UnknownMemberId),
            State::PreparingRebalance => {
                self.touch(desk, &speaker.member_id);
                Err(ErrorCode::RebalanceInProgress)
            }
            State::CompletingRebalance | State::Stable => {
                self.touch(desk, &speaker.member_id);
                Ok(())
            }
        }
    }

    /// A timer for a member's session fired; the session may have been kept meanwhile.
    pub(super) fn session_fired(&mut self, desk: &mut Desk, member_id: &str) {
        let Some(member) = self.members.get_mut(member_id) else { return };
        match member.session.fired(desk.now.monotonic_ms) {
            Fired::Passed => {}
            Fired::Again(due_ms) => {
                let timer = Timer::Session { group: self.id.clone(), member: member.id.clone() };
                return desk.timers.arm(due_ms, timer);
            }
            Fired::Stale => return,
        }
        // Who waits for our answer cannot send heartbeats; a new member's wait has this limit and no other.
        let waits = member.awaiting_join.is_some() || member.awaiting_sync.is_some();
        if member.is_new || !waits {
            tracing::info!(group = %self.id, member_id, "a member's session timed out");
            self.remove(desk, member_id);
            self.membership_changed(desk);
        }
    }
}
