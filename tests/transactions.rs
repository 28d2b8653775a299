//! Transactions of whole brokers: committed, aborted, fenced, with offsets, through deaths of the broker at every step of a
//! commit and through a coordinator that moves.

use std::time::Duration;

use kafka_protocol::messages::add_partitions_to_txn_request::AddPartitionsToTxnTopic;
use kafka_protocol::messages::create_topics_request::CreatableTopic;
use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic};
use kafka_protocol::messages::offset_fetch_request::{OffsetFetchRequestGroup, OffsetFetchRequestTopics};
use kafka_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use kafka_protocol::messages::txn_offset_commit_request::{
    TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic,
};
use kafka_protocol::messages::*;
use klamm::sim::brokers::{SimBroker, World};
use klamm::sim::disk::SimDisk;
use klamm::wire::batch::{BatchBuilder, BatchOptions, Batches};
use klamm::wire::error_code::ErrorCode as E;

#[path = "support/sim_client.rs"]
mod sim_client;
#[path = "support/trio.rs"]
mod trio;
use sim_client::{Client, run, text};
use trio::Trio;

const ID: &str = "tx";
const GROUP: &str = "g";

type Producer = (i64, i16);

fn named(topic: &str) -> TopicName {
    TopicName(text(topic))
}

const SETTINGS: [&str; 4] = [
    "offsets.topic.num.partitions=1",
    "transaction.state.log.num.partitions=1",
    "group.initial.rebalance.delay.ms=0",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms=1000",
];

/// A broker with coordinators of both kinds that have loaded, and a topic of two partitions.
async fn start(world: &World, disk: Option<SimDisk>) -> (SimBroker, Client) {
    let settings: Vec<String> = SETTINGS.iter().map(|line| (*line).to_owned()).collect();
    let broker = world.start_alone(1, disk, &settings).expect("a configuration");
    let mut client = Client::connect(world, 1).await;
    for (key_type, key) in [(0, GROUP), (1, ID)] {
        find(&mut client, key_type, key).await;
    }
    let topic = CreatableTopic::default().with_name(named("t")).with_num_partitions(2).with_replication_factor(1);
    let request = CreateTopicsRequest::default().with_topics(vec![topic]).with_timeout_ms(5_000);
    let created = client.ask(7, request).await.topics[0].error_code;
    assert!([0, E::TopicAlreadyExists.code()].contains(&created));
    client.metadata_until(|metadata| metadata.topics.iter().any(|topic| is_led(topic, "t"))).await;
    (broker, client)
}

fn is_led(topic: &metadata_response::MetadataResponseTopic, name: &str) -> bool {
    let named = topic.name.as_ref().is_some_and(|known| known.as_str() == name);
    named && !topic.partitions.is_empty() && topic.partitions.iter().all(|partition| partition.leader_id.0 >= 0)
}

