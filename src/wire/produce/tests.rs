use bytes::{Bytes, BytesMut};
use kafka_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use kafka_protocol::messages::produce_response::LeaderIdAndEpoch;
use kafka_protocol::messages::{
    ProduceRequest as Theirs, ProduceResponse as TheirResponse, TopicName, TransactionalId,
};
use kafka_protocol::protocol::{Decodable, Encodable, StrBytes};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use super::*;
use crate::types::{BrokerId, LeaderEpoch};
use crate::wire::error_code::ErrorCode;
use crate::wire::leader::{CurrentLeader, NodeEndpoint};
use crate::wire::reader::ReadError;
use crate::wire::writer::Writer;

fn text(s: String) -> StrBytes {
    StrBytes::from_string(s)
}

prop_compose! {
    fn partition()(index in any::<i32>(), records in option::of(vec(any::<u8>(), 0..40))) -> PartitionProduceData {
        PartitionProduceData::default().with_index(index).with_records(records.map(Bytes::from))
    }
}

prop_compose! {
    fn request()(
        version in 0..=11i16,
        id in option::of("[a-z]{0,9}"),
        acks in any::<i16>(),
        timeout in any::<i32>(),
        topics in vec(("\\PC{0,9}", vec(partition(), 0..4)), 0..4),
    ) -> (i16, Theirs) {
        let topics = topics.into_iter().map(|(name, partitions)| {
            TopicProduceData::default().with_name(TopicName(text(name))).with_partition_data(partitions)
        });
        let request = Theirs::default()
            .with_acks(acks)
            .with_timeout_ms(timeout)
            .with_topic_data(topics.collect())
            .with_transactional_id(id.filter(|_| version >= 3).map(|id| TransactionalId(text(id))));
        (version, request)
    }
}

prop_compose! {
    fn outcome()(
        failed in any::<bool>(),
        numbers in any::<[i64; 3]>(),
        errors in option::of((vec((any::<i32>(), option::of("[a-z ]{0,9}")), 0..3), option::of("[a-z ]{0,9}"))),
        leader in option::of((any::<i32>(), any::<i32>())),
    ) -> PartitionResponse {
        PartitionResponse {
            error: if failed { ErrorCode::NotLeaderOrFollower } else { ErrorCode::None },
            base_offset: numbers[0],
            log_append_time_ms: numbers[1],
            log_start_offset: numbers[2],
            errors: errors.map(|(records, message)| Box::new(RecordErrors { records, message })),
            current_leader: leader.map(|(id, epoch)| CurrentLeader { id: BrokerId(id), epoch: LeaderEpoch(epoch) }),
        }
    }
}

