//! Which brokers get a new partition's replicas.
//!
//! Kafka's rule (`AdminUtils`): leaders go round robin over the brokers from a random start; the followers of
//! partition after partition are shifted once more each time the leaders have gone round, so that they spread. With
//! racks, brokers are first ordered alternating between racks, and a partition takes no second replica in a rack
//! while another rack has none.

use std::collections::{BTreeMap, BTreeSet};

use crate::random::Random;
use crate::types::BrokerId;

/// A broker that can take replicas.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    pub id: BrokerId,
    pub rack: Option<String>,
}

/// Why nothing can be placed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlacementError {
    #[error("the number of partitions is not above 0")]
    Partitions,
    #[error("a topic may have {PARTITIONS_MAX} partitions, not {0}")]
    TooManyPartitions(usize),
    #[error("the replication factor is not above 0")]
    ReplicationFactor,
    #[error("{wanted} replicas are asked for, {available} brokers are live")]
    TooFewBrokers { wanted: usize, available: usize },
    #[error("some brokers have a rack and some have none")]
    SomeRacksUnknown,
}

/// Partitions of one topic: its znode names each of them, and ZooKeeper takes 1 MiB. Kafka fills its memory before it
/// finds that out.
const PARTITIONS_MAX: usize = 100_000;

/// Where the round begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Start {
    /// Position of the first leader among the brokers.
    pub leader: usize,
    /// Distance of the first follower from its leader.
    pub shift: usize,
    /// Number of the first partition placed.
    pub partition: usize,
}

impl Start {
    /// For a new topic.
    pub fn random(random: &dyn Random, brokers: usize) -> Start {
        let brokers = brokers.max(1) as u64;
        Start { leader: random.below(brokers) as usize, shift: random.below(brokers) as usize, partition: 0 }
    }
}

/// Replicas of partitions `start.partition ..` in assignment order: the first of each is its preferred leader.
/// Rack aware when every candidate has a rack; when only some have one it is refused.
pub fn place(
    candidates: &[Candidate],
    partitions: usize,
    replication_factor: usize,
    start: Start,
) -> Result<Vec<Vec<BrokerId>>, PlacementError> {
    if partitions == 0 {
        return Err(PlacementError::Partitions);
    }
    let total = start.partition.saturating_add(partitions);
    if total > PARTITIONS_MAX {
        return Err(PlacementError::TooManyPartitions(total));
    }
    if replication_factor == 0 {
        return Err(PlacementError::ReplicationFactor);
    }
    if replication_factor > candidates.len() {
        return Err(PlacementError::TooFewBrokers { wanted: replication_factor, available: candidates.len() });
    }
    let racks: BTreeMap<BrokerId, &str> =
        candidates.iter().filter_map(|broker| Some((broker.id, broker.rack.as_deref()?))).collect();
    if racks.is_empty() {
        let mut ids: Vec<BrokerId> = candidates.iter().map(|broker| broker.id).collect();
        ids.sort_unstable();
        Ok(place_flat(&ids, partitions, replication_factor, start))
    } else if racks.len() < candidates.len() {
        Err(PlacementError::SomeRacksUnknown)
    } else {
        Ok(place_over_racks(&racks, partitions, replication_factor, start))
    }
}

fn place_flat(ids: &[BrokerId], partitions: usize, replication_factor: usize, start: Start) -> Vec<Vec<BrokerId>> {
    let brokers = ids.len();
    let mut shift = start.shift;
    (start.partition..start.partition + partitions)
        .map(|partition| {
            if partition > 0 && partition % brokers == 0 {
                shift += 1;
            }
            let leader = (partition + start.leader) % brokers;
            let followers = (0..replication_factor - 1).map(|nth| follower(leader, shift, nth, brokers));
            [leader].into_iter().chain(followers).map(|at| ids[at]).collect()
        })
        .collect()
}

fn place_over_racks(
    racks: &BTreeMap<BrokerId, &str>,
    partitions: usize,
    replication_factor: usize,
    start: Start,
) -> Vec<Vec<BrokerId>> {
    let ids = alternating(racks);
    let brokers = ids.len();
    let rack_count = racks.values().collect::<BTreeSet<_>>().len();
    let mut shift = start.shift;
    (start.partition..start.partition + partitions)
        .map(|partition| {
            if partition > 0 && partition % brokers == 0 {
                shift += 1;
            }
            let leader = (partition + start.leader) % brokers;
            let mut replicas = vec![ids[leader]];
            let mut used: BTreeSet<&str> = replicas.iter().map(|id| racks[id]).collect();
            let mut nth = 0;
            while replicas.len() < replication_factor {
                let next = ids[follower(leader, shift * rack_count, nth, brokers)];
                nth += 1;
                let rack_is_free = !used.contains(racks[&next]) || used.len() == rack_count;
                if rack_is_free && !replicas.contains(&next) {
                    replicas.push(next);
                    used.insert(racks[&next]);
                }
            }
            replicas
        })
        .collect()
}

