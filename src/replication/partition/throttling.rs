//! Whether a partition's copying is held up (KIP-73): its topic names it, the replica is not in sync, and more went over than
//! may.

use super::Partition;
use crate::quota::ReplicationQuota;
use crate::types::BrokerId;

impl Partition {
    /// Whether what followers fetch here counts.
    pub fn is_throttled_leader(&self) -> bool {
        let me = self.around.broker;
        self.log.as_ref().is_some_and(|log| log.config().leader_throttled.include(self.tp.partition, me))
    }

    /// Whether what is fetched for it here counts.
    pub fn is_throttled_follower(&self) -> bool {
        let me = self.around.broker;
        self.log.as_ref().is_some_and(|log| log.config().follower_throttled.include(self.tp.partition, me))
    }

    /// Whether `follower` gets nothing for now. Monotonic ms.
    pub fn is_held_up(&self, follower: BrokerId, quota: &ReplicationQuota, now_ms: i64) -> bool {
        quota.is_set() && self.is_throttled_leader() && !self.isr().contains(&follower) && quota.is_exceeded(now_ms)
    }
}

#[cfg(test)]
mod tests {
    use crate::config::{ThrottledReplicas, TopicConfig};
    use crate::quota::{ReplicationQuota, Windows};
    use crate::replication::testing::bench;
    use crate::types::BrokerId;

    #[test]
    fn who_is_in_sync_or_not_named_is_not_held_up() {
        let quota = ReplicationQuota::new(Windows::new(11, 1));
        quota.set_limit(10);
        quota.record(100, 0);
        let held_up = |named: ThrottledReplicas| {
            let bench = bench(TopicConfig { leader_throttled: named, ..TopicConfig::default() });
            let partition = bench.leader(&[1, 2]);
            [2, 3].map(|id| partition.is_held_up(BrokerId(id), &quota, 0))
        };
        let named = |broker| ThrottledReplicas::Some([(0, BrokerId(broker))].into());
        assert_eq!(held_up(ThrottledReplicas::All), [false, true]);
        assert_eq!(held_up(named(1)), [false, true]);
        assert_eq!(held_up(named(3)), [false, false], "of this partition another leader would be throttled");
        quota.set_limit(1_000);
        assert_eq!(held_up(ThrottledReplicas::All), [false, false], "within the limit");
    }
}
