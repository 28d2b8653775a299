//! Fetchers of broker 2 at a leader, broker 1, that is a real partition table behind a stand-in for its handlers.

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use kafka_protocol::messages::list_offsets_response::{ListOffsetsPartitionResponse, ListOffsetsTopicResponse};
use kafka_protocol::messages::{ListOffsetsRequest, ListOffsetsResponse};
use kafka_protocol::protocol::{Decodable, Encodable};
use tokio::task::yield_now;

use super::*;
use crate::cluster::peer::Link;
use crate::cluster::{Broker, Snapshot};
use crate::config::{ThrottledReplicas, TopicConfig};
use crate::quota::{ReplicationQuota, Windows};
use crate::replication::partition::{PartitionFetch, Reader};
use crate::replication::table::{LeaderAndIsr, PartitionTable};
use crate::replication::testing::{Bench, bench_of, change, ids};
use crate::sim::brokers::{Inline, SimClock};
use crate::storage::log::FileSlice;
use crate::storage::testing::{batch, batches, client};
use crate::types::{Acks, Endpoint, Offset, TopicId};
use crate::wire::error_code::ErrorCode;
use crate::wire::fetch::{
    DivergingEpoch, FetchRequest, FetchResponse, PartitionRequest, PartitionResponse, Payload, ResponseTopic, TopicRef,
};
use crate::wire::header::{RequestHeader, put_response_header};
use crate::wire::writer::Writer;

const TOPIC_ID: TopicId = TopicId(uuid::Uuid::from_u128(77));

/// The leader's side: what was asked, in words, and what goes wrong.
#[derive(Default)]
struct Leader {
    asked: Mutex<Vec<String>>,
    /// Answers the next request so, as a whole.
    refuses: Mutex<Option<ErrorCode>>,
    /// Breaks the connection at the next request.
    cuts: Mutex<bool>,
    connections: Mutex<usize>,
    table: Mutex<Option<Arc<PartitionTable>>>,
}

struct Stand(Arc<Leader>);

struct Wire {
    leader: Arc<Leader>,
    session: BTreeMap<i32, PartitionRequest>,
}

#[derive(Clone, Debug, Default)]
struct Slice(Option<FileSlice>);

impl Payload for Slice {
    fn len(&self) -> Option<usize> {
        Some(self.0.as_ref().map_or(0, |slice| slice.len))
    }
}

#[async_trait]
impl Connector for Stand {
    async fn connect(&self, _: &Endpoint) -> io::Result<Box<dyn Link>> {
        *self.0.connections.lock() += 1;
        Ok(Box::new(Wire { leader: self.0.clone(), session: BTreeMap::new() }))
    }
}

#[async_trait]
impl Link for Wire {
    async fn ask(&mut self, request: Bytes) -> io::Result<BytesMut> {
        let mut body = BytesMut::from(&request[..]);
        let header = RequestHeader::take(&mut body, &Default::default()).expect("a header");
        let mut out = BytesMut::new();
        put_response_header(&mut out, header.api_key, header.api_version, header.correlation_id);
        if std::mem::take(&mut *self.leader.cuts.lock()) {
            return Err(io::ErrorKind::ConnectionReset.into());
        }
        if header.api_key.name() == "ListOffsets" {
            return Ok(self.list_offsets(body, header.api_version, out));
        }
        let request = FetchRequest::decode(&body, 0, header.api_version).expect("valid");
        let named: Vec<String> =
            request.partitions.iter().map(|p| format!("{}@{}", p.partition, p.fetch_offset)).collect();
        let gone: Vec<String> = request.forgotten.iter().map(|gone| format!("-{}", gone.partition)).collect();
        let said = format!("{}/{} {}", request.session_id, request.session_epoch, [named, gone].concat().join(" "));
        self.leader.asked.lock().push(said.trim().to_owned());
        let mut answer = self.fetch(&request, header.api_version);
        if answer.iter().all(|(_, part)| part.records.is_empty() && part.diverging.is_none()) {
            tokio::time::sleep(Duration::from_millis(request.max_wait_ms as u64)).await;
            answer = self.fetch(
                &FetchRequest { partitions: Default::default(), session_epoch: 1, ..request },
                header.api_version,
            );
        }
        let error = self.leader.refuses.lock().take().unwrap_or(ErrorCode::None);
        let partitions = if error.is_error() { &[][..] } else { &answer };
        let mut writer = Writer::new(out, true);
        let whole = FetchResponse { throttle_ms: 0, error, session_id: 7, partitions, node_endpoints: &[] };
        let cuts = whole.encode(&mut writer, header.api_version);
        let (mut frame, mut done) = (BytesMut::new(), 0);
        for (cut, (_, part)) in cuts.iter().zip(partitions) {
            frame.extend_from_slice(&writer.buf[done..*cut]);
            if let Some(slice) = &part.records.0 {
                let mut bytes = vec![0; slice.len];
                slice.file.read_exact_at(&mut bytes, slice.position)?;
                frame.extend_from_slice(&bytes);
            }
            done = *cut;
        }
        frame.extend_from_slice(&writer.buf[done..]);
        Ok(frame)
    }
}

