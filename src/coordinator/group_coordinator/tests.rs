//! The driver over a real partition: loading, waiting for replicas and for the disk, resigning, the end of the broker.

use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use bytes::Bytes;

use super::*;
use crate::clock::ManualClock;
use crate::cluster::Snapshot;
use crate::config::TopicConfig;
use crate::config::group::GroupConfig;
use crate::coordinator::group::CommitPartition;
use crate::coordinator::loader;
use crate::coordinator::records::{Key, OffsetValue};
use crate::replication::table::LeaderAndIsr;
use crate::replication::testing::{self, ByHand, change};
use crate::spawn::{Job, ShutdownTrigger, Task};
use crate::storage::log::{AppendParams, Origin, Verification};
use crate::storage::testing::{batch, marker};
use crate::types::Offset;
use crate::wire::batch::{BatchBuilder, BatchOptions};
use crate::wire::compression::DECOMPRESSED_MAX;

/// Tasks run on the test's runtime, blocking jobs when told.
#[derive(Default)]
struct OnTest(ByHand);

impl Spawner for OnTest {
    fn data(&self, task: Task) {
        tokio::spawn(task);
    }
    fn control(&self, task: Task) {
        tokio::spawn(task);
    }
    fn blocking(&self, job: Job) {
        self.0.blocking(job);
    }
}

struct Bench {
    table: testing::Bench,
    spawner: Arc<OnTest>,
    groups: Arc<GroupCoordinator>,
    stop: ShutdownTrigger,
}

const GROUP: &str = "g";
const TOPIC: &str = "t";

impl Bench {
    fn new() -> Bench {
        Bench::with(TopicConfig::default(), |_| {})
    }

    /// `__consumer_offsets` has one partition with this configuration, and this broker does not lead it yet.
    fn with(topic: TopicConfig, change: impl FnOnce(&mut GroupConfig)) -> Bench {
        let table = testing::bench(topic);
        let spawner = Arc::new(OnTest::default());
        let (stop, shutdown) = Shutdown::new();
        let mut group =
            GroupConfig { offsets_topic_num_partitions: 1, initial_rebalance_delay_ms: 0, ..GroupConfig::default() };
        change(&mut group);
        let groups = GroupCoordinator::new(Surroundings {
            config: Arc::new(BrokerConfig { group, ..BrokerConfig::default() }),
            cluster: Arc::new(Cluster::new(Snapshot::default())),
            clock: Arc::new(ManualClock::at(1_000)),
            spawner: spawner.clone(),
            shutdown,
        });
        table.table.tell(vec![groups.clone()]);
        groups.start();
        Bench { table, spawner, groups, stop }
    }

    fn led_by(&self, leader: i32, epoch: i32, isr: &[i32]) {
        let change = LeaderAndIsr { tp: TopicPartition::new(GROUP_METADATA, 0), ..change(leader, epoch, isr) };
        assert_eq!(self.table.table.apply_leader_and_isr(&[change]), [ErrorCode::None]);
    }

    /// Leads, and has loaded.
    fn leads(&self, epoch: i32, isr: &[i32]) {
        self.led_by(1, epoch, isr);
        assert_eq!(self.spawner.0.run(), 1, "one load");
    }

    fn partition(&self) -> Arc<Partition> {
        self.table.table.get(GROUP_METADATA, 0).unwrap()
    }

    /// Broker 2 has everything below `offset`.
    fn follow(&self, offset: i64) {
        testing::fetched(&self.partition(), 2, -1, offset).unwrap();
    }

    fn fetched(&self, require_stable: bool) -> Result<Option<i64>, ErrorCode> {
        let fetched = self.groups.fetch(GROUP, &[(TOPIC.into(), 0)], require_stable)?.remove(0);
        Ok(fetched.offset?.map(|value| value.offset.0))
    }

    fn committed(&self) -> Option<i64> {
        self.fetched(false).unwrap()
    }

    fn append(&self, mut batch: Vec<u8>) {
        let params = AppendParams {
            origin: Origin::Coordinator,
            verification: Verification::NotAsked,
            leader_epoch: LeaderEpoch::NONE,
            now_ms: 0,
            decompressed_max: DECOMPRESSED_MAX,
        };
        self.partition().append_to_leader(&mut batch, Acks::Leader, params).unwrap();
    }

