//! What administrators ask of a whole broker, and what is left in the tree and on the disk.

use std::future::Future;
use std::time::Duration;

use bytes::Bytes;
use kafka_protocol::messages::alter_partition_reassignments_request::{ReassignablePartition, ReassignableTopic};
use kafka_protocol::messages::alter_replica_log_dirs_request::{AlterReplicaLogDir, AlterReplicaLogDirTopic};
use kafka_protocol::messages::alter_user_scram_credentials_request::{
    ScramCredentialDeletion, ScramCredentialUpsertion,
};
use kafka_protocol::messages::describe_configs_request::DescribeConfigsResource;
use kafka_protocol::messages::describe_log_dirs_response::DescribeLogDirsResult;
use kafka_protocol::messages::elect_leaders_request::TopicPartitions;
use kafka_protocol::messages::incremental_alter_configs_request::{AlterConfigsResource, AlterableConfig};
use kafka_protocol::messages::*;
use kafka_protocol::protocol::StrBytes;
use klamm::config::BrokerConfig;
use klamm::metastore::Error;
use klamm::sim::brokers::World;

#[path = "support/sim_client.rs"]
mod sim_client;
use sim_client::Client;

fn run(scenario: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.expect("a runtime").block_on(scenario);
}

fn name(text: &'static str) -> TopicName {
    TopicName(StrBytes::from_static_str(text))
}

/// Asks for a move of partition 0; the error code.
async fn move_to(client: &mut Client, topic: &'static str, dir: &'static str) -> i16 {
    let topic = AlterReplicaLogDirTopic::default().with_name(name(topic)).with_partitions(vec![0]);
    let dir = AlterReplicaLogDir::default().with_path(StrBytes::from_static_str(dir)).with_topics(vec![topic]);
    let answer = client.ask(2, AlterReplicaLogDirsRequest::default().with_dirs(vec![dir])).await;
    answer.results[0].partitions[0].error_code
}