impl Wire {
    fn fetch(&mut self, request: &FetchRequest<'_>, version: i16) -> Vec<(ResponseTopic, PartitionResponse<Slice>)> {
        if request.session_epoch == 0 {
            self.session.clear();
        }
        for asked in &request.partitions {
            let expected = if version >= 13 { TopicRef::Id(TOPIC_ID) } else { TopicRef::Name("t") };
            assert_eq!(request.topic(asked.topic), expected);
            self.session.insert(asked.partition, *asked);
        }
        for gone in &request.forgotten {
            self.session.remove(&gone.partition);
        }
        let table = self.leader.table.lock().clone().expect("a leader");
        let topic = ResponseTopic { name: "t".into(), id: TOPIC_ID };
        let read = |asked: &PartitionRequest| {
            let fetch = PartitionFetch {
                reader: Reader::Replica { id: request.replica_id, broker_epoch: request.replica_epoch },
                offset: asked.fetch_offset,
                current_leader_epoch: asked.current_leader_epoch,
                last_fetched_epoch: asked.last_fetched_epoch,
                log_start_offset: asked.log_start_offset,
                max_bytes: asked.max_bytes as usize,
                min_one_batch: true,
                only_leader: true,
            };
            let partition = table.get("t", asked.partition).ok_or(ErrorCode::NotLeaderOrFollower)?;
            let read = partition.read(fetch)?;
            partition.record_follower_fetch(&fetch, &read)?;
            Ok(read)
        };
        let answers = self.session.values().map(|asked| match read(asked) {
            Err(code) => PartitionResponse::failed(asked.partition, code),
            Ok(read) => PartitionResponse {
                error: ErrorCode::None,
                high_watermark: read.offsets.high_watermark,
                log_start_offset: read.offsets.log_start,
                records: Slice(read.slice),
                diverging: read.diverging.map(|(epoch, end_offset)| DivergingEpoch { epoch, end_offset }),
                ..PartitionResponse::failed(asked.partition, ErrorCode::None)
            },
        });
        answers.map(|answer| (topic.clone(), answer)).collect()
    }

    fn list_offsets(&self, body: BytesMut, version: i16, mut out: BytesMut) -> BytesMut {
        let request = ListOffsetsRequest::decode(&mut body.freeze(), version).expect("valid");
        let table = self.leader.table.lock().clone().expect("a leader");
        let topics = request.topics.iter().map(|topic| {
            let partitions = topic.partitions.iter().map(|asked| {
                let offsets = table.get("t", asked.partition_index).expect("there").log().expect("online").offsets();
                let offset = if asked.timestamp == -1 { offsets.log_end } else { offsets.log_start };
                self.leader.asked.lock().push(format!("{} of {}", asked.timestamp, asked.partition_index));
                ListOffsetsPartitionResponse::default()
                    .with_partition_index(asked.partition_index)
                    .with_offset(offset.0)
            });
            ListOffsetsTopicResponse::default().with_name(topic.name.clone()).with_partitions(partitions.collect())
        });
        let answer = ListOffsetsResponse::default().with_topics(topics.collect());
        answer.encode(&mut out, version).expect("encodable");
        out
    }
}

struct Both {
    leader: Bench,
    stand: Arc<Leader>,
    follower: Bench,
    fetchers: Arc<Fetchers>,
    quota: Arc<ReplicationQuota>,
    clock: Arc<SimClock>,
}

