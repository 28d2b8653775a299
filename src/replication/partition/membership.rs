//! The leader's side of the ISR: who joins, who leaves, and what the controller made of it.
//!
//! Nothing here waits for an append under way: a disk that stalls holds up its own partition's records, not the ISR of
//! others.

use super::Partition;
use crate::replication::isr::{Confirmed, Outcome, Proposal};
use crate::replication::isr_changes::IsrChange;
use crate::replication::role::Leading;
use crate::storage::log::Log;
use crate::types::{BrokerId, LeaderEpoch};
use crate::wire::error_code::ErrorCode;

impl Partition {
    /// What `follower`, which has just fetched, makes of the ISR.
    pub(super) fn joining(&self, leading: &Leading, log: &Log, follower: BrokerId) -> Option<Proposal> {
        let progress = leading.progress(follower)?;
        if !leading.may_be_joined_by(follower) || !self.around.may_join(follower, progress.broker_epoch) {
            return None;
        }
        leading.propose_joining(follower, log.offsets().high_watermark)
    }

    /// Asks the controller for an ISR.
    pub(super) fn propose(&self, proposal: Proposal) {
        let Some(partition) = self.me.upgrade() else { return };
        if let Some(changes) = self.around.isr_changes.get() {
            changes.submit(partition, proposal);
        }
    }

    /// Asks for an ISR without those that have not caught up for `replica.lag.time.max.ms`.
    pub fn shrink_isr(&self) {
        let Ok(log) = self.online_log() else { return };
        let role = self.role();
        let Some(leading) = &role.leading else { return };
        let (now_ms, lag_ms) = (self.around.clock.monotonic_ms(), self.around.replica_lag_time_max_ms);
        if let Some(proposal) = leading.propose_leaving(log.offsets().log_end, now_ms, lag_ms) {
            tracing::info!(
                partition = %self.tp, isr = ?proposal.isr, was = ?leading.isr(),
                "replicas fell behind: the controller is asked for the ISR without them"
            );
            self.propose(proposal);
        }
    }

    /// What is asked of the controller for `proposal`: with the broker epoch each member fetches in.
    pub(in crate::replication) fn isr_change(&self, proposal: &Proposal) -> IsrChange {
        let role = self.role();
        let epoch =
            |id: BrokerId| role.leading.as_ref().and_then(|it| it.progress(id)).map_or(-1, |it| it.broker_epoch);
        IsrChange {
            tp: self.tp.clone(),
            topic_id: self.topic_id,
            leader_epoch: proposal.leader_epoch,
            partition_epoch: proposal.partition_epoch,
            isr: proposal.isr.iter().map(|id| (*id, epoch(*id))).collect(),
        }
    }

    /// The controller's answer to `proposal`. What became of it.
    pub(in crate::replication) fn isr_answered(
        &self,
        proposal: &Proposal,
        answer: Result<Confirmed, ErrorCode>,
    ) -> Outcome {
        let Ok(log) = self.online_log() else { return Outcome::Ignored };
        let role = self.role();
        let Some(leading) = &role.leading else { return Outcome::Ignored };
        let is_fenced = answer == Err(ErrorCode::FencedLeaderEpoch);
        let outcome = leading.answered(proposal, answer);
        if outcome == Outcome::Settled {
            tracing::info!(partition = %self.tp, isr = ?leading.isr(), "the ISR is settled");
            self.advance(&role, log, &log.config());
        }
        drop(role);
        if is_fenced && self.around.leader_checks.get().is_some() {
            self.superseded(LeaderEpoch(proposal.leader_epoch.0.saturating_add(1)));
        }
        outcome
    }
}