    /// What a producer commits in its transaction is in the log.
    fn append_in_transaction(&self, producer_id: i64, offset: i64) {
        let (key, value) = record(GROUP, offset);
        let options = BatchOptions {
            producer_id,
            producer_epoch: 0,
            base_sequence: 0,
            transactional: true,
            ..BatchOptions::default()
        };
        let mut batch = BatchBuilder::new(options).unwrap();
        batch.append(0, Some(&key), Some(&value), &[]).unwrap();
        self.append(batch.finish().unwrap());
    }
}

/// The answer; that it never comes is known once nobody has anything to do for a minute of the paused clock.
async fn told<T>(waits: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(60), waits).await.expect("an answer")
}

/// Key and value of a commit.
fn record(group: &str, offset: i64) -> (Bytes, Bytes) {
    let key = Key::Offset { group: group.into(), topic: TOPIC.into(), partition: 0 };
    let value = OffsetValue {
        offset: Offset(offset),
        leader_epoch: LeaderEpoch::NONE,
        metadata: "".into(),
        commit_timestamp_ms: 0,
        expire_timestamp_ms: None,
    };
    (key.encode(), value.encode())
}

fn nobody() -> Speaker {
    Speaker { generation: -1, member_id: "".into(), group_instance_id: None }
}

fn commit(offset: i64) -> Commit {
    Commit {
        request: RequestId(0),
        group: GROUP.into(),
        speaker: nobody(),
        retention_ms: None,
        transaction: None,
        partitions: vec![CommitPartition {
            topic: TOPIC.into(),
            partition: 0,
            offset: Offset(offset),
            leader_epoch: LeaderEpoch::NONE,
            metadata: "".into(),
            commit_timestamp_ms: None,
        }],
    }
}

fn join(member_id: &str) -> Join {
    Join {
        request: RequestId(0),
        group: GROUP.into(),
        member_id: member_id.into(),
        fresh_member_id: "fresh".into(),
        group_instance_id: None,
        client_id: "client".into(),
        client_host: "/127.0.0.1".into(),
        session_timeout_ms: 30_000,
        rebalance_timeout_ms: 30_000,
        protocol_type: "consumer".into(),
        protocols: vec![("range".into(), Bytes::new())],
        require_known_member_id: false,
        may_skip_assignment: false,
    }
}

/// Polls once: what can happen without anything else happening.
macro_rules! still_waits {
    ($future:expr) => {
        assert!(futures_util::poll!($future.as_mut()).is_pending());
    };
}

#[tokio::test(start_paused = true)]
async fn nothing_is_answered_before_the_groups_are_loaded() {
    let bench = Bench::new();
    assert_eq!(told(bench.groups.commit(commit(1))).await, Err(ErrorCode::NotCoordinator));
    bench.led_by(1, 0, &[1]);
    assert_eq!(told(bench.groups.commit(commit(1))).await, Err(ErrorCode::CoordinatorLoadInProgress));
    assert_eq!(bench.groups.list().1, ErrorCode::CoordinatorLoadInProgress);
    bench.spawner.0.run();
    assert_eq!(told(bench.groups.commit(commit(1))).await, Ok(vec![ErrorCode::None]));
    assert_eq!(bench.committed(), Some(1));
}

#[tokio::test(start_paused = true)]
async fn a_commit_is_answered_and_seen_when_the_second_replica_has_it() {
    let bench = Bench::new();
    bench.leads(0, &[1, 2]);
    let mut first = pin!(bench.groups.commit(commit(1)));
    let mut second = pin!(bench.groups.commit(commit(2)));
    still_waits!(first);
    still_waits!(second);
    assert_eq!(bench.committed(), None);
    bench.follow(1);
    assert_eq!(told(first).await, Ok(vec![ErrorCode::None]));
    assert_eq!(bench.committed(), Some(1), "the second is not replicated");
    still_waits!(second);
    bench.follow(2);
    assert_eq!(told(second).await, Ok(vec![ErrorCode::None]));
    assert_eq!(bench.committed(), Some(2));
}

