//! What the controller believes a partition and a replica to be, and which may become which. A state that does not
//! exist is a key that is absent. Rules: Kafka's `PartitionState` and `ReplicaState`.

/// A partition's state; NonExistent is absence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartitionStatus {
    /// Assigned, no state node yet.
    New,
    Online,
    /// No live leader.
    Offline,
}

impl PartitionStatus {
    pub fn may_become(self, next: PartitionStatus) -> bool {
        use PartitionStatus::{New, Offline, Online};
        match next {
            // Only what did not exist becomes New.
            New => false,
            Online | Offline => matches!(self, New | Online | Offline),
        }
    }
}

/// A replica's state; NonExistent is absence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplicaStatus {
    New,
    Online,
    Offline,
    DeletionStarted,
    DeletionSuccessful,
    /// Its broker is dead or failed to delete it.
    DeletionIneligible,
}

impl ReplicaStatus {
    pub fn may_become(self, next: ReplicaStatus) -> bool {
        use ReplicaStatus::{DeletionIneligible, DeletionStarted, DeletionSuccessful, New, Offline, Online};
        match next {
            New => false,
            Online | Offline => matches!(self, New | Online | Offline | DeletionIneligible),
            DeletionStarted => self == Offline,
            DeletionSuccessful => self == DeletionStarted,
            DeletionIneligible => matches!(self, Offline | DeletionStarted),
        }
    }

    /// Takes `next` if it may, else stays and says so in the log.
    pub fn change(&mut self, next: ReplicaStatus) -> bool {
        let legal = self.may_become(next);
        if legal {
            *self = next;
        } else {
            tracing::warn!(from = ?self, to = ?next, "replica state change refused");
        }
        legal
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replica_is_deleted_from_offline_and_forgotten_from_success() {
        use ReplicaStatus::*;
        let all = [New, Online, Offline, DeletionStarted, DeletionSuccessful, DeletionIneligible];
        let from = |next: ReplicaStatus| all.into_iter().filter(|s| s.may_become(next)).collect::<Vec<_>>();
        assert_eq!(from(New), []);
        assert_eq!(from(Online), [New, Online, Offline, DeletionIneligible]);
        assert_eq!(from(Offline), [New, Online, Offline, DeletionIneligible]);
        assert_eq!(from(DeletionStarted), [Offline]);
        assert_eq!(from(DeletionSuccessful), [DeletionStarted]);
        assert_eq!(from(DeletionIneligible), [Offline, DeletionStarted]);
    }

    #[test]
    fn a_refused_change_changes_nothing() {
        let mut status = ReplicaStatus::Online;
        assert!(!status.change(ReplicaStatus::DeletionSuccessful));
        assert_eq!(status, ReplicaStatus::Online);
    }
}
