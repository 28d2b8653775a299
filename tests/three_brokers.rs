//! Three whole brokers in one current-thread runtime, over in-memory streams, disks and tree.

use std::collections::HashSet;
use std::time::Duration;

use kafka_protocol::messages::alter_partition_request::TopicData;
use kafka_protocol::messages::alter_user_scram_credentials_request::ScramCredentialDeletion;
use kafka_protocol::messages::create_partitions_request::CreatePartitionsTopic;
use kafka_protocol::messages::create_topics_request::{CreatableReplicaAssignment, CreatableTopic};
use kafka_protocol::messages::delete_records_request::{DeleteRecordsPartition, DeleteRecordsTopic};
use kafka_protocol::messages::elect_leaders_request::TopicPartitions;
use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic};
use kafka_protocol::messages::incremental_alter_configs_request::{AlterConfigsResource, AlterableConfig};
use kafka_protocol::messages::metadata_response::MetadataResponsePartition;
use kafka_protocol::messages::write_txn_markers_request::{WritableTxnMarker, WritableTxnMarkerTopic};
use kafka_protocol::messages::*;
use kafka_protocol::protocol::StrBytes;
use klamm::sim::brokers::World;
use klamm::types::BrokerId as Id;

#[path = "support/sim_client.rs"]
mod sim_client;
#[path = "support/trio.rs"]
mod trio;
use sim_client::Client;
use trio::{Trio, everywhere, partitions, run};

#[test]
fn every_broker_knows_leaders_and_isrs_of_a_topic() {
    run(async {
        let mut trio = Trio::start(1, &[]).await;
        trio.create("t", 3).await;
        let mut seen = Vec::new();
        for client in &mut trio.clients {
            let metadata = client
                .metadata_until(|metadata| {
                    partitions(metadata).len() == 3 && partitions(metadata).iter().all(|it| it.isr_nodes.len() == 3)
                })
                .await;
            let mut topic = metadata.topics[0].clone();
            topic.partitions.sort_by_key(|partition| partition.partition_index);
            seen.push(topic);
        }
        let leaders: HashSet<i32> = seen[0].partitions.iter().map(|partition| partition.leader_id.0).collect();
        assert_eq!(leaders.len(), 3, "each broker leads one: {:?}", seen[0]);
        assert!(seen.iter().all(|topic| topic == &seen[0]), "{seen:#?}");
        trio.stop().await;
    });
}

#[test]
fn what_is_acknowledged_by_all_outlives_its_leader() {
    run(async {
        let mut trio = Trio::start(2, &["min.insync.replicas=2"]).await;
        trio.create("t", 1).await;
        let metadata = trio.client(1).metadata_until(|metadata| partitions(metadata).len() == 1).await;
        let leader = partitions(&metadata)[0].leader_id.0;
        let id = metadata.topics[0].topic_id;
        trio.client(leader).metadata_until(|metadata| partitions(metadata).len() == 1).await;
        for n in 0..10_u8 {
            assert_eq!(trio.client(leader).produce("t", &[n]).await, i64::from(n));
        }
        let gone = trio.brokers.remove(&leader).expect("it runs");
        gone.stop().await.expect("no panic").expect("an orderly end");
        let other = if leader == 3 { 2 } else { 3 };
        let moved = trio
            .client(other)
            .metadata_until(|metadata| partitions(metadata).iter().any(|it| ![leader, -1].contains(&it.leader_id.0)))
            .await;
        let now = partitions(&moved)[0].leader_id.0;
        let expected: Vec<Vec<u8>> = (0..10).map(|n| vec![n]).collect();
        trio.client(now).metadata_until(|metadata| everywhere_but(&partitions(metadata)[0], now, leader)).await;
        assert_eq!(trio.client(now).fetch(id).await, expected);
        assert_eq!(trio.client(now).produce("t", b"after").await, 10);
        trio.stop().await;
    });
}

fn everywhere_but(partition: &MetadataResponsePartition, leader: i32, gone: i32) -> bool {
    partition.leader_id == leader && !partition.isr_nodes.contains(&BrokerId(gone))
}

