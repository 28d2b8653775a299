//! Producer ids and transaction markers of a whole broker, through stops and power losses.

use std::collections::HashSet;
use std::future::Future;

use kafka_protocol::messages::describe_producers_request::TopicRequest;
use kafka_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use kafka_protocol::messages::write_txn_markers_request::{WritableTxnMarker, WritableTxnMarkerTopic};
use kafka_protocol::messages::*;
use kafka_protocol::protocol::StrBytes;
use klamm::sim::brokers::World;
use klamm::sim::disk::Keep;
use klamm::wire::error_code::ErrorCode;

#[path = "support/sim_client.rs"]
mod sim_client;
use sim_client::Client;

fn run(scenario: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.expect("a runtime").block_on(scenario);
}

fn init(transactional_id: Option<&'static str>) -> InitProducerIdRequest {
    InitProducerIdRequest::default()
        .with_transactional_id(transactional_id.map(|id| TransactionalId(StrBytes::from_static_str(id))))
        .with_transaction_timeout_ms(60_000)
        .with_producer_id(ProducerId(-1))
        .with_producer_epoch(-1)
}

/// Asks until there is an id, as clients do.
async fn new_id(client: &mut Client) -> i64 {
    loop {
        let answer = client.ask(5, init(None)).await;
        if answer.error_code == ErrorCode::None.code() {
            assert_eq!(answer.producer_epoch, 0);
            return answer.producer_id.0;
        }
        assert_eq!(answer.error_code, ErrorCode::CoordinatorLoadInProgress.code());
        assert_eq!((answer.producer_id.0, answer.producer_epoch), (-1, -1));
    }
}

#[test]
fn no_producer_id_comes_twice_through_stops_and_power_losses() {
    run(async {
        let world = World::new(1);
        let mut disk = None;
        let mut given = HashSet::new();
        for round in 0..4 {
            let broker = world.start_alone(1, disk.take(), &[]).expect("a configuration");
            let mut client = Client::connect(&world, 1).await;
            for _ in 0..1_100 {
                let id = new_id(&mut client).await;
                assert!(given.insert(id), "{id} came twice, in round {round}");
            }
            // What a power loss now would leave.
            let lost = broker.disk.after_crash(Keep::Nothing);
            drop(client);
            let stopped = broker.disk.clone();
            broker.stop().await.expect("no panic").expect("an orderly end");
            disk = Some(if round % 2 == 0 { lost } else { stopped });
        }
    });
}

#[test]
fn a_transactional_producer_is_told_what_it_may_not_ask_for() {
    run(async {
        let world = World::new(1);
        let broker = world.start_alone(1, None, &[]).expect("a configuration");
        let mut client = Client::connect(&world, 1).await;
        let mut code = async |request: InitProducerIdRequest| client.ask(4, request).await.error_code;
        assert_eq!(code(init(Some("t"))).await, ErrorCode::NotCoordinator.code(), "nobody asked for a coordinator");
        assert_eq!(code(init(Some(""))).await, ErrorCode::InvalidRequest.code());
        assert_eq!(code(init(None).with_producer_epoch(0)).await, ErrorCode::InvalidRequest.code());
        let too_long = init(Some("t")).with_transaction_timeout_ms(900_001);
        assert_eq!(code(too_long).await, ErrorCode::InvalidTransactionTimeout.code());
        broker.stop().await.expect("no panic").expect("an orderly end");
    });
}

fn marker(id: i64, epoch: i16, coordinator_epoch: i32, topic: &'static str) -> WritableTxnMarker {
    let topic = WritableTxnMarkerTopic::default()
        .with_name(TopicName(StrBytes::from_static_str(topic)))
        .with_partition_indexes(vec![0]);
    WritableTxnMarker::default()
        .with_producer_id(ProducerId(id))
        .with_producer_epoch(epoch)
        .with_coordinator_epoch(coordinator_epoch)
        .with_topics(vec![topic])
}

async fn write(client: &mut Client, markers: Vec<WritableTxnMarker>) -> Vec<(i64, i16)> {
    let answer = client.ask(1, WriteTxnMarkersRequest::default().with_markers(markers)).await;
    let code = |marker: &write_txn_markers_response::WritableTxnMarkerResult| marker.topics[0].partitions[0].error_code;
    answer.markers.iter().map(|marker| (marker.producer_id.0, code(marker))).collect()
}

/// Where the log of `t` ends.
async fn end(client: &mut Client) -> i64 {
    let partition = ListOffsetsPartition::default().with_timestamp(-1);
    let topic = ListOffsetsTopic::default()
        .with_name(TopicName(StrBytes::from_static_str("t")))
        .with_partitions(vec![partition]);
    let request = ListOffsetsRequest::default().with_replica_id(BrokerId(-1)).with_topics(vec![topic]);
    client.ask(7, request).await.topics[0].partitions[0].offset
}

#[test]
fn markers_are_fenced_by_epochs_also_after_a_restart() {
    run(async {
        let world = World::new(1);
        let broker = world.start_alone(1, None, &[]).expect("a configuration");
        let mut client = Client::connect(&world, 1).await;
        client.create("t").await;
        assert_eq!(write(&mut client, vec![marker(7, 2, 5, "t"), marker(8, 0, 5, "t")]).await, [(7, 0), (8, 0)]);
        let disk = broker.disk.clone();
        drop(client);
        broker.stop().await.expect("no panic").expect("an orderly end");

        let broker = world.start_alone(1, Some(disk), &[]).expect("a configuration");
        let mut client = Client::connect(&world, 1).await;
        client.create("t").await;
        for (sent, code) in [
            (marker(7, 1, 5, "t"), ErrorCode::InvalidProducerEpoch),
            (marker(7, 2, 4, "t"), ErrorCode::TransactionCoordinatorFenced),
            (marker(7, 2, 5, "none"), ErrorCode::UnknownTopicOrPartition),
            (marker(7, 2, 6, "t"), ErrorCode::None),
            (marker(7, 2, 5, "t"), ErrorCode::TransactionCoordinatorFenced),
        ] {
            assert_eq!(write(&mut client, vec![sent]).await, [(7, code.code())]);
        }
        let mut twice = marker(9, 0, 6, "t");
        twice.topics[0].partition_indexes = vec![0, 0];
        twice.topics.push(twice.topics[0].clone());
        let before = end(&mut client).await;
        let answer = client.ask(0, WriteTxnMarkersRequest::default().with_markers(vec![twice])).await;
        let topics = &answer.markers[0].topics;
        assert_eq!((topics.len(), topics[0].partitions.len()), (1, 1));
        assert_eq!(end(&mut client).await, before + 1, "named four times, written once");
        let nobody = write(&mut client, vec![marker(7, 3, 6, "t"), marker(-1, 0, 6, "t")]).await;
        assert_eq!(nobody, [(-1, -1), (7, -1)], "all or nothing");
        let topic = TopicRequest::default().with_name(TopicName(StrBytes::from_static_str("t")));
        let asked = DescribeProducersRequest::default().with_topics(vec![topic.with_partition_indexes(vec![0])]);
        let mut known: Vec<(i64, i32, i32)> = client.ask(0, asked).await.topics[0].partitions[0]
            .active_producers
            .iter()
            .map(|known| (known.producer_id.0, known.producer_epoch, known.coordinator_epoch))
            .collect();
        known.sort();
        assert_eq!(known, [(7, 2, 6), (8, 0, 5), (9, 0, 6)]);
        broker.stop().await.expect("no panic").expect("an orderly end");
    });
}
