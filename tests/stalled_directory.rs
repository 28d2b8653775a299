//! A log directory whose writes stand still costs no session and no other directory's in-sync replicas.

#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use kafka_protocol::messages::create_topics_request::{
    CreatableReplicaAssignment, CreatableTopic, CreatableTopicConfig,
};
use kafka_protocol::messages::delete_topics_request::DeleteTopicState;
use kafka_protocol::messages::incremental_alter_configs_request::{AlterConfigsResource, AlterableConfig};
use kafka_protocol::messages::leader_and_isr_request::{LeaderAndIsrPartitionState, LeaderAndIsrTopicState};
use kafka_protocol::messages::metadata_response::MetadataResponseTopic;
use kafka_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use kafka_protocol::messages::*;
use kafka_protocol::protocol::StrBytes;
use klamm::broker::{self, Store};
use klamm::metastore::Sessions;
use klamm::metastore::schema::{PartitionState, paths};
use klamm::metastore::zookeeper::{ZooKeeper, ZooKeeperConfig};
use klamm::sim::brokers::{Inline, SimBroker, World};
use klamm::sim::disk::SimDisk;
use klamm::spawn::{Shutdown, ShutdownTrigger, Spawner, Threads};
use klamm::storage::disk::Disk;
use klamm::types::BrokerId as Id;
use klamm::wire::batch::{BatchBuilder, BatchOptions};

#[path = "support/sim_client.rs"]
mod sim_client;
#[path = "support/zookeeper.rs"]
mod zookeeper;
use sim_client::Client;
use zookeeper::Server;

const SESSION_MS: u32 = 6_000;
const SETTINGS: [&str; 3] =
    ["replica.lag.time.max.ms=3000", "auto.leader.rebalance.enable=false", "group.initial.rebalance.delay.ms=0"];

fn ensemble(server: &Server, spawner: Arc<dyn Spawner>) -> Arc<ZooKeeper> {
    let config = ZooKeeperConfig {
        connect: server.address(),
        session_timeout_ms: SESSION_MS,
        connection_timeout_ms: 60_000,
        max_in_flight_requests: 10,
        login: None,
    };
    Arc::new(ZooKeeper::new(config, spawner).unwrap())
}

/// A topic of one partition, led by the first of `replicas`.
async fn create(client: &mut Client, name: &'static str, replicas: &[i32]) {
    create_with(client, name, replicas, &[]).await;
}

async fn create_with(
    client: &mut Client,
    name: &'static str,
    replicas: &[i32],
    configs: &[(&'static str, &'static str)],
) {
    let config = |(key, value): &(&'static str, &'static str)| {
        CreatableTopicConfig::default()
            .with_name(StrBytes::from_static_str(key))
            .with_value(Some(StrBytes::from_static_str(value)))
    };
    let ids = replicas.iter().map(|id| BrokerId(*id)).collect();
    let topic = CreatableTopic::default()
        .with_name(TopicName(StrBytes::from_static_str(name)))
        .with_num_partitions(-1)
        .with_replication_factor(-1)
        .with_assignments(vec![CreatableReplicaAssignment::default().with_broker_ids(ids)])
        .with_configs(configs.iter().map(config).collect());
    let request = CreateTopicsRequest::default().with_topics(vec![topic]).with_timeout_ms(60_000);
    let answer = client.ask(7, request).await;
    assert_eq!(answer.topics[0].error_code, 0, "{:?}", answer.topics[0].error_message);
}

fn named<'t>(told: &'t MetadataResponse, name: &str) -> Option<&'t MetadataResponseTopic> {
    told.topics.iter().find(|topic| topic.name.as_ref().is_some_and(|it| it.as_str() == name))
}

