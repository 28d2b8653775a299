//! Brokers go while they are asked; who is in charge then is looked for anew.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use kafka_protocol::messages::delete_topics_response::DeletableTopicResult;
use kafka_protocol::messages::find_coordinator_response::Coordinator as Found;
use kafka_protocol::messages::list_offsets_response::{ListOffsetsPartitionResponse, ListOffsetsTopicResponse};
use kafka_protocol::messages::metadata_response::MetadataResponsePartition;
use kafka_protocol::messages::offset_fetch_response::{
    OffsetFetchResponseGroup, OffsetFetchResponsePartitions, OffsetFetchResponseTopics,
};
use kafka_protocol::messages::{
    ApiKey, DeleteTopicsRequest, DeleteTopicsResponse, DescribeLogDirsRequest, FindCoordinatorResponse,
    ListGroupsResponse, ListOffsetsResponse, OffsetFetchResponse,
};

use super::*;
use crate::cli::fake_cluster::{Asked, FakeCluster};

/// Longer than any of these tests may take.
const LONG: Duration = Duration::from_secs(600);

fn admin(cluster: &FakeCluster, broker: i32) -> Admin {
    Admin::connect(&cluster.address(broker), Caller { timeout: LONG, patience: LONG, ..Caller::default() }).unwrap()
}

fn of_topic() -> TopicPartition {
    TopicPartition::new("t", 0)
}

fn coordinated_by(asked: &Asked, id: i32) -> Option<Vec<u8>> {
    let found = Found::default().with_key(StrBytes::from_static_str("g")).with_node_id(BrokerId(id));
    asked.says::<FindCoordinatorRequest>(&FindCoordinatorResponse::default().with_coordinators(vec![found]))
}

fn committed(asked: &Asked, offset: i64) -> Option<Vec<u8>> {
    let partition = OffsetFetchResponsePartitions::default().with_committed_offset(offset);
    let topic = OffsetFetchResponseTopics::default().with_name(topic_name("t")).with_partitions(vec![partition]);
    let group = OffsetFetchResponseGroup::default().with_group_id(group_id("g")).with_topics(vec![topic]);
    asked.says::<OffsetFetchRequest>(&OffsetFetchResponse::default().with_groups(vec![group]))
}

fn led_by(cluster: &FakeCluster, asked: &Asked, leader: i32) -> Option<Vec<u8>> {
    let partition = MetadataResponsePartition::default().with_leader_id(BrokerId(leader));
    let topic = MetadataResponseTopic::default().with_name(Some(topic_name("t"))).with_partitions(vec![partition]);
    asked.says::<MetadataRequest>(&cluster.metadata(1).with_topics(vec![topic]))
}

fn begins_at(asked: &Asked, offset: i64, code: ErrorCode) -> Option<Vec<u8>> {
    let partition = ListOffsetsPartitionResponse::default().with_offset(offset).with_error_code(code.code());
    let topic = ListOffsetsTopicResponse::default().with_name(topic_name("t")).with_partitions(vec![partition]);
    asked.says::<ListOffsetsRequest>(&ListOffsetsResponse::default().with_topics(vec![topic]))
}

/// Whom the group's offsets were asked of, where the coordinators are found in this order; the last one has them.
fn offsets_asked_of(coordinators: &'static [i32], stopped: Option<i32>) -> Vec<i32> {
    let cluster = FakeCluster::start(2, |cluster, asked| match asked.api {
        ApiKey::Metadata => asked.says::<MetadataRequest>(&cluster.metadata(1)),
        ApiKey::FindCoordinator => coordinated_by(asked, coordinators[asked.earlier.min(coordinators.len() - 1)]),
        ApiKey::OffsetFetch => committed(asked, 7),
        _ => None,
    });
    stopped.into_iter().for_each(|id| cluster.stop(id));
    assert_eq!(admin(&cluster, 1).committed("g").unwrap(), BTreeMap::from([(of_topic(), 7)]));
    assert_eq!(cluster.asked(ApiKey::FindCoordinator).len(), coordinators.len());
    cluster.asked(ApiKey::OffsetFetch)
}

#[test]
fn a_group_is_followed_to_its_next_coordinator() {
    // Nobody listens there any more, to the end of what is known of it.
    assert_eq!(offsets_asked_of(&[2, 2, 1], Some(2)), [1]);
    // The cluster has heard that it is gone; whom it was asked of has not.
    assert_eq!(offsets_asked_of(&[9, 1], None), [1]);
}

