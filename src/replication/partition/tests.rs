use std::pin::pin;

use futures_util::FutureExt;

use super::super::testing::{Bench, bench, change, fetch, ids};
use super::*;
use crate::config::TopicConfig;
use crate::replication::table::LeaderAndIsr;
use crate::storage::testing::{Sender, batch, batch_of, batches, client};
use crate::wire::batch::BatchHeader;

const CONSUMER: Reader = Reader::Consumer(IsolationLevel::ReadUncommitted);

fn follower(id: i32) -> Reader {
    Reader::Replica { id: BrokerId(id), broker_epoch: -1 }
}

fn append(partition: &Partition, count: i32, acks: Acks) -> Result<LeaderAppend, AppendError> {
    partition.append_to_leader(&mut batch(count), acks, client(-1, 1_000))
}

fn code(result: Result<LeaderAppend, AppendError>) -> (ErrorCode, Offset) {
    match result {
        Err(AppendError::Refused { code, log_start_offset, .. }) => (code, log_start_offset),
        other => panic!("{other:?}"),
    }
}

/// A follower fetches at `offset`, as the handler does it.
fn follow(partition: &Partition, id: i32, offset: i64) {
    let fetch = fetch(follower(id), offset);
    let read = partition.read(fetch).unwrap();
    partition.record_follower_fetch(&fetch, &read).unwrap();
}

fn high_watermark(partition: &Partition) -> i64 {
    partition.log().unwrap().offsets().high_watermark.0
}

fn flushing(messages: i64) -> Bench {
    bench(TopicConfig { flush_messages: messages, ..TopicConfig::default() })
}

#[test]
fn a_sole_leader_commits_in_the_append_and_wakes_who_waits() {
    let bench = bench(TopicConfig::default());
    let partition = bench.leader(&[1]);
    let parked = Parked::new(1);
    partition.park(&parked, 0, CONSUMER, partition.fetches.moves());
    let appended = append(&partition, 3, Acks::All).unwrap();
    assert_eq!((appended.committed_at, appended.durable_at), (None, None));
    assert_eq!(high_watermark(&partition), 3);
    assert_eq!(parked.woken().now_or_never(), Some(()));
    assert_eq!(bench.pool.run(), 0, "nobody asked for an fsync");
}

#[test]
fn acks_all_waits_for_the_followers_and_completes_in_one_move() {
    let bench = bench(TopicConfig::default());
    let partition = bench.leader(&[1, 2]);
    let (consumer, debugger) = (Parked::new(1), Parked::new(1));
    partition.park(&consumer, 0, CONSUMER, partition.fetches.moves());
    partition.park(&debugger, 0, Reader::Debugging, partition.fetches.moves());
    assert_eq!(append(&partition, 2, Acks::Leader).unwrap().committed_at, None);
    let first = append(&partition, 1, Acks::All).unwrap();
    let second = append(&partition, 1, Acks::All).unwrap();
    assert_eq!((first.committed_at, second.committed_at), (Some(Offset(3)), Some(Offset(4))));
    let (mut first, mut second) = (pin!(partition.committed(Offset(3))), pin!(partition.committed(Offset(4))));
    assert_eq!(first.as_mut().now_or_never(), None);
    assert_eq!(debugger.woken().now_or_never(), Some(()));
    assert_eq!(consumer.woken().now_or_never(), None, "nothing is committed yet");
    assert!(partition.read(fetch(CONSUMER, 0)).unwrap().slice.is_none());

    follow(&partition, 2, 3);
    assert_eq!(high_watermark(&partition), 3);
    assert_eq!(first.now_or_never(), Some(Ok(())));
    assert_eq!(second.as_mut().now_or_never(), None);
    assert_eq!(consumer.woken().now_or_never(), Some(()));
    follow(&partition, 2, 4);
    assert_eq!(second.now_or_never(), Some(Ok(())));
}