/// Position of the `nth` follower of the leader at `leader`: never the leader's own.
fn follower(leader: usize, shift: usize, nth: usize, brokers: usize) -> usize {
    if brokers == 1 {
        return 0;
    }
    (leader + 1 + (shift + nth) % (brokers - 1)) % brokers
}

/// Brokers rack by rack in turn: the first of each rack, then the second of each, and so on.
fn alternating(racks: &BTreeMap<BrokerId, &str>) -> Vec<BrokerId> {
    let mut by_rack: BTreeMap<&str, Vec<BrokerId>> = BTreeMap::new();
    for (id, rack) in racks {
        by_rack.entry(rack).or_default().push(*id);
    }
    let longest = by_rack.values().map(Vec::len).max().unwrap_or(0);
    (0..longest).flat_map(|nth| by_rack.values().filter_map(move |ids| ids.get(nth).copied())).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn flat(ids: std::ops::Range<i32>) -> Vec<Candidate> {
        ids.map(|id| Candidate { id: BrokerId(id), rack: None }).collect()
    }

    fn racked(racks: &[(i32, &str)]) -> Vec<Candidate> {
        racks.iter().map(|(id, rack)| Candidate { id: BrokerId(*id), rack: Some((*rack).into()) }).collect()
    }

    fn numbers(placed: Vec<Vec<BrokerId>>) -> Vec<Vec<i32>> {
        placed.into_iter().map(|replicas| replicas.into_iter().map(|id| id.0).collect()).collect()
    }

    const ORIGIN: Start = Start { leader: 0, shift: 0, partition: 0 };

    /// The example in the documentation of Kafka's `AdminUtils`: ten partitions, five brokers, three replicas.
    #[test]
    fn followers_shift_each_time_the_leaders_have_gone_round() {
        assert_eq!(
            numbers(place(&flat(0..5), 10, 3, ORIGIN).unwrap()),
            [
                [0, 1, 2],
                [1, 2, 3],
                [2, 3, 4],
                [3, 4, 0],
                [4, 0, 1],
                [0, 2, 3],
                [1, 3, 4],
                [2, 4, 0],
                [3, 0, 1],
                [4, 1, 2]
            ]
        );
    }

    /// The rack example of the same documentation: brokers alternate 0, 3, 1, 5, 4, 2 over racks 1, 2, 3.
    #[test]
    fn racks_alternate() {
        let brokers = racked(&[(0, "rack1"), (1, "rack3"), (2, "rack3"), (3, "rack2"), (4, "rack2"), (5, "rack1")]);
        assert_eq!(
            numbers(place(&brokers, 7, 3, ORIGIN).unwrap()),
            [[0, 3, 1], [3, 1, 5], [1, 5, 4], [5, 4, 2], [4, 2, 0], [2, 0, 3], [0, 4, 2]]
        );
    }

    #[test]
    fn what_cannot_be_placed_is_refused() {
        assert_eq!(place(&flat(0..1), 0, 1, ORIGIN), Err(PlacementError::Partitions));
        let most = i32::MAX as usize;
        assert_eq!(place(&flat(0..1), most, 1, ORIGIN), Err(PlacementError::TooManyPartitions(most)));
        let added = Start { partition: PARTITIONS_MAX, ..ORIGIN };
        assert_eq!(place(&flat(0..1), 1, 1, added), Err(PlacementError::TooManyPartitions(PARTITIONS_MAX + 1)));
        assert_eq!(place(&flat(0..1), 1, 0, ORIGIN), Err(PlacementError::ReplicationFactor));
        assert_eq!(place(&flat(0..1), 1, 2, ORIGIN), Err(PlacementError::TooFewBrokers { wanted: 2, available: 1 }));
        let mut mixed = racked(&[(1, "a")]);
        mixed.extend(flat(2..3));
        assert_eq!(place(&mixed, 1, 1, ORIGIN), Err(PlacementError::SomeRacksUnknown));
    }

    #[test]
    fn a_single_broker_takes_everything() {
        let start = Start { leader: 0, shift: 0, partition: 4 };
        assert_eq!(numbers(place(&flat(7..8), 2, 1, start).unwrap()), [[7], [7]]);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]
        #[test]
        fn leaders_spread_evenly_and_replicas_are_distinct(
            brokers in 1usize..8, per_broker in 1usize..4, factor in 1usize..8, leader in 0usize..8, shift in 0usize..8,
            racks in 0usize..4,
        ) {
            let factor = factor.min(brokers);
            let candidates: Vec<Candidate> = (0..brokers)
                .map(|id| Candidate {
                    id: BrokerId(id as i32),
                    rack: (racks > 0).then(|| format!("r{}", id % racks)),
                })
                .collect();
            let start = Start { leader: leader % brokers, shift: shift % brokers, partition: 0 };
            let placed = place(&candidates, brokers * per_broker, factor, start).unwrap();
            let mut led = BTreeMap::<BrokerId, usize>::new();
            for replicas in &placed {
                prop_assert_eq!(replicas.len(), factor);
                prop_assert_eq!(replicas.iter().collect::<BTreeSet<_>>().len(), factor);
                *led.entry(replicas[0]).or_default() += 1;
            }
            prop_assert!(led.values().all(|count| *count == per_broker));
        }
    }
}
