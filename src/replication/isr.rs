//! The in-sync replicas of a partition as its leader knows them, with at most one change in flight.
//!
//! Two sets matter (Kafka's `PartitionState`): the *committed* ISR, last confirmed by the controller, admits acks=all;
//! the *maximal* ISR, which also holds members proposed and not yet answered, bounds the high watermark. A proposed
//! removal counts for nothing until it is confirmed.

use crate::types::{BrokerId, LeaderEpoch};
use crate::wire::error_code::ErrorCode;

/// Members in the order of the state node.
pub type Isr = Vec<BrokerId>;

/// What the leader may assume about the ISR.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IsrState {
    Committed(Isr),
    Expanding { committed: Isr, adding: BrokerId },
    Shrinking { committed: Isr, removing: Vec<BrokerId> },
}

impl IsrState {
    pub fn committed(&self) -> &Isr {
        match self {
            IsrState::Committed(isr) => isr,
            IsrState::Expanding { committed, .. } | IsrState::Shrinking { committed, .. } => committed,
        }
    }

    /// Committed ISR and a member being added.
    pub fn maximal(&self) -> impl Iterator<Item = BrokerId> + '_ {
        let adding = match self {
            IsrState::Expanding { adding, .. } => Some(*adding),
            _ => None,
        };
        self.committed().iter().copied().chain(adding)
    }

    pub fn maximal_len(&self) -> usize {
        self.maximal().count()
    }

    pub fn in_flight(&self) -> bool {
        !matches!(self, IsrState::Committed(_))
    }

    /// The ISR to ask the controller for, when adding `member` is possible now.
    pub fn propose_adding(&mut self, member: BrokerId) -> Option<Isr> {
        match self {
            IsrState::Committed(isr) if !isr.contains(&member) => {
                let committed = std::mem::take(isr);
                let proposed = committed.iter().copied().chain([member]).collect();
                *self = IsrState::Expanding { committed, adding: member };
                Some(proposed)
            }
            _ => None,
        }
    }

    /// The ISR to ask the controller for, when removing those `members` that are in it is possible now.
    pub fn propose_removing(&mut self, members: &[BrokerId]) -> Option<Isr> {
        match self {
            IsrState::Committed(isr) => {
                let removing: Vec<BrokerId> = isr.iter().copied().filter(|id| members.contains(id)).collect();
                if removing.is_empty() || removing.len() == isr.len() {
                    return None;
                }
                let committed = std::mem::take(isr);
                let proposed = committed.iter().copied().filter(|id| !removing.contains(id)).collect();
                *self = IsrState::Shrinking { committed, removing };
                Some(proposed)
            }
            _ => None,
        }
    }

    /// The controller refused for good (INELIGIBLE_REPLICA, OPERATION_NOT_ATTEMPTED): the committed ISR stands.
    pub fn abandon(&mut self) {
        *self = IsrState::Committed(self.committed().clone());
    }
}

/// The ISR with the version of the state node it was read in: what a compare-and-set is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Membership {
    pub isr: IsrState,
    pub partition_epoch: i32,
}

/// What a leader asks the controller for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proposal {
    pub leader_epoch: LeaderEpoch,
    /// Of the state it replaces.
    pub partition_epoch: i32,
    pub isr: Isr,
}

/// The state node as it is now, from the controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Confirmed {
    pub leader_epoch: LeaderEpoch,
    pub partition_epoch: i32,
    pub isr: Isr,
}

/// What an answer means for whoever asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The committed ISR is another one now, or the change is given up.
    Settled,
    /// Nothing is known: the maximal ISR stands until the controller says more.
    Pending,
    /// Ask the same again.
    Again,
    /// Of another time.
    Ignored,
}

