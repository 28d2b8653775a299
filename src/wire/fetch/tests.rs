use bytes::BytesMut;
use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic, ForgottenTopic, ReplicaState};
use kafka_protocol::messages::{
    BrokerId as TheirId, FetchRequest as Theirs, FetchResponse as TheirResponse, TopicName,
};
use kafka_protocol::protocol::{Decodable, Encodable, StrBytes};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use uuid::Uuid;

use super::*;
use crate::types::{BrokerId, LeaderEpoch, Offset, TopicId};
use crate::wire::error_code::ErrorCode;
use crate::wire::leader::{CurrentLeader, NodeEndpoint};
use crate::wire::reader::ReadError;
use crate::wire::writer::Writer;

/// So many bytes of records, or null.
#[derive(Clone, Debug, Default)]
struct Count(Option<usize>);

impl Payload for Count {
    fn len(&self) -> Option<usize> {
        self.0
    }
}

fn text(s: String) -> StrBytes {
    StrBytes::from_string(s)
}

prop_compose! {
    fn partition(version: i16)(index in any::<i32>(), offsets in any::<[i64; 2]>(), numbers in any::<[i32; 3]>())
        -> FetchPartition {
        FetchPartition::default()
            .with_partition(index)
            .with_fetch_offset(offsets[0])
            .with_log_start_offset(if version >= 5 { offsets[1] } else { -1 })
            .with_current_leader_epoch(if version >= 9 { numbers[0] } else { -1 })
            .with_last_fetched_epoch(if version >= 12 { numbers[1] } else { -1 })
            .with_partition_max_bytes(numbers[2])
    }
}

fn named(version: i16, name: String, id: u128) -> (TopicName, Uuid) {
    match version >= FIRST_WITH_IDS {
        true => (TopicName::default(), Uuid::from_u128(id)),
        false => (TopicName(text(name)), Uuid::nil()),
    }
}

fn request() -> impl Strategy<Value = (i16, Theirs)> {
    (0..=17i16).prop_flat_map(|version| {
        let topics = vec(("\\PC{0,6}", any::<u128>(), vec(partition(version), 0..4)), 0..4);
        let forgotten = vec(("\\PC{0,6}", any::<u128>(), vec(any::<i32>(), 0..3)), 0..3);
        let numbers = any::<[i32; 6]>();
        (topics, forgotten, numbers, any::<i8>(), any::<i64>(), "[a-z]{0,5}").prop_map(
            move |(topics, forgotten, numbers, isolation, epoch, rack)| {
                let topics = topics.into_iter().map(|(name, id, partitions)| {
                    let (name, id) = named(version, name, id);
                    FetchTopic::default().with_topic(name).with_topic_id(id).with_partitions(partitions)
                });
                let forgotten = forgotten.into_iter().map(|(name, id, partitions)| {
                    let (name, id) = named(version, name, id);
                    ForgottenTopic::default().with_topic(name).with_topic_id(id).with_partitions(partitions)
                });
                let mut request = Theirs::default()
                    .with_max_wait_ms(numbers[0])
                    .with_min_bytes(numbers[1])
                    .with_topics(topics.collect());
                match version {
                    15.. => {
                        let state =
                            ReplicaState::default().with_replica_id(TheirId(numbers[2])).with_replica_epoch(epoch);
                        request = request.with_replica_state(state);
                    }
                    _ => request = request.with_replica_id(TheirId(numbers[2])),
                }
                if version >= 3 {
                    request = request.with_max_bytes(numbers[3]);
                }
                if version >= 4 {
                    request = request.with_isolation_level(isolation);
                }
                if version >= 7 {
                    request = request
                        .with_session_id(numbers[4])
                        .with_session_epoch(numbers[5])
                        .with_forgotten_topics_data(forgotten.collect());
                }
                if version >= 11 {
                    request = request.with_rack_id(text(rack));
                }
                (version, request)
            },
        )
    })
}

fn encoded(version: i16, request: &Theirs) -> Vec<u8> {
    let mut bytes = BytesMut::new();
    request.encode(&mut bytes, version).expect("encodable");
    bytes.to_vec()
}

fn shown(topic: TopicRef<'_>) -> (String, Uuid) {
    match topic {
        TopicRef::Name(name) => (name.to_owned(), Uuid::nil()),
        TopicRef::Id(id) => (String::new(), id.0),
    }
}

