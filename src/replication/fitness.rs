//! Whether what lies on this disk may lead: a leader makes its followers cut what it does not have.
//!
//! Kafka in ZooKeeper mode makes an empty log and leads with it (KAFKA-14139). Here KAFKA_STORAGE_ERROR sends the controller
//! to the next member of the ISR. Where it has none an operator decides: an unclean election makes the best of what is left.

use super::table::LeaderAndIsr;
use crate::storage::log::Log;
use crate::types::{BrokerId, LeaderEpoch};

/// Whether `change` names `me` leader of a partition that must have been written before.
fn leads_on(change: &LeaderAndIsr, me: BrokerId) -> bool {
    change.leader == me && was_written(change)
}

fn was_written(change: &LeaderAndIsr) -> bool {
    !change.is_new && !change.recovering && change.leader_epoch > LeaderEpoch(0)
}

/// Whether `me` is to lead a partition that must have been written before, now or as soon as the controller has heard that it
/// lives. Without a log the disk was emptied or swapped: one that is made while nobody leads would be there when it is named.
pub(super) fn must_have_its_log(change: &LeaderAndIsr, me: BrokerId) -> bool {
    let others_may_have_it = change.replicas.iter().any(|id| *id != me);
    let is_next = change.leader == BrokerId::NONE && change.isr.contains(&me) && others_may_have_it;
    leads_on(change, me) || is_next && was_written(change)
}

/// Whether `log` ends below what it knew to be committed while another replica may have that.
pub(super) fn is_too_short(log: &Log, change: &LeaderAndIsr, me: BrokerId) -> bool {
    let has_it_alone = change.replicas.iter().all(|id| *id == me);
    if !leads_on(change, me) || has_it_alone {
        return false;
    }
    let Some(committed) = log.falls_short_of() else { return false };
    tracing::error!(
        partition = %change.tp, epoch = %change.leader_epoch, log_end = log.offsets().log_end.0, committed = committed.0,
        "named leader of a partition of which committed records are missing here: it is left to another replica. Where there \
         is none, kafka-leader-election --election-type UNCLEAN makes do with what is left"
    );
    true
}