impl Membership {
    /// The controller's answer to `proposal` in `leader_epoch`.
    ///
    /// | error | what becomes of the change |
    /// |---|---|
    /// | INELIGIBLE_REPLICA, OPERATION_NOT_ATTEMPTED | given up |
    /// | UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID, FENCED_LEADER_EPOCH, INVALID_UPDATE_VERSION, INVALID_REQUEST, NEW_LEADER_ELECTED | unknown until LeaderAndIsr comes |
    /// | any other | asked again |
    pub fn answered(
        &mut self,
        leader_epoch: LeaderEpoch,
        proposal: &Proposal,
        answer: Result<Confirmed, ErrorCode>,
    ) -> Outcome {
        let is_ours = self.isr.in_flight()
            && leader_epoch == proposal.leader_epoch
            && self.partition_epoch == proposal.partition_epoch;
        if !is_ours {
            return Outcome::Ignored;
        }
        match answer {
            Ok(now) if now.leader_epoch != leader_epoch || now.partition_epoch < self.partition_epoch => {
                Outcome::Pending
            }
            Ok(now) => {
                *self = Membership { isr: IsrState::Committed(now.isr), partition_epoch: now.partition_epoch };
                Outcome::Settled
            }
            Err(ErrorCode::IneligibleReplica | ErrorCode::OperationNotAttempted) => {
                self.isr.abandon();
                Outcome::Settled
            }
            Err(
                ErrorCode::UnknownTopicOrPartition
                | ErrorCode::UnknownTopicId
                | ErrorCode::FencedLeaderEpoch
                | ErrorCode::InvalidUpdateVersion
                | ErrorCode::InvalidRequest
                | ErrorCode::NewLeaderElected,
            ) => Outcome::Pending,
            Err(_) => Outcome::Again,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(ids: &[i32]) -> Isr {
        ids.iter().copied().map(BrokerId).collect()
    }

    #[test]
    fn one_change_in_flight_at_a_time() {
        let mut isr = IsrState::Committed(ids(&[1, 2]));
        assert_eq!(isr.propose_adding(BrokerId(3)), Some(ids(&[1, 2, 3])));
        assert_eq!(isr.propose_adding(BrokerId(4)), None);
        assert_eq!(isr.propose_removing(&ids(&[2])), None);
        isr.abandon();
        assert_eq!(isr, IsrState::Committed(ids(&[1, 2])));
    }

    #[test]
    fn an_addition_counts_at_once_a_removal_not_before_it_is_confirmed() {
        let mut isr = IsrState::Committed(ids(&[1, 2]));
        isr.propose_adding(BrokerId(3));
        assert_eq!(isr.maximal().collect::<Vec<_>>(), ids(&[1, 2, 3]));
        assert_eq!(isr.committed(), &ids(&[1, 2]));
        let mut isr = IsrState::Committed(ids(&[1, 2, 3]));
        assert_eq!(isr.propose_removing(&ids(&[2, 9])), Some(ids(&[1, 3])));
        assert_eq!(isr.maximal().collect::<Vec<_>>(), ids(&[1, 2, 3]));
    }

    #[test]
    fn the_isr_is_never_proposed_empty() {
        let mut isr = IsrState::Committed(ids(&[1]));
        assert_eq!(isr.propose_removing(&ids(&[1])), None);
        assert_eq!(isr.propose_adding(BrokerId(1)), None);
    }

    #[test]
    fn each_answer_of_the_controller_has_its_outcome() {
        let epoch = LeaderEpoch(4);
        let begun = || {
            let mut membership = Membership { isr: IsrState::Committed(ids(&[1, 2])), partition_epoch: 7 };
            let isr = membership.isr.propose_adding(BrokerId(3)).expect("none in flight");
            (membership, Proposal { leader_epoch: epoch, partition_epoch: 7, isr })
        };
        let confirmed = |leader_epoch, partition_epoch| {
            Ok(Confirmed { leader_epoch: LeaderEpoch(leader_epoch), partition_epoch, isr: ids(&[1, 2, 3]) })
        };
        let committed =
            |members: &[i32], partition_epoch| Membership { isr: IsrState::Committed(ids(members)), partition_epoch };
        let (pending, _) = begun();
        let cases = [
            (confirmed(4, 8), Outcome::Settled, committed(&[1, 2, 3], 8)),
            (confirmed(4, 7), Outcome::Settled, committed(&[1, 2, 3], 7)),
            (confirmed(4, 6), Outcome::Pending, pending.clone()),
            (confirmed(5, 9), Outcome::Pending, pending.clone()),
            (Err(ErrorCode::IneligibleReplica), Outcome::Settled, committed(&[1, 2], 7)),
            (Err(ErrorCode::OperationNotAttempted), Outcome::Settled, committed(&[1, 2], 7)),
            (Err(ErrorCode::UnknownTopicOrPartition), Outcome::Pending, pending.clone()),
            (Err(ErrorCode::UnknownTopicId), Outcome::Pending, pending.clone()),
            (Err(ErrorCode::FencedLeaderEpoch), Outcome::Pending, pending.clone()),
            (Err(ErrorCode::InvalidUpdateVersion), Outcome::Pending, pending.clone()),
            (Err(ErrorCode::InvalidRequest), Outcome::Pending, pending.clone()),
            (Err(ErrorCode::NewLeaderElected), Outcome::Pending, pending.clone()),
            (Err(ErrorCode::NotController), Outcome::Again, pending.clone()),
            (Err(ErrorCode::UnknownServerError), Outcome::Again, pending),
        ];
        for (answer, outcome, after) in cases {
            let (mut membership, proposal) = begun();
            assert_eq!(membership.answered(epoch, &proposal, answer.clone()), outcome, "{answer:?}");
            assert_eq!(membership, after, "{answer:?}");
        }
        let (mut membership, proposal) = begun();
        assert_eq!(membership.answered(LeaderEpoch(5), &proposal, confirmed(4, 8)), Outcome::Ignored, "elected again");
        membership.partition_epoch = 9;
        assert_eq!(
            membership.answered(epoch, &proposal, confirmed(4, 8)),
            Outcome::Ignored,
            "a newer state came first"
        );
        membership = committed(&[1, 2], 7);
        assert_eq!(membership.answered(epoch, &proposal, confirmed(4, 8)), Outcome::Ignored, "nothing is in flight");
    }
}