#[test]
fn below_min_isr_acks_all_appends_nothing_and_acks_1_commits_nothing() {
    let bench = bench(TopicConfig { min_insync_replicas: 2, ..TopicConfig::default() });
    let mut alone = change(1, 0, &[1]);
    alone.replicas = ids(&[1, 2]);
    bench.table.apply_leader_and_isr(&[alone]);
    let partition = bench.table.get("t", 0).unwrap();
    assert_eq!(code(append(&partition, 1, Acks::All)), (ErrorCode::NotEnoughReplicas, Offset(0)));
    assert_eq!(partition.log().unwrap().offsets().log_end, Offset(0));
    append(&partition, 1, Acks::Leader).unwrap();
    assert_eq!(high_watermark(&partition), 0);
}

/// Of a client it was reported that it gave up batches that ended with an error though they were stored.
#[test]
fn a_batch_that_was_not_acknowledged_is_stored_once_however_often_it_is_sent() {
    let bench = bench(TopicConfig { min_insync_replicas: 2, ..TopicConfig::default() });
    let partition = bench.leader(&[1, 2]);
    let send = || {
        let sender = Sender { id: 7, epoch: 0, sequence: 0, transactional: false };
        partition.append_to_leader(&mut batch_of(1, 1_000, 10, Some(sender)), Acks::All, client(-1, 1_000))
    };
    let end = send().unwrap().committed_at.unwrap();
    let mut waiting = pin!(partition.committed(end));
    assert_eq!(waiting.as_mut().now_or_never(), None);
    let again = send().unwrap();
    assert_eq!((again.info.duplicate, again.committed_at), (true, Some(end)), "it waits as the first one does");

    // The other replica has it and leaves before the producer is told.
    follow(&partition, 2, 1);
    let alone = LeaderAndIsr { replicas: ids(&[1, 2]), ..change(1, 1, &[1]) };
    assert_eq!(bench.table.apply_leader_and_isr(&[alone]), [ErrorCode::None]);
    assert_eq!(waiting.now_or_never(), Some(Err(NotCommitted::NotEnoughReplicasAfterAppend)));
    assert_eq!(code(send()).0, ErrorCode::NotEnoughReplicas, "as long as it is away");

    assert_eq!(bench.table.apply_leader_and_isr(&[change(1, 2, &[1, 2])]), [ErrorCode::None]);
    let again = send().unwrap();
    assert_eq!((again.info.first_offset, again.info.duplicate, again.committed_at), (Offset(0), true, None));
    assert_eq!(partition.log().unwrap().offsets().log_end, Offset(1));
}

#[test]
fn who_waits_when_leadership_goes_learns_it_at_once() {
    let bench = bench(TopicConfig::default());
    let partition = bench.leader(&[1, 2]);
    let end = append(&partition, 1, Acks::All).unwrap().committed_at.unwrap();
    let mut waiting = pin!(partition.committed(end));
    assert_eq!(waiting.as_mut().now_or_never(), None);
    let parked = Parked::new(1);
    partition.park(&parked, 0, CONSUMER, partition.fetches.moves());
    bench.table.apply_leader_and_isr(&[change(2, 1, &[1, 2])]);
    assert_eq!(waiting.now_or_never(), Some(Err(NotCommitted::NotLeader)));
    assert_eq!(parked.woken().now_or_never(), Some(()));
    assert_eq!(code(append(&partition, 1, Acks::All)), (ErrorCode::NotLeaderOrFollower, Offset(-1)));
    assert_eq!(partition.committed(end).now_or_never(), Some(Err(NotCommitted::NotLeader)));
}

#[test]
fn with_flush_messages_1_nothing_is_shown_before_its_fsync_and_one_serves_all() {
    let bench = flushing(1);
    let partition = bench.leader(&[1]);
    let first = append(&partition, 1, Acks::Leader).unwrap();
    let second = append(&partition, 1, Acks::All).unwrap();
    assert_eq!((first.committed_at, first.durable_at), (None, Some(Offset(1))));
    assert_eq!((second.committed_at, second.durable_at), (Some(Offset(2)), None));
    let (mut durable, mut committed) = (pin!(partition.durable(Offset(1))), pin!(partition.committed(Offset(2))));
    assert_eq!(durable.as_mut().now_or_never(), None);
    assert_eq!(committed.as_mut().now_or_never(), None);
    assert_eq!(high_watermark(&partition), 0);
    assert_eq!(bench.pool.run(), 1);
    assert_eq!(durable.now_or_never(), Some(Ok(())));
    assert_eq!(committed.now_or_never(), Some(Ok(())));
    assert_eq!(high_watermark(&partition), 2);
    assert_eq!(partition.log().unwrap().recovery_point(), Offset(2));
}