/// Topics by directory, once no copy is left.
async fn places(client: &mut Client) -> Vec<(String, Vec<String>)> {
    for _ in 0..1_000 {
        let dirs = client.ask(4, DescribeLogDirsRequest::default().with_topics(None)).await.results;
        let copies = dirs.iter().flat_map(|dir| &dir.topics).flat_map(|topic| &topic.partitions);
        if copies.filter(|partition| partition.is_future_key).count() == 0 {
            let place = |dir: &DescribeLogDirsResult| {
                let topics = dir.topics.iter().map(|topic| topic.name.to_string()).collect();
                (dir.log_dir.to_string(), topics)
            };
            return dirs.iter().map(place).collect();
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the moves do not end");
}

#[test]
fn a_replica_moves_between_directories_and_stays_moved() {
    run(async {
        let world = World::new(1);
        let two = ["log.dirs=/a,/b".to_owned()];
        let broker = world.start(1, None, &two).expect("a configuration");
        let mut client = Client::connect(&world, 1).await;
        let id = client.create("t").await;
        client.produce("t", b"1").await;
        assert_eq!(move_to(&mut client, "t", "/c").await, 57, "LOG_DIR_NOT_FOUND");
        assert_eq!(move_to(&mut client, "unknown", "/b").await, 3, "UNKNOWN_TOPIC_OR_PARTITION");
        assert_eq!(move_to(&mut client, "t", "/a").await, 0, "it is there");
        assert_eq!(move_to(&mut client, "t", "/b").await, 0);
        client.produce("t", b"2").await;
        let moved = [("/a".to_owned(), vec![]), ("/b".to_owned(), vec!["t".to_owned()])];
        assert_eq!(places(&mut client).await, moved);
        client.produce("t", b"3").await;
        assert_eq!(client.fetch(id).await, [b"1", b"2", b"3"]);
        // Made where it was wanted before it was.
        client.create("other").await;
        assert_eq!(places(&mut client).await[0].1, ["other"]);
        assert_eq!(move_to(&mut client, "wanted", "/b").await, 3);
        client.create("wanted").await;
        assert_eq!(places(&mut client).await[1].1, ["t", "wanted"]);

        let disk = broker.disk.clone();
        broker.stop().await.expect("no panic").expect("an orderly end");
        let _broker = world.start(1, Some(disk), &two).expect("a configuration");
        let mut client = Client::connect(&world, 1).await;
        client
            .metadata_until(|metadata| metadata.topics.iter().all(|t| t.partitions[0].leader_id == BrokerId(1)))
            .await;
        assert_eq!(places(&mut client).await[1].1, ["t", "wanted"]);
        assert_eq!(client.fetch(id).await, [b"1", b"2", b"3"]);
    });
}

#[test]
fn scram_users_lie_in_the_tree_as_kafka_keeps_them() {
    run(async {
        let world = World::new(2);
        let _broker = world.start(1, None, &[]).expect("a configuration");
        let mut client = Client::connect(&world, 1).await;
        client.metadata_until(|metadata| metadata.controller_id == BrokerId(1)).await;
        let user = StrBytes::from_static_str("a b*");
        let upsertion = ScramCredentialUpsertion::default()
            .with_name(user.clone())
            .with_mechanism(1)
            .with_iterations(4096)
            .with_salt(Bytes::from_static(b"salt"))
            .with_salted_password(Bytes::from_static(b"salted password"));
        let request = AlterUserScramCredentialsRequest::default().with_upsertions(vec![upsertion]);
        assert_eq!(client.ask(0, request).await.results[0].error_code, 0);
        let eyes = world.tree.session();
        let (stored, _) = eyes.get("/config/users/a%20b%2A").await.expect("a node");
        let stored: serde_json::Value = serde_json::from_slice(&stored).expect("JSON");
        let credential = stored["config"]["SCRAM-SHA-256"].as_str().expect("a credential");
        // Computed with Python's hmac and hashlib.
        assert_eq!(
            credential,
            "salt=c2FsdA==,stored_key=WbMIQ1BrcAOag9NZOAK0BGvmtygidb73jjtsst0QC2Y=,server_key=PctpJPmpKc9K7y8SD+fype0zyMF8C8n8NKuL1OTx0U0=,iterations=4096"
        );
        let change = eyes.get("/config/changes/config_change_0000000000").await.expect("a change node").0;
        assert_eq!(&change[..], br#"{"version":2,"entity_path":"users/a%20b%2A"}"#);

        let deletion = ScramCredentialDeletion::default().with_name(user).with_mechanism(1);
        let request = AlterUserScramCredentialsRequest::default().with_deletions(vec![deletion]);
        assert_eq!(client.ask(0, request).await.results[0].error_code, 0);
        let gone = eyes.get("/config/users/a%20b%2A").await.expect_err("a user without overrides has no node");
        assert!(matches!(gone, Error::NoNode(_)), "{gone}");
    });
}

/// Sets a config of broker 1; the error code.
async fn set(client: &mut Client, key: &'static str, value: &'static str) -> i16 {
    let config = AlterableConfig::default().with_name(StrBytes::from_static_str(key));
    let config = config.with_value(Some(StrBytes::from_static_str(value)));
    let resource = AlterConfigsResource::default().with_resource_type(4).with_configs(vec![config]);
    let resource = resource.with_resource_name(StrBytes::from_static_str("1"));
    let request = IncrementalAlterConfigsRequest::default().with_resources(vec![resource]);
    client.ask(1, request).await.responses[0].error_code
}

#[test]
fn a_move_between_directories_goes_no_faster_than_it_may() {
    const RATE: &str = "replica.alter.log.dirs.io.max.bytes.per.second";
    run(async {
        let world = World::new(6);
        let window = "alter.log.dirs.replication.quota.window.num=600".to_owned();
        let _broker = world.start(1, None, &["log.dirs=/a,/b".to_owned(), window]).expect("a configuration");
        let mut client = Client::connect(&world, 1).await;
        let id = client.create("t").await;
        let records = [1, 2, 3].map(|byte| vec![byte; 600_000]);
        for record in &records {
            client.produce("t", record).await;
        }
        assert_eq!(set(&mut client, RATE, "1").await, 0);
        assert_eq!(move_to(&mut client, "t", "/b").await, 0);
        tokio::time::sleep(Duration::from_secs(300)).await;
        let dirs = client.ask(4, DescribeLogDirsRequest::default().with_topics(None)).await.results;
        let copy = &dirs[1].topics[0].partitions[0];
        assert!(copy.is_future_key);
        assert!(copy.partition_size > 0 && copy.offset_lag == 2, "one chunk is there before it is measured: {copy:?}");
        client.produce("t", b"4").await;
        assert_eq!(set(&mut client, RATE, "1000000000").await, 0);
        assert_eq!(places(&mut client).await[1].1, ["t"]);
        for (offset, record) in (0..).zip(records.iter().map(Vec::as_slice).chain([&b"4"[..]])) {
            assert!(client.fetch_from(id, offset, 500).await.expect("a record")[0] == record, "{offset}");
        }
    });
}

#[test]
fn passwords_of_brokers_are_stored_encrypted_and_change_with_the_secret() {
    const KEY: &str = "listener.name.plaintext.ssl.key.password";
    run(async {
        let world = World::new(5);
        let stored = async || -> String {
            let (node, _) = world.tree.session().get("/config/brokers/1").await.expect("a node");
            let node: serde_json::Value = serde_json::from_slice(&node).expect("JSON");
            node["config"][KEY].as_str().unwrap_or_default().to_owned()
        };
        let read_by = |secret: &str, stored: &str| {
            let texts = [("password.encoder.secret".to_owned(), secret.to_owned())].into();
            let encoder = BrokerConfig::from_properties(texts).expect("a configuration").0.password_encoder;
            encoder.expect("a secret is set").decode(stored).ok()
        };
        let one = ["password.encoder.secret=one".to_owned()];
        let broker = world.start(1, None, &one).expect("a configuration");
        let mut client = Client::connect(&world, 1).await;
        client.metadata_until(|metadata| metadata.controller_id == BrokerId(1)).await;
        assert_eq!(set(&mut client, KEY, "geheim").await, 0);
        let first = stored().await;
        assert_eq!(read_by("one", &first).as_deref(), Some("geheim"));
        assert_eq!(set(&mut client, "log.cleaner.backoff.ms", "16000").await, 0);
        assert_ne!(stored().await, first, "written again, as a live 3.9.1 writes it");
        assert_eq!(read_by("one", &stored().await).as_deref(), Some("geheim"));
        let resource = DescribeConfigsResource::default().with_resource_type(4);
        let resource = resource.with_resource_name(StrBytes::from_static_str("1")).with_configuration_keys(None);
        let request = DescribeConfigsRequest::default().with_resources(vec![resource]).with_include_synonyms(true);
        let described = client.ask(4, request).await;
        let entry = described.results[0].configs.iter().find(|config| &*config.name == KEY).expect("it is listed");
        assert_eq!((&entry.value, entry.is_sensitive), (&None, true));
        assert!(entry.synonyms.iter().all(|synonym| synonym.value.is_none()));

        let disk = broker.disk.clone();
        broker.stop().await.expect("no panic").expect("an orderly end");
        let two = ["password.encoder.secret=two".to_owned(), "password.encoder.old.secret=one".to_owned()];
        let broker = world.start(1, Some(disk), &two).expect("a configuration");
        let mut client = Client::connect(&world, 1).await;
        client.metadata_until(|metadata| metadata.controller_id == BrokerId(1)).await;
        let renewed = stored().await;
        assert_eq!((read_by("two", &renewed).as_deref(), read_by("one", &renewed)), (Some("geheim"), None));

        let disk = broker.disk.clone();
        broker.stop().await.expect("no panic").expect("an orderly end");
        let _broker = world.start(1, Some(disk), &[]).expect("a configuration");
        let mut client = Client::connect(&world, 1).await;
        client.metadata_until(|metadata| metadata.controller_id == BrokerId(1)).await;
        assert_eq!(set(&mut client, KEY, "other").await, 40, "INVALID_CONFIG without a secret");
        assert_eq!(stored().await, renewed);
    });
}

#[test]
fn loggers_are_described_and_altered_in_whole_requests() {
    run(async {
        let world = World::new(29);
        let broker = world.start(1, None, &[]).expect("a configuration");
        let mut client = Client::connect(&world, 1).await;
        let alter = |changes: &[(&'static str, i8, Option<&'static str>)], validate_only| {
            let configs = changes.iter().map(|(logger, operation, level)| {
                AlterableConfig::default()
                    .with_name(StrBytes::from_static_str(logger))
                    .with_config_operation(*operation)
                    .with_value(level.map(StrBytes::from_static_str))
            });
            let resource = AlterConfigsResource::default()
                .with_resource_type(8)
                .with_resource_name(StrBytes::from_static_str("1"))
                .with_configs(configs.collect());
            IncrementalAlterConfigsRequest::default().with_resources(vec![resource]).with_validate_only(validate_only)
        };
        const NET: &str = "klamm.net";
        // Error codes, and what both loggers are then.
        for (changes, validate_only, code, after) in [
            (&[(NET, 0, Some("DEBUG"))][..], true, 0, ["INFO", "INFO"]),
            (&[(NET, 0, Some("DEBUG")), ("root", 0, Some("WARN"))], false, 0, ["DEBUG", "WARN"]),
            // One that is refused keeps the others from being altered.
            (&[(NET, 0, Some("TRACE")), ("root", 0, Some("OFF"))], false, 40, ["DEBUG", "WARN"]),
            (&[(NET, 0, Some("TRACE")), ("klamm.nowhere", 0, Some("WARN"))], false, 40, ["DEBUG", "WARN"]),
            (&[(NET, 1, None), ("root", 1, None)], false, 42, ["DEBUG", "WARN"]),
            (&[(NET, 1, None)], false, 0, ["WARN", "WARN"]),
        ] {
            let altered = client.ask(1, alter(changes, validate_only)).await;
            assert_eq!(altered.responses[0].error_code, code, "{changes:?}");
            let resource = DescribeConfigsResource::default()
                .with_resource_type(8)
                .with_resource_name(StrBytes::from_static_str("1"))
                .with_configuration_keys(Some([NET, "root"].map(StrBytes::from_static_str).to_vec()));
            let described = client.ask(4, DescribeConfigsRequest::default().with_resources(vec![resource])).await;
            let configs = &described.results[0].configs;
            let levels: Vec<&str> = configs.iter().filter_map(|config| config.value.as_deref()).collect();
            assert_eq!(levels, after, "{changes:?}");
            assert!(configs.iter().all(|config| config.config_source == 6 && !config.read_only));
        }
        broker.stop().await.expect("no panic").expect("an orderly end");
    });
}

#[test]
fn blocks_of_producer_ids_go_to_who_is_registered() {
    run(async {
        let world = World::new(3);
        let _broker = world.start(1, None, &[]).expect("a configuration");
        let mut client = Client::connect(&world, 1).await;
        client.metadata_until(|metadata| metadata.controller_id == BrokerId(1)).await;
        let ask = |epoch| AllocateProducerIdsRequest::default().with_broker_id(BrokerId(1)).with_broker_epoch(epoch);
        let registration = world.tree.session().get("/brokers/ids/1").await.expect("a registration").1.czxid;
        assert_eq!(client.ask(0, ask(registration - 1)).await.error_code, 77, "STALE_BROKER_EPOCH");
        let mut ends = Vec::new();
        for _ in 0..2 {
            let block = client.ask(0, ask(registration)).await;
            assert_eq!((block.error_code, block.producer_id_len), (0, 1000));
            ends.push(block.producer_id_start.0);
        }
        assert_eq!(ends[1] - ends[0], 1000, "none comes twice");
        let unknown = AllocateProducerIdsRequest::default().with_broker_id(BrokerId(9));
        assert_eq!(client.ask(0, unknown).await.error_code, 102, "BROKER_ID_NOT_REGISTERED");
    });
}

#[test]
fn only_the_controller_elects_and_reassigns() {
    run(async {
        let world = World::new(4);
        let _one = world.start(1, None, &[]).expect("a configuration");
        let mut client = Client::connect(&world, 1).await;
        client.create("t").await;
        let _two = world.start(2, None, &[]).expect("a configuration");
        let mut other = Client::connect(&world, 2).await;
        let elect = || {
            let topic = TopicPartitions::default().with_topic(name("t")).with_partitions(vec![0]);
            ElectLeadersRequest::default().with_timeout_ms(1_000).with_topic_partitions(Some(vec![topic]))
        };
        let code = |answer: &ElectLeadersResponse| answer.replica_election_results[0].partition_result[0].error_code;
        assert_eq!(code(&client.ask(2, elect()).await), 84, "ELECTION_NOT_NEEDED");
        let refused = other.ask(2, elect()).await;
        assert_eq!((refused.error_code, code(&refused)), (0, 41), "NOT_CONTROLLER, of the partition alone");
        let reassign = || {
            let partition = ReassignablePartition::default().with_replicas(Some(vec![BrokerId(1)]));
            let topic = ReassignableTopic::default().with_name(name("t")).with_partitions(vec![partition]);
            AlterPartitionReassignmentsRequest::default().with_topics(vec![topic])
        };
        assert_eq!(client.ask(0, reassign()).await.responses[0].partitions[0].error_code, 0);
        assert_eq!(other.ask(0, reassign()).await.error_code, 41);
        let list = ListPartitionReassignmentsRequest::default().with_topics(None);
        assert_eq!(other.ask(0, list.clone()).await.error_code, 41);
        let listed = client.ask(0, list).await;
        assert_eq!((listed.error_code, listed.topics.len()), (0, 0), "what is there already is done at once");
    });
}
