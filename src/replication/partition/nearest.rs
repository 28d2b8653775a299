//! Where a consumer had better read (KIP-392), as Kafka's `RackAwareReplicaSelector` chooses: the leader where it is in the
//! consumer's rack, else of the in-sync replicas there the one that is furthest, else the leader.

use std::cmp::Reverse;

use super::{Partition, PartitionFetch, PartitionRead};
use crate::cluster::Snapshot;
use crate::types::{BrokerId, Offset};
use crate::wire::error_code::ErrorCode;

/// Where a consumer is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// `client.rack`; not empty.
    pub rack: String,
    /// Name of the listener it came in on: others must have it, too.
    pub listener: String,
}

impl Place {
    fn has(&self, broker: BrokerId, snapshot: &Snapshot) -> bool {
        let broker = snapshot.brokers.get(&broker);
        broker.is_some_and(|it| it.rack.as_deref() == Some(&*self.rack) && it.endpoints.contains_key(&self.listener))
    }
}

/// A replica in the consumer's rack.
#[derive(Clone, Copy, Debug)]
struct Near {
    id: BrokerId,
    log_end: Offset,
    behind_ms: i64,
}

fn furthest(near: impl Iterator<Item = Near>) -> Option<BrokerId> {
    near.max_by_key(|it| (it.log_end, Reverse(it.behind_ms), it.id)).map(|it| it.id)
}

impl Partition {
    /// What a consumer at `place` is answered instead of records: which follower to read. `None` where it is right here.
    ///
    /// Errors: as [`Partition::check`] by any replica.
    pub fn read_elsewhere(&self, fetch: &PartitionFetch, place: &Place) -> Result<Option<PartitionRead>, ErrorCode> {
        let snapshot = self.around.cluster.load();
        if place.has(self.around.broker, &snapshot) {
            return Ok(None);
        }
        let moves = self.fetches.moves();
        let log = self.online_log()?;
        let role = self.role();
        let Some(leading) = &role.leading else { return Ok(None) };
        let now_ms = self.around.clock.monotonic_ms();
        let near = leading
            .in_sync_at(fetch.offset)
            .filter(|(id, _)| place.has(*id, &snapshot))
            .map(|(id, progress)| Near { id, log_end: progress.log_end, behind_ms: progress.behind_ms(now_ms) });
        let Some(elsewhere) = furthest(near) else { return Ok(None) };
        role.check(fetch.current_leader_epoch, false)?;
        Ok(Some(PartitionRead { elsewhere: Some(elsewhere), ..PartitionRead::nothing(moves, log.offsets()) }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::Broker;
    use crate::config::TopicConfig;
    use crate::replication::partition::Reader;
    use crate::replication::table::LeaderAndIsr;
    use crate::replication::testing::{Bench, bench, change, fetch, fetched, ids};
    use crate::storage::testing::{batch, client};
    use crate::types::{Acks, Endpoint, IsolationLevel, LeaderEpoch};

    fn near(id: i32, log_end: i64, behind_ms: i64) -> Near {
        Near { id: BrokerId(id), log_end: Offset(log_end), behind_ms }
    }

    #[test]
    fn the_furthest_is_chosen_then_the_one_that_was_caught_up_last_then_the_highest_id() {
        let chosen = |all: &[Near]| furthest(all.iter().copied()).map(|id| id.0);
        assert_eq!(chosen(&[]), None);
        assert_eq!(chosen(&[near(2, 9, 0), near(3, 10, 500)]), Some(3));
        assert_eq!(chosen(&[near(2, 10, 400), near(3, 10, 500)]), Some(2));
        assert_eq!(chosen(&[near(2, 10, 400), near(3, 10, 400)]), Some(3));
    }

    /// Broker 1 leads in rack `a` with five records, where 5 lives, too; 2 and 3 live in `b`, 4 in `c` and without the listener.
    fn cluster() -> Bench {
        let bench = bench(TopicConfig::default());
        bench.cluster.update(|snapshot| {
            let broker = |(id, rack, listener): (i32, &str, &str)| {
                let endpoints = [(listener.to_owned(), Endpoint { host: "h".into(), port: 1 })].into_iter().collect();
                (BrokerId(id), Broker { id: BrokerId(id), rack: Some(rack.into()), endpoints, epoch: -1 })
            };
            let all = [(1, "a", "OUT"), (2, "b", "OUT"), (3, "b", "OUT"), (4, "c", "IN"), (5, "a", "OUT")];
            snapshot.brokers = all.into_iter().map(broker).collect();
        });
        let partition = bench.leader(&[1, 2, 3, 4, 5]);
        partition.append_to_leader(&mut batch(5), Acks::Leader, client(-1, 1_000)).unwrap();
        bench
    }

    fn sent_to(bench: &Bench, rack: &str, offset: i64) -> Option<i32> {
        let place = Place { rack: rack.to_owned(), listener: "OUT".to_owned() };
        let fetch = fetch(Reader::Consumer(IsolationLevel::ReadUncommitted), offset);
        let read = bench.table.get("t", 0).unwrap().read_elsewhere(&fetch, &place).unwrap();
        read.and_then(|read| read.elsewhere).map(|id| id.0)
    }

    #[test]
    fn consumers_are_sent_to_an_in_sync_replica_of_their_rack_that_has_what_they_want() {
        let bench = cluster();
        let partition = bench.table.get("t", 0).unwrap();
        assert_eq!(sent_to(&bench, "b", 0), None, "nobody has fetched yet");
        fetched(&partition, 2, -1, 3).unwrap();
        fetched(&partition, 3, -1, 2).unwrap();
        fetched(&partition, 4, -1, 5).unwrap();
        fetched(&partition, 5, -1, 5).unwrap();
        assert_eq!(sent_to(&bench, "b", 0), Some(2));
        assert_eq!(sent_to(&bench, "b", 3), Some(2), "at its end");
        assert_eq!(sent_to(&bench, "b", 4), None, "beyond it");
        assert_eq!(sent_to(&bench, "a", 0), None, "where the leader is");
        assert_eq!(sent_to(&bench, "c", 0), None, "which cannot be reached there");
        assert_eq!(sent_to(&bench, "d", 0), None, "where nobody is");
        fetched(&partition, 3, -1, 5).unwrap();
        assert_eq!(sent_to(&bench, "b", 0), Some(3));
    }

    #[test]
    fn only_a_leader_sends_consumers_away_and_epochs_count_before() {
        let bench = cluster();
        let partition = bench.table.get("t", 0).unwrap();
        fetched(&partition, 2, -1, 5).unwrap();
        let place = Place { rack: "b".to_owned(), listener: "OUT".to_owned() };
        let of_epoch = |epoch| PartitionFetch {
            current_leader_epoch: LeaderEpoch(epoch),
            ..fetch(Reader::Consumer(IsolationLevel::ReadUncommitted), 0)
        };
        assert_eq!(partition.read_elsewhere(&of_epoch(7), &place).unwrap_err(), ErrorCode::UnknownLeaderEpoch);
        let out_of_sync = LeaderAndIsr { replicas: ids(&[1, 2, 3, 4]), ..change(1, 1, &[1, 4]) };
        bench.table.apply_leader_and_isr(&[out_of_sync]);
        assert_eq!(sent_to(&bench, "b", 0), None, "not in sync");
        bench.table.apply_leader_and_isr(&[change(2, 2, &[1, 2])]);
        assert_eq!(sent_to(&bench, "b", 0), None, "no leader");
    }
}
