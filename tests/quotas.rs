//! Quotas of a whole broker: what a client is told, and for how long it is not read from.

use std::future::Future;
use std::time::Duration;

use kafka_protocol::messages::alter_client_quotas_request::{EntityData, EntryData, OpData};
use kafka_protocol::messages::create_topics_request::CreatableTopic;
use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic};
use kafka_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use kafka_protocol::messages::*;
use kafka_protocol::protocol::StrBytes;
use klamm::sim::brokers::World;
use klamm::wire::batch::{BatchBuilder, BatchOptions};
use klamm::wire::error_code::ErrorCode;
use tokio::time::Instant;

#[path = "support/sim_client.rs"]
mod sim_client;
use sim_client::Client;

fn run(scenario: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.expect("a runtime").block_on(scenario);
}

/// Limits a client id, and returns when the broker has heard of it.
async fn limit(client: &mut Client, id: &'static str, key: &'static str, value: f64) {
    let entity = EntityData::default()
        .with_entity_type(StrBytes::from_static_str("client-id"))
        .with_entity_name(Some(StrBytes::from_static_str(id)));
    let op = OpData::default().with_key(StrBytes::from_static_str(key)).with_value(value).with_remove(value == 0.0);
    let entry = EntryData::default().with_entity(vec![entity]).with_ops(vec![op]);
    let answer = client.ask(1, AlterClientQuotasRequest::default().with_entries(vec![entry])).await;
    assert_eq!(answer.entries[0].error_code, 0);
    // Time stands still until every task waits: the change is heard of by then.
    tokio::time::sleep(Duration::from_millis(100)).await;
}

async fn produce(client: &mut Client, bytes: usize) -> i32 {
    let mut batch = BatchBuilder::new(BatchOptions::default()).expect("a batch");
    batch.append(1_700_000_000_000, None, Some(&vec![7; bytes]), &[]).expect("room");
    let records = batch.finish().expect("a batch");
    let data = PartitionProduceData::default().with_index(0).with_records(Some(records.into()));
    let topic = TopicProduceData::default()
        .with_name(TopicName(StrBytes::from_static_str("t")))
        .with_partition_data(vec![data]);
    let request = ProduceRequest::default().with_acks(-1).with_timeout_ms(1_000).with_topic_data(vec![topic]);
    let answer = client.ask(9, request).await;
    assert_eq!(answer.responses[0].partition_responses[0].error_code, 0);
    answer.throttle_time_ms
}

/// Throttle time and bytes of records.
async fn fetch(client: &mut Client, offset: i64) -> (i32, usize) {
    let partition = FetchPartition::default().with_fetch_offset(offset).with_partition_max_bytes(7_000);
    let topic =
        FetchTopic::default().with_topic(TopicName(StrBytes::from_static_str("t"))).with_partitions(vec![partition]);
    let request = FetchRequest::default().with_max_bytes(1 << 20).with_topics(vec![topic]).with_session_epoch(-1);
    let answer = client.ask(11, request).await;
    let records =
        answer.responses.first().and_then(|topic| topic.partitions.first()?.records.as_ref().map(|r| r.len()));
    (answer.throttle_time_ms, records.unwrap_or(0))
}

async fn elapsed_ms(future: impl Future<Output = ()>) -> u128 {
    let begun = Instant::now();
    future.await;
    begun.elapsed().as_millis()
}

#[test]
fn who_produces_too_much_is_answered_at_once_and_then_not_read_from() {
    run(async {
        let world = World::new(1);
        let broker = world.start_alone(1, None, &[]).expect("a configuration");
        let mut operator = Client::connect(&world, 1).await;
        operator.create("t").await;
        limit(&mut operator, "greedy", "producer_byte_rate", 1_000.0).await;
        let mut greedy = Client::connect_as(&world, 1, "greedy").await;
        let mut modest = Client::connect_as(&world, 1, "modest").await;
        assert_eq!(produce(&mut greedy, 9_000).await, 0, "ten seconds' worth may come at once");

        let begun = Instant::now();
        let throttle_ms = produce(&mut greedy, 3_000).await;
        assert_eq!(begun.elapsed().as_millis(), 0, "answered at once");
        // Some 12,200 bytes at 1,000 a second, less the ten seconds that are free.
        assert!((2_000..=2_500).contains(&throttle_ms), "{throttle_ms}");
        let next = elapsed_ms(async { drop(greedy.metadata().await) }).await;
        assert_eq!(next, throttle_ms as u128, "the next request is read when the time is over");
        assert_eq!(elapsed_ms(async { drop(greedy.metadata().await) }).await, 0, "once");
        assert_eq!(produce(&mut modest, 100_000).await, 0);

        // Who waits by itself is not delayed again.
        let throttle_ms = produce(&mut greedy, 1_000).await;
        assert!(throttle_ms > 0);
        tokio::time::sleep(Duration::from_millis(throttle_ms as u64)).await;
        assert_eq!(elapsed_ms(async { drop(greedy.metadata().await) }).await, 0);

        // The limit is there after a restart, and gone when it is taken away.
        let disk = broker.disk.clone();
        drop((operator, greedy, modest));
        broker.stop().await.expect("no panic").expect("an orderly end");
        let broker = world.start_alone(1, Some(disk), &[]).expect("a configuration");
        let mut operator = Client::connect(&world, 1).await;
        operator.create("t").await;
        let mut greedy = Client::connect_as(&world, 1, "greedy").await;
        assert!(produce(&mut greedy, 20_000).await > 0);
        limit(&mut operator, "greedy", "producer_byte_rate", 0.0).await;
        let mut greedy = Client::connect_as(&world, 1, "greedy").await;
        assert_eq!(produce(&mut greedy, 20_000).await, 0);
        broker.stop().await.expect("no panic").expect("an orderly end");
    });
}