fn encoded(version: i16, request: &Theirs) -> Vec<u8> {
    let mut bytes = BytesMut::new();
    request.encode(&mut bytes, version).expect("encodable");
    bytes.to_vec()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn requests_of_every_version_are_read_as_an_independent_codec_wrote_them((version, theirs) in request()) {
        let mut frame = b"head".to_vec();
        frame.extend(encoded(version, &theirs));
        frame.extend(b"tail");
        let mut ours = ProduceRequest::decode(&frame, 4, version).expect("valid");
        prop_assert_eq!(ours.acks, theirs.acks);
        prop_assert_eq!(ours.timeout_ms, theirs.timeout_ms);
        prop_assert_eq!(ours.transactional_id.as_deref(), theirs.transactional_id.as_ref().map(|id| id.as_str()));
        let all: Vec<_> = theirs
            .topic_data
            .iter()
            .flat_map(|topic| topic.partition_data.iter().map(|p| (topic.name.as_str(), p.index, p.records.as_deref())))
            .collect();
        let read: Vec<_> =
            ours.partitions.iter().map(|p| (p.topic(&frame), p.index, p.records().map(|range| &frame[range]))).collect();
        prop_assert_eq!(&read, &all);
        let names = ours.without_records(&frame);
        let kept: Vec<_> = ours.partitions.iter().map(|p| (p.topic(&names), p.index, p.records())).collect();
        let named: Vec<_> = all.into_iter().map(|(name, index, _)| (name, index, None)).collect();
        prop_assert_eq!(kept, named);
        prop_assert!(names.len() <= theirs.topic_data.iter().map(|topic| topic.name.len()).sum());
    }

    #[test]
    fn a_request_cut_anywhere_is_refused((version, theirs) in request(), at in any::<prop::sample::Index>()) {
        let bytes = encoded(version, &theirs);
        prop_assert!(ProduceRequest::decode(&bytes[..at.index(bytes.len())], 0, version).is_err());
    }

    #[test]
    fn no_bytes_make_the_decoder_panic(version in 0..=11i16, bytes in vec(any::<u8>(), 0..60)) {
        let _ = ProduceRequest::decode(&bytes, 0, version);
    }

    #[test]
    fn responses_of_every_version_are_read_by_an_independent_codec(
        version in 0..=11i16,
        outcomes in vec(("[ab]", any::<i32>(), outcome()), 0..6),
        endpoint in option::of(("[a-z]{1,9}", any::<u16>(), option::of("[a-z]{0,3}"))),
    ) {
        let endpoints: Vec<NodeEndpoint> = endpoint
            .map(|(host, port, rack)| NodeEndpoint { id: BrokerId(1), host, port: port.into(), rack })
            .into_iter()
            .collect();
        let partitions: Vec<_> = outcomes.iter().map(|(topic, index, o)| (topic.as_str(), *index, o.clone())).collect();
        let mut out = Writer::new(BytesMut::new(), version >= FIRST_FLEXIBLE);
        ProduceResponse { throttle_ms: 5, partitions: &partitions, node_endpoints: &endpoints }.encode(&mut out, version);
        let mut bytes = out.buf.freeze();
        let theirs = TheirResponse::decode(&mut bytes, version).expect("valid");
        prop_assert!(bytes.is_empty());
        prop_assert_eq!(theirs.throttle_time_ms, if version >= 1 { 5 } else { 0 });
        prop_assert_eq!(theirs.node_endpoints.len(), if version >= 10 { endpoints.len() } else { 0 });
        let mut expected = outcomes.iter();
        for topic in &theirs.responses {
            for p in &topic.partition_responses {
                let (name, index, ours) = expected.next().expect("as many");
                prop_assert_eq!((topic.name.as_str(), p.index), (name.as_str(), *index));
                prop_assert_eq!((p.error_code, p.base_offset), (ours.error.code(), ours.base_offset));
                prop_assert_eq!(p.log_append_time_ms, if version >= 2 { ours.log_append_time_ms } else { -1 });
                prop_assert_eq!(p.log_start_offset, if version >= 5 { ours.log_start_offset } else { -1 });
                let errors = ours.errors.clone().filter(|_| version >= 8).unwrap_or_default();
                prop_assert_eq!(p.error_message.as_deref(), errors.message.as_deref());
                let records: Vec<_> = p
                    .record_errors
                    .iter()
                    .map(|e| (e.batch_index, e.batch_index_error_message.as_ref().map(|m| m.to_string())))
                    .collect();
                prop_assert_eq!(records, errors.records);
                let leader = ours.current_leader.filter(|_| version >= 10).map_or_else(LeaderIdAndEpoch::default, |l| {
                    LeaderIdAndEpoch::default().with_leader_id(l.id.0.into()).with_leader_epoch(l.epoch.0)
                });
                prop_assert_eq!(&p.current_leader, &leader);
            }
        }
        prop_assert!(expected.next().is_none());
    }
}

#[test]
fn announced_counts_are_not_believed() {
    // acks, timeout, then the number of topics.
    let head = [0, 1, 0, 0, 0, 9];
    for count in [i32::MAX, 1_000_000] {
        let bytes = [&head[..], &count.to_be_bytes()].concat();
        assert_eq!(ProduceRequest::decode(&bytes, 0, 0), Err(ReadError::Ends("topic_data")), "{count}");
    }
    let bytes = [&head[..], &(-2i32).to_be_bytes()].concat();
    assert_eq!(ProduceRequest::decode(&bytes, 0, 0), Err(ReadError::Length { field: "topic_data", length: -2 }));
    // v9: null transactional id, then the same with a number of five bytes.
    let flexible = [&[0][..], &head, &[0xff, 0xff, 0xff, 0xff, 0x0f]].concat();
    assert_eq!(ProduceRequest::decode(&flexible, 0, 9), Err(ReadError::Ends("topic_data")));
}

#[test]
fn a_request_keeps_little_beside_its_frame() {
    assert!(size_of::<PartitionData>() <= 24, "{}", size_of::<PartitionData>());
    assert!(size_of::<PartitionResponse>() <= 56, "{}", size_of::<PartitionResponse>());
}