#[test]
fn with_flush_messages_3_the_third_waits_for_the_fsync() {
    let bench = flushing(3);
    let partition = bench.leader(&[1]);
    let owed: Vec<bool> = (0..3).map(|_| append(&partition, 1, Acks::Leader).unwrap().durable_at.is_some()).collect();
    assert_eq!(owed, [false, false, true]);
    assert_eq!(high_watermark(&partition), 3);
}

#[test]
fn reads_are_checked_in_kafkas_order() {
    let bench = bench(TopicConfig::default());
    let partition = bench.leader(&[1]);
    append(&partition, 5, Acks::All).unwrap();
    let error = |fetch| partition.read(fetch).map(|_| ()).unwrap_err();
    let at_epoch = |fetch: PartitionFetch, epoch| PartitionFetch { current_leader_epoch: LeaderEpoch(epoch), ..fetch };
    assert_eq!(error(at_epoch(fetch(follower(9), 99), 1)), ErrorCode::UnknownLeaderEpoch);
    assert_eq!(error(at_epoch(fetch(follower(9), 99), 0)), ErrorCode::UnknownLeaderEpoch, "not a replica");
    assert_eq!(error(fetch(follower(9), 99)), ErrorCode::NotLeaderOrFollower);
    for outside in [-1, 6] {
        assert_eq!(error(fetch(CONSUMER, outside)), ErrorCode::OffsetOutOfRange);
    }
    assert!(partition.read(fetch(CONSUMER, 5)).unwrap().slice.is_none());

    let after = |epoch, offset| PartitionFetch { last_fetched_epoch: LeaderEpoch(epoch), ..fetch(CONSUMER, offset) };
    assert_eq!(error(after(3, 0)), ErrorCode::OffsetOutOfRange, "an epoch the leader does not know");
    assert!(partition.read(after(0, 5)).unwrap().diverging.is_none());
    bench.table.apply_leader_and_isr(&[change(1, 4, &[1])]);
    append(&partition, 1, Acks::All).unwrap();
    let read = partition.read(after(0, 6)).unwrap();
    assert_eq!((read.diverging, read.slice.is_none()), (Some((LeaderEpoch(0), Offset(5))), true));
    let read = partition.read(after(2, 3)).unwrap();
    assert_eq!(read.diverging, Some((LeaderEpoch(0), Offset(5))), "epoch 2 was never ours");

    bench.table.apply_leader_and_isr(&[change(2, 5, &[2])]);
    assert_eq!(error(at_epoch(fetch(CONSUMER, 99), 4)), ErrorCode::FencedLeaderEpoch);
    assert_eq!(error(fetch(CONSUMER, 99)), ErrorCode::NotLeaderOrFollower);
    let any_replica = PartitionFetch { only_leader: false, ..fetch(CONSUMER, 0) };
    assert!(partition.read(any_replica).unwrap().slice.is_some());
}

#[test]
fn a_leader_that_does_not_know_what_is_committed_says_so() {
    let bench = bench(TopicConfig::default());
    let partition = bench.leader(&[1, 2]);
    append(&partition, 2, Acks::Leader).unwrap();
    assert_eq!(partition.upper_bound(CONSUMER), Ok(Offset(0)));
    bench.table.apply_leader_and_isr(&[change(1, 1, &[1, 2])]);
    assert_eq!(partition.upper_bound(CONSUMER), Err(ErrorCode::OffsetNotAvailable));
    assert_eq!(partition.offset_for_timestamp(0, CONSUMER), Err(ErrorCode::OffsetNotAvailable));
    assert_eq!(partition.upper_bound(Reader::Debugging), Ok(Offset(2)));
    follow(&partition, 2, 2);
    assert_eq!(partition.upper_bound(CONSUMER), Ok(Offset(2)));
}

