//! Compacted topics of whole brokers: cleaned while they are written to, through kills, on followers too.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use kafka_protocol::messages::create_topics_request::{CreatableTopic, CreatableTopicConfig};
use kafka_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use kafka_protocol::messages::offset_commit_request::{OffsetCommitRequestPartition, OffsetCommitRequestTopic};
use kafka_protocol::messages::offset_fetch_request::OffsetFetchRequestTopic;
use kafka_protocol::messages::*;
use kafka_protocol::protocol::StrBytes;
use klamm::sim::brokers::World;
use klamm::sim::disk::SimDisk;
use klamm::storage::disk::Disk;
use klamm::wire::batch::Batches;
use uuid::Uuid;

#[path = "support/sim_client.rs"]
mod sim_client;
use sim_client::{Client, run};

const QUICK: &[&str] = &["log.cleaner.backoff.ms=100", "log.initial.task.delay.ms=100"];

fn settings(more: &[&str]) -> Vec<String> {
    QUICK.iter().chain(more).map(|&text| text.to_owned()).collect()
}

fn name(topic: &'static str) -> TopicName {
    TopicName(StrBytes::from_static_str(topic))
}

/// Small segments, cleaned as soon as anything in them is dirty.
async fn create(client: &mut Client, topic: &'static str, replicas: i16) -> Uuid {
    let config = |key, value| {
        CreatableTopicConfig::default()
            .with_name(StrBytes::from_static_str(key))
            .with_value(Some(StrBytes::from_static_str(value)))
    };
    let configs = vec![
        config("cleanup.policy", "compact"),
        config("segment.bytes", "1000"),
        config("min.cleanable.dirty.ratio", "0.01"),
        config("delete.retention.ms", "500"),
        config("file.delete.delay.ms", "1000"),
    ];
    let topic = CreatableTopic::default()
        .with_name(name(topic))
        .with_num_partitions(1)
        .with_replication_factor(replicas)
        .with_configs(configs);
    let request = CreateTopicsRequest::default().with_topics(vec![topic]).with_timeout_ms(5_000);
    let answer = client.ask(7, request).await;
    assert_eq!(answer.topics[0].error_code, 0, "{:?}", answer.topics[0].error_message);
    answer.topics[0].topic_id
}