fn both(config: TopicConfig, fetch: impl FnOnce(&mut FetchConfig)) -> Both {
    let clock = Arc::new(SimClock::at(1_700_000_000_000));
    let leader = bench_of(1, clock.clone(), config.clone());
    let follower = bench_of(2, clock.clone(), config);
    let stand = Arc::new(Leader::default());
    *stand.table.lock() = Some(leader.table.clone());
    let endpoint = Endpoint { host: "one".into(), port: 9092 };
    let endpoints = [("INTERNAL".to_owned(), endpoint)].into_iter().collect();
    let broker = Broker { id: BrokerId(1), rack: None, endpoints, epoch: 5 };
    let snapshot = Snapshot { brokers: [(BrokerId(1), broker)].into_iter().collect(), ..Snapshot::default() };
    let mut config = FetchConfig {
        fetchers: 1,
        backoff_ms: 1_000,
        by_directory: false,
        max_bytes: 1 << 20,
        response_max_bytes: 10 << 20,
        min_bytes: 1,
        max_wait_ms: 500,
        socket_timeout_ms: 30_000,
        fetch_version: 17,
        list_offsets_version: 9,
    };
    fetch(&mut config);
    let quota = Arc::new(ReplicationQuota::new(Windows::new(11, 1)));
    let fetchers = Arc::new(Fetchers::new(Surroundings {
        broker: BrokerId(2),
        broker_epoch: Box::new(|| 8),
        listener: "INTERNAL".to_owned(),
        connector: Arc::new(Stand(stand.clone())),
        cluster: Arc::new(Cluster::new(snapshot)),
        clock: clock.clone(),
        spawner: Arc::new(Inline),
        quota: quota.clone(),
        config,
    }));
    follower.table.fetch_with(fetchers.clone());
    Both { leader, stand, follower, fetchers, quota, clock }
}

/// `t-partition` on brokers 1 and 2, in sync, led by 1.
fn led(partition: i32, leader_epoch: i32) -> LeaderAndIsr {
    LeaderAndIsr { tp: TopicPartition::new("t", partition), replicas: ids(&[1, 2]), ..change(1, leader_epoch, &[1, 2]) }
}

impl Both {
    fn lead(&self, partition: i32, epoch: i32) -> Arc<Partition> {
        assert_eq!(self.leader.table.apply_leader_and_isr(&[led(partition, epoch)]), [ErrorCode::None]);
        self.leader.table.get("t", partition).unwrap()
    }

    fn follow(&self, partition: i32, epoch: i32) -> Arc<Partition> {
        assert_eq!(self.follower.table.apply_leader_and_isr(&[led(partition, epoch)]), [ErrorCode::None]);
        self.follower.table.get("t", partition).unwrap()
    }

    fn asked(&self) -> Vec<String> {
        std::mem::take(&mut *self.stand.asked.lock())
    }
}

fn append(partition: &Partition, count: i32) {
    partition.append_to_leader(&mut batch(count), Acks::All, client(-1, 1_000)).unwrap();
}

fn end(partition: &Partition) -> i64 {
    partition.log().unwrap().offsets().log_end.0
}

