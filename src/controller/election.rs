//! Who leads next. Rules: Kafka's `Election` and `PartitionLeaderElectionAlgorithms`.

use crate::metastore::schema::PartitionState;
use crate::types::{BrokerId, LeaderEpoch};

/// Why a leader is chosen; decides whom it may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// The partition has no live leader: a member of the ISR; another replica if the topic's configuration admits it.
    Offline,
    /// As before, and any live replica is better than none, whatever the configuration says.
    Unclean,
    /// The first replica, if it is live and in the ISR.
    Preferred,
    /// As [`Choice::Preferred`], but the next ones will do: the leader is not among the replicas any more.
    Reassign,
    /// The leader's broker is about to stop, which makes it as good as dead.
    ControlledShutdown,
}

/// The leadership after an election among members of the ISR, with the leader epoch one higher; `None` when none of those
/// that `choice` admits is live.
///
/// `replicas` in assignment order. Where there is no leader, or soon will not be, the new ISR is the old one without those
/// that are not live.
pub fn elect(
    choice: Choice,
    replicas: &[BrokerId],
    before: &PartitionState,
    live: impl Fn(BrokerId) -> bool,
    controller_epoch: i32,
) -> Option<PartitionState> {
    let candidates = if choice == Choice::Preferred { replicas.get(..1)? } else { replicas };
    let leader = candidates.iter().copied().find(|id| live(*id) && before.isr.contains(id))?;
    let isr = match choice {
        Choice::Offline | Choice::Unclean | Choice::ControlledShutdown => {
            before.isr.iter().copied().filter(|id| live(*id)).collect()
        }
        Choice::Preferred | Choice::Reassign => before.isr.clone(),
    };
    let leader_epoch = next(before.leader_epoch);
    Some(PartitionState { leader, leader_epoch, isr, controller_epoch, recovering: before.recovering })
}

/// As [`elect`], of the first live replica when no member of the ISR is live: what only the others had is lost.
pub fn elect_unclean(
    replicas: &[BrokerId],
    before: &PartitionState,
    live: impl Fn(BrokerId) -> bool,
    controller_epoch: i32,
) -> Option<PartitionState> {
    let leader = replicas.iter().copied().find(|id| live(*id))?;
    let leader_epoch = next(before.leader_epoch);
    Some(PartitionState { leader, leader_epoch, isr: vec![leader], controller_epoch, recovering: true })
}

/// The same leadership under an epoch one higher: replicas changed, and everybody has to take notice.
pub fn same_leader(before: &PartitionState, controller_epoch: i32) -> PartitionState {
    PartitionState { leader_epoch: next(before.leader_epoch), controller_epoch, ..before.clone() }
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

/// The leadership without `suspect`, which is registered still and not `live`, with the leader epoch one higher; `None` where
/// nothing is to be written. It always has a live leader from the ISR. The suspect leaves the ISR only when `min_isr` live
/// members remain; as a follower of a new leader it can commit nothing of its own.
pub fn without_suspect(
    suspect: BrokerId,
    replicas: &[BrokerId],
    before: &PartitionState,
    live: impl Fn(BrokerId) -> bool,
    min_isr: usize,
    controller_epoch: i32,
) -> Option<PartitionState> {
    let can_lead = |id: &BrokerId| *id != suspect && live(*id) && before.isr.contains(id);
    let leader = match before.leader == suspect {
        true => replicas.iter().copied().find(can_lead)?,
        false => Some(before.leader).filter(can_lead)?,
    };
    let remain = before.isr.iter().filter(|id| can_lead(id)).count();
    let stays = remain < min_isr;
    let isr: Vec<BrokerId> = before.isr.iter().copied().filter(|id| stays || *id != suspect).collect();
    if leader == before.leader && isr == before.isr {
        return None;
    }
    let leader_epoch = next(before.leader_epoch);
    Some(PartitionState { leader, leader_epoch, isr, controller_epoch, recovering: before.recovering })
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

    fn elected(choice: Choice, replicas: &[i32], isr: &[i32], live: &[i32]) -> Option<(i32, Vec<BrokerId>, bool)> {
        let (live, replicas, before) = (ids(live), ids(replicas), before(-1, isr));
        let live = |id| live.contains(&id);
        let elected = elect(choice, &replicas, &before, live, 2);
        let elected = match choice {
            Choice::Unclean => elected.or_else(|| elect_unclean(&replicas, &before, live, 2)),
            _ => elected,
        }?;
        assert_eq!((elected.leader_epoch, elected.controller_epoch), (LeaderEpoch(5), 2));
        Some((elected.leader.0, elected.isr, elected.recovering))
    }

    #[test]
    fn the_first_live_replica_in_the_isr_leads() {
        assert_eq!(elected(Choice::Offline, &[1, 2, 3], &[3, 2], &[2, 3]), Some((2, ids(&[3, 2]), false)));
        assert_eq!(elected(Choice::Unclean, &[1, 2, 3], &[1, 3], &[2, 3]), Some((3, ids(&[3]), false)));
    }

    #[test]
    fn outside_the_isr_only_when_asked_for() {
        assert_eq!(elected(Choice::Offline, &[1, 2, 3], &[1], &[2, 3]), None);
        assert_eq!(elected(Choice::Unclean, &[1, 2, 3], &[1], &[2, 3]), Some((2, ids(&[2]), true)));
        assert_eq!(elected(Choice::Unclean, &[1, 2, 3], &[1], &[]), None);
    }

    #[test]
    fn preferred_is_the_first_replica_and_nobody_else() {
        assert_eq!(elected(Choice::Preferred, &[1, 2], &[2, 1], &[1, 2]), Some((1, ids(&[2, 1]), false)));
        assert_eq!(elected(Choice::Preferred, &[1, 2], &[2], &[1, 2]), None);
        assert_eq!(elected(Choice::Preferred, &[1, 2], &[2, 1], &[2]), None);
        assert_eq!(elected(Choice::Reassign, &[1, 2], &[3, 2], &[1, 2]), Some((2, ids(&[3, 2]), false)));
    }

    #[test]
    fn a_suspect_leaves_to_a_live_member_and_only_where_enough_remain() {
        let without = |suspect: i32, leader: i32, isr: &[i32], live: &[i32], min_isr: usize| {
            let is_live = |id: BrokerId| live.contains(&id.0);
            let after =
                without_suspect(BrokerId(suspect), &ids(&[1, 2, 3]), &before(leader, isr), is_live, min_isr, 2)?;
            assert_eq!((after.leader_epoch, after.controller_epoch), (LeaderEpoch(5), 2));
            Some((after.leader.0, after.isr))
        };
        assert_eq!(without(1, 1, &[3, 2, 1], &[2, 3], 2), Some((2, ids(&[3, 2]))), "a leader");
        assert_eq!(without(3, 1, &[1, 2, 3], &[1, 2], 2), Some((1, ids(&[1, 2]))), "a follower");
        assert_eq!(without(3, 1, &[1, 3], &[1, 2], 2), None, "too few would remain");
        assert_eq!(without(1, 1, &[1, 3], &[2, 3], 2), Some((3, ids(&[1, 3]))), "it leads no more, and is waited for");
        assert_eq!(without(1, 1, &[1], &[2, 3], 1), None, "nobody from outside the ISR");
        assert_eq!(without(1, 1, &[1, 2], &[3], 1), None);
        assert_eq!(without(2, 1, &[1, 2, 3], &[3], 1), None, "its leader is not live: another's business");
        assert_eq!(without(2, 1, &[1, 3], &[1, 3], 1), None, "it is out already");
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