/// Until broker 1 leads the topic.
async fn written(client: &mut Client, topic: &'static str) {
    for _ in 0..600 {
        match client.try_produce(topic, b"led").await {
            Ok(_) => return,
            Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    }
    panic!("{topic} is not led");
}

/// What a controller of epoch 100 says: broker 1 leads `topic` alone, in this leader epoch.
fn leads(topic: &'static str, epoch: i32) -> LeaderAndIsrRequest {
    let partition = LeaderAndIsrPartitionState::default()
        .with_controller_epoch(100)
        .with_leader(BrokerId(1))
        .with_leader_epoch(epoch)
        .with_isr(vec![BrokerId(1)])
        .with_partition_epoch(epoch)
        .with_replicas(vec![BrokerId(1), BrokerId(2)]);
    let topic = LeaderAndIsrTopicState::default()
        .with_topic_name(TopicName(StrBytes::from_static_str(topic)))
        .with_partition_states(vec![partition]);
    LeaderAndIsrRequest::default()
        .with_controller_id(BrokerId(2))
        .with_controller_epoch(100)
        .with_broker_epoch(-1)
        .with_topic_states(vec![topic])
}

fn describes_producers(topic: &'static str) -> DescribeProducersRequest {
    let topic = describe_producers_request::TopicRequest::default()
        .with_name(TopicName(StrBytes::from_static_str(topic)))
        .with_partition_indexes(vec![0]);
    DescribeProducersRequest::default().with_topics(vec![topic])
}

/// All that the first partition holds below offset 1.
fn deletes_records(topic: &'static str) -> DeleteRecordsRequest {
    let partition = delete_records_request::DeleteRecordsPartition::default().with_offset(1);
    let topic = delete_records_request::DeleteRecordsTopic::default()
        .with_name(TopicName(StrBytes::from_static_str(topic)))
        .with_partitions(vec![partition]);
    DeleteRecordsRequest::default().with_topics(vec![topic]).with_timeout_ms(60_000)
}

fn lists_the_end(topic: &'static str) -> ListOffsetsRequest {
    let partition = list_offsets_request::ListOffsetsPartition::default().with_timestamp(-1);
    let topic = list_offsets_request::ListOffsetsTopic::default()
        .with_name(TopicName(StrBytes::from_static_str(topic)))
        .with_partitions(vec![partition]);
    ListOffsetsRequest::default().with_replica_id(BrokerId(-1)).with_topics(vec![topic])
}

/// Runs broker 1 on threads of its own, with two log directories.
fn on_threads(
    world: &World,
    server: &Server,
    disk: &SimDisk,
    more: &[&str],
    shutdown: Shutdown,
) -> thread::JoinHandle<()> {
    let control = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let halt = Arc::new(|text: &str| panic!("{text}"));
    let threads = Arc::new(Threads::start(control.handle().clone(), 2, true, 10, halt).unwrap());
    let mut overrides = SETTINGS.map(str::to_owned).to_vec();
    overrides.push("log.dirs=/broker1/one,/broker1/two".to_owned());
    overrides.push("controlled.shutdown.enable=false".to_owned());
    overrides.extend(more.iter().map(|&text| text.to_owned()));
    let store = Store::Sessions(ensemble(server, threads.clone()));
    let parts = world.parts(store, 1, disk, &overrides, threads.clone(), shutdown).unwrap();
    thread::spawn(move || {
        control.block_on(broker::run(parts)).unwrap();
        drop(control);
        // As the program itself does: whoever holds them yet ends with the process.
        if let Some(threads) = Arc::into_inner(threads) {
            threads.stop();
        }
    })
}

/// Broker 1 over two log directories, which is the controller, and broker 2 on the test's thread. They know each other.
struct Pair {
    world: World,
    disk: SimDisk,
    stop: ShutdownTrigger,
    first: thread::JoinHandle<()>,
    second: SimBroker,
    client: Client,
}

impl Pair {
    async fn start(server: &Server) -> Pair {
        Pair::start_with(server, &[]).await
    }

    /// With more settings of broker 1.
    async fn start_with(server: &Server, more: &[&str]) -> Pair {
        let world = World::new(1);
        let disk = SimDisk::new(world.clock.clone());
        let (stop, shutdown) = Shutdown::new();
        let first = on_threads(&world, server, &disk, more, shutdown);
        let mut client = Client::connect(&world, 1).await;
        client.metadata_until(|told| told.controller_id == 1).await;
        let store = Store::Sessions(ensemble(server, Arc::new(Inline)));
        let second = world.start_with(store, 2, None, &SETTINGS.map(str::to_owned)).unwrap();
        Client::connect(&world, 2).await.metadata_until(|told| told.brokers.len() == 2).await;
        client.metadata_until(|told| told.brokers.len() == 2).await;
        Pair { world, disk, stop, first, second, client }
    }
}

/// One of several connections to broker 1. All are answered: none stays on the thread of the append that will not end.
async fn on_a_thread_that_goes_on(world: &World) -> Client {
    let mut clients = Vec::new();
    for _ in 0..6 {
        let mut client = Client::connect(world, 1).await;
        let answer = tokio::time::timeout(Duration::from_secs(60), client.metadata()).await;
        answer.expect("a thread that stands still gets no connection while another one goes on");
        clients.push(client);
    }
    clients.pop().unwrap()
}

/// The log directory of broker 1 that has the topic.
fn lies(disk: &SimDisk, topic: &str) -> &'static str {
    lies_in(disk, topic).unwrap()
}

