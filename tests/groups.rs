//! Groups of a whole broker: what becomes of commits and of members when topics go, transactions end, power fails, and the
//! broker stops.

use std::time::Duration;

use bytes::Bytes;
use kafka_protocol::messages::delete_topics_request::DeleteTopicState;
use kafka_protocol::messages::join_group_request::JoinGroupRequestProtocol;
use kafka_protocol::messages::offset_commit_request::{OffsetCommitRequestPartition, OffsetCommitRequestTopic};
use kafka_protocol::messages::offset_fetch_request::{OffsetFetchRequestGroup, OffsetFetchRequestTopics};
use kafka_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use kafka_protocol::messages::write_txn_markers_request::{WritableTxnMarker, WritableTxnMarkerTopic};
use kafka_protocol::messages::*;
use kafka_protocol::protocol::StrBytes;
use klamm::coordinator::records::{Key, OffsetValue};
use klamm::sim::brokers::{SimBroker, World};
use klamm::sim::disk::{Keep, SimDisk};
use klamm::types::{LeaderEpoch, Offset};
use klamm::wire::batch::{BatchBuilder, BatchOptions};
use klamm::wire::error_code::ErrorCode;

#[path = "support/sim_client.rs"]
mod sim_client;
use sim_client::{Client, run, text};

const GROUP: &str = "g";
const OFFSETS: &str = "__consumer_offsets";