#[test]
fn a_coordinator_that_ends_before_its_answer_is_not_the_last_word() {
    let cluster = FakeCluster::start(2, |cluster, asked| match asked.api {
        ApiKey::Metadata => asked.says::<MetadataRequest>(&cluster.metadata(1)),
        ApiKey::FindCoordinator => coordinated_by(asked, if asked.earlier == 0 { 2 } else { 1 }),
        ApiKey::OffsetFetch if asked.broker == 1 => committed(asked, 7),
        _ => None,
    });
    assert_eq!(admin(&cluster, 1).committed("g").unwrap(), BTreeMap::from([(of_topic(), 7)]));
    assert_eq!(cluster.asked(ApiKey::OffsetFetch), [2, 1]);
}

#[test]
fn who_broke_a_connection_off_is_asked_over_another() {
    let cluster = FakeCluster::start(1, |cluster, asked| match asked.api {
        ApiKey::Metadata => asked.says::<MetadataRequest>(&cluster.metadata(1)),
        ApiKey::FindCoordinator => coordinated_by(asked, 1),
        ApiKey::OffsetFetch if asked.earlier > 0 => committed(asked, 7),
        _ => None,
    });
    assert_eq!(admin(&cluster, 1).committed("g").unwrap(), BTreeMap::from([(of_topic(), 7)]));
    assert_eq!(cluster.asked(ApiKey::OffsetFetch), [1, 1]);
}

#[test]
fn who_takes_connections_and_does_not_answer_is_the_last_to_be_asked_again() {
    let cluster = FakeCluster::start(2, |cluster, asked| match asked.broker {
        1 if asked.earlier > 0 => None,
        _ => asked.says::<MetadataRequest>(&cluster.metadata(1)),
    });
    let mut admin = admin(&cluster, 1);
    admin.cluster().unwrap();
    assert_eq!(admin.cluster().unwrap().brokers.len(), 2);
    assert_eq!(cluster.asked(ApiKey::Metadata), [1, 1, 2]);
}

#[test]
fn a_cluster_is_entered_anew_through_brokers_it_told_of() {
    let cluster = FakeCluster::start(3, |cluster, asked| asked.says::<MetadataRequest>(&cluster.metadata(1)));
    let mut admin = admin(&cluster, 1);
    admin.cluster().unwrap();
    cluster.stop(1);
    cluster.stop(2);
    assert_eq!(admin.cluster().unwrap().brokers.len(), 3);
    assert_eq!(cluster.asked(ApiKey::Metadata).last(), Some(&3));
}

#[test]
fn offsets_are_asked_of_the_leader_of_the_moment() {
    let leaderless = AtomicBool::new(false);
    let cluster = FakeCluster::start(3, move |cluster, asked| match (asked.api, asked.broker) {
        // One that is gone, one that leads no more, nobody, and the last.
        (ApiKey::Metadata, _) => {
            let leader = match cluster.asked(ApiKey::ListOffsets)[..] {
                [] => 2,
                [.., 2] => 3,
                _ if !leaderless.swap(true, Ordering::Relaxed) => -1,
                _ => 1,
            };
            led_by(cluster, asked, leader)
        }
        (ApiKey::ListOffsets, 1) => begins_at(asked, 7, ErrorCode::None),
        (ApiKey::ListOffsets, 3) => begins_at(asked, -1, ErrorCode::NotLeaderOrFollower),
        _ => None,
    });
    let asked = BTreeMap::from([(of_topic(), LATEST)]);
    let found = admin(&cluster, 1).list_offsets(&asked, IsolationLevel::ReadUncommitted).unwrap();
    assert_eq!(found, BTreeMap::from([(of_topic(), Ok(7))]));
    assert_eq!(cluster.asked(ApiKey::ListOffsets), [2, 3, 1]);
}

#[test]
fn offsets_are_those_a_reader_of_that_isolation_may_see() {
    let cluster = FakeCluster::start(1, |cluster, asked| match asked.api {
        ApiKey::Metadata => led_by(cluster, asked, 1),
        ApiKey::ListOffsets => {
            let isolation = asked.read::<ListOffsetsRequest>().isolation_level;
            begins_at(asked, isolation.into(), ErrorCode::None)
        }
        _ => None,
    });
    let mut admin = admin(&cluster, 1);
    let asked = BTreeMap::from([(of_topic(), LATEST)]);
    for (isolation, code) in [(IsolationLevel::ReadUncommitted, 0), (IsolationLevel::ReadCommitted, 1)] {
        assert_eq!(admin.list_offsets(&asked, isolation).unwrap(), BTreeMap::from([(of_topic(), Ok(code))]));
    }
}

