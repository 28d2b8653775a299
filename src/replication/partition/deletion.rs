//! DeleteRecords: the leader's log start rises at once, those of its followers with their next fetches.
//!
//! Source: Kafka's `Partition.deleteRecordsOnLeader` and `DelayedDeleteRecords`.

use super::{NotCommitted, Partition};
use crate::replication::role::Leading;
use crate::storage::log::Log;
use crate::types::Offset;
use crate::wire::error_code::ErrorCode;

/// What became of a deletion on the leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deleted {
    /// Records below were to go.
    pub to: Offset,
    /// The lowest log start of a live replica: records from there on are somewhere still.
    pub low_watermark: Offset,
}

impl Deleted {
    /// Whether a live replica has records that were to go.
    pub fn is_awaited(&self) -> bool {
        self.low_watermark < self.to
    }
}

impl Partition {
    /// DeleteRecords on the leader; -1 = high watermark.
    ///
    /// NOT_LEADER_OR_FOLLOWER; POLICY_VIOLATION where `cleanup.policy` has no `delete`; OFFSET_OUT_OF_RANGE for other
    /// negative offsets and beyond the high watermark.
    pub fn delete_records(&self, to: Offset) -> Result<Deleted, ErrorCode> {
        let log = self.online_log()?;
        let role = self.role();
        let leading = role.leading.as_ref().ok_or(ErrorCode::NotLeaderOrFollower)?;
        if !log.config().cleanup_delete {
            return Err(ErrorCode::PolicyViolation);
        }
        let high_watermark = log.offsets().high_watermark;
        let to = if to == Offset::NONE { high_watermark } else { to };
        if to < Offset::ZERO || to > high_watermark {
            return Err(ErrorCode::OffsetOutOfRange);
        }
        log.raise_log_start(to);
        Ok(Deleted { to, low_watermark: self.low_watermark(leading, log) })
    }

    /// Completes with the low watermark when it is at least `to`, or this broker no longer leads. A follower that dies is
    /// noticed by who waits and asks again.
    pub async fn deleted(&self, to: Offset) -> Result<Offset, NotCommitted> {
        let waiter = self.deleted.register(to);
        // Looked at after registering: a fetch in between finds either the waiter or this look.
        let low_watermark = self.led_low_watermark()?;
        if low_watermark >= to {
            return Ok(low_watermark);
        }
        waiter.await?;
        self.led_low_watermark()
    }

    fn led_low_watermark(&self) -> Result<Offset, NotCommitted> {
        let log = self.online_log().map_err(|_| NotCommitted::Storage)?;
        let role = self.role();
        let leading = role.leading.as_ref().ok_or(NotCommitted::NotLeader)?;
        Ok(self.low_watermark(leading, log))
    }

    pub(super) fn low_watermark(&self, leading: &Leading, log: &Log) -> Offset {
        leading.low_watermark(log.offsets().log_start, |id| self.around.is_alive(id))
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use futures_util::FutureExt;

    use super::*;
    use crate::cluster::Broker;
    use crate::config::TopicConfig;
    use crate::replication::partition::{PartitionFetch, Reader};
    use crate::replication::testing::{Bench, bench, change, fetch};
    use crate::storage::testing::{batch, client};
    use crate::types::{Acks, BrokerId};

    /// A replica that has all of five records and whose log starts at `log_start` fetches.
    fn follows(partition: &Partition, id: i32, log_start: i64) {
        let reader = Reader::Replica { id: BrokerId(id), broker_epoch: -1 };
        let fetch = PartitionFetch { log_start_offset: Offset(log_start), ..fetch(reader, 5) };
        let read = partition.read(fetch).unwrap();
        partition.record_follower_fetch(&fetch, &read).unwrap();
    }

    fn alive(bench: &Bench, ids: &[i32]) {
        bench.cluster.update(|snapshot| {
            let broker = |id: &i32| {
                (BrokerId(*id), Broker { id: BrokerId(*id), rack: None, endpoints: Default::default(), epoch: -1 })
            };
            snapshot.brokers = ids.iter().map(broker).collect();
        });
    }

    #[test]
    fn a_deletion_is_over_when_the_slowest_live_replica_has_deleted() {
        let bench = bench(TopicConfig::default());
        let partition = bench.leader(&[1, 2, 3]);
        alive(&bench, &[1, 2, 3]);
        partition.append_to_leader(&mut batch(5), Acks::Leader, client(-1, 1_000)).unwrap();
        (2..=3).for_each(|id| follows(&partition, id, 0));
        let begun = partition.delete_records(Offset(4)).unwrap();
        assert_eq!((begun, begun.is_awaited()), (Deleted { to: Offset(4), low_watermark: Offset(0) }, true));
        let mut waits = pin!(partition.deleted(Offset(4)));
        let mut of_less = pin!(partition.deleted(Offset(2)));
        assert_eq!((waits.as_mut().now_or_never(), of_less.as_mut().now_or_never()), (None, None));
        follows(&partition, 2, 4);
        assert_eq!(waits.as_mut().now_or_never(), None);
        follows(&partition, 3, 2);
        assert_eq!((waits.as_mut().now_or_never(), of_less.now_or_never()), (None, Some(Ok(Offset(2)))));
        // Who died is not waited for; who waits looks again when it hears.
        alive(&bench, &[1, 2]);
        assert_eq!(partition.deleted(Offset(4)).now_or_never(), Some(Ok(Offset(4))));
        alive(&bench, &[1, 2, 3]);
        follows(&partition, 3, 4);
        assert_eq!(waits.now_or_never(), Some(Ok(Offset(4))));
        assert!(!partition.delete_records(Offset(3)).unwrap().is_awaited(), "long gone");
        assert_eq!(partition.delete_records(Offset::NONE).unwrap().to, Offset(5), "the high watermark");
    }

    #[test]
    fn who_no_longer_leads_does_not_know_when_it_is_over() {
        let bench = bench(TopicConfig::default());
        let partition = bench.leader(&[1, 2]);
        alive(&bench, &[1, 2]);
        partition.append_to_leader(&mut batch(5), Acks::Leader, client(-1, 1_000)).unwrap();
        follows(&partition, 2, 0);
        assert!(partition.delete_records(Offset(5)).unwrap().is_awaited());
        let mut waits = pin!(partition.deleted(Offset(5)));
        assert_eq!(waits.as_mut().now_or_never(), None);
        bench.table.apply_leader_and_isr(&[change(2, 1, &[1, 2])]);
        assert_eq!(waits.now_or_never(), Some(Err(NotCommitted::NotLeader)));
        assert_eq!(partition.deleted(Offset(0)).now_or_never(), Some(Err(NotCommitted::NotLeader)));
        assert_eq!(partition.delete_records(Offset(5)), Err(ErrorCode::NotLeaderOrFollower));
    }
}