/// The coordinator's id.
async fn find(client: &mut Client, key_type: i8, key: &str) -> i32 {
    for _ in 0..10_000 {
        let request = FindCoordinatorRequest::default().with_key_type(key_type).with_key(text(key));
        let found = client.ask(3, request).await;
        if found.error_code == 0 {
            return found.node_id.0;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("there is no coordinator of {key}");
}

async fn stop(broker: SimBroker) {
    broker.stop().await.expect("no panic").expect("an orderly end");
}

/// What passes by itself.
fn passes(code: i16) -> bool {
    [E::ConcurrentTransactions, E::CoordinatorLoadInProgress, E::CoordinatorNotAvailable, E::NotCoordinator]
        .iter()
        .any(|passing| passing.code() == code)
}

/// Asks until the code is one that stays.
macro_rules! patiently {
    ($client:expr, $version:expr, $request:expr, $code:expr) => {{
        let mut answer = None;
        for _ in 0..10_000 {
            let told = $client.ask($version, $request).await;
            if !passes($code(&told)) {
                answer = Some(told);
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        answer.expect("an answer that stays")
    }};
}

fn init_request(timeout_ms: i32) -> InitProducerIdRequest {
    InitProducerIdRequest::default()
        .with_transactional_id(Some(TransactionalId(text(ID))))
        .with_transaction_timeout_ms(timeout_ms)
        .with_producer_id(ProducerId(-1))
        .with_producer_epoch(-1)
}

async fn init(client: &mut Client) -> Producer {
    init_for(client, 60_000).await
}

async fn init_for(client: &mut Client, timeout_ms: i32) -> Producer {
    let answer = patiently!(client, 4, init_request(timeout_ms), |answer: &InitProducerIdResponse| answer.error_code);
    assert_eq!(answer.error_code, 0);
    (answer.producer_id.0, answer.producer_epoch)
}

async fn add(client: &mut Client, (id, epoch): Producer, partitions: &[i32]) -> i16 {
    let topic = AddPartitionsToTxnTopic::default().with_name(named("t")).with_partitions(partitions.to_vec());
    let request = AddPartitionsToTxnRequest::default()
        .with_v3_and_below_transactional_id(TransactionalId(text(ID)))
        .with_v3_and_below_producer_id(ProducerId(id))
        .with_v3_and_below_producer_epoch(epoch)
        .with_v3_and_below_topics(vec![topic]);
    let code = |answer: &AddPartitionsToTxnResponse| {
        answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code
    };
    let answer = patiently!(client, 3, request.clone(), code);
    code(&answer)
}

async fn add_offsets(client: &mut Client, (id, epoch): Producer) -> i16 {
    let request = AddOffsetsToTxnRequest::default()
        .with_transactional_id(TransactionalId(text(ID)))
        .with_producer_id(ProducerId(id))
        .with_producer_epoch(epoch)
        .with_group_id(GroupId(text(GROUP)));
    patiently!(client, 3, request.clone(), |answer: &AddOffsetsToTxnResponse| answer.error_code).error_code
}

async fn commit_offset(client: &mut Client, (id, epoch): Producer, offset: i64) -> i16 {
    let at = TxnOffsetCommitRequestPartition::default().with_committed_offset(offset);
    let topic = TxnOffsetCommitRequestTopic::default().with_name(named("t")).with_partitions(vec![at]);
    let request = TxnOffsetCommitRequest::default()
        .with_transactional_id(TransactionalId(text(ID)))
        .with_group_id(GroupId(text(GROUP)))
        .with_producer_id(ProducerId(id))
        .with_producer_epoch(epoch)
        .with_topics(vec![topic]);
    let code = |answer: &TxnOffsetCommitResponse| answer.topics[0].partitions[0].error_code;
    let answer = patiently!(client, 3, request.clone(), code);
    code(&answer)
}

/// What is committed for `t-0`, -1 = nothing, or why that is not known.
async fn offset(client: &mut Client) -> Result<i64, i16> {
    let topic = OffsetFetchRequestTopics::default().with_name(named("t")).with_partition_indexes(vec![0]);
    let group = OffsetFetchRequestGroup::default().with_group_id(GroupId(text(GROUP))).with_topics(Some(vec![topic]));
    let request = OffsetFetchRequest::default().with_groups(vec![group]).with_require_stable(true);
    let answer = patiently!(client, 8, request.clone(), |answer: &OffsetFetchResponse| answer.groups[0].error_code);
    let partition = &answer.groups[0].topics[0].partitions[0];
    if partition.error_code != 0 { Err(partition.error_code) } else { Ok(partition.committed_offset) }
}

fn end_request((id, epoch): Producer, commit: bool) -> EndTxnRequest {
    EndTxnRequest::default()
        .with_transactional_id(TransactionalId(text(ID)))
        .with_producer_id(ProducerId(id))
        .with_producer_epoch(epoch)
        .with_committed(commit)
}

async fn end(client: &mut Client, producer: Producer, commit: bool) -> i16 {
    patiently!(client, 3, end_request(producer, commit), |answer: &EndTxnResponse| answer.error_code).error_code
}

/// Ends it, and asks until every leader has its marker.
async fn end_whole(client: &mut Client, producer: Producer, commit: bool) {
    assert_eq!(end(client, producer, commit).await, 0);
    assert_eq!(end(client, producer, commit).await, 0);
}

fn records((id, epoch): Producer, sequence: i32, value: &str) -> bytes::Bytes {
    let options = BatchOptions {
        producer_id: id,
        producer_epoch: epoch,
        base_sequence: sequence,
        transactional: true,
        ..BatchOptions::default()
    };
    let mut batch = BatchBuilder::new(options).expect("a batch");
    batch.append(1_700_000_000_000, None, Some(value.as_bytes()), &[]).expect("room");
    batch.finish().expect("a batch").into()
}

async fn produce(client: &mut Client, partition: i32, producer: Producer, sequence: i32, value: &str) -> i16 {
    let records = records(producer, sequence, value);
    let data = PartitionProduceData::default().with_index(partition).with_records(Some(records));
    let topic = TopicProduceData::default().with_name(named("t")).with_partition_data(vec![data]);
    let request = ProduceRequest::default()
        .with_transactional_id(Some(TransactionalId(text(ID))))
        .with_acks(-1)
        .with_timeout_ms(5_000)
        .with_topic_data(vec![topic]);
    client.ask(9, request).await.responses[0].partition_responses[0].error_code
}

/// What a read_committed reader is given of a partition, and whether it is given all there is.
async fn read(client: &mut Client, partition: i32) -> (Vec<String>, bool) {
    let at = FetchPartition::default().with_partition(partition).with_partition_max_bytes(1 << 20);
    let topic = FetchTopic::default().with_topic(named("t")).with_partitions(vec![at]);
    let request = FetchRequest::default().with_max_bytes(1 << 20).with_isolation_level(1).with_topics(vec![topic]);
    let answer = client.ask(12, request).await;
    let data = &answer.responses[0].partitions[0];
    assert_eq!(data.error_code, 0);
    let mut aborted: Vec<_> = data.aborted_transactions.clone().unwrap_or_default();
    aborted.sort_by_key(|transaction| transaction.first_offset);
    let (mut values, mut skipped) = (Vec::new(), Vec::new());
    for batch in Batches::new(&data.records.clone().unwrap_or_default()) {
        let batch = batch.expect("a batch").v2().expect("magic 2");
        let header = batch.header;
        while aborted.first().is_some_and(|first| first.first_offset <= header.last_offset().0) {
            skipped.push(aborted.remove(0).producer_id.0);
        }
        if header.is_control() {
            skipped.retain(|id| *id != header.producer_id);
        } else if !skipped.contains(&header.producer_id) {
            let value = |record: klamm::wire::batch::Record<'_>| record.value.expect("a value").to_vec();
            for record in batch.records() {
                values.push(String::from_utf8(value(record.expect("a record"))).expect("text"));
            }
        }
    }
    (values, data.last_stable_offset == data.high_watermark)
}

fn texts(of: &[&str]) -> (Vec<String>, bool) {
    (of.iter().map(|text| (*text).to_owned()).collect(), true)
}

#[test]
fn what_is_committed_is_read_and_what_is_aborted_is_not() {
    run(async {
        let world = World::new(1);
        let (broker, mut client) = start(&world, None).await;
        let producer = init(&mut client).await;
        assert_eq!(add(&mut client, producer, &[0, 1]).await, 0);
        for partition in [0, 1] {
            assert_eq!(produce(&mut client, partition, producer, 0, "kept").await, 0);
            assert_eq!(read(&mut client, partition).await, (vec![], false), "it is open");
        }
        end_whole(&mut client, producer, true).await;
        assert_eq!(add(&mut client, producer, &[0]).await, 0);
        assert_eq!(produce(&mut client, 0, producer, 1, "dropped").await, 0);
        end_whole(&mut client, producer, false).await;
        assert_eq!(add(&mut client, producer, &[0]).await, 0);
        assert_eq!(produce(&mut client, 0, producer, 2, "also kept").await, 0);
        end_whole(&mut client, producer, true).await;
        assert_eq!(read(&mut client, 0).await, texts(&["kept", "also kept"]));
        assert_eq!(read(&mut client, 1).await, texts(&["kept"]));
        stop(broker).await;
    });
}

#[test]
fn who_is_fenced_writes_nothing_and_ends_nothing() {
    run(async {
        let world = World::new(2);
        let (broker, mut client) = start(&world, None).await;
        let old = init(&mut client).await;
        assert_eq!(add(&mut client, old, &[0]).await, 0);
        assert_eq!(produce(&mut client, 0, old, 0, "a zombie's").await, 0);
        let new = init(&mut client).await;
        assert_eq!(new, (old.0, 2), "1 fenced the old one");
        assert_eq!(produce(&mut client, 0, old, 1, "late").await, E::InvalidProducerEpoch.code());
        assert_eq!(produce(&mut client, 1, old, 0, "elsewhere").await, E::InvalidProducerEpoch.code());
        assert_eq!(add(&mut client, old, &[0]).await, E::ProducerFenced.code());
        assert_eq!(end(&mut client, old, true).await, E::ProducerFenced.code());
        let told = client.ask(1, end_request(old, true)).await.error_code;
        assert_eq!(told, E::InvalidProducerEpoch.code(), "what older clients understand");
        assert_eq!(add(&mut client, new, &[0]).await, 0);
        assert_eq!(produce(&mut client, 0, new, 0, "the heir's").await, 0);
        end_whole(&mut client, new, true).await;
        assert_eq!(read(&mut client, 0).await, texts(&["the heir's"]));
        assert_eq!(read(&mut client, 1).await, texts(&[]));
        stop(broker).await;
    });
}

#[test]
fn offsets_count_with_their_transaction() {
    run(async {
        let world = World::new(3);
        let (broker, mut client) = start(&world, None).await;
        let producer = init(&mut client).await;
        assert_eq!(commit_offset(&mut client, producer, 1).await, E::InvalidTxnState.code(), "the group is not in it");
        for (value, commits, after) in [(5, true, 5), (9, false, 5)] {
            assert_eq!(add_offsets(&mut client, producer).await, 0);
            assert_eq!(commit_offset(&mut client, producer, value).await, 0);
            assert_eq!(offset(&mut client).await, Err(E::UnstableOffsetCommit.code()));
            end_whole(&mut client, producer, commits).await;
            assert_eq!(offset(&mut client).await, Ok(after));
        }
        let disk = broker.disk.clone();
        drop(client);
        stop(broker).await;
        let (broker, mut client) = start(&world, Some(disk)).await;
        assert_eq!(offset(&mut client).await, Ok(5), "from the log");
        stop(broker).await;
    });
}

/// Foreign ids, epochs from the past and the future, partitions never added: Kafka's error, and nothing stays open.
#[test]
fn bad_input_leaves_no_partition_stuck() {
    run(async {
        let world = World::new(4);
        let (broker, mut client) = start(&world, None).await;
        let (id, epoch) = init(&mut client).await;
        assert_eq!(produce(&mut client, 0, (id, epoch), 0, "never added").await, E::InvalidTxnState.code());
        assert_eq!(produce(&mut client, 0, (id + 1, 0), 0, "foreign").await, E::InvalidProducerIdMapping.code());
        assert_eq!(add(&mut client, (id, epoch + 1), &[0]).await, E::ProducerFenced.code());
        assert_eq!(add(&mut client, (id, epoch), &[7]).await, E::UnknownTopicOrPartition.code());
        assert_eq!(end(&mut client, (id, epoch), true).await, E::InvalidTxnState.code());
        assert_eq!(add(&mut client, (id, epoch), &[0]).await, 0);
        assert_eq!(produce(&mut client, 0, (id, epoch), 0, "one").await, 0);
        // Into the open transaction, in an epoch of the future: its marker could never be written after that.
        assert_eq!(produce(&mut client, 0, (id, epoch + 5), 0, "future").await, E::InvalidProducerEpoch.code());
        for timeout in [0, -1, 900_001, i32::MAX] {
            let code = client.ask(4, init_request(timeout)).await.error_code;
            assert_eq!(code, E::InvalidTransactionTimeout.code());
        }
        end_whole(&mut client, (id, epoch), true).await;
        assert_eq!(read(&mut client, 0).await, texts(&["one"]));
        stop(broker).await;
    });
}

#[test]
fn a_producer_that_is_silent_for_too_long_holds_nobody_up() {
    run(async {
        let world = World::new(5);
        let (broker, mut client) = start(&world, None).await;
        let producer = init_for(&mut client, 5_000).await;
        assert_eq!(add(&mut client, producer, &[0]).await, 0);
        assert_eq!(add_offsets(&mut client, producer).await, 0);
        assert_eq!(produce(&mut client, 0, producer, 0, "lost").await, 0);
        assert_eq!(commit_offset(&mut client, producer, 7).await, 0);
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert_eq!(read(&mut client, 0).await, texts(&[]));
        assert_eq!(offset(&mut client).await, Ok(-1));
        assert_eq!(end(&mut client, producer, true).await, E::ProducerFenced.code());
        stop(broker).await;
    });
}

/// A broker is killed after each step of a commit; the next one ends the transaction, all of it or nothing.
#[test]
fn a_kill_at_any_step_leaves_all_or_nothing() {
    for step in 0..6 {
        run(async move {
            let world = World::new(10 + step);
            let (broker, mut client) = start(&world, None).await;
            let producer = init(&mut client).await;
            for at in 0..step {
                match at {
                    0 => assert_eq!(add(&mut client, producer, &[0, 1]).await, 0),
                    1 => assert_eq!(produce(&mut client, 0, producer, 0, "a").await, 0),
                    2 => assert_eq!(produce(&mut client, 1, producer, 0, "b").await, 0),
                    3 => {
                        assert_eq!(add_offsets(&mut client, producer).await, 0);
                        assert_eq!(commit_offset(&mut client, producer, 3).await, 0);
                    }
                    _ => assert_eq!(client.ask(3, end_request(producer, true)).await.error_code, 0),
                }
            }
            drop(client);
            let remains = broker.kill().await;
            let (broker, mut client) = start(&world, Some(remains.disk)).await;
            let decided = step == 5;
            // A successor waits until what was begun has ended.
            let (id, epoch) = init(&mut client).await;
            assert_eq!(id, producer.0);
            assert!(epoch > producer.1);
            let (first, second) = (read(&mut client, 0).await, read(&mut client, 1).await);
            let expected = if decided { (texts(&["a"]), texts(&["b"])) } else { (texts(&[]), texts(&[])) };
            assert_eq!((first, second), expected, "killed after step {step}");
            assert_eq!(offset(&mut client).await, Ok(if decided { 3 } else { -1 }), "killed after step {step}");
            stop(broker).await;
        });
    }
}

/// Of three brokers the one that coordinates dies while a transaction is open, and again when it is decided: the next goes on.
#[test]
fn a_coordinator_that_dies_is_succeeded() {
    for decided in [false, true] {
        trio::run(async move {
            let mut all: Vec<&str> = SETTINGS.to_vec();
            all.extend(["transaction.state.log.replication.factor=3", "offsets.topic.replication.factor=3"]);
            all.push("zookeeper.session.timeout.ms=6000");
            let mut trio = Trio::start(20 + i64::from(decided) as u64, &all).await;
            trio.create("t", 2).await;
            let coordinator = find(trio.client(1), 1, ID).await;
            find(trio.client(1), 0, GROUP).await;
            let led = |metadata: &MetadataResponse| metadata.topics.iter().any(|topic| is_led(topic, "t"));
            for id in 1..=3 {
                trio.client(id).metadata_until(led).await;
            }
            let producer = init(trio.client(coordinator)).await;
            assert_eq!(add(trio.client(coordinator), producer, &[0, 1]).await, 0);
            for partition in [0, 1] {
                let leader = leader_of(trio.client(coordinator), partition).await;
                assert_eq!(produce(trio.client(leader), partition, producer, 0, "x").await, 0);
            }
            if decided {
                assert_eq!(trio.client(coordinator).ask(3, end_request(producer, true)).await.error_code, 0);
            }
            let survivor = (1..=3).find(|id| *id != coordinator).expect("another");
            let dead = trio.brokers.remove(&coordinator).expect("it");
            drop(dead.kill().await);
            let next = loop {
                let found = find(trio.client(survivor), 1, ID).await;
                if found != coordinator {
                    break found;
                }
                tokio::time::sleep(Duration::from_millis(100)).await;
            };
            assert_eq!(end(trio.client(next), producer, true).await, 0);
            assert_eq!(end(trio.client(next), producer, true).await, 0, "complete");
            for partition in [0, 1] {
                let leader = loop {
                    let leader = leader_of(trio.client(survivor), partition).await;
                    if leader != coordinator && leader >= 0 {
                        break leader;
                    }
                    tokio::time::sleep(Duration::from_millis(100)).await;
                };
                assert_eq!(read(trio.client(leader), partition).await, texts(&["x"]));
            }
            trio.stop().await;
        });
    }
}

async fn leader_of(client: &mut Client, partition: i32) -> i32 {
    let metadata = client.metadata().await;
    let topic = metadata.topics.iter().find(|topic| topic.name.as_ref().is_some_and(|name| name.as_str() == "t"));
    let partitions = topic.map_or(&[][..], |topic| topic.partitions.as_slice());
    partitions.iter().find(|one| one.partition_index == partition).map_or(-1, |one| one.leader_id.0)
}
