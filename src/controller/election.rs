//! Who leads next. Rules: Kafka's `Election` and `PartitionLeaderElectionAlgorithms`.

use crate::metastore::schema::PartitionState;
use crate::types::{BrokerId, LeaderEpoch};

/// Why a leader is chosen; decides whom it may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strategy {
    /// The partition has no live leader. `unclean` admits a replica outside the ISR when no member of it is live.
    Offline { unclean: bool },
}

/// The leadership after an election by `strategy`, with the leader epoch one higher; `None` when nobody can lead.
///
/// `replicas` in assignment order. The new ISR is the old one without those that are not live.
pub fn elect(
    strategy: Strategy,
    replicas: &[BrokerId],
    before: &PartitionState,
    live: impl Fn(BrokerId) -> bool,
    controller_epoch: i32,
) -> Option<PartitionState> {
    let Strategy::Offline { unclean } = strategy;
    let clean = replicas.iter().copied().find(|id| live(*id) && before.isr.contains(id));
    let (leader, isr, recovering) = match clean {
        Some(leader) => (leader, before.isr.iter().copied().filter(|id| live(*id)).collect(), before.recovering),
        None if unclean => {
            let leader = replicas.iter().copied().find(|id| live(*id))?;
            (leader, vec![leader], true)
        }
        None => return None,
    };
    Some(PartitionState { leader, leader_epoch: next(before.leader_epoch), isr, controller_epoch, recovering })
}

/// The leadership when `replica` can no longer be in the ISR, with the leader epoch one higher; `None` when it is not
/// in it. The last member stays; a leader that leaves is followed by nobody.
pub fn remove_from_isr(replica: BrokerId, before: &PartitionState, controller_epoch: i32) -> Option<PartitionState> {
    if !before.isr.contains(&replica) {
        return None;
    }
    let isr = match before.isr.len() {
        1 => before.isr.clone(),
        _ => before.isr.iter().copied().filter(|id| *id != replica).collect(),
    };
    let leader = if before.leader == replica { BrokerId::NONE } else { before.leader };
    Some(PartitionState {
        leader,
        leader_epoch: next(before.leader_epoch),
        isr,
        controller_epoch,
        recovering: before.recovering,
    })
}

/// Every decision of the controller about a partition's leadership raises its leader epoch by one.
fn next(epoch: LeaderEpoch) -> LeaderEpoch {
    LeaderEpoch(epoch.0.saturating_add(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(ids: &[i32]) -> Vec<BrokerId> {
        ids.iter().copied().map(BrokerId).collect()
    }

    fn before(leader: i32, isr: &[i32]) -> PartitionState {
        PartitionState {
            leader: BrokerId(leader),
            leader_epoch: LeaderEpoch(4),
            isr: ids(isr),
            controller_epoch: 1,
            recovering: false,
        }
    }

    fn offline(unclean: bool, replicas: &[i32], isr: &[i32], live: &[i32]) -> Option<(i32, Vec<BrokerId>, bool)> {
        let live = ids(live);
        let elected =
            elect(Strategy::Offline { unclean }, &ids(replicas), &before(-1, isr), |id| live.contains(&id), 2)?;
        assert_eq!((elected.leader_epoch, elected.controller_epoch), (LeaderEpoch(5), 2));
        Some((elected.leader.0, elected.isr, elected.recovering))
    }

    #[test]
    fn the_first_live_replica_in_the_isr_leads() {
        assert_eq!(offline(false, &[1, 2, 3], &[3, 2], &[2, 3]), Some((2, ids(&[3, 2]), false)));
        assert_eq!(offline(true, &[1, 2, 3], &[1, 3], &[2, 3]), Some((3, ids(&[3]), false)));
    }

    #[test]
    fn outside_the_isr_only_when_asked_for() {
        assert_eq!(offline(false, &[1, 2, 3], &[1], &[2, 3]), None);
        assert_eq!(offline(true, &[1, 2, 3], &[1], &[2, 3]), Some((2, ids(&[2]), true)));
        assert_eq!(offline(true, &[1, 2, 3], &[1], &[]), None);
    }

    #[test]
    fn the_last_member_stays_in_the_isr() {
        let shrink = |replica: i32, leader: i32, isr: &[i32]| {
            remove_from_isr(BrokerId(replica), &before(leader, isr), 2).map(|after| (after.leader.0, after.isr))
        };
        assert_eq!(shrink(2, 1, &[1, 2]), Some((1, ids(&[1]))));
        assert_eq!(shrink(1, 1, &[1, 2]), Some((-1, ids(&[2]))));
        assert_eq!(shrink(1, 1, &[1]), Some((-1, ids(&[1]))));
        assert_eq!(shrink(3, 1, &[1, 2]), None);
    }
}