/// Whether `log` was led in an epoch later than `change` knows of: it comes from a controller of long ago, or from a
/// metastore that was put back to an earlier state.
pub(super) fn is_of_later_epoch(log: &Log, change: &LeaderAndIsr) -> bool {
    let latest = log.latest_epoch().unwrap_or(LeaderEpoch::NONE);
    let is_later = latest > change.leader_epoch && !change.is_new;
    if is_later {
        tracing::warn!(
            partition = %change.tp, epoch = %change.leader_epoch, %latest,
            "a leader epoch below the latest one of the log is passed over"
        );
    }
    is_later
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::testing::{Bench, bench, change, ids};
    use super::*;
    use crate::config::TopicConfig;
    use crate::replication::partition::Partition;
    use crate::storage::checkpoint;
    use crate::storage::disk_real::RealDisk;
    use crate::storage::testing::{batch, client};
    use crate::types::{Acks, Offset, TopicPartition};
    use crate::wire::error_code::ErrorCode;

    /// What the checkpoint of high watermarks says of `t-0`.
    fn checkpointed(dir: &Path) -> Offset {
        let says = checkpoint::read_offsets(&RealDisk, &dir.join(checkpoint::REPLICATION_OFFSET)).unwrap();
        says[&TopicPartition::new("t", 0)]
    }

    /// The disk of a broker that had `committed` records of `t-0`, of which five are left.
    fn that_lost_records(committed: i64) -> Bench {
        let bench = bench(TopicConfig::default());
        let partition = bench.leader(&[1]);
        (0..5).for_each(|_| append(&partition));
        bench.restarted(|dir| {
            assert_eq!(checkpointed(dir), Offset(5));
            let offsets = [(&TopicPartition::new("t", 0), Offset(committed))];
            checkpoint::write_offsets(&RealDisk, &dir.join(checkpoint::REPLICATION_OFFSET), offsets.into_iter())
                .unwrap();
        })
    }

    fn append(partition: &Partition) {
        partition.append_to_leader(&mut batch(1), Acks::Leader, client(-1, 1_000)).unwrap();
    }

    fn apply(bench: &Bench, change: LeaderAndIsr) -> ErrorCode {
        bench.table.apply_leader_and_isr(&[change])[0]
    }

    #[test]
    fn who_lost_committed_records_does_not_lead_as_long_as_another_may_have_them() {
        let bench = that_lost_records(5);
        assert_eq!(apply(&bench, change(1, 3, &[1, 2])), ErrorCode::None, "nothing is missing");

        let bench = that_lost_records(6);
        assert_eq!(apply(&bench, change(1, 3, &[1, 2])), ErrorCode::KafkaStorageError);
        assert!(!bench.table.get("t", 0).unwrap().is_leader());
        // Written again and again, what is missing stays known.
        let bench = bench.restarted(|dir| assert_eq!(checkpointed(dir), Offset(6)));
        let last_of_three = LeaderAndIsr { replicas: ids(&[2, 1, 3]), ..change(1, 4, &[1]) };
        assert_eq!(apply(&bench, last_of_three), ErrorCode::KafkaStorageError, "those who left the ISR may have it");
        assert_eq!(apply(&bench, change(2, 5, &[2])), ErrorCode::None, "it follows");
        assert_eq!(apply(&bench, change(1, 6, &[1, 2])), ErrorCode::KafkaStorageError, "and has fetched nothing yet");
        let unclean = LeaderAndIsr { recovering: true, ..change(1, 7, &[1, 2]) };
        assert_eq!(apply(&bench, unclean), ErrorCode::None);
        assert_eq!(apply(&bench, change(2, 8, &[1, 2])), ErrorCode::None);
        assert_eq!(apply(&bench, change(1, 9, &[1, 2])), ErrorCode::None, "what was given up is not missed any more");
        bench.restarted(|dir| assert_eq!(checkpointed(dir), Offset(5)));
    }

    #[test]
    fn who_lost_its_log_makes_none_before_another_leads() {
        let bench = bench(TopicConfig::default());
        let nobody = LeaderAndIsr { replicas: ids(&[1, 2]), ..change(-1, 3, &[1]) };
        assert_eq!(apply(&bench, nobody), ErrorCode::KafkaStorageError, "it would be there when it is named");
        let named = LeaderAndIsr { replicas: ids(&[1, 2]), ..change(1, 4, &[1]) };
        assert_eq!(apply(&bench, named), ErrorCode::KafkaStorageError);
        assert!(bench.table.logs().get(&TopicPartition::new("t", 0)).is_none());
        assert_eq!(apply(&bench, change(2, 5, &[2])), ErrorCode::None, "it follows");
        let alone = LeaderAndIsr { tp: TopicPartition::new("t", 1), ..change(-1, 3, &[1]) };
        assert_eq!(apply(&bench, alone), ErrorCode::None, "nobody else can have what is lost");
    }

    #[test]
    fn who_has_a_partition_alone_leads_with_what_is_left() {
        let bench = that_lost_records(6);
        assert_eq!(apply(&bench, change(1, 3, &[1])), ErrorCode::None);
        bench.restarted(|dir| assert_eq!(checkpointed(dir), Offset(5)));
    }

    #[test]
    fn what_is_missing_comes_back_or_was_never_the_partitions() {
        let whole = that_lost_records(6);
        let log = whole.table.logs().get(&TopicPartition::new("t", 0)).unwrap();
        let mut sixth = batch(1);
        sixth[..8].copy_from_slice(&5_i64.to_be_bytes());
        sixth[12..16].copy_from_slice(&0_i32.to_be_bytes());
        log.append_as_follower(&sixth, 0).unwrap();
        assert_eq!(log.falls_short_of(), None);
        assert_eq!(apply(&whole, change(1, 3, &[1, 2])), ErrorCode::None);

        let cut = that_lost_records(6);
        let log = cut.table.logs().get(&TopicPartition::new("t", 0)).unwrap();
        log.truncate_to(Offset(5)).unwrap();
        assert_eq!(log.falls_short_of(), Some(Offset(6)), "nothing was cut");
        log.truncate_to(Offset(4)).unwrap();
        assert_eq!(log.falls_short_of(), None);
        // A kill that comes before the next checkpoint is written finds the cut.
        drop(log);
        assert_eq!(checkpointed(cut.dir()), Offset(4));
    }

    #[test]
    fn an_epoch_below_that_of_the_log_is_passed_over() {
        let bench = bench(TopicConfig::default());
        let partition = bench.leader(&[1]);
        assert_eq!(apply(&bench, change(1, 4, &[1])), ErrorCode::None);
        append(&partition);
        for leader in [1, 2] {
            assert_eq!(apply(&bench, change(leader, 3, &[1, 2])), ErrorCode::StaleControllerEpoch);
        }
        let bench = bench.restarted(|_| {});
        for leader in [1, 2] {
            assert_eq!(apply(&bench, change(leader, 3, &[1, 2])), ErrorCode::StaleControllerEpoch, "{leader} leads");
        }
        assert_eq!(
            apply(&bench, change(1, 4, &[1])),
            ErrorCode::None,
            "the one it knows, of which it has not heard since"
        );
    }
}