/// One partition of `__consumer_offsets`, no waiting for more members, and transactions of which nobody knows.
async fn start(world: &World, disk: Option<SimDisk>, more: &[&str]) -> (SimBroker, Client) {
    let settings = [
        "offsets.topic.num.partitions=1",
        "group.initial.rebalance.delay.ms=0",
        "transaction.partition.verification.enable=false",
    ];
    let settings: Vec<String> = settings.iter().chain(more).map(|line| line.to_string()).collect();
    let broker = world.start_alone(1, disk, &settings).expect("a configuration");
    let mut client = Client::connect(world, 1).await;
    for _ in 0..1_000 {
        let found = client.ask(3, FindCoordinatorRequest::default().with_key(text(GROUP))).await;
        if found.error_code == 0 && fetch(&mut client).await != Err(ErrorCode::CoordinatorLoadInProgress.code()) {
            return (broker, client);
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the groups are not loaded");
}

async fn stop(broker: SimBroker) {
    broker.stop().await.expect("no panic").expect("an orderly end");
}

async fn commit(client: &mut Client, offset: i64) -> i16 {
    commit_for(client, GROUP, None, offset).await
}

/// As a member, given its id and generation, or as a client that is in no group.
async fn commit_for(client: &mut Client, group: &str, member: Option<(&StrBytes, i32)>, offset: i64) -> i16 {
    let partition = OffsetCommitRequestPartition::default().with_committed_offset(offset);
    let topic = OffsetCommitRequestTopic::default().with_name(TopicName(text("t"))).with_partitions(vec![partition]);
    let request = OffsetCommitRequest::default().with_group_id(GroupId(text(group))).with_topics(vec![topic]);
    let request = match member {
        Some((id, generation)) => request.with_member_id(id.clone()).with_generation_id_or_member_epoch(generation),
        None => request,
    };
    client.ask(8, request).await.topics[0].partitions[0].error_code
}

async fn fetch(client: &mut Client) -> Result<i64, i16> {
    fetch_for(client, GROUP).await
}

/// What is committed for `t-0`, -1 = nothing, or why that is not known. Offsets of open transactions are refused.
async fn fetch_for(client: &mut Client, group: &str) -> Result<i64, i16> {
    let topic = OffsetFetchRequestTopics::default().with_name(TopicName(text("t"))).with_partition_indexes(vec![0]);
    let group = OffsetFetchRequestGroup::default().with_group_id(GroupId(text(group))).with_topics(Some(vec![topic]));
    let request = OffsetFetchRequest::default().with_groups(vec![group]).with_require_stable(true);
    let answer = client.ask(8, request).await;
    let group = &answer.groups[0];
    if group.error_code != 0 {
        return Err(group.error_code);
    }
    let partition = &group.topics[0].partitions[0];
    if partition.error_code != 0 { Err(partition.error_code) } else { Ok(partition.committed_offset) }
}

/// The only member of a group, in generation 1 and with its assignment.
async fn member(client: &mut Client, group: &str) -> StrBytes {
    let joined = client.ask(3, join(&text("")).with_group_id(GroupId(text(group)))).await;
    assert_eq!((joined.error_code, joined.generation_id), (0, 1));
    let sync = SyncGroupRequest::default()
        .with_group_id(GroupId(text(group)))
        .with_member_id(joined.member_id.clone())
        .with_generation_id(1);
    assert_eq!(client.ask(3, sync).await.error_code, 0);
    joined.member_id
}

async fn beat(client: &mut Client, group: &str, member_id: &StrBytes) -> i16 {
    let beat = HeartbeatRequest::default()
        .with_group_id(GroupId(text(group)))
        .with_member_id(member_id.clone())
        .with_generation_id(1);
    client.ask(3, beat).await.error_code
}

fn join(member_id: &StrBytes) -> JoinGroupRequest {
    let protocol = JoinGroupRequestProtocol::default().with_name(text("range")).with_metadata(Bytes::new());
    JoinGroupRequest::default()
        .with_group_id(GroupId(text(GROUP)))
        .with_session_timeout_ms(30_000)
        .with_rebalance_timeout_ms(30_000)
        .with_member_id(member_id.clone())
        .with_protocol_type(text("consumer"))
        .with_protocols(vec![protocol])
}

#[test]
fn a_topic_that_is_deleted_takes_its_commits_along() {
    run(async {
        let world = World::new(1);
        let (broker, mut client) = start(&world, None, &[]).await;
        client.create("t").await;
        assert_eq!((commit(&mut client, 5).await, fetch(&mut client).await), (0, Ok(5)));
        let topic = DeleteTopicState::default().with_name(Some(TopicName(text("t"))));
        let request = DeleteTopicsRequest::default().with_topics(vec![topic]).with_timeout_ms(30_000);
        assert_eq!(client.ask(6, request).await.responses[0].error_code, 0);
        assert_eq!(fetch(&mut client).await, Ok(-1));
        client.create("t").await;
        assert_eq!(fetch(&mut client).await, Ok(-1), "a new topic of the name begins anew");
        let disk = broker.disk.clone();
        stop(broker).await;
        let (broker, mut client) = start(&world, Some(disk), &[]).await;
        assert_eq!(fetch(&mut client).await, Ok(-1), "also for who reads the log");
        stop(broker).await;
    });
}

#[test]
fn a_stop_answers_joins_that_wait() {
    run(async {
        let world = World::new(1);
        let (broker, mut first) = start(&world, None, &[]).await;
        let joined = first.ask(3, join(&text(""))).await;
        assert_eq!((joined.error_code, joined.generation_id), (0, 1));
        // It never comes back, and is waited for.
        let mut second = Client::connect(&world, 1).await;
        second.send(3, join(&text(""))).await;
        while beat(&mut first, GROUP, &joined.member_id).await != ErrorCode::RebalanceInProgress.code() {}
        let begun = tokio::time::Instant::now();
        let ((), answer) = tokio::join!(stop(broker), second.answer::<JoinGroupRequest>(3));
        assert_eq!(answer.error_code, ErrorCode::NotCoordinator.code());
        assert!(begun.elapsed() < Duration::from_secs(30), "not by its timeout");
    });
}

/// Of Kafka it was reported that timers stood still when the wall clock was set back (KAFKA-4051). Here a member is silent for
/// two thirds of its session, then for all of it, and a fetch waits.
#[test]
fn a_wall_clock_that_is_set_ends_no_session_and_no_wait_before_its_time_or_after() {
    for jump_ms in [-3_600_000, 7_200_000] {
        run(async move {
            let world = World::new(1);
            let (broker, mut client) = start(&world, None, &[]).await;
            let topic = client.create("t").await;
            let id = member(&mut client, GROUP).await;
            assert_eq!(commit_for(&mut client, GROUP, Some((&id, 1)), 5).await, 0);
            let mut reader = Client::connect(&world, 1).await;
            reader.send_fetch(topic, 0, 20_000).await;
            // It has been read and waits when time stands still no more.
            tokio::time::sleep(Duration::from_millis(1)).await;
            let begun = tokio::time::Instant::now();
            world.clock.jump(jump_ms);
            let answer = reader.answer::<FetchRequest>(16).await;
            assert_eq!(answer.responses[0].partitions[0].error_code, 0);
            assert_eq!(begun.elapsed().as_millis(), 19_999, "its max wait");
            assert_eq!(beat(&mut client, GROUP, &id).await, 0);
            client.produce("t", b"after").await;
            assert_eq!(client.fetch(topic).await, [b"after"]);
            world.clock.jump(-jump_ms);
            tokio::time::sleep(Duration::from_secs(29)).await;
            assert_eq!(beat(&mut client, GROUP, &id).await, 0);
            tokio::time::sleep(Duration::from_secs(31)).await;
            assert_eq!(beat(&mut client, GROUP, &id).await, ErrorCode::UnknownMemberId.code());
            assert_eq!(fetch(&mut client).await, Ok(5), "hours are not days");
            stop(broker).await;
        });
    }
}

#[test]
fn a_commit_acknowledged_after_its_fsync_survives_a_power_loss() {
    run(async {
        let world = World::new(1);
        let flushing = ["log.flush.interval.messages=1"];
        let (broker, mut client) = start(&world, None, &flushing).await;
        client.create("t").await;
        for offset in 1..=3 {
            assert_eq!(commit(&mut client, offset).await, 0);
        }
        let lost = broker.disk.after_crash(Keep::Nothing);
        stop(broker).await;
        let (broker, mut client) = start(&world, Some(lost), &flushing).await;
        assert_eq!(fetch(&mut client).await, Ok(3));
        stop(broker).await;
    });
}

/// A batch that a transactional producer's commit is, as its coordinator wrote it.
fn in_transaction(producer_id: i64, offset: i64) -> Bytes {
    let options = BatchOptions {
        producer_id,
        producer_epoch: 0,
        base_sequence: 0,
        transactional: true,
        ..BatchOptions::default()
    };
    let key = Key::Offset { group: GROUP.into(), topic: "t".into(), partition: 0 };
    let value = OffsetValue {
        offset: Offset(offset),
        leader_epoch: LeaderEpoch::NONE,
        metadata: "".into(),
        commit_timestamp_ms: 1_700_000_000_000,
        expire_timestamp_ms: None,
    };
    let mut batch = BatchBuilder::new(options).expect("a batch");
    batch.append(1_700_000_000_000, Some(&key.encode()), Some(&value.encode()), &[]).expect("room");
    batch.finish().expect("a batch").into()
}

/// Of another broker it was reported that producers could write to the topic of offsets, where a record is what a group has
/// committed.
#[test]
fn a_producer_cannot_commit_for_a_group() {
    run(async {
        let world = World::new(1);
        let (broker, mut client) = start(&world, None, &[]).await;
        client.create("t").await;
        assert_eq!(commit(&mut client, 1).await, 0);
        let data = PartitionProduceData::default().with_records(Some(in_transaction(9, 7)));
        let data = TopicProduceData::default().with_name(TopicName(text(OFFSETS))).with_partition_data(vec![data]);
        let request = ProduceRequest::default().with_acks(-1).with_timeout_ms(5_000).with_topic_data(vec![data]);
        let answer = client.ask(9, request.with_transactional_id(Some(TransactionalId(text("x"))))).await;
        let code = answer.responses[0].partition_responses[0].error_code;
        assert_eq!(code, ErrorCode::InvalidTopicException.code());
        // The record that was refused would leave the group's offset undecided.
        assert_eq!(fetch(&mut client).await, Ok(1));
        stop(broker).await;
    });
}

#[test]
fn markers_in_the_offsets_topic_decide_what_groups_have_committed() {
    run(async {
        let world = World::new(1);
        let mut disk = None;
        let mut committed = 1;
        for (producer_id, offset, commits) in [(9, 7, true), (10, 8, false)] {
            let (broker, mut client) = start(&world, disk.take(), &[]).await;
            client.create("t").await;
            assert_eq!(commit(&mut client, committed).await, 0);
            client.client_id = "__admin_client";
            let data = PartitionProduceData::default().with_records(Some(in_transaction(producer_id, offset)));
            let data = TopicProduceData::default().with_name(TopicName(text(OFFSETS))).with_partition_data(vec![data]);
            let request = ProduceRequest::default().with_acks(-1).with_timeout_ms(5_000).with_topic_data(vec![data]);
            let answer = client.ask(9, request.with_transactional_id(Some(TransactionalId(text("x"))))).await;
            assert_eq!(answer.responses[0].partition_responses[0].error_code, 0);
            let stopped = broker.disk.clone();
            stop(broker).await;

            let (broker, mut client) = start(&world, Some(stopped), &[]).await;
            assert_eq!(fetch(&mut client).await, Err(ErrorCode::UnstableOffsetCommit.code()));
            let topic =
                WritableTxnMarkerTopic::default().with_name(TopicName(text(OFFSETS))).with_partition_indexes(vec![0]);
            let marker = WritableTxnMarker::default()
                .with_producer_id(ProducerId(producer_id))
                .with_transaction_result(commits)
                .with_topics(vec![topic]);
            let answer = client.ask(1, WriteTxnMarkersRequest::default().with_markers(vec![marker])).await;
            assert_eq!(answer.markers[0].topics[0].partitions[0].error_code, 0);
            committed = if commits { offset } else { committed };
            assert_eq!(fetch(&mut client).await, Ok(committed));
            disk = Some(broker.disk.clone());
            stop(broker).await;
        }
    });
}

#[test]
fn a_member_id_too_long_to_be_told_or_written_closes_the_connection_and_harms_no_group() {
    run(async {
        let world = World::new(1);
        let (broker, mut first) = start(&world, None, &[]).await;
        let id = member(&mut first, GROUP).await;
        let long: &'static str = "x".repeat(32_767).leak();
        let by_instance = join(&text("")).with_group_instance_id(Some(text(long)));
        for (version, client_id, request) in
            [(3, long, join(&text(""))), (4, long, join(&text(""))), (5, "", by_instance)]
        {
            let mut other = Client::connect(&world, 1).await;
            other.client_id = client_id;
            other.send(version, request).await;
            assert!(other.is_closed().await, "version {version}");
        }
        assert_eq!(beat(&mut first, GROUP, &id).await, 0, "no rebalance");
        let disk = broker.disk.clone();
        stop(broker).await;
        let (broker, mut first) = start(&world, Some(disk), &[]).await;
        assert_eq!(beat(&mut first, GROUP, &id).await, 0, "its record can be read");
        stop(broker).await;
    });
}

async fn delete(client: &mut Client, group: &str) -> i16 {
    let request = DeleteGroupsRequest::default().with_groups_names(vec![GroupId(text(group))]);
    client.ask(2, request).await.results[0].error_code
}

async fn listed(client: &mut Client) -> Vec<String> {
    let answer = client.ask(4, ListGroupsRequest::default()).await;
    answer.groups.iter().map(|group| group.group_id.to_string()).collect()
}

#[test]
fn a_deleted_group_is_gone_for_good_whatever_happens_to_the_broker() {
    run(async {
        let world = World::new(1);
        let (broker, mut client) = start(&world, None, &[]).await;
        client.create("t").await;
        assert_eq!(commit(&mut client, 5).await, 0);
        let id = member(&mut client, "live").await;
        assert_eq!(commit_for(&mut client, "live", Some((&id, 1)), 6).await, 0);
        assert_eq!(delete(&mut client, "live").await, ErrorCode::NonEmptyGroup.code());
        assert_eq!(delete(&mut client, "nowhere").await, ErrorCode::GroupIdNotFound.code());
        assert_eq!(delete(&mut client, GROUP).await, 0);
        // As a kill leaves it: everything written is in the page cache.
        let killed = broker.disk.after_crash(Keep::Everything);
        stop(broker).await;
        let (broker, mut client) = start(&world, Some(killed), &[]).await;
        assert_eq!(listed(&mut client).await, ["live"]);
        assert_eq!((fetch(&mut client).await, fetch_for(&mut client, "live").await), (Ok(-1), Ok(6)));
        stop(broker).await;
    });
}

#[test]
fn offsets_of_dead_groups_expire_and_those_of_live_ones_do_not() {
    run(async {
        let world = World::new(1);
        let settings = ["offsets.retention.minutes=1", "offsets.retention.check.interval.ms=5000"];
        let (broker, mut client) = start(&world, None, &settings).await;
        client.create("t").await;
        let live = member(&mut client, "live").await;
        let gone = member(&mut client, "gone").await;
        for (group, who) in [("live", Some((&live, 1))), ("gone", Some((&gone, 1))), ("simple", None)] {
            assert_eq!(commit_for(&mut client, group, who, 5).await, 0);
        }
        // For half a minute both live, then one does.
        for second in (0..85).step_by(5) {
            assert_eq!(beat(&mut client, "live", &live).await, 0);
            match second {
                0..30 => assert_eq!(beat(&mut client, "gone", &gone).await, 0),
                30 => {
                    let leave = LeaveGroupRequest::default().with_group_id(GroupId(text("gone")));
                    assert_eq!(client.ask(2, leave.with_member_id(gone.clone())).await.error_code, 0);
                }
                _ => {}
            }
            assert_eq!(fetch_for(&mut client, "gone").await, Ok(5), "at second {second}");
            let simple = fetch_for(&mut client, "simple").await;
            assert!(if second < 60 { simple == Ok(5) } else { second < 70 || simple == Ok(-1) }, "at second {second}");
            tokio::time::sleep(Duration::from_secs(5)).await;
        }
        for _ in 0..4 {
            assert_eq!(beat(&mut client, "live", &live).await, 0);
            tokio::time::sleep(Duration::from_secs(5)).await;
        }
        assert_eq!(fetch_for(&mut client, "gone").await, Ok(-1));
        assert_eq!(fetch_for(&mut client, "live").await, Ok(5));
        assert_eq!(listed(&mut client).await, ["live"], "what is empty and has no offsets is no group");
        stop(broker).await;
    });
}