prop_compose! {
    fn answer()(
        partition in any::<i32>(),
        offsets in any::<[i64; 3]>(),
        aborted in option::of(vec(any::<(i64, i64)>(), 0..3)),
        preferred in -1..3i32,
        records in option::of(0..20usize),
        diverging in option::of((0..9i32, any::<i64>())),
        leader in option::of((0..9i32, 0..9i32)),
    ) -> PartitionResponse<Count> {
        PartitionResponse {
            partition,
            error: if leader.is_some() { ErrorCode::FencedLeaderEpoch } else { ErrorCode::None },
            high_watermark: Offset(offsets[0]),
            last_stable_offset: Offset(offsets[1]),
            log_start_offset: Offset(offsets[2]),
            aborted,
            preferred_read_replica: preferred,
            records: Count(records),
            diverging: diverging
                .map(|(epoch, end)| DivergingEpoch { epoch: LeaderEpoch(epoch), end_offset: Offset(end) }),
            current_leader: leader.map(|(id, epoch)| CurrentLeader { id: BrokerId(id), epoch: LeaderEpoch(epoch) }),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn requests_of_every_version_are_read_as_an_independent_codec_wrote_them((version, theirs) in request()) {
        let frame = [&b"head"[..], &encoded(version, &theirs), b"tail"].concat();
        let ours = FetchRequest::decode(&frame, 4, version).expect("valid");
        let replica = if version >= 15 { theirs.replica_state.replica_id } else { theirs.replica_id };
        prop_assert_eq!(ours.replica_id.0, replica.0);
        prop_assert_eq!(ours.replica_epoch, theirs.replica_state.replica_epoch);
        prop_assert_eq!((ours.max_wait_ms, ours.min_bytes), (theirs.max_wait_ms, theirs.min_bytes));
        prop_assert_eq!((ours.max_bytes, ours.isolation_level), (theirs.max_bytes, theirs.isolation_level));
        prop_assert_eq!((ours.session_id, ours.session_epoch), (theirs.session_id, theirs.session_epoch));
        prop_assert_eq!(ours.rack_id, theirs.rack_id.as_str());
        prop_assert_eq!(session_id(&frame[4..], version), Some(ours.session_id).filter(|id| *id != 0));
        let all = theirs.topics.iter().flat_map(|topic| {
            topic.partitions.iter().map(|p| ((topic.topic.to_string(), topic.topic_id), p.clone()))
        });
        let read = ours.partitions.iter().map(|p| {
            let partition = FetchPartition::default()
                .with_partition(p.partition)
                .with_fetch_offset(p.fetch_offset.0)
                .with_log_start_offset(p.log_start_offset.0)
                .with_current_leader_epoch(p.current_leader_epoch.0)
                .with_last_fetched_epoch(p.last_fetched_epoch.0)
                .with_partition_max_bytes(p.max_bytes);
            (shown(ours.topic(p.topic)), partition)
        });
        prop_assert_eq!(read.collect::<Vec<_>>(), all.collect::<Vec<_>>());
        let all = theirs.forgotten_topics_data.iter().flat_map(|topic| {
            topic.partitions.iter().map(|p| ((topic.topic.to_string(), topic.topic_id), *p))
        });
        let read = ours.forgotten.iter().map(|p| (shown(ours.topic(p.topic)), p.partition));
        prop_assert_eq!(read.collect::<Vec<_>>(), all.collect::<Vec<_>>());
    }

    #[test]
    fn requests_are_written_as_they_are_read((version, theirs) in request()) {
        let bytes = encoded(version, &theirs);
        let mut out = Writer::new(BytesMut::new(), version >= FIRST_FLEXIBLE);
        let ours = FetchRequest::decode(&bytes, 0, version).expect("valid");
        ours.encode(&mut out, version);
        let again = FetchRequest::decode(&out.buf, 0, version);
        prop_assert_eq!(again.as_ref(), Ok(&ours));
        drop(again);
        drop(ours);
    }

    #[test]
    fn a_request_cut_anywhere_is_refused((version, theirs) in request(), at in any::<prop::sample::Index>()) {
        let bytes = encoded(version, &theirs);
        prop_assert!(FetchRequest::decode(&bytes[..at.index(bytes.len())], 0, version).is_err());
    }

    #[test]
    fn no_bytes_make_the_decoder_panic(version in 0..=17i16, bytes in vec(any::<u8>(), 0..80)) {
        let _ = FetchRequest::decode(&bytes, 0, version);
        let _ = FetchAnswer::decode(&bytes, 0, version);
    }

    #[test]
    fn responses_of_every_version_are_read_by_an_independent_codec(
        version in 0..=17i16,
        answers in vec(("[ab]", answer()), 0..6),
        with_endpoint in any::<bool>(),
    ) {
        let answers: Vec<(ResponseTopic, PartitionResponse<Count>)> = answers
            .into_iter()
            .map(|(name, answer)| {
                let id = TopicId(Uuid::from_u128(name.as_bytes()[0].into()));
                (ResponseTopic { name: name.into(), id }, answer)
            })
            .collect();
        let endpoints: Vec<NodeEndpoint> = with_endpoint
            .then(|| NodeEndpoint { id: BrokerId(3), host: "h".to_owned(), port: 1, rack: None })
            .into_iter()
            .collect();
        let mut out = Writer::new(BytesMut::new(), version >= FIRST_FLEXIBLE);
        let response = FetchResponse {
            throttle_ms: 5,
            error: ErrorCode::None,
            session_id: if version >= 7 { 9 } else { 0 },
            partitions: &answers,
            node_endpoints: &endpoints,
        };
        let cuts = response.encode(&mut out, version);
        // Each partition's records are its own number, repeated.
        let (mut whole, mut done) = (BytesMut::new(), 0);
        for (at, (cut, (_, answer))) in cuts.iter().zip(&answers).enumerate() {
            whole.extend_from_slice(&out.buf[done..*cut]);
            whole.extend_from_slice(&vec![at as u8; answer.records.0.unwrap_or(0)]);
            done = *cut;
        }
        whole.extend_from_slice(&out.buf[done..]);
        let mut bytes = whole.freeze();
        let frame = bytes.clone();
        let read = FetchAnswer::decode(&frame, 0, version).expect("valid");
        prop_assert_eq!((read.error, read.session_id), (ErrorCode::None, if version >= 7 { 9 } else { 0 }));
        prop_assert_eq!(read.partitions.len(), answers.len());
        for (at, (read, (_, sent))) in read.partitions.iter().zip(&answers).enumerate() {
            prop_assert_eq!((read.partition, read.error), (sent.partition, sent.error));
            prop_assert_eq!(read.high_watermark, sent.high_watermark);
            prop_assert_eq!(read.log_start_offset, if version >= 5 { sent.log_start_offset } else { Offset::NONE });
            prop_assert_eq!(&frame[read.records.clone()], &vec![at as u8; sent.records.0.unwrap_or(0)]);
            prop_assert_eq!(read.diverging, sent.diverging.filter(|_| version >= 12));
        }
        let theirs = TheirResponse::decode(&mut bytes, version).expect("valid");
        prop_assert!(bytes.is_empty());
        prop_assert_eq!(theirs.session_id, if version >= 7 { 9 } else { 0 });
        prop_assert_eq!(theirs.node_endpoints.len(), if version >= 16 { endpoints.len() } else { 0 });
        let mut expected = answers.iter().enumerate();
        for topic in &theirs.responses {
            for p in &topic.partitions {
                let (at, (named, ours)) = expected.next().expect("as many");
                match version >= FIRST_WITH_IDS {
                    true => prop_assert_eq!(topic.topic_id, named.id.0),
                    false => prop_assert_eq!(topic.topic.as_str(), &*named.name),
                }
                prop_assert_eq!((p.partition_index, p.error_code), (ours.partition, ours.error.code()));
                prop_assert_eq!(p.high_watermark, ours.high_watermark.0);
                prop_assert_eq!(p.last_stable_offset, if version >= 4 { ours.last_stable_offset.0 } else { -1 });
                prop_assert_eq!(p.log_start_offset, if version >= 5 { ours.log_start_offset.0 } else { -1 });
                if version >= 4 {
                    let aborted = p.aborted_transactions.as_ref();
                    let aborted = aborted.map(|all| all.iter().map(|a| (a.producer_id.0, a.first_offset)).collect());
                    prop_assert_eq!(&aborted, &ours.aborted);
                }
                prop_assert_eq!(p.preferred_read_replica.0, if version >= 11 { ours.preferred_read_replica } else { -1 });
                let sent = ours.records.0.map(|n| vec![at as u8; n]);
                prop_assert_eq!(p.records.as_deref(), sent.as_deref());
                let diverging = ours.diverging.filter(|_| version >= 12).map(|d| (d.epoch.0, d.end_offset.0));
                let (epoch, end) = diverging.unwrap_or((-1, -1));
                prop_assert_eq!((p.diverging_epoch.epoch, p.diverging_epoch.end_offset), (epoch, end));
                let leader = ours.current_leader.filter(|_| version >= 12).map(|l| (l.id.0, l.epoch.0));
                let (id, epoch) = leader.unwrap_or((-1, -1));
                prop_assert_eq!((p.current_leader.leader_id.0, p.current_leader.leader_epoch), (id, epoch));
            }
        }
        prop_assert!(expected.next().is_none());
    }
}

fn from_hex(text: &str) -> Vec<u8> {
    let digit = |digit: u8| char::from(digit).to_digit(16).expect("a hexadecimal digit") as u8;
    text.as_bytes().chunks(2).map(|pair| digit(pair[0]) << 4 | digit(pair[1])).collect()
}

fn written(request: &FetchRequest<'_>) -> Vec<u8> {
    let mut out = Writer::new(BytesMut::new(), true);
    request.encode(&mut out, 17);
    out.buf.to_vec()
}

/// Seen on a live cluster of 3.9.1.
#[test]
fn followers_ask_as_kafkas_do() {
    let id = TopicId(Uuid::from_bytes(from_hex("506d2ac169e14509b6ecc95247841ce2").try_into().expect("16 bytes")));
    let empty = FetchRequest {
        replica_id: BrokerId(3),
        replica_epoch: 84,
        max_wait_ms: 500,
        min_bytes: 1,
        max_bytes: 10 << 20,
        isolation_level: 0,
        session_id: 393_455_974,
        session_epoch: 41,
        topics: [TopicRef::Id(id)].into_iter().collect(),
        partitions: Default::default(),
        forgotten: Vec::new(),
        rack_id: "",
    };
    let partition = PartitionRequest {
        topic: 0,
        partition: 0,
        current_leader_epoch: LeaderEpoch(0),
        fetch_offset: Offset(5),
        last_fetched_epoch: LeaderEpoch(0),
        log_start_offset: Offset(0),
        max_bytes: 1 << 20,
    };
    let progress = FetchRequest { partitions: [partition].into_iter().collect(), ..empty.clone() };
    let seen = "000001f40000000100a00000001773a9660000002902506d2ac169e14509b6ecc95247841ce202000000000000000000000000000000\
                05000000000000000000000000001000000000010101010d00000003000000000000005400";
    assert_eq!(written(&progress), from_hex(seen));
    let forgets = FetchRequest {
        replica_id: BrokerId(2),
        replica_epoch: 59,
        session_id: 253_775_145,
        session_epoch: 1,
        forgotten: vec![ForgottenPartition { topic: 0, partition: 2 }],
        ..empty
    };
    let seen = "000001f40000000100a00000000f204d29000000010102506d2ac169e14509b6ecc95247841ce20200000002000101010d00000002000\
                000000000003b00";
    assert_eq!(written(&forgets), from_hex(seen));
    let answer = from_hex(
        "00000000000000000000000069050902506d2ac169e14509b6ecc95247841ce202000000010064ffffffffffffffffffffffffffffffffffff\
         ffffffffffff01ffffffff01000000",
    );
    let answer = FetchAnswer::decode(&answer, 5, 17).expect("valid");
    assert_eq!((answer.session_id, answer.topic(0)), (6_882_569, Some(TopicRef::Id(id))));
    let unknown = PartitionAnswer {
        topic: 0,
        partition: 1,
        error: ErrorCode::UnknownTopicId,
        high_watermark: Offset::NONE,
        log_start_offset: Offset::NONE,
        records: 0..0,
        diverging: None,
    };
    assert_eq!(answer.partitions[..1], [PartitionAnswer { records: answer.partitions[0].records.clone(), ..unknown }]);
    assert!(answer.partitions[0].records.is_empty());
}

#[test]
fn announced_counts_are_not_believed() {
    // v4: replica, wait, min and max bytes, isolation, then the number of topics.
    let head = [0u8; 17];
    for count in [i32::MAX, 1_000_000] {
        let bytes = [&head[..], &count.to_be_bytes()].concat();
        assert_eq!(FetchRequest::decode(&bytes, 0, 4), Err(ReadError::Ends("topics")), "{count}");
    }
    let bytes = [&head[..], &(-2i32).to_be_bytes()].concat();
    assert_eq!(FetchRequest::decode(&bytes, 0, 4), Err(ReadError::Length { field: "topics", length: -2 }));
}

#[test]
fn a_topic_without_partitions_costs_nothing() {
    // v4: a topic of one letter without partitions, many times.
    let topics: Vec<u8> = [0, 1, b'a', 0, 0, 0, 0].repeat(10_000);
    let bytes = [&[0u8; 17][..], &10_000i32.to_be_bytes(), &topics].concat();
    let request = FetchRequest::decode(&bytes, 0, 4).expect("valid");
    assert!(!request.topics.spilled() && !request.partitions.spilled());
}
