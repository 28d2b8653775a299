use std::borrow::Cow;

use bytes::BytesMut;
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::{MetadataRequest as Theirs, MetadataResponse as TheirResponse, TopicName};
use kafka_protocol::protocol::{Decodable, Encodable, StrBytes};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use uuid::Uuid;

use super::*;
use crate::types::{BrokerId, LeaderEpoch, TopicId};
use crate::wire::error_code::ErrorCode;
use crate::wire::reader::ReadError;
use crate::wire::writer::Writer;

prop_compose! {
    fn request()(
        version in 0..=12i16,
        topics in option::of(vec((option::of("\\PC{0,9}"), any::<u128>()), 0..4)),
        flags in any::<[bool; 3]>(),
    ) -> (i16, Theirs) {
        let topics = topics.map(|topics| {
            let topics = topics.into_iter().map(|(name, id)| {
                let name = if version >= 10 { name } else { Some(name.unwrap_or_default()) };
                MetadataRequestTopic::default()
                    .with_name(name.map(|name| TopicName(StrBytes::from_string(name))))
                    .with_topic_id(if version >= 10 { Uuid::from_u128(id) } else { Uuid::nil() })
            });
            topics.collect::<Vec<_>>()
        });
        let topics = if version == 0 { Some(topics.unwrap_or_default()) } else { topics };
        let request = Theirs::default()
            .with_topics(topics)
            .with_allow_auto_topic_creation(version < 4 || flags[0])
            .with_include_cluster_authorized_operations((8..=10).contains(&version) && flags[1])
            .with_include_topic_authorized_operations(version >= 8 && flags[2]);
        (version, request)
    }
}

fn encoded(version: i16, request: &Theirs) -> Vec<u8> {
    let mut bytes = BytesMut::new();
    request.encode(&mut bytes, version).expect("encodable");
    bytes.to_vec()
}

fn sample(error: ErrorCode, numbers: [i32; 4]) -> Vec<PartitionResponse<'static>> {
    vec![PartitionResponse {
        error,
        index: numbers[0],
        leader: BrokerId(numbers[1]),
        leader_epoch: LeaderEpoch(numbers[2]),
        replicas: Cow::Owned(vec![BrokerId(numbers[3]), BrokerId(2)]),
        isr: Cow::Borrowed(&[BrokerId(1)]),
        offline: &[BrokerId(7)],
    }]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn requests_of_every_version_are_read_as_an_independent_codec_wrote_them((version, theirs) in request()) {
        let frame = [&encoded(version, &theirs)[..], b"tail"].concat();
        let ours = MetadataRequest::decode(&frame, version).expect("valid");
        let all = theirs.topics.as_ref().filter(|topics| version > 0 || !topics.is_empty());
        let all = all.map(|topics| topics.iter().map(|t| (t.name.as_ref().map(|n| n.as_str()), t.topic_id)).collect());
        let read: Option<Vec<_>> = ours.topics.map(|topics| topics.iter().map(|t| (t.name, t.id.0)).collect());
        prop_assert_eq!(read, all);
        prop_assert_eq!(ours.allow_auto_topic_creation, theirs.allow_auto_topic_creation);
        prop_assert_eq!(ours.include_cluster_authorized_operations, theirs.include_cluster_authorized_operations);
        prop_assert_eq!(ours.include_topic_authorized_operations, theirs.include_topic_authorized_operations);
    }

    #[test]
    fn a_request_cut_anywhere_is_refused((version, theirs) in request(), at in any::<prop::sample::Index>()) {
        let bytes = encoded(version, &theirs);
        prop_assert!(MetadataRequest::decode(&bytes[..at.index(bytes.len())], version).is_err());
    }

    #[test]
    fn responses_of_every_version_are_read_by_an_independent_codec(
        version in 0..=12i16,
        numbers in any::<[i32; 4]>(),
        port in any::<u16>(),
        rack in option::of("[a-z]{0,3}"),
        name in option::of("[a-z]{1,4}"),
        flags in any::<[bool; 2]>(),
    ) {
        let operations = |asked: bool| if asked { 8 } else { NOT_ASKED };
        let error = ErrorCode::ReplicaNotAvailable;
        let response = MetadataResponse {
            throttle_ms: 4,
            nodes: vec![Node { id: BrokerId(1), host: "h", port, rack: rack.as_deref() }],
            cluster_id: rack.as_deref(),
            controller_id: BrokerId(3),
            topics: vec![TopicResponse {
                error: ErrorCode::None,
                name: name.as_deref(),
                id: TopicId(Uuid::from_u128(5)),
                is_internal: flags[0],
                partitions: sample(error, numbers),
                authorized_operations: operations(flags[1]),
            }],
            cluster_authorized_operations: operations(flags[0]),
        };
        let mut out = Writer::new(BytesMut::new(), version >= FIRST_FLEXIBLE);
        response.encode(&mut out, version);
        let mut bytes = out.buf.freeze();
        let theirs = TheirResponse::decode(&mut bytes, version).expect("valid");
        prop_assert!(bytes.is_empty());
        prop_assert_eq!(theirs.throttle_time_ms, if version >= 3 { 4 } else { 0 });
        prop_assert_eq!(theirs.brokers[0].port, i32::from(port));
        prop_assert_eq!(theirs.brokers[0].rack.as_deref(), rack.as_deref().filter(|_| version >= 1));
        prop_assert_eq!(theirs.cluster_id.as_deref(), rack.as_deref().filter(|_| version >= 2));
        prop_assert_eq!(theirs.controller_id.0, if version >= 1 { 3 } else { -1 });
        let topic = &theirs.topics[0];
        let written = if version >= 12 { name.clone() } else { Some(name.clone().unwrap_or_default()) };
        prop_assert_eq!(topic.name.as_ref().map(|name| name.to_string()), written);
        prop_assert_eq!(topic.topic_id.as_u128(), if version >= 10 { 5 } else { 0 });
        prop_assert_eq!(topic.is_internal, version >= 1 && flags[0]);
        prop_assert_eq!(topic.topic_authorized_operations, operations(version >= 8 && flags[1]));
        prop_assert_eq!(theirs.cluster_authorized_operations, operations((8..=10).contains(&version) && flags[0]));
        let partition = &topic.partitions[0];
        prop_assert_eq!(partition.error_code, error.code());
        prop_assert_eq!((partition.partition_index, partition.leader_id.0), (numbers[0], numbers[1]));
        prop_assert_eq!(partition.leader_epoch, if version >= 7 { numbers[2] } else { -1 });
        let ids = |all: &[kafka_protocol::messages::BrokerId]| all.iter().map(|id| id.0).collect::<Vec<_>>();
        prop_assert_eq!(ids(&partition.replica_nodes), [numbers[3], 2]);
        prop_assert_eq!(ids(&partition.isr_nodes), [1]);
        prop_assert_eq!(ids(&partition.offline_replicas), if version >= 5 { vec![7] } else { vec![] });
    }
}

#[test]
fn announced_counts_are_not_believed() {
    for count in [i32::MAX, 100_000_000] {
        assert_eq!(MetadataRequest::decode(&count.to_be_bytes(), 1), Err(ReadError::Ends("topics")), "{count}");
    }
    let length = ReadError::Length { field: "topics", length: -2 };
    assert_eq!(MetadataRequest::decode(&(-2i32).to_be_bytes(), 1), Err(length));
    assert_eq!(MetadataRequest::decode(&[0xff, 0xff, 0xff, 0xff, 0x0f], 12), Err(ReadError::Ends("topics")));
}