/// A broker answers as controller: all it was asked for has this code.
fn deleted(asked: &Asked, code: ErrorCode) -> Option<Vec<u8>> {
    let topic = DeletableTopicResult::default().with_name(Some(topic_name("t"))).with_error_code(code.code());
    asked.says::<DeleteTopicsRequest>(&DeleteTopicsResponse::default().with_responses(vec![topic]))
}

#[test]
fn what_is_asked_of_the_controller_goes_on_to_the_next() {
    let cluster = FakeCluster::start(3, |cluster, asked| match (asked.api, asked.broker) {
        // No controller at first, then one that is gone, one that is none any more, and the last.
        (ApiKey::Metadata, _) => {
            let controller = match cluster.asked(ApiKey::DeleteTopics)[..] {
                [] if asked.earlier == 0 => -1,
                [] => 2,
                [.., 2] => 3,
                _ => 1,
            };
            asked.says::<MetadataRequest>(&cluster.metadata(controller))
        }
        (ApiKey::DeleteTopics, 1) => deleted(asked, ErrorCode::UnknownTopicOrPartition),
        (ApiKey::DeleteTopics, 3) => deleted(asked, ErrorCode::NotController),
        _ => None,
    });
    let codes = |answer: &DeleteTopicsResponse| answer.responses.iter().map(|topic| topic.error_code).collect();
    let answer = admin(&cluster, 1).ask_controller(&DeleteTopicsRequest::default(), codes).unwrap();
    assert_eq!(codes(&answer), [ErrorCode::UnknownTopicOrPartition.code()]);
    assert_eq!(cluster.asked(ApiKey::DeleteTopics), [2, 3, 1]);
}

#[test]
fn groups_are_those_of_the_brokers_that_are_left() {
    let cluster: Arc<FakeCluster> = FakeCluster::start(2, |cluster, asked| match asked.api {
        ApiKey::Metadata => {
            let mut metadata = cluster.metadata(1);
            metadata.brokers.truncate(if cluster.asked(ApiKey::ListGroups).contains(&2) { 1 } else { 2 });
            asked.says::<MetadataRequest>(&metadata)
        }
        ApiKey::ListGroups if asked.broker == 1 => {
            let group = ListedGroup::default().with_group_id(group_id("g"));
            asked.says::<ListGroupsRequest>(&ListGroupsResponse::default().with_groups(vec![group]))
        }
        _ => None,
    });
    let groups = admin(&cluster, 1).groups(&[], &[]).unwrap();
    assert_eq!(groups.iter().map(|group| group.group_id.as_str()).collect::<Vec<_>>(), ["g"]);
}

#[test]
fn patience_ends_with_what_was_wrong() {
    let cluster = FakeCluster::start(1, |_, _| None);
    let mut admin = admin(&cluster, 1);
    admin.set_patience(Duration::ZERO);
    let error = format!("{:#}", admin.cluster().unwrap_err());
    assert_eq!(error, "the broker closed the connection");
    assert_eq!(cluster.asked(ApiKey::Metadata).len(), 1);
    cluster.stop(1);
    assert!(Admin::connect(&cluster.address(1), Caller::default()).is_err(), "nobody is there at the beginning");
}

#[test]
fn what_no_try_can_change_is_told_at_once() {
    let cluster = FakeCluster::start(1, |cluster, asked| match asked.api {
        ApiKey::FindCoordinator => coordinated_by(asked, 1),
        ApiKey::Metadata => asked.says::<MetadataRequest>(&cluster.metadata(1)),
        ApiKey::OffsetFetch => {
            let group = OffsetFetchResponseGroup::default().with_error_code(ErrorCode::GroupAuthorizationFailed.code());
            asked.says::<OffsetFetchRequest>(&OffsetFetchResponse::default().with_groups(vec![group]))
        }
        _ => None,
    });
    let mut admin = admin(&cluster, 1);
    let error = admin.committed("g").unwrap_err().to_string();
    assert_eq!(error, "the offsets of group 'g': GROUP_AUTHORIZATION_FAILED (30)");
    let error = admin.ask(&DescribeLogDirsRequest::default()).unwrap_err().to_string();
    assert_eq!(error, "the broker does not serve API 35");
}
