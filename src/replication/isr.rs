//! The in-sync replicas of a partition as its leader knows them, with at most one change in flight.
//!
//! Two sets matter (Kafka's `PartitionState`): the *committed* ISR, last confirmed by the controller, admits acks=all;
//! the *maximal* ISR, which also holds members proposed and not yet answered, bounds the high watermark. A proposed
//! removal counts for nothing until it is confirmed.

use crate::types::BrokerId;

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
}