fn lies_in(disk: &SimDisk, topic: &str) -> Option<&'static str> {
    let holds = |dir: &&str| disk.list(Path::new(dir)).unwrap().iter().any(|it| it.name == format!("{topic}-0"));
    ["/broker1/one", "/broker1/two"].into_iter().find(holds)
}

#[tokio::test]
async fn a_directory_that_stands_still_costs_no_session_and_no_other_directorys_isr() {
    let Some(server) = Server::start().await else { return };
    let Pair { world, disk, stop, first, second, mut client } = Pair::start(&server).await;
    // Each goes where there are fewest. Broker 1 leads one in each directory, and follows in the second.
    for (topic, replicas) in [("a", [1, 2]), ("b", [1, 2]), ("beside-a", [1, 2]), ("c", [2, 1])] {
        create(&mut client, topic, &replicas).await;
    }
    let whole = |told: &MetadataResponse| {
        told.topics.len() == 4 && told.topics.iter().all(|topic| topic.partitions[0].isr_nodes.len() == 2)
    };
    let told = client.metadata_until(whole).await;
    let a = named(&told, "a").unwrap().topic_id;
    let (stalled, healthy) = (lies(&disk, "a"), lies(&disk, "b"));
    assert_ne!(stalled, healthy);
    assert_eq!(lies(&disk, "c"), healthy);
    for topic in ["a", "b"] {
        client.produce(topic, b"before").await;
    }
    let observer = ensemble(&server, Arc::new(Inline)).open_session().await.unwrap();
    let registered = observer.exists(&paths::broker(Id(1))).await.unwrap().unwrap().czxid;

    disk.stall(Path::new(stalled));
    let append = tokio::spawn(async move {
        let outcome = client.try_produce("a", b"held up").await;
        (client, outcome)
    });
    // Before that its thread would answer others too, and never again.
    let (told, file) = (disk.clone(), Path::new(stalled).join("a-0/00000000000000000000.log"));
    tokio::task::spawn_blocking(move || told.until_a_write_waits(&file)).await.unwrap();
    let mut writer = on_a_thread_that_goes_on(&world).await;
    // Of another broker it was reported that who reads from a slow disk is told of a time that is out, for which consumers have
    // no answer. What is committed is read all the same, and behind it nothing is found in time.
    for (offset, found) in [(0, vec![b"before".to_vec()]), (1, Vec::new())] {
        assert_eq!(writer.fetch_from(a, offset, 500).await, Ok(found));
    }
    // For longer than the session and twice the lag: what is written to the other directory is in both replicas.
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(9) {
        writer.produce("b", b"meanwhile").await;
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(!append.is_finished(), "the directory stands still");
    let path = paths::partition_state("b", 0);
    let state = PartitionState::decode(&path, &observer.get(&path).await.unwrap().0).unwrap();
    assert_eq!((state.isr.len(), state.leader_epoch.0), (2, 0), "nobody left the ISR, not even for a while");
    assert_eq!(observer.exists(&paths::broker(Id(1))).await.unwrap().map(|stat| stat.czxid), Some(registered));

    // A new log goes where there are fewest, and cannot be made there. The controller has more to say meanwhile.
    for topic in ["d", "e"] {
        create(&mut writer, topic, &[1]).await;
    }
    written(&mut writer, "e").await;
    assert_eq!(lies(&disk, "e"), healthy);

    // The other broker goes: broker 1 is told of the stalled partition and of the one it is to lead in one request.
    second.stop().await.unwrap().unwrap();
    written(&mut writer, "c").await;
    assert!(!append.is_finished(), "the directory stands still");
    // A later controller has a word for each directory: one is obeyed, the other will be.
    let mut held_up = Client::connect(&world, 1).await;
    held_up.send(4, leads("a", 10)).await;
    let mut at_once = Client::connect(&world, 1).await;
    let answer = tokio::time::timeout(Duration::from_secs(60), at_once.ask(4, leads("b", 10))).await;
    assert_eq!(answer.expect("it waits for no other directory").partition_errors[0].error_code, 0);
    let answer = tokio::time::timeout(Duration::from_secs(60), held_up.answer::<LeaderAndIsrRequest>(4)).await;
    assert_eq!(
        answer.expect("no disk is waited for without an end").partition_errors[0].error_code,
        7,
        "REQUEST_TIMED_OUT"
    );
    // That change of role waits for the append, and nobody for the change. Who needs what the append holds waits without
    // the thread, which is the writer's too.
    let mut describer = Client::connect(&world, 1).await;
    describer.send(0, describes_producers("a")).await;
    let mut deleter = Client::connect(&world, 1).await;
    deleter.send(2, deletes_records("a")).await;
    let asked = async {
        assert_eq!(writer.fetch_from(a, 0, 500).await, Ok(vec![b"before".to_vec()]));
        let listed = writer.ask(7, lists_the_end("a")).await;
        assert_eq!((listed.topics[0].partitions[0].error_code, listed.topics[0].partitions[0].offset), (0, 1));
        writer.produce("b", b"beside").await;
    };
    let asked = tokio::time::timeout(Duration::from_secs(60), asked).await;
    asked.expect("a thread waits for a directory that stands still");
    assert!(!append.is_finished(), "the directory stands still");
    disk.go_on();
    written(&mut writer, "d").await;
    assert_eq!(lies(&disk, "d"), stalled);
    let (client, outcome) = append.await.unwrap();
    outcome.unwrap();
    let described = describer.answer::<DescribeProducersRequest>(0).await;
    assert_eq!(described.topics[0].partitions[0].error_code, 0);
    let deleted = deleter.answer::<DeleteRecordsRequest>(2).await;
    assert_eq!((deleted.topics[0].partitions[0].error_code, deleted.topics[0].partitions[0].low_watermark), (0, 1));
    drop((client, writer, held_up, at_once, describer, deleter));
    stop.request();
    tokio::task::spawn_blocking(|| first.join().unwrap()).await.unwrap();
}

/// Retention holds the append lock of a log and waits for its directory, the next leader epoch of the partition for the append
/// lock, and who writes to it for the epoch, without a thread: what else the threads serve goes on, and the record is
/// appended once the epoch has begun.
#[tokio::test]
async fn who_writes_while_a_leader_epoch_begins_is_answered_when_it_has_begun() {
    let Some(server) = Server::start().await else { return };
    let often = ["log.initial.task.delay.ms=0", "log.retention.check.interval.ms=100"];
    let Pair { world, disk, stop, first, second, mut client } = Pair::start_with(&server, &often).await;
    // Whoever is answered has its record synced: there is nothing else to do later.
    for topic in ["a", "b"] {
        create_with(&mut client, topic, &[1], &[("flush.messages", "1")]).await;
    }
    written(&mut client, "a").await;
    written(&mut client, "b").await;
    let (stalled, healthy) = (lies(&disk, "a"), lies(&disk, "b"));
    assert_ne!(stalled, healthy);
    let a = named(&client.metadata().await, "a").unwrap().topic_id;
    disk.stall(Path::new(stalled));
    expire(&mut client).await;
    let (told, log) = (disk.clone(), Path::new(stalled).join("a-0"));
    tokio::task::spawn_blocking(move || told.until_something_waits(&log)).await.unwrap();
    let mut controller = Client::connect(&world, 1).await;
    let answer = tokio::time::timeout(Duration::from_secs(60), controller.ask(4, leads("a", 10))).await;
    assert_eq!(answer.unwrap().partition_errors[0].error_code, 7, "REQUEST_TIMED_OUT");

    let writing = tokio::spawn({
        let mut writer = Client::connect(&world, 1).await;
        async move { writer.ask(9, produces("a", b"waits")).await.responses[0].partition_responses[0].clone() }
    });
    // On every thread, and after the writer's: each takes the next connection in turn.
    for _ in 0..4 {
        let mut other = Client::connect(&world, 1).await;
        let asked = async {
            assert_eq!(other.fetch_from(a, 0, 0).await, Ok(vec![b"led".to_vec()]));
            other.produce("b", b"meanwhile").await;
        };
        tokio::time::timeout(Duration::from_secs(60), asked)
            .await
            .expect("a thread waits for a directory that stands still");
    }
    assert!(!writing.is_finished(), "the epoch has not begun");
    disk.go_on();
    let written = writing.await.unwrap();
    assert_eq!((written.error_code, written.base_offset), (0, 1));
    drop((client, controller));
    second.stop().await.unwrap().unwrap();
    stop.request();
    tokio::task::spawn_blocking(|| first.join().unwrap()).await.unwrap();
}

/// Of the topic `a`.
async fn expire(client: &mut Client) {
    let config = AlterableConfig::default()
        .with_name(StrBytes::from_static_str("retention.ms"))
        .with_value(Some(StrBytes::from_static_str("1")));
    let resource = AlterConfigsResource::default()
        .with_resource_type(2)
        .with_resource_name(StrBytes::from_static_str("a"))
        .with_configs(vec![config]);
    let altered = client.ask(1, IncrementalAlterConfigsRequest::default().with_resources(vec![resource])).await;
    assert_eq!(altered.responses[0].error_code, 0);
}

/// With as much time as a test has.
fn produces(topic: &'static str, value: &[u8]) -> ProduceRequest {
    let mut batch = BatchBuilder::new(BatchOptions::default()).unwrap();
    batch.append(1_700_000_000_000, None, Some(value), &[]).unwrap();
    let data = PartitionProduceData::default().with_records(Some(batch.finish().unwrap().into()));
    let topic = TopicProduceData::default()
        .with_name(TopicName(StrBytes::from_static_str(topic)))
        .with_partition_data(vec![data]);
    ProduceRequest::default().with_acks(-1).with_timeout_ms(120_000).with_topic_data(vec![topic])
}

/// A topic whose log cannot be deleted is gone for everybody, holds nothing up, and does not come back; the next one of its
/// name has nothing of it.
#[tokio::test]
async fn a_topic_in_a_directory_that_stands_still_is_deleted() {
    let Some(server) = Server::start().await else { return };
    let Pair { world, disk, stop, first, second, mut client } = Pair::start(&server).await;
    for topic in ["a", "b"] {
        create(&mut client, topic, &[1, 2]).await;
        written(&mut client, topic).await;
    }
    let (stalled, healthy) = (lies(&disk, "a"), lies(&disk, "b"));
    assert_ne!(stalled, healthy);
    disk.stall(Path::new(stalled));
    let append = tokio::spawn(async move {
        // What comes of it is nobody's business: its topic is deleted meanwhile.
        let _ = client.try_produce("a", b"held up").await;
        client
    });
    let (told, file) = (disk.clone(), Path::new(stalled).join("a-0/00000000000000000000.log"));
    tokio::task::spawn_blocking(move || told.until_a_write_waits(&file)).await.unwrap();
    let mut writer = on_a_thread_that_goes_on(&world).await;
    let request = DeleteTopicsRequest::default()
        .with_topics(vec![DeleteTopicState::default().with_name(Some(TopicName(StrBytes::from_static_str("a"))))])
        .with_timeout_ms(60_000);
    assert_eq!(writer.ask(6, request).await.responses[0].error_code, 0);
    let observer = ensemble(&server, Arc::new(Inline)).open_session().await.unwrap();
    let gone = async {
        while observer.exists(&paths::topic("a")).await.unwrap().is_some() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let gone = tokio::time::timeout(Duration::from_secs(60), gone).await;
    gone.expect("a deletion waits for a disk");
    assert!(!append.is_finished(), "the directory stands still");
    // As another process would find it, were this one killed now.
    let promised = disk.fork();

    // The controller has more to say, and broker 1 obeys. Of two more one goes where there are fewest, which is on hold.
    for topic in ["c", "d"] {
        create(&mut writer, topic, &[1]).await;
    }
    let beside = async {
        loop {
            match ["c", "d"].into_iter().find(|topic| lies_in(&disk, topic) == Some(healthy)) {
                Some(topic) => return topic,
                None => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        }
    };
    let beside = tokio::time::timeout(Duration::from_secs(60), beside).await;
    written(&mut writer, beside.expect("the controller waits for a disk")).await;
    // The next topic of that name is led by nobody before the last one is gone.
    create(&mut writer, "a", &[1, 2]).await;
    writer.produce("b", b"meanwhile").await;
    let early = tokio::time::timeout(Duration::from_secs(60), writer.try_produce("a", b"too early")).await;
    assert!(early.expect("an answer").is_err());
    assert!(!append.is_finished(), "the directory stands still");
    disk.go_on();
    let client = append.await.unwrap();
    written(&mut writer, "a").await;
    let topics = writer.metadata().await.topics;
    let again = topics.iter().find(|topic| topic.name.as_ref().is_some_and(|it| it.as_str() == "a")).unwrap();
    let id = again.topic_id;
    assert_eq!(writer.fetch(id).await, [b"led"]);
    drop((client, writer));
    stop.request();
    tokio::task::spawn_blocking(|| first.join().unwrap()).await.unwrap();
    is_kept_aside(&world, &server, promised, stalled, id).await;
    second.stop().await.unwrap().unwrap();
}

/// Broker 1 was killed between the promise and the deletion: it finds the replica of a topic that is no more. A Kafka 3.9.1
/// keeps what no topic of its ZooKeeper claims, and serves it to nobody; one of the same name it cannot host then. Here that
/// one is made beside it, and has nothing of it.
async fn is_kept_aside(world: &World, server: &Server, promised: SimDisk, dir: &'static str, id: uuid::Uuid) {
    let strays = |disk: &SimDisk| -> Vec<String> {
        let names = disk.list(Path::new(dir)).unwrap().into_iter().map(|entry| entry.name);
        names.filter(|name| name.starts_with("a-0.") && name.ends_with("-stray")).collect()
    };
    assert_eq!((lies_in(&promised, "a"), strays(&promised).len()), (Some(dir), 0));
    let mut settings = SETTINGS.map(str::to_owned).to_vec();
    settings.push("log.dirs=/broker1/one,/broker1/two".to_owned());
    let mut kept = None;
    // Nothing changes with the next start.
    for _ in 0..2 {
        let store = Store::Sessions(ensemble(server, Arc::new(Inline)));
        let first = world.start_with(store, 1, Some(promised.clone()), &settings).unwrap();
        let mut client = Client::connect(world, 1).await;
        let whole = |told: &MetadataResponse| named(told, "a").is_some_and(|a| a.partitions[0].isr_nodes.len() == 2);
        assert_eq!(named(&client.metadata_until(whole).await, "a").unwrap().topic_id, id);
        let mut leader = Client::connect(world, 2).await;
        assert_eq!(leader.fetch(id).await, [b"led"]);
        let names = strays(&promised);
        assert_eq!(names.len(), 1);
        assert_eq!(*kept.get_or_insert(names.clone()), names);
        drop((client, leader));
        first.stop().await.unwrap().unwrap();
    }
}

/// As in the first, but broker 1 follows.
#[tokio::test]
async fn a_follower_whose_directory_stands_still_leaves_no_other_directorys_isr() {
    let Some(server) = Server::start().await else { return };
    let Pair { world, disk, stop, first, second, mut client } = Pair::start(&server).await;
    let mut leader = Client::connect(&world, 2).await;
    for topic in ["a", "b"] {
        create(&mut client, topic, &[2, 1]).await;
    }
    let members =
        |told: &MetadataResponse, name| named(told, name).map_or(0, |topic| topic.partitions[0].isr_nodes.len());
    leader.metadata_until(|told| members(told, "a") == 2 && members(told, "b") == 2).await;
    let (stalled, healthy) = (lies(&disk, "a"), lies(&disk, "b"));
    assert_ne!(stalled, healthy);
    for topic in ["a", "b"] {
        leader.produce(topic, b"before").await;
    }

    disk.stall(Path::new(stalled));
    let held_up = tokio::spawn({
        let mut writer = Client::connect(&world, 2).await;
        async move { writer.try_produce("a", b"held up").await }
    });
    // Until the leader no longer counts on it: for as long the follower's thread has been standing still.
    while members(&leader.metadata().await, "a") == 2 {
        leader.produce("b", b"meanwhile").await;
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    // It may have been given up before.
    let _ = held_up.await.unwrap();
    let observer = ensemble(&server, Arc::new(Inline)).open_session().await.unwrap();
    let state = |topic: &'static str| {
        let observer = &observer;
        async move {
            let path = paths::partition_state(topic, 0);
            PartitionState::decode(&path, &observer.get(&path).await.unwrap().0).unwrap()
        }
    };
    let b = state("b").await;
    assert_eq!((b.isr.len(), b.leader_epoch.0), (2, 0), "nobody left the ISR, not even for a while");
    // No client of broker 1 waits: what is fetched is on no thread of theirs.
    for _ in 0..4 {
        Client::connect(&world, 1).await.metadata().await;
    }
    // What the timer does goes on where it can: what is committed is noted, for all that it cannot be noted beside.
    let noted = format!("b 0 {}", leader.produce("b", b"to be noted").await + 1);
    let checkpoint = Path::new(healthy).join("replication-offset-checkpoint");
    let says = || disk.tree().get(&checkpoint).map(|text| String::from_utf8_lossy(text).into_owned());
    while !says().is_some_and(|text| text.lines().any(|line| line == noted)) {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    disk.go_on();
    leader.metadata_until(|told| members(told, "a") == 2).await;
    drop((client, leader));
    second.stop().await.unwrap().unwrap();
    stop.request();
    tokio::task::spawn_blocking(|| first.join().unwrap()).await.unwrap();
}
