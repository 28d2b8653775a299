use std::pin::pin;

use futures_util::FutureExt;

use super::*;
use crate::config::TopicConfig;
use crate::replication::testing::bench;
use crate::storage::testing::{batch, client};
use crate::types::{Acks, Offset};

/// A consumer's fetch of `partition` from `offset` on.
fn fetching(partition: &Arc<Partition>, offset: i64) -> Fetching {
    Fetching {
        throttle: None,
        place: None,
        wait: None,
        reader: Reader::Consumer(IsolationLevel::ReadUncommitted),
        only_leader: true,
        max_bytes: 1 << 20,
        hard_limit: false,
        targets: vec![target(partition, offset)],
    }
}

fn target(partition: &Arc<Partition>, offset: i64) -> Target {
    let asked = Asked {
        topic: ResponseTopic { name: "t".into(), id: TopicId::ZERO },
        partition: partition.topic_partition().partition,
        current_leader_epoch: LeaderEpoch::NONE,
        fetch_offset: Offset(offset),
        last_fetched_epoch: LeaderEpoch::NONE,
        log_start_offset: Offset::NONE,
        max_bytes: 1 << 20,
    };
    Target { asked, partition: Ok(Arc::clone(partition)) }
}

/// What a request for that finds, when it has waited as it may.
async fn found(fetching: &Fetching, min_bytes: usize, max_wait_ms: i32, alarm: &Alarm) -> Reads {
    let (min_bytes, (_stop, shutdown)) = (min_bytes as i32, Shutdown::new());
    let reads = fetching.once();
    let found = found_in(&reads);
    match fetching.must_wait(found, min_bytes, max_wait_ms) {
        true => fetching.wait(reads, found, min_bytes, max_wait_ms, alarm, &shutdown).await,
        false => reads,
    }
}

fn append(partition: &Partition, mut records: Vec<u8>) {
    partition.append_to_leader(&mut records, Acks::Leader, client(-1, 1_000)).unwrap();
}

fn bytes(reads: &[Read]) -> usize {
    reads.iter().map(|read| bytes_of(read.as_ref().unwrap())).sum()
}

#[tokio::test(start_paused = true)]
async fn a_parked_fetch_is_woken_by_the_append_that_completes_it() {
    let bench = bench(TopicConfig::default());
    let partition = bench.leader(&[1]);
    let one = batch(1).len();
    let fetching = fetching(&partition, 0);
    {
        let alarm = Alarm::default();
        let mut wait = pin!(found(&fetching, 2 * one, 30_000, &alarm));
        assert!(wait.as_mut().now_or_never().is_none());
        assert_eq!(partition.parked(), 1);
        append(&partition, batch(1));
        assert!(wait.as_mut().now_or_never().is_none(), "one batch is less than min_bytes");
        append(&partition, batch(1));
        let reads = wait.as_mut().now_or_never().expect("woken");
        assert_eq!(bytes(&reads), 2 * one);
    }
    // It is gone with the next move at the latest.
    append(&partition, batch(1));
    assert_eq!(partition.parked(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_parked_fetch_is_answered_at_its_max_wait() {
    let bench = bench(TopicConfig::default());
    let partition = bench.leader(&[1]);
    let begun = tokio::time::Instant::now();
    let reads = found(&fetching(&partition, 0), 1, 500, &Alarm::default()).await;
    assert_eq!(bytes(&reads), 0);
    assert!(begun.elapsed() >= Duration::from_millis(500));
    append(&partition, batch(1));
    assert_eq!(partition.parked(), 0);
}

#[tokio::test(start_paused = true)]
async fn what_needs_no_wait_does_not_park() {
    let bench = bench(TopicConfig::default());
    let partition = bench.leader(&[1]);
    append(&partition, batch(1));
    for (offset, min_bytes, max_wait_ms) in [(0, 1, 500), (1, 1, 0), (1, 0, 500), (2, 1, 500)] {
        let reads = found(&fetching(&partition, offset), min_bytes, max_wait_ms, &Alarm::default())
            .now_or_never()
            .expect("at once");
        assert_eq!(reads.iter().any(Result::is_err), offset == 2, "out of range is told at once");
    }
    assert_eq!(partition.parked(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_woken_fetch_keeps_what_it_found_and_its_limits() {
    let bench = bench(TopicConfig::default());
    let partitions: Vec<Arc<Partition>> = (0..100).map(|n| bench.leader_of(n, &[1])).collect();
    let one = batch(1).len();
    let mut fetching = fetching(&partitions[0], 0);
    fetching.targets = partitions.iter().map(|partition| target(partition, 0)).collect();
    // Room for two batches, whichever partitions they come from.
    fetching.max_bytes = 2 * one as i32;
    append(&partitions[90], batch(1));
    let alarm = Alarm::default();
    let mut wait = pin!(found(&fetching, 2 * one + 1, 30_000, &alarm));
    assert!(wait.as_mut().now_or_never().is_none());
    append(&partitions[7], batch(1));
    assert!(wait.as_mut().now_or_never().is_none(), "two batches are less than min_bytes");
    append(&partitions[90], batch(1));
    assert!(wait.as_mut().now_or_never().is_none(), "there is no room for a third");
    bench.table.apply_leader_and_isr(&[crate::replication::table::LeaderAndIsr {
        tp: partitions[3].topic_partition().clone(),
        ..crate::replication::testing::change(2, 1, &[1, 2])
    }]);
    let reads = wait.as_mut().now_or_never().expect("an error is told at once");
    let found: Vec<(usize, usize)> = reads
        .iter()
        .enumerate()
        .filter_map(|(n, read)| Some((n, bytes_of(read.as_ref().ok()?))).filter(|(_, bytes)| *bytes > 0))
        .collect();
    assert_eq!(found, [(7, one), (90, one)]);
    let refused: Vec<usize> = reads.iter().enumerate().filter_map(|(n, read)| read.is_err().then_some(n)).collect();
    assert_eq!(refused, [3]);
}