#[tokio::test(start_paused = true)]
async fn whoever_waits_is_told_when_another_broker_leads() {
    let bench = Bench::new();
    bench.leads(0, &[1, 2]);
    let mut commit_waits = pin!(bench.groups.commit(commit(1)));
    still_waits!(commit_waits);
    bench.led_by(2, 1, &[1, 2]);
    assert_eq!(told(commit_waits).await, Ok(vec![ErrorCode::NotCoordinator]));
    assert_eq!(bench.groups.heartbeat(GROUP, &nobody()), Err(ErrorCode::NotCoordinator));
}

#[tokio::test(start_paused = true)]
async fn what_is_in_the_log_is_there_again_and_what_cannot_be_read_is_passed_over() {
    let bench = Bench::new();
    bench.leads(0, &[1]);
    assert_eq!(told(bench.groups.commit(commit(7))).await, Ok(vec![ErrorCode::None]));
    // Records without keys: nothing of ours.
    bench.append(batch(3));
    let other = Commit { group: "other".into(), ..commit(8) };
    assert_eq!(told(bench.groups.commit(other)).await, Ok(vec![ErrorCode::None]));
    bench.leads(1, &[1]);
    assert_eq!(bench.committed(), Some(7));
    let fetched = bench.groups.fetch_all("other", false).unwrap();
    assert_eq!(fetched.len(), 1, "what lies behind the records that cannot be read");
}

#[tokio::test(start_paused = true)]
async fn an_older_epoch_changes_nothing() {
    let bench = Bench::new();
    bench.leads(0, &[1]);
    bench.leads(5, &[1]);
    let partition = bench.partition();
    bench.groups.leads(&partition, LeaderEpoch(4));
    bench.groups.resigned(partition.topic_partition(), LeaderEpoch(4));
    assert_eq!(told(bench.groups.commit(commit(1))).await, Ok(vec![ErrorCode::None]));
}

#[tokio::test(start_paused = true)]
async fn offsets_of_a_deleted_topic_are_gone_for_good() {
    let bench = Bench::new();
    bench.leads(0, &[1]);
    assert_eq!(told(bench.groups.commit(commit(1))).await, Ok(vec![ErrorCode::None]));
    bench.groups.topics_deleted(&["u".into()]);
    assert_eq!(bench.committed(), Some(1));
    bench.groups.topics_deleted(&["u".into(), TOPIC.into()]);
    assert_eq!(bench.committed(), None);
    bench.leads(1, &[1]);
    assert_eq!(bench.committed(), None, "a tombstone is in the log");
}

#[tokio::test(start_paused = true)]
async fn the_end_of_the_broker_does_not_wait_for_members() {
    let bench = Bench::new();
    bench.leads(0, &[1]);
    let leader = told(bench.groups.join(join(""))).await.unwrap();
    assert_eq!(leader.error, ErrorCode::None);
    let mut second = pin!(bench.groups.join(Join { fresh_member_id: "second".into(), ..join("") }));
    still_waits!(second);
    bench.stop.request();
    assert_eq!(told(second).await.unwrap().error, ErrorCode::NotCoordinator);
}

#[tokio::test(start_paused = true)]
async fn a_commit_that_is_not_replicated_in_time_is_not_made() {
    let bench = Bench::with(TopicConfig::default(), |config| config.offsets_commit_timeout_ms = 1_000);
    bench.leads(0, &[1, 2]);
    let begun = tokio::time::Instant::now();
    assert_eq!(told(bench.groups.commit(commit(1))).await, Ok(vec![ErrorCode::RequestTimedOut]));
    assert_eq!(begun.elapsed(), Duration::from_millis(1_000));
    bench.follow(1);
    assert_eq!(bench.committed(), None, "who is told that it failed finds what was there before");
    let mut next = pin!(bench.groups.commit(commit(2)));
    still_waits!(next);
    bench.follow(2);
    assert_eq!(told(next).await, Ok(vec![ErrorCode::None]), "it holds up nobody");
}

#[tokio::test(start_paused = true)]
async fn with_acks_1_a_commit_does_not_wait_for_the_second_replica() {
    let bench = Bench::with(TopicConfig::default(), |config| config.offsets_commit_required_acks = 1);
    bench.leads(0, &[1, 2]);
    assert_eq!(told(bench.groups.commit(commit(1))).await, Ok(vec![ErrorCode::None]));
    assert_eq!(bench.committed(), Some(1));
}