#[test]
fn records_are_deleted_up_to_the_high_watermark() {
    let bench = bench(TopicConfig::default());
    let partition = bench.leader(&[1]);
    append(&partition, 10, Acks::All).unwrap();
    let deleted = |to| partition.delete_records(Offset(to)).map(|deleted| deleted.low_watermark);
    assert_eq!(deleted(4), Ok(Offset(4)));
    assert_eq!(deleted(2), Ok(Offset(4)), "the log start never goes back");
    assert_eq!(deleted(11), Err(ErrorCode::OffsetOutOfRange));
    assert_eq!(deleted(-2), Err(ErrorCode::OffsetOutOfRange));
    assert_eq!(partition.read(fetch(CONSUMER, 3)).map(|_| ()), Err(ErrorCode::OffsetOutOfRange));
    assert_eq!(deleted(-1), Ok(Offset(10)));
    bench.table.apply_leader_and_isr(&[change(2, 1, &[2])]);
    assert_eq!(deleted(4), Err(ErrorCode::NotLeaderOrFollower));
}

#[test]
fn a_topic_that_only_compacts_keeps_its_records() {
    let bench = super::super::testing::bench(TopicConfig {
        cleanup_delete: false,
        cleanup_compact: true,
        ..TopicConfig::default()
    });
    assert_eq!(bench.leader(&[1]).delete_records(Offset(0)), Err(ErrorCode::PolicyViolation));
}

#[test]
fn an_offline_directory_fails_everything_and_everybody() {
    let bench = bench(TopicConfig::default());
    let partition = bench.leader(&[1, 2]);
    let end = append(&partition, 1, Acks::All).unwrap().committed_at.unwrap();
    let mut waiting = pin!(partition.committed(end));
    assert_eq!(waiting.as_mut().now_or_never(), None);
    partition.go_offline();
    assert_eq!(waiting.now_or_never(), Some(Err(NotCommitted::Storage)));
    assert_eq!(code(append(&partition, 1, Acks::All)).0, ErrorCode::KafkaStorageError);
    assert_eq!(partition.read(fetch(CONSUMER, 0)).map(|_| ()), Err(ErrorCode::KafkaStorageError));
    assert_eq!(
        bench.table.apply_leader_and_isr(&[change(1, 0, &[1, 2])]),
        [ErrorCode::KafkaStorageError],
        "also for an epoch that is known: that is how a controller asks"
    );
    assert_eq!(
        bench.table.stop_replica(partition.topic_partition(), LeaderEpoch(-2), true),
        ErrorCode::KafkaStorageError
    );
}

#[test]
fn records_checked_in_one_epoch_are_appended_in_the_next() {
    let bench = bench(TopicConfig::default());
    let partition = bench.leader(&[1]);
    append(&partition, 2, Acks::All).unwrap();
    let (mut records, params) = (batch(3), client(-1, 1_000));
    let checked = partition.check_records(&mut records, params).unwrap();
    assert_eq!(partition.log().unwrap().offsets().log_end, Offset(2), "nothing is appended yet");
    // Meanwhile others append, and the leader is elected again.
    append(&partition, 1, Acks::All).unwrap();
    assert_eq!(bench.table.apply_leader_and_isr(&[change(1, 4, &[1])]), [ErrorCode::None]);
    let appended = partition.append_checked(&mut records, checked, Acks::All, params).unwrap();
    assert_eq!((appended.info.first_offset, appended.info.last_offset), (Offset(3), Offset(5)));
    let stored: Vec<_> = batches(&partition.log().unwrap())
        .into_iter()
        .map(|(base, bytes)| (base.0, BatchHeader::parse(&bytes).unwrap().leader_epoch.0))
        .collect();
    assert_eq!(stored, [(0, 0), (2, 0), (3, 4)]);
    // One that leads no more appends nothing.
    let checked = partition.check_records(&mut batch(1), params).unwrap();
    assert_eq!(bench.table.apply_leader_and_isr(&[change(2, 5, &[1, 2])]), [ErrorCode::None]);
    let refused = partition.append_checked(&mut batch(1), checked, Acks::All, params);
    assert_eq!(code(refused).0, ErrorCode::NotLeaderOrFollower);
}