#[test]
fn a_follower_that_is_cut_off_leaves_the_isr_and_comes_back() {
    run(async {
        let mut trio = Trio::start(3, &["replica.lag.time.max.ms=2000", "replica.socket.timeout.ms=1000"]).await;
        trio.create("t", 1).await;
        let metadata = trio.client(1).metadata_until(|metadata| partitions(metadata).len() == 1).await;
        let leader = partitions(&metadata)[0].leader_id.0;
        let follower = if leader == 3 { 2 } else { 3 };
        let way = trio.world.net.way(Id(follower), World::port(leader));
        way.stall();
        // Behind, not only silent: one that has all stays.
        trio.client(leader).metadata_until(|metadata| partitions(metadata).len() == 1).await;
        trio.client(leader).produce("t", b"a").await;
        let without = |metadata: &MetadataResponse| !partitions(metadata)[0].isr_nodes.contains(&BrokerId(follower));
        for _ in 0..20 {
            if without(&trio.client(leader).metadata().await) {
                break;
            }
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
        assert!(without(&trio.client(leader).metadata().await), "it does not fetch and stays in the ISR");
        way.heal();
        for client in &mut trio.clients {
            client.metadata_until(|metadata| everywhere(&partitions(metadata)[0], leader)).await;
        }
        trio.stop().await;
    });
}

/// Fetch of `t-0` from the beginning by a consumer in `rack`: which replica it should read, and bytes of records.
async fn fetch_in(client: &mut Client, version: i16, rack: &str) -> (i32, usize) {
    let partition = FetchPartition::default().with_partition_max_bytes(1 << 20).with_current_leader_epoch(-1);
    let topic =
        FetchTopic::default().with_topic(TopicName(StrBytes::from_static_str("t"))).with_partitions(vec![partition]);
    let request = FetchRequest::default()
        .with_replica_id(BrokerId(-1))
        .with_max_wait_ms(60_000)
        .with_min_bytes(1)
        .with_max_bytes(1 << 20)
        .with_session_epoch(-1)
        .with_rack_id(StrBytes::from_string(if version >= 11 { rack.to_owned() } else { String::new() }))
        .with_topics(vec![topic]);
    let answer = client.ask(version, request).await;
    let part = &answer.responses[0].partitions[0];
    assert_eq!(part.error_code, 0);
    (part.preferred_read_replica.0, part.records.as_ref().map_or(0, |records| records.len()))
}

/// KIP-392. A live 3.9.1 with the same racks answers the same.
#[test]
fn consumers_are_sent_to_the_replica_in_their_rack() {
    let selector = "replica.selector.class=org.apache.kafka.common.replica.RackAwareReplicaSelector";
    run(async {
        for (seed, overrides) in [(7, &[selector][..]), (8, &[])] {
            let mut trio = Trio::start(seed, overrides).await;
            trio.create("t", 1).await;
            let metadata = trio.client(1).metadata_until(|metadata| partitions(metadata).len() == 1).await;
            let leader = partitions(&metadata)[0].leader_id.0;
            let near = if leader == 3 { 2 } else { 3 };
            for broker in [leader, near] {
                trio.client(broker).metadata_until(|metadata| partitions(metadata).len() == 1).await;
            }
            trio.client(leader).produce("t", b"a").await;
            let mine = format!("r{near}");
            let (sent, bytes) = fetch_in(trio.client(leader), 12, &mine).await;
            assert_eq!((sent, bytes == 0), if overrides.is_empty() { (-1, false) } else { (near, true) });
            let (sent, bytes) = fetch_in(trio.client(near), 12, &mine).await;
            assert!(sent == -1 && bytes > 0, "a follower serves what it knows to be committed");
            for (version, rack) in
                [(12, format!("r{leader}")), (12, "nowhere".to_owned()), (12, String::new()), (10, mine)]
            {
                let (sent, bytes) = fetch_in(trio.client(leader), version, &rack).await;
                assert!(sent == -1 && bytes > 0, "v{version} in {rack:?} reads here");
            }
            trio.stop().await;
        }
    });
}

/// Error code and low watermark.
async fn delete_below(client: &mut Client, offset: i64, timeout_ms: i32) -> (i16, i64) {
    let partition = DeleteRecordsPartition::default().with_partition_index(0).with_offset(offset);
    let topic = DeleteRecordsTopic::default()
        .with_name(TopicName(StrBytes::from_static_str("t")))
        .with_partitions(vec![partition]);
    let request = DeleteRecordsRequest::default().with_topics(vec![topic]).with_timeout_ms(timeout_ms);
    let answer = client.ask(2, request).await;
    (answer.topics[0].partitions[0].error_code, answer.topics[0].partitions[0].low_watermark)
}

#[test]
fn a_deletion_is_answered_when_every_replica_has_deleted() {
    run(async {
        let mut trio = Trio::start(6, &[]).await;
        trio.create("t", 1).await;
        let metadata = trio.client(1).metadata_until(|metadata| partitions(metadata).len() == 1).await;
        let leader = partitions(&metadata)[0].leader_id.0;
        let follower = if leader == 3 { 2 } else { 3 };
        trio.client(leader).metadata_until(|metadata| partitions(metadata).len() == 1).await;
        for n in 0..4_u8 {
            trio.client(leader).produce("t", &[n]).await;
        }
        assert_eq!(delete_below(trio.client(leader), 2, 60_000).await, (0, 2));
        let way = trio.world.net.way(Id(follower), World::port(leader));
        way.stall();
        assert_eq!(delete_below(trio.client(leader), 3, 5_000).await, (7, 2), "one replica has not heard of it");
        way.heal();
        assert_eq!(delete_below(trio.client(leader), 3, 60_000).await, (0, 3));
        trio.stop().await;
    });
}

/// Sets (or, without a value, unsets) a config of a topic (2) or a broker (4).
async fn alter(client: &mut Client, kind: i8, name: String, key: &'static str, value: Option<&'static str>) {
    let config = AlterableConfig::default()
        .with_name(StrBytes::from_static_str(key))
        .with_config_operation(i8::from(value.is_none()))
        .with_value(value.map(StrBytes::from_static_str));
    let resource = AlterConfigsResource::default()
        .with_resource_type(kind)
        .with_resource_name(StrBytes::from_string(name))
        .with_configs(vec![config]);
    let answer = client.ask(1, IncrementalAlterConfigsRequest::default().with_resources(vec![resource])).await;
    assert_eq!(answer.responses[0].error_code, 0, "{:?}", answer.responses[0].error_message);
}

#[test]
fn a_throttled_leader_gives_nothing_to_who_is_not_in_sync() {
    const RATE: &str = "leader.replication.throttled.rate";
    run(async {
        let window = "replication.quota.window.num=600";
        let overrides = ["replica.lag.time.max.ms=2000", "replica.socket.timeout.ms=1000", window];
        let mut trio = Trio::start(9, &overrides).await;
        trio.create("t", 1).await;
        let metadata = trio.client(1).metadata_until(|metadata| partitions(metadata).len() == 1).await;
        let leader = partitions(&metadata)[0].leader_id.0;
        let follower = if leader == 3 { 2 } else { 3 };
        trio.client(leader).metadata_until(|metadata| partitions(metadata).len() == 1).await;
        alter(trio.client(leader), 2, "t".to_owned(), "leader.replication.throttled.replicas", Some("*")).await;
        alter(trio.client(leader), 4, leader.to_string(), RATE, Some("1")).await;
        // Who is in sync gets all of it, however much it is.
        trio.client(leader).produce("t", &[7; 10_000]).await;
        for client in &mut trio.clients {
            client.metadata_until(|metadata| everywhere(&partitions(metadata)[0], leader)).await;
        }
        let way = trio.world.net.way(Id(follower), World::port(leader));
        way.stall();
        trio.client(leader).produce("t", b"a").await;
        let left = |metadata: &MetadataResponse| !partitions(metadata)[0].isr_nodes.contains(&BrokerId(follower));
        trio.client(leader).metadata_until(left).await;
        way.heal();
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert!(left(&trio.client(leader).metadata().await), "throttled, and back in sync all the same");
        alter(trio.client(leader), 4, leader.to_string(), RATE, None).await;
        trio.client(leader).metadata_until(|metadata| everywhere(&partitions(metadata)[0], leader)).await;
        trio.stop().await;
    });
}

/// Every broker gets ids, and none comes twice: blocks are the controller's to give.
#[test]
fn producer_ids_of_all_brokers_differ() {
    run(async {
        let mut trio = Trio::start(4, &[]).await;
        let mut given = HashSet::new();
        for client in &mut trio.clients {
            let request = InitProducerIdRequest::default()
                .with_transactional_id(None)
                .with_transaction_timeout_ms(60_000)
                .with_producer_id(ProducerId(-1))
                .with_producer_epoch(-1);
            let mut id = -1;
            for _ in 0..100 {
                let answer = client.ask(5, request.clone()).await;
                if answer.error_code == 0 {
                    id = answer.producer_id.0;
                    break;
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            assert!(id >= 0 && given.insert(id / 1_000), "{id} after {given:?}");
        }
        trio.stop().await;
    });
}

#[test]
fn every_replica_tells_of_the_producers_it_knows() {
    run(async {
        let mut trio = Trio::start(5, &[]).await;
        trio.create("t", 1).await;
        let metadata = trio.client(1).metadata_until(|metadata| partitions(metadata).len() == 1).await;
        let leader = partitions(&metadata)[0].leader_id.0;
        trio.client(leader).metadata_until(|metadata| partitions(metadata).len() == 1).await;
        let name = TopicName(StrBytes::from_static_str("t"));
        let topic = WritableTxnMarkerTopic::default().with_name(name.clone()).with_partition_indexes(vec![0]);
        let marker = WritableTxnMarker::default().with_producer_id(ProducerId(7)).with_topics(vec![topic]);
        let written = trio.client(leader).ask(1, WriteTxnMarkersRequest::default().with_markers(vec![marker])).await;
        assert_eq!(written.markers[0].topics[0].partitions[0].error_code, 0);
        for client in &mut trio.clients {
            let topic = describe_producers_request::TopicRequest::default().with_name(name.clone());
            let asked = DescribeProducersRequest::default().with_topics(vec![topic.with_partition_indexes(vec![0])]);
            let answer = client.ask(0, asked).await.topics.remove(0).partitions.remove(0);
            let known: Vec<i64> = answer.active_producers.iter().map(|producer| producer.producer_id.0).collect();
            assert_eq!((answer.error_code, known), (0, vec![7]));
        }
        trio.stop().await;
    });
}

#[test]
fn a_broker_that_could_not_be_reached_hears_all_of_it_later() {
    run(async {
        let mut trio = Trio::start(5, &[]).await;
        // From one broker to another: nothing is told any more, and nothing is forgotten.
        trio.world.net.way(Id(1), World::port(2)).refuse();
        trio.world.net.way(Id(1), World::port(2)).cut();
        trio.create("t", 1).await;
        trio.client(3).metadata_until(|metadata| metadata.topics.len() == 1).await;
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert!(trio.client(2).metadata().await.topics.is_empty(), "it could not hear of the topic");
        trio.world.net.way(Id(1), World::port(2)).heal();
        trio.client(2).metadata_until(|metadata| metadata.topics.len() == 1).await;
        trio.stop().await;
    });
}

/// librdkafka forgets all brokers that an answer does not name: one without brokers leaves it with none.
#[test]
fn nobody_is_told_of_a_cluster_before_a_controller_has_spoken() {
    run(async {
        let world = World::new(6);
        let one = world.start(1, None, &[]).expect("a configuration");
        Client::connect(&world, 1).await.metadata_until(|metadata| metadata.controller_id == 1).await;
        world.net.way(Id(1), World::port(2)).refuse();
        let two = world.start(2, None, &[]).expect("a configuration");
        let mut clients = [Client::connect(&world, 2).await, Client::connect(&world, 2).await];
        clients[0].send(12, MetadataRequest::default().with_topics(None)).await;
        clients[1].send(0, DescribeClusterRequest::default()).await;
        tokio::time::sleep(Duration::from_secs(20)).await;
        world.net.way(Id(1), World::port(2)).heal();
        let metadata = clients[0].answer::<MetadataRequest>(12).await;
        assert_eq!(metadata.brokers.len(), 2, "{metadata:?}");
        let described = clients[1].answer::<DescribeClusterRequest>(0).await;
        assert_eq!(described.brokers.len(), 2, "{described:?}");
        drop(clients);

        world.net.way(Id(1), World::port(3)).refuse();
        let three = world.start(3, None, &[]).expect("a configuration");
        let mut client = Client::connect(&world, 3).await;
        client.send(12, MetadataRequest::default().with_topics(None)).await;
        assert!(client.is_closed().await, "it waits, but not for ever");
        let mut client = Client::connect(&world, 3).await;
        client.send(12, MetadataRequest::default().with_topics(None)).await;
        three.stop().await.expect("no panic").expect("an orderly end, whoever waits");
        for broker in [two, one] {
            broker.stop().await.expect("no panic").expect("an orderly end");
        }
    });
}

/// On a clock that moves only when everybody waits: what is counted is waiting, not work. The controller has no replica, and
/// its word reaches the new leader later than the follower: that has asked too early then, or waits for something else it
/// follows there.
#[test]
fn a_planned_stop_holds_nobody_up() {
    run(async {
        const LATE: Duration = Duration::from_millis(20);
        const SETTINGS: [&str; 2] = ["min.insync.replicas=2", "auto.leader.rebalance.enable=false"];
        for follows_more in [false, true] {
            let mut trio = Trio::start(20, &SETTINGS).await;
            let fourth = trio.world.start(4, None, &SETTINGS.map(str::to_owned)).expect("a configuration");
            trio.brokers.insert(4, fourth);
            trio.clients.push(Client::connect(&trio.world, 4).await);
            trio.client(1).metadata_until(|metadata| metadata.brokers.len() == 4).await;
            let (leader, next) = (2, 3);
            create_on(&mut trio, "t", &[leader, next, 4]).await;
            if follows_more {
                create_on(&mut trio, "u", &[next, 4]).await;
                trio.client(next).produce("u", b"followed").await;
            }
            trio.client(leader).produce("t", b"before").await;
            let before = trio.world.trace.text().len();
            let way = trio.world.net.way(Id(1), World::port(next));
            let begun = tokio::time::Instant::now();
            way.stall();
            let stopped = tokio::spawn(trio.brokers.remove(&leader).expect("it runs").stop());
            tokio::time::sleep(LATE).await;
            way.heal();
            trio.client(next).metadata_until(|metadata| is_led_by(metadata, "t", next)).await;
            trio.client(next).produce("t", b"after").await;
            let gap = begun.elapsed();
            assert!(gap < 5 * LATE, "follows more: {follows_more}; nothing was acknowledged for {gap:?}");
            stopped.await.expect("no panic").expect("no panic").expect("an orderly end");
            // Others led before it was gone.
            let trace = trio.world.trace.text();
            let (till_it_was_gone, _) =
                trace[before..].split_once(r#"znode 2: ("delete", "/brokers/ids/2""#).expect("it signed off");
            assert!(till_it_was_gone.contains(r#"path: "/brokers/topics/t/partitions/0/state""#));
            trio.stop().await;
        }
    });
}

/// Has a topic made with one partition on `replicas`, led by the first and in sync on all.
async fn create_on(trio: &mut Trio, name: &'static str, replicas: &[i32]) {
    let ids = replicas.iter().map(|id| BrokerId(*id)).collect();
    let topic = CreatableTopic::default()
        .with_name(TopicName(StrBytes::from_static_str(name)))
        .with_num_partitions(-1)
        .with_replication_factor(-1)
        .with_assignments(vec![CreatableReplicaAssignment::default().with_broker_ids(ids)]);
    let request = CreateTopicsRequest::default().with_topics(vec![topic]).with_timeout_ms(5_000);
    assert_eq!(trio.client(1).ask(7, request).await.topics[0].error_code, 0);
    for id in replicas {
        trio.client(*id).metadata_until(|metadata| is_led_by(metadata, name, replicas[0])).await;
    }
}

fn is_led_by(metadata: &MetadataResponse, name: &str, leader: i32) -> bool {
    let mut topics = metadata.topics.iter();
    let topic = topics.find(|topic| topic.name.as_ref().is_some_and(|it| it.as_str() == name));
    topic.is_some_and(|topic| topic.partitions[0].leader_id == leader)
}

/// What is the controller's to do, asked of another broker: nothing is done, nothing is passed on. Each answer is that of a
/// Kafka 3.9.1 beside Klamm in one cluster.
#[test]
fn who_is_not_the_controller_says_so() {
    const NOT_CONTROLLER: i16 = 41;
    const STALE_CONTROLLER_EPOCH: i16 = 11;
    run(async {
        let mut trio = Trio::start(9, &[]).await;
        trio.create("t", 1).await;
        let other = trio.client(2);
        let metadata = other.metadata_until(|metadata| partitions(metadata).len() == 1).await;
        let id = metadata.topics[0].topic_id;
        let name = || TopicName(StrBytes::from_static_str("t"));

        let topic = CreatableTopic::default().with_name(name()).with_num_partitions(1).with_replication_factor(1);
        let answer = other.ask(7, CreateTopicsRequest::default().with_topics(vec![topic])).await;
        assert_eq!(answer.topics[0].error_code, NOT_CONTROLLER);
        assert_eq!(answer.topics[0].error_message.as_deref(), Some(""));
        let answer = other.ask(5, DeleteTopicsRequest::default().with_topic_names(vec![name()])).await;
        assert_eq!(answer.responses[0].error_code, NOT_CONTROLLER);
        let topic = CreatePartitionsTopic::default().with_name(name()).with_count(3).with_assignments(None);
        let answer = other.ask(3, CreatePartitionsRequest::default().with_topics(vec![topic])).await;
        assert_eq!((answer.results[0].error_code, &answer.results[0].error_message), (NOT_CONTROLLER, &None));
        let topic = TopicPartitions::default().with_topic(name()).with_partitions(vec![0]);
        let answer = other.ask(2, ElectLeadersRequest::default().with_topic_partitions(Some(vec![topic]))).await;
        let partition = &answer.replica_election_results[0].partition_result[0];
        assert_eq!((answer.error_code, partition.error_code), (0, NOT_CONTROLLER));
        let words = Some("this broker is not the controller");
        let answer = other.ask(0, AlterPartitionReassignmentsRequest::default()).await;
        assert_eq!((answer.error_code, answer.error_message.as_deref()), (NOT_CONTROLLER, words));
        let answer = other.ask(0, ListPartitionReassignmentsRequest::default()).await;
        assert_eq!((answer.error_code, answer.error_message.as_deref()), (NOT_CONTROLLER, words));
        let deletion = ScramCredentialDeletion::default().with_mechanism(1);
        let answer = other.ask(0, AlterUserScramCredentialsRequest::default().with_deletions(vec![deletion])).await;
        assert_eq!((answer.results[0].error_code, &answer.results[0].error_message), (NOT_CONTROLLER, &None));
        let answer = other.ask(1, UpdateFeaturesRequest::default()).await;
        assert_eq!((answer.error_code, answer.error_message.as_deref()), (NOT_CONTROLLER, words));
        let topic = TopicData::default().with_topic_id(id).with_partitions(vec![Default::default()]);
        let answer = other.ask(3, AlterPartitionRequest::default().with_topics(vec![topic])).await;
        assert_eq!((answer.error_code, answer.topics.len()), (NOT_CONTROLLER, 0));
        let answer = other.ask(0, AllocateProducerIdsRequest::default().with_broker_id(BrokerId(2))).await;
        assert_eq!((answer.error_code, answer.producer_id_len), (NOT_CONTROLLER, 0));
        let answer = other.ask(3, ControlledShutdownRequest::default().with_broker_id(BrokerId(2))).await;
        assert_eq!((answer.error_code, answer.remaining_partitions.len()), (STALE_CONTROLLER_EPOCH, 0));

        let still = other.metadata().await;
        assert_eq!((still.topics.len(), still.topics[0].partitions.len()), (1, 1), "nothing was done");
        trio.stop().await;
    });
}