#[tokio::test(start_paused = true)]
async fn with_flush_messages_a_commit_waits_for_the_disk_whatever_its_acks() {
    for acks in [-1, 1] {
        let topic = TopicConfig { flush_messages: 1, ..TopicConfig::default() };
        let bench = Bench::with(topic, |config| config.offsets_commit_required_acks = acks);
        bench.leads(0, &[1]);
        let mut waits = pin!(bench.groups.commit(commit(1)));
        still_waits!(waits);
        assert_eq!(bench.committed(), None, "acks {acks}");
        assert_eq!(bench.table.pool.run(), 1, "one fsync");
        assert_eq!(told(waits).await, Ok(vec![ErrorCode::None]), "acks {acks}");
        assert_eq!(bench.committed(), Some(1), "acks {acks}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_marker_makes_what_a_transaction_committed_count_or_not() {
    for (commits, after) in [(true, 2), (false, 1)] {
        let bench = Bench::new();
        bench.leads(0, &[1]);
        assert_eq!(told(bench.groups.commit(commit(1))).await, Ok(vec![ErrorCode::None]));
        bench.append_in_transaction(7, 2);
        bench.leads(1, &[1]);
        assert_eq!(bench.fetched(true), Err(ErrorCode::UnstableOffsetCommit));
        assert_eq!(bench.fetched(false), Ok(Some(1)));
        bench.groups.transaction_ended(0, 8, commits);
        assert_eq!(bench.fetched(true), Err(ErrorCode::UnstableOffsetCommit), "somebody else's");
        bench.groups.transaction_ended(0, 7, commits);
        assert_eq!(bench.fetched(true), Ok(Some(after)));
        bench.append_in_transaction(7, 3);
        bench.leads(2, &[1]);
        bench.groups.transaction_ended(0, 7, commits);
        bench.append(marker(7, 0, commits, 1));
        bench.leads(3, &[1]);
        assert_eq!(bench.fetched(true), Ok(Some(if commits { 3 } else { 1 })), "read again from the log");
    }
}

#[tokio::test(start_paused = true)]
async fn a_marker_that_comes_while_the_groups_are_loaded_is_not_lost() {
    let bench = Bench::new();
    bench.leads(0, &[1]);
    bench.append_in_transaction(7, 2);
    bench.led_by(1, 1, &[1]);
    bench.groups.transaction_ended(0, 7, true);
    assert_eq!(bench.fetched(true), Err(ErrorCode::CoordinatorLoadInProgress));
    assert_eq!(bench.spawner.0.run(), 1);
    assert_eq!(bench.fetched(true), Ok(Some(2)));
}

#[tokio::test(start_paused = true)]
async fn a_record_that_cannot_be_read_takes_neither_its_batch_nor_the_log_along() {
    let bench = Bench::new();
    bench.leads(0, &[1]);
    let mut batch = BatchBuilder::new(BatchOptions::default()).unwrap();
    let (key, value) = record("first", 1);
    batch.append(0, Some(&key), Some(&value), &[]).unwrap();
    let (key, value) = record("cut", 2);
    batch.append(0, Some(&key), Some(&value[..value.len() - 1]), &[]).unwrap();
    batch.append(0, Some(&key[..key.len() - 1]), Some(&value), &[]).unwrap();
    batch.append(0, Some(b"\0\x02\0\x05newer"), Some(b"\0\x09?"), &[]).unwrap();
    batch.append(0, Some(b"\0\x63a kind of its own"), Some(b"?"), &[]).unwrap();
    let (key, value) = record("last", 3);
    batch.append(0, Some(&key), Some(&value), &[]).unwrap();
    bench.append(batch.finish().unwrap());
    let loaded = loader::load::<Loading>(&bench.partition().log().unwrap(), 1 << 20).unwrap();
    assert_eq!((loaded.records, loaded.skipped), (6, vec![Offset(1), Offset(2), Offset(3)]));
    bench.leads(1, &[1]);
    let mut groups: Vec<String> = bench.groups.list().0.iter().map(|group| group.group.to_string()).collect();
    groups.sort();
    assert_eq!(groups, ["first", "last"]);
}