/// With acks=all, once there is a leader; a record without a value is a tombstone.
async fn produce(client: &mut Client, topic: &'static str, key: &str, value: Option<&str>) -> i64 {
    for _ in 0..1_000 {
        let sent = client.try_send(topic, Some(key.as_bytes()), value.map(str::as_bytes), 1_700_000_000_000).await;
        if let Ok(offset) = sent {
            return offset;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{topic} takes no record");
}

type Records = Vec<(i64, String, Option<String>)>;

/// Records from `offset` on, of the first answer that holds any: of a batch compaction may leave nothing but the header,
/// which tells where to go on.
async fn fetch(client: &mut Client, topic: Uuid, offset: i64) -> Records {
    let mut from = offset;
    loop {
        let (found, next) = fetch_once(client, topic, from).await;
        if !found.is_empty() || next == from {
            return found;
        }
        from = next;
    }
}

/// The records of one answer, and the offset to ask for next.
async fn fetch_once(client: &mut Client, topic: Uuid, offset: i64) -> (Records, i64) {
    let response = client.ask(16, sim_client::fetch(topic, offset, 0)).await;
    let partition = &response.responses[0].partitions[0];
    assert_eq!(partition.error_code, 0, "at {offset}");
    let bytes = partition.records.clone().unwrap_or_default();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("text");
    let (mut found, mut next) = (Vec::new(), offset);
    for batch in Batches::new(&bytes) {
        let batch = batch.expect("a batch").v2().expect("magic 2");
        assert!(batch.crc_matches());
        assert!(batch.header.last_offset().0 >= offset, "nothing below what was asked for");
        next = batch.header.last_offset().0 + 1;
        for record in batch.records() {
            let record = record.expect("a record");
            let at = record.offset(&batch.header).0;
            if at >= offset {
                found.push((at, text(record.key.expect("a key")), record.value.map(text)));
            }
        }
    }
    (found, next)
}

async fn end(client: &mut Client, topic: &'static str) -> i64 {
    let partition = ListOffsetsPartition::default().with_timestamp(-1);
    let topic = ListOffsetsTopic::default().with_name(name(topic)).with_partitions(vec![partition]);
    let request = ListOffsetsRequest::default().with_replica_id(BrokerId(-1)).with_topics(vec![topic]);
    client.ask(7, request).await.topics[0].partitions[0].offset
}

async fn read_all(client: &mut Client, topic: &'static str, id: Uuid) -> Records {
    let end = end(client, topic).await;
    let mut found: Records = Vec::new();
    loop {
        let more = fetch(client, id, found.last().map_or(0, |(at, ..)| at + 1)).await;
        let last = more.last().map(|(at, ..)| *at);
        found.extend(more);
        if last.is_none() || last == Some(end - 1) {
            return found;
        }
    }
}

/// What `cleaner-offset-checkpoint` of a broker says of a partition.
fn cleaned_to(disk: &SimDisk, broker: i32, partition: &str) -> i64 {
    let tree = disk.tree();
    let file = tree.get(Path::new(&format!("/broker{broker}/cleaner-offset-checkpoint")));
    let text = String::from_utf8(file.cloned().unwrap_or_default()).expect("text");
    let said = text.lines().find_map(|line| line.strip_prefix(partition)?.trim().parse().ok());
    said.unwrap_or(0)
}

fn active_base(disk: &SimDisk, broker: i32, partition: &str) -> i64 {
    let dir = format!("/broker{broker}/{partition}");
    let names = disk.list(Path::new(&dir)).expect("a directory").into_iter().map(|entry| entry.name);
    names.filter_map(|name| name.strip_suffix(".log")?.parse().ok()).max().expect("a segment")
}

async fn until_clean(disk: &SimDisk, broker: i32, topic: &str) {
    for _ in 0..10_000 {
        let base = active_base(disk, broker, &format!("{topic}-0"));
        if base > 0 && cleaned_to(disk, broker, &format!("{topic} 0 ")) == base {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{topic} is not cleaned on broker {broker}");
}

/// Of each key the last value, below `clean` nothing else, offsets as they were given.
fn check(found: &Records, sent: &Records, clean: i64) {
    assert!(found.iter().all(|record| sent.contains(record)), "{found:?}");
    assert!(found.windows(2).all(|pair| pair[0].0 < pair[1].0), "{found:?}");
    let last: BTreeMap<_, _> = sent.iter().map(|record| (&record.1, record)).collect();
    for record in last.values().filter(|(_, _, value)| value.is_some()) {
        assert!(found.contains(record), "{record:?} is gone");
    }
    let below: Vec<_> = found.iter().filter(|(at, ..)| *at < clean).map(|(_, key, _)| key).collect();
    let mut once = below.clone();
    once.sort_unstable();
    once.dedup();
    assert_eq!(once.len(), below.len(), "a key is there twice below {clean}: {found:?}");
}

#[test]
fn of_each_key_the_last_value_is_read_through_kills_and_starts() {
    run(async {
        let world = World::new(1);
        let (mut disk, mut id, mut sent): (Option<SimDisk>, _, Records) = (None, Uuid::nil(), Vec::new());
        for round in 0..4 {
            let broker = world.start_alone(1, disk.take(), &settings(&[])).expect("a configuration");
            let mut client = Client::connect(&world, 1).await;
            if round == 0 {
                id = create(&mut client, "t", 1).await;
            }
            for n in 0..60 {
                let key = format!("key {}", n % 7);
                let value = (n % 7 != 6).then(|| format!("value {round}.{n}"));
                let at = produce(&mut client, "t", &key, value.as_deref()).await;
                sent.push((at, key, value));
            }
            if round != 1 {
                until_clean(&broker.disk, 1, "t").await;
            }
            let clean = cleaned_to(&broker.disk, 1, "t 0 ");
            let found = read_all(&mut client, "t", id).await;
            check(&found, &sent, clean);
            assert!(round == 1 || found.len() < 40, "{} records are left", found.len());
            // An offset that is gone leads to the next that is there.
            for offset in 0..end(&mut client, "t").await {
                let next = found.iter().find(|(at, ..)| *at >= offset);
                assert_eq!(fetch(&mut client, id, offset).await.first(), next, "at {offset}");
            }
            disk = Some(match round % 2 {
                0 => broker.kill().await.disk,
                _ => {
                    drop(client);
                    let left = broker.disk.clone();
                    broker.stop().await.expect("no panic").expect("an orderly end");
                    left
                }
            });
        }
    });
}

#[test]
fn a_tombstone_is_read_for_its_time_and_then_gone() {
    run(async {
        let world = World::new(2);
        let broker = world.start_alone(1, None, &settings(&[])).expect("a configuration");
        let mut client = Client::connect(&world, 1).await;
        let id = create(&mut client, "t", 1).await;
        produce(&mut client, "t", "gone", Some("1")).await;
        produce(&mut client, "t", "gone", None).await;
        let fill = async |client: &mut Client| {
            for n in 0..30 {
                produce(client, "t", "other", Some(&format!("value {n} of a record that fills segments"))).await;
            }
        };
        fill(&mut client).await;
        until_clean(&broker.disk, 1, "t").await;
        assert_eq!(fetch(&mut client, id, 0).await[0], (1, "gone".to_owned(), None));
        tokio::time::sleep(Duration::from_millis(600)).await;
        fill(&mut client).await;
        until_clean(&broker.disk, 1, "t").await;
        let found = read_all(&mut client, "t", id).await;
        assert!(found.iter().all(|(_, key, _)| key == "other"), "{found:?}");
        drop(client);
        broker.stop().await.expect("no panic").expect("an orderly end");
    });
}

#[test]
fn followers_clean_on_their_own_and_take_a_cleaned_log_as_it_is() {
    run(async {
        let world = World::new(3);
        let mut brokers = BTreeMap::new();
        for id in 1..=2 {
            brokers.insert(id, world.start(id, None, &settings(&[])).expect("a configuration"));
            let mut client = Client::connect(&world, id).await;
            client.metadata_until(|metadata| metadata.brokers.len() == id as usize).await;
        }
        let mut client = Client::connect(&world, 1).await;
        let id = create(&mut client, "t", 2).await;
        let leads = client.metadata_until(|it| it.topics.first().is_some_and(|t| t.error_code == 0)).await;
        let leader = leads.topics[0].partitions[0].leader_id.0;
        let follower = 3 - leader;
        let mut client = Client::connect(&world, leader).await;
        let mut sent: Records = Vec::new();
        let send = async |client: &mut Client, sent: &mut Records| {
            for n in 0..60 {
                let (key, value) = (format!("key {}", n % 5), Some(format!("value {n}")));
                sent.push((produce(client, "t", &key, value.as_deref()).await, key, value));
            }
        };
        send(&mut client, &mut sent).await;
        until_clean(&brokers[&leader].disk, leader, "t").await;
        until_clean(&brokers[&follower].disk, follower, "t").await;
        // A follower that lost its disk takes what is left.
        brokers.remove(&follower).expect("it runs").stop().await.expect("no panic").expect("an orderly end");
        send(&mut client, &mut sent).await;
        until_clean(&brokers[&leader].disk, leader, "t").await;
        brokers.insert(follower, world.start(follower, None, &settings(&[])).expect("a configuration"));
        client.metadata_until(|it| it.topics[0].partitions[0].isr_nodes.len() == 2).await;
        until_clean(&brokers[&follower].disk, follower, "t").await;
        let before = read_all(&mut client, "t", id).await;
        check(&before, &sent, cleaned_to(&brokers[&leader].disk, leader, "t 0 "));
        // And leads with it.
        drop(client);
        brokers.remove(&leader).expect("it runs").stop().await.expect("no panic").expect("an orderly end");
        let mut client = Client::connect(&world, follower).await;
        client.metadata_until(|it| it.topics[0].partitions[0].leader_id == BrokerId(follower)).await;
        assert_eq!(read_all(&mut client, "t", id).await, before);
        send(&mut client, &mut sent).await;
        check(&read_all(&mut client, "t", id).await, &sent, 0);
        drop(client);
        for broker in brokers.into_values() {
            broker.stop().await.expect("no panic").expect("an orderly end");
        }
    });
}

#[test]
fn committed_offsets_are_compacted_and_survive_it() {
    run(async {
        let world = World::new(4);
        let more = [
            "offsets.topic.num.partitions=1",
            "offsets.topic.segment.bytes=2000",
            "log.cleaner.min.cleanable.ratio=0.01",
        ];
        let broker = world.start_alone(1, None, &settings(&more)).expect("a configuration");
        let mut client = Client::connect(&world, 1).await;
        client.create("t").await;
        let commit = |offset| {
            let partition = OffsetCommitRequestPartition::default().with_committed_offset(offset);
            let topic = OffsetCommitRequestTopic::default().with_name(name("t")).with_partitions(vec![partition]);
            let group = GroupId(StrBytes::from_static_str("g"));
            OffsetCommitRequest::default().with_group_id(group).with_topics(vec![topic])
        };
        let find = FindCoordinatorRequest::default().with_coordinator_keys(vec![StrBytes::from_static_str("g")]);
        client.ask(4, find).await;
        let mut committed = 0;
        for _ in 0..5_000 {
            let answer = client.ask(8, commit(committed + 1)).await;
            match answer.topics[0].partitions[0].error_code {
                0 => committed += 1,
                _ => tokio::time::sleep(Duration::from_millis(10)).await,
            }
            if committed == 300 {
                break;
            }
        }
        assert_eq!(committed, 300);
        until_clean(&broker.disk, 1, "__consumer_offsets").await;
        let size = |disk: &SimDisk| {
            let of_offsets = |path: &Path| {
                path.starts_with("/broker1/__consumer_offsets-0") && path.extension().is_some_and(|it| it == "log")
            };
            disk.tree().into_iter().filter(|(path, _)| of_offsets(path)).map(|(_, bytes)| bytes.len()).sum::<usize>()
        };
        assert!(size(&broker.disk) < 5_000, "{} bytes", size(&broker.disk));
        let disk = broker.kill().await.disk;
        let broker = world.start_alone(1, Some(disk), &settings(&more)).expect("a configuration");
        let mut client = Client::connect(&world, 1).await;
        let topic = OffsetFetchRequestTopic::default().with_name(name("t")).with_partition_indexes(vec![0]);
        let request = OffsetFetchRequest::default()
            .with_group_id(GroupId(StrBytes::from_static_str("g")))
            .with_topics(Some(vec![topic]));
        let mut answer = client.ask(7, request.clone()).await;
        while answer.error_code != 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
            answer = client.ask(7, request.clone()).await;
        }
        assert_eq!(answer.topics[0].partitions[0].committed_offset, 300);
        drop(client);
        broker.stop().await.expect("no panic").expect("an orderly end");
    });
}