async fn until(what: &str, mut reached: impl FnMut() -> bool) {
    for _ in 0..100_000 {
        if reached() {
            return;
        }
        // Time stands still while anything can run; then it goes to the next timer.
        yield_now().await;
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    panic!("{what}: never");
}

#[tokio::test(start_paused = true)]
async fn records_come_over_and_the_leader_hears_of_it() {
    let both = both(TopicConfig::default(), |_| {});
    let (leader, follower) = (both.lead(0, 0), both.follow(0, 0));
    append(&leader, 3);
    until("committed", || leader.log().unwrap().offsets().high_watermark == Offset(3)).await;
    append(&leader, 2);
    until("committed", || leader.log().unwrap().offsets().high_watermark == Offset(5)).await;
    until("known to the follower", || follower.log().unwrap().offsets().high_watermark == Offset(5)).await;
    assert_eq!(batches(&follower.log().unwrap()), batches(&leader.log().unwrap()), "to the byte");
    assert_eq!(follower.log().unwrap().latest_epoch(), Some(LeaderEpoch(0)));
    assert_eq!(*both.stand.connections.lock(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_session_names_what_changed_and_forgets_what_went() {
    let both = both(TopicConfig::default(), |_| {});
    let leaders = [both.lead(0, 0), both.lead(1, 0)];
    append(&leaders[0], 3);
    let followers = [both.follow(0, 0), both.follow(1, 0)];
    until("a session under way", || end(&followers[0]) == 3 && both.stand.asked.lock().len() >= 3).await;
    assert_eq!(both.asked()[..3], ["0/0 0@0 1@0", "7/1 0@3", "7/2"]);
    assert_eq!(both.follower.table.stop_replica(leaders[1].topic_partition(), LeaderEpoch(0), false), ErrorCode::None);
    until("forgotten", || both.stand.asked.lock().iter().any(|asked| asked.ends_with(" -1"))).await;
    assert_eq!(both.fetchers.len(), 1);
    both.follower.table.stop_replica(leaders[0].topic_partition(), LeaderEpoch(0), true);
    assert!(both.fetchers.is_empty());
    let asked = both.asked().len();
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert!(both.asked().len() <= 1, "an idle fetcher ends, after {asked}");
}

#[tokio::test(start_paused = true)]
async fn after_a_cut_link_or_a_lost_session_everything_is_named_again() {
    let both = both(TopicConfig::default(), |_| {});
    let (leader, follower) = (both.lead(0, 0), both.follow(0, 0));
    until("a session", || both.stand.asked.lock().len() == 3).await;
    both.asked();
    *both.stand.cuts.lock() = true;
    until("cut", || !*both.stand.cuts.lock()).await;
    append(&leader, 1);
    until("caught up", || end(&follower) == 1).await;
    assert_eq!(both.asked()[0], "0/0 0@0");
    assert_eq!(*both.stand.connections.lock(), 2);
    *both.stand.refuses.lock() = Some(ErrorCode::FetchSessionIdNotFound);
    append(&leader, 1);
    until("caught up again", || end(&follower) == 2).await;
    assert!(both.asked().contains(&"0/0 0@1".to_owned()));
    assert_eq!(*both.stand.connections.lock(), 2, "the connection is the same");
}

#[tokio::test(start_paused = true)]
async fn a_tail_of_another_history_goes() {
    let both = both(TopicConfig::default(), |_| {});
    // Broker 2 led once and wrote what nobody else has.
    let alone = LeaderAndIsr { replicas: ids(&[1, 2]), is_new: true, ..change(2, 1, &[2]) };
    assert_eq!(both.follower.table.apply_leader_and_isr(&[alone]), [ErrorCode::None]);
    let follower = both.follower.table.get("t", 0).unwrap();
    follower.append_to_leader(&mut batch(4), Acks::Leader, client(-1, 1_000)).unwrap();
    let leader = both.lead(0, 0);
    append(&leader, 2);
    both.lead(0, 2);
    append(&leader, 1);
    both.follow(0, 2);
    until("the same log", || batches(&follower.log().unwrap()) == batches(&leader.log().unwrap())).await;
    assert_eq!(follower.log().unwrap().end_offset_for_epoch(LeaderEpoch(1)), Some((LeaderEpoch(0), Offset(2))));
}

#[tokio::test(start_paused = true)]
async fn a_follower_out_of_range_finds_its_way_back() {
    let both = both(TopicConfig { segment_bytes: 200, ..TopicConfig::default() }, |_| {});
    let leader = both.lead(0, 0);
    (0..10).for_each(|_| append(&leader, 1));
    leader.log().unwrap().set_high_watermark(Offset(10));
    leader.log().unwrap().raise_log_start(Offset(8));
    let follower = both.follow(0, 0);
    until("caught up", || end(&follower) == 10).await;
    assert_eq!(follower.log().unwrap().offsets().log_start, Offset(8));
    assert_eq!(both.asked()[..4], ["0/0 0@0", "-1 of 0", "-2 of 0", "7/1 0@8"]);
}

#[tokio::test(start_paused = true)]
async fn a_fenced_partition_waits_for_the_controllers_word_and_goes_on_with_it() {
    let both = both(TopicConfig::default(), |_| {});
    let leader = both.lead(0, 0);
    both.lead(0, 3);
    append(&leader, 1);
    let follower = both.follow(0, 2);
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(both.asked(), ["0/0 0@0", "7/1 -0"]);
    both.follow(0, 3);
    until("caught up", || end(&follower) == 1).await;
}

#[tokio::test(start_paused = true)]
async fn a_throttled_follower_gets_what_it_may_a_second_and_one_in_sync_all_of_it() {
    let throttled = ThrottledReplicas::Some([(0, BrokerId(2))].into());
    let both = both(TopicConfig { follower_throttled: throttled, ..TopicConfig::default() }, |config| {
        config.max_bytes = 1_000;
    });
    let out_of_sync = |index| LeaderAndIsr { isr: ids(&[1]), ..led(index, 0) };
    let changes = [out_of_sync(0), out_of_sync(1)];
    both.leader.table.apply_leader_and_isr(&changes);
    let at = |bench: &Bench, index| bench.table.get("t", index).unwrap();
    let (leader, free) = (at(&both.leader, 0), at(&both.leader, 1));
    (0..40).for_each(|_| [&leader, &free].into_iter().for_each(|it| append(it, 5)));
    both.quota.set_limit(1_000);
    let begun = tokio::time::Instant::now();
    both.follower.table.apply_leader_and_isr(&changes);
    let (follower, other) = (at(&both.follower, 0), at(&both.follower, 1));
    until("the other is there", || end(&other) == 200).await;
    // Alone from now on, so that nothing else has it asked again.
    both.follower.table.stop_replica(other.topic_partition(), LeaderEpoch(0), false);
    assert!(end(&follower) < 100, "{} records came at once", end(&follower));
    until("caught up", || end(&follower) == 200).await;
    let bytes = leader.log().unwrap().size() as f64;
    let per_second = bytes / begun.elapsed().as_secs_f64();
    assert!((500.0..=2_000.0).contains(&per_second), "{per_second} bytes a second");
    // It is in sync by now, and what it gets counts all the same.
    until("known to be in sync", || follower.log().unwrap().offsets().high_watermark == Offset(200)).await;
    both.quota.record(1_000_000, both.clock.monotonic_ms());
    assert!(both.quota.is_exceeded(both.clock.monotonic_ms()));
    append(&leader, 1);
    let begun = tokio::time::Instant::now();
    until("there", || end(&follower) == 201).await;
    assert!(begun.elapsed() < Duration::from_secs(2), "after {:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_number_of_fetchers_that_changes_moves_partitions_and_loses_nothing() {
    let both = both(TopicConfig::default(), |_| {});
    let leaders: Vec<_> = (0..6).map(|index| both.lead(index, 0)).collect();
    let followers: Vec<_> = (0..6).map(|index| both.follow(index, 0)).collect();
    for (expected, (fetchers, connections)) in (1..).zip([(1, 1), (3, 3), (3, 3), (2, 3), (0, 3)]) {
        both.fetchers.resize(fetchers);
        leaders.iter().for_each(|leader| append(leader, 1));
        until("caught up", || followers.iter().all(|follower| end(follower) == expected)).await;
        assert_eq!(both.fetchers.len(), 6);
        assert!(*both.stand.connections.lock() >= connections, "{fetchers} fetchers");
    }
    for (leader, follower) in leaders.iter().zip(&followers) {
        assert_eq!(batches(&follower.log().unwrap()), batches(&leader.log().unwrap()));
    }
}

#[tokio::test(start_paused = true)]
async fn before_3_1_and_without_ids_topics_are_named() {
    let both = both(TopicConfig::default(), |config| config.fetch_version = 12);
    let (leader, follower) = (both.lead(0, 0), both.follow(0, 0));
    append(&leader, 2);
    until("caught up", || end(&follower) == 2).await;
}

#[test]
fn partitions_are_spread_over_the_fetchers_as_kafka_spreads_them() {
    // abs(31 * "gold".hashCode() + 1), from jshell.
    assert_eq!(index_of(&TopicPartition::new("gold", 1), i32::MAX), 98_536_353);
    assert_eq!(index_of(&TopicPartition::new("gold", 1), 1), 0);
    assert_eq!(index_of(&TopicPartition::new("gold", 1), 0), 0);
}