/// Who is not read from cannot be heard: that is not idleness.
#[test]
fn who_waits_until_its_throttle_is_over_is_not_idle_meanwhile() {
    run(async {
        let world = World::new(1);
        let idle = ["connections.max.idle.ms=10000".to_owned()];
        let broker = world.start_alone(1, None, &idle).expect("a configuration");
        let mut operator = Client::connect(&world, 1).await;
        operator.create("t").await;
        limit(&mut operator, "greedy", "producer_byte_rate", 1_000.0).await;
        let mut greedy = Client::connect_as(&world, 1, "greedy").await;
        let throttle_ms = produce(&mut greedy, 40_000).await;
        assert!(throttle_ms > 20_000, "{throttle_ms}");
        let next = elapsed_ms(async { drop(greedy.metadata().await) }).await;
        assert_eq!(next, throttle_ms as u128);
        let idle = elapsed_ms(async { assert!(greedy.is_closed().await) }).await;
        assert_eq!(idle, 10_000, "idle since its last answer");
        broker.stop().await.expect("no panic").expect("an orderly end");
    });
}

#[test]
fn who_fetches_too_much_has_an_empty_answer_and_the_records_later() {
    run(async {
        let world = World::new(1);
        let broker = world.start_alone(1, None, &[]).expect("a configuration");
        let mut operator = Client::connect(&world, 1).await;
        operator.create("t").await;
        for _ in 0..3 {
            produce(&mut operator, 6_000).await;
        }
        limit(&mut operator, "greedy", "consumer_byte_rate", 1_000.0).await;
        let mut greedy = Client::connect_as(&world, 1, "greedy").await;
        let (throttle_ms, bytes) = fetch(&mut greedy, 0).await;
        assert_eq!(throttle_ms, 0);
        assert!((6_000..=7_000).contains(&bytes), "{bytes}");
        let begun = Instant::now();
        let mut empty = 0;
        while let (throttle_ms @ 1.., bytes) = fetch(&mut greedy, 1).await {
            assert_eq!(bytes, 0);
            assert!((1_000..=5_000).contains(&throttle_ms), "{throttle_ms}");
            empty += 1;
        }
        assert!(empty > 0);
        let waited_ms = begun.elapsed().as_millis();
        assert!((8_000..=14_000).contains(&waited_ms), "{waited_ms}");
        assert_eq!(fetch(&mut operator, 0).await.0, 0, "others are not held back");
        broker.stop().await.expect("no panic").expect("an orderly end");
    });
}

#[test]
fn changes_of_topics_beyond_the_rate_are_refused_or_served_late() {
    run(async {
        let world = World::new(1);
        let broker = world.start_alone(1, None, &[]).expect("a configuration");
        let mut operator = Client::connect(&world, 1).await;
        operator.create("t").await;
        limit(&mut operator, "greedy", "controller_mutation_rate", 1.0).await;
        let create = async |version, name: &'static str, partitions| {
            let mut greedy = Client::connect_as(&world, 1, "greedy").await;
            let topic = CreatableTopic::default()
                .with_name(TopicName(StrBytes::from_static_str(name)))
                .with_num_partitions(partitions)
                .with_replication_factor(1);
            let request = CreateTopicsRequest::default().with_topics(vec![topic]).with_timeout_ms(1_000);
            let answer = greedy.ask(version, request).await;
            (answer.topics[0].error_code, answer.throttle_time_ms > 0)
        };
        let exceeded = ErrorCode::ThrottlingQuotaExceeded.code();
        assert_eq!(create(6, "a", 30).await, (0, false), "any number passes while nothing is owed");
        assert_eq!(create(6, "b", 1).await, (exceeded, true));
        assert_eq!(create(5, "b", 1).await, (0, true), "an older client does not know the error");
        tokio::time::sleep(Duration::from_secs(30)).await;
        assert_eq!(create(6, "c", 1).await, (0, false));
        broker.stop().await.expect("no panic").expect("an orderly end");
    });
}
