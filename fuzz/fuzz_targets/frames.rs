//! A request frame without its length: header, then the body by every decoder of its API. What the decoders written by
//! hand read, an independent codec must read the same.
#![no_main]

use bytes::{Bytes, BytesMut};
use kafka_protocol::messages as theirs;
use kafka_protocol::protocol::{Decodable, Encodable};
use klamm::types::TopicId;
use klamm::wire::api_versions::ApiKey;
use klamm::wire::fetch::{FetchRequest, TopicRef, session_id};
use klamm::wire::guard;
use klamm::wire::header::RequestHeader;
use klamm::wire::metadata::MetadataRequest;
use klamm::wire::produce::ProduceRequest;
use klamm::wire::reader::ReadError;
use klamm_fuzz::bounded;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|frame: &[u8]| {
    let mut rest = frame;
    if bounded(frame.len(), || RequestHeader::read(&mut &frame[..], &Default::default())).is_err() {
        return;
    }
    let header = RequestHeader::read(&mut rest, &Default::default()).expect("read before");
    let mut taken = BytesMut::from(frame);
    assert_eq!(RequestHeader::take(&mut taken, &Default::default()).as_ref(), Ok(&header));
    assert_eq!(&taken[..], rest);
    let (api, version) = (header.api_key, header.api_version);
    match api {
        ApiKey::Produce => produce(rest, version),
        ApiKey::Fetch => fetch(rest, version),
        ApiKey::Metadata => metadata(rest, version),
        _ => {}
    }
    // Any version of ApiVersions passes the header; the body of one that is not served is not looked at.
    if api != ApiKey::ApiVersions || api.serves(version) {
        decode(api, rest, version);
    }
});

/// Of a request by the guarded codec.
fn read<R: Decodable>(body: &[u8], version: i16) -> Result<R, guard::Malformed> {
    let shared = Bytes::copy_from_slice(body);
    bounded(body.len(), || guard::decode(shared.clone(), version))
}

macro_rules! every_api {
    ($api:expr, $body:expr, $version:expr; $($name:ident $request:ident)*) => {
        match $api { $(ApiKey::$name => drop(read::<theirs::$request>($body, $version)),)* }
    };
}

fn decode(api: ApiKey, body: &[u8], version: i16) {
    every_api!(api, body, version;
        Produce ProduceRequest  Fetch FetchRequest  ListOffsets ListOffsetsRequest  Metadata MetadataRequest
        LeaderAndIsr LeaderAndIsrRequest  StopReplica StopReplicaRequest  UpdateMetadata UpdateMetadataRequest
        ControlledShutdown ControlledShutdownRequest  OffsetCommit OffsetCommitRequest
        OffsetFetch OffsetFetchRequest  FindCoordinator FindCoordinatorRequest  JoinGroup JoinGroupRequest
        Heartbeat HeartbeatRequest  LeaveGroup LeaveGroupRequest  SyncGroup SyncGroupRequest
        DescribeGroups DescribeGroupsRequest  ListGroups ListGroupsRequest  SaslHandshake SaslHandshakeRequest
        ApiVersions ApiVersionsRequest  CreateTopics CreateTopicsRequest  DeleteTopics DeleteTopicsRequest
        DeleteRecords DeleteRecordsRequest  InitProducerId InitProducerIdRequest
        OffsetForLeaderEpoch OffsetForLeaderEpochRequest  AddPartitionsToTxn AddPartitionsToTxnRequest
        AddOffsetsToTxn AddOffsetsToTxnRequest  EndTxn EndTxnRequest  WriteTxnMarkers WriteTxnMarkersRequest
        TxnOffsetCommit TxnOffsetCommitRequest  DescribeAcls DescribeAclsRequest  CreateAcls CreateAclsRequest
        DeleteAcls DeleteAclsRequest  DescribeConfigs DescribeConfigsRequest  AlterConfigs AlterConfigsRequest
        AlterReplicaLogDirs AlterReplicaLogDirsRequest  DescribeLogDirs DescribeLogDirsRequest
        SaslAuthenticate SaslAuthenticateRequest  CreatePartitions CreatePartitionsRequest
        CreateDelegationToken CreateDelegationTokenRequest  RenewDelegationToken RenewDelegationTokenRequest
        ExpireDelegationToken ExpireDelegationTokenRequest  DescribeDelegationToken DescribeDelegationTokenRequest
        DeleteGroups DeleteGroupsRequest  ElectLeaders ElectLeadersRequest
        IncrementalAlterConfigs IncrementalAlterConfigsRequest
        AlterPartitionReassignments AlterPartitionReassignmentsRequest
        ListPartitionReassignments ListPartitionReassignmentsRequest  OffsetDelete OffsetDeleteRequest
        DescribeClientQuotas DescribeClientQuotasRequest  AlterClientQuotas AlterClientQuotasRequest
        DescribeUserScramCredentials DescribeUserScramCredentialsRequest
        AlterUserScramCredentials AlterUserScramCredentialsRequest  AlterPartition AlterPartitionRequest
        UpdateFeatures UpdateFeaturesRequest  Envelope EnvelopeRequest  DescribeCluster DescribeClusterRequest
        DescribeProducers DescribeProducersRequest  DescribeTransactions DescribeTransactionsRequest
        ListTransactions ListTransactionsRequest  AllocateProducerIds AllocateProducerIdsRequest
        ConsumerGroupHeartbeat ConsumerGroupHeartbeatRequest  ConsumerGroupDescribe ConsumerGroupDescribeRequest
    );
}

/// Whether the codec reads what Kafka refuses as well: numbers of more than five bytes, and tagged fields whose content
/// is longer or shorter than announced.
fn is_laxer(error: ReadError) -> bool {
    matches!(error, ReadError::Varint(_) | ReadError::Ends("tag" | "tagged field" | "tagged fields"))
}

fn produce(body: &[u8], version: i16) {
    let ours = bounded(body.len(), || ProduceRequest::decode(body, 0, version));
    let theirs = read::<theirs::ProduceRequest>(body, version);
    let (ours, theirs) = match (ours, theirs) {
        (Ok(ours), Ok(theirs)) => (ours, theirs),
        (Err(error), Ok(theirs)) => return assert!(is_laxer(error), "refused ({error}): {theirs:?}"),
        _ => return,
    };
    assert_eq!(ours.acks, theirs.acks);
    assert_eq!(ours.timeout_ms, theirs.timeout_ms);
    assert_eq!(ours.transactional_id.as_deref(), theirs.transactional_id.as_ref().map(|id| id.as_str()));
    let mut partitions = ours.partitions.iter();
    for topic in &theirs.topic_data {
        for partition in &topic.partition_data {
            let found = partitions.next().expect("as many partitions");
            assert_eq!((found.topic(body), found.index), (topic.name.as_str(), partition.index));
            assert_eq!(found.records().map(|range| &body[range]), partition.records.as_deref());
        }
    }
    assert_eq!(partitions.next(), None);
}

/// Whether tagged fields are not written as a client writes them: where one has another size than its content, the codec
/// and Kafka go by the content, and from there on read other fields.
fn has_lying_tag(request: &theirs::FetchRequest, body: &[u8], version: i16) -> bool {
    let mut written = BytesMut::new();
    version >= 12 && (request.encode(&mut written, version).is_err() || !body.starts_with(&written))
}

fn fetch(body: &[u8], version: i16) {
    let ours = bounded(body.len(), || FetchRequest::decode(body, 0, version).map(drop));
    let theirs = match (ours, read::<theirs::FetchRequest>(body, version)) {
        (_, Ok(theirs)) if has_lying_tag(&theirs, body, version) => return,
        (Ok(()), Ok(theirs)) => theirs,
        // Too short for a replica state, announced or not: one of -1 is not told from none by `has_lying_tag`.
        (Err(ReadError::Ends("replica_id" | "replica_epoch")), Ok(_)) if version >= 15 => return,
        (Err(error), Ok(theirs)) => return assert!(is_laxer(error), "refused ({error}): {theirs:?}"),
        _ => return,
    };
    let ours = FetchRequest::decode(body, 0, version).expect("read before");
    let replica = match version {
        15.. => (theirs.replica_state.replica_id.0, theirs.replica_state.replica_epoch),
        _ => (theirs.replica_id.0, -1),
    };
    assert_eq!((ours.replica_id.0, ours.replica_epoch), replica);
    assert_eq!((ours.max_wait_ms, ours.min_bytes), (theirs.max_wait_ms, theirs.min_bytes));
    assert_eq!((ours.max_bytes, ours.isolation_level), (theirs.max_bytes, theirs.isolation_level));
    assert_eq!((ours.session_id, ours.session_epoch), (theirs.session_id, theirs.session_epoch));
    assert_eq!(session_id(body, version), Some(ours.session_id).filter(|id| *id != 0));
    assert_eq!(ours.rack_id, theirs.rack_id.as_str());
    let by_id = version >= 13;
    let same_topic = |index, name: &theirs::TopicName, id| match ours.topic(index) {
        TopicRef::Name(ours) => !by_id && ours == name.as_str(),
        TopicRef::Id(ours) => by_id && ours == TopicId(id),
    };
    let mut partitions = ours.partitions.iter();
    for topic in &theirs.topics {
        for partition in &topic.partitions {
            let found = partitions.next().expect("as many partitions");
            assert!(same_topic(found.topic, &topic.topic, topic.topic_id));
            assert_eq!((found.partition, found.fetch_offset.0), (partition.partition, partition.fetch_offset));
            assert_eq!(found.current_leader_epoch.0, partition.current_leader_epoch);
            assert_eq!(found.last_fetched_epoch.0, partition.last_fetched_epoch);
            assert_eq!(found.log_start_offset.0, partition.log_start_offset);
            assert_eq!(found.max_bytes, partition.partition_max_bytes);
        }
    }
    assert_eq!(partitions.next(), None);
    let mut forgotten = ours.forgotten.iter();
    for topic in &theirs.forgotten_topics_data {
        for partition in &topic.partitions {
            let found = forgotten.next().expect("as many forgotten partitions");
            assert!(same_topic(found.topic, &topic.topic, topic.topic_id));
            assert_eq!(found.partition, *partition);
        }
    }
    assert_eq!(forgotten.next(), None);
}

fn has_null_too_early(request: &theirs::MetadataRequest, version: i16) -> bool {
    match &request.topics {
        None => version == 0,
        Some(topics) => version < 10 && topics.iter().any(|topic| topic.name.is_none()),
    }
}

fn metadata(body: &[u8], version: i16) {
    let ours = bounded(body.len(), || MetadataRequest::decode(body, version).map(drop));
    let theirs = read::<theirs::MetadataRequest>(body, version);
    let theirs = match (ours, theirs) {
        (Ok(()), Ok(theirs)) => theirs,
        // The codec takes null also in versions that have none: for the list in 0, for a name below 10.
        (Err(_), Ok(theirs)) if has_null_too_early(&theirs, version) => return,
        (Err(error), Ok(theirs)) => return assert!(is_laxer(error), "refused ({error}): {theirs:?}"),
        _ => return,
    };
    let ours = MetadataRequest::decode(body, version).expect("read before");
    let all = theirs.topics.as_ref().filter(|topics| version > 0 || !topics.is_empty());
    let named: Option<Vec<_>> = all.map(|topics| {
        topics.iter().map(|topic| (TopicId(topic.topic_id), topic.name.as_ref().map(|name| name.as_str()))).collect()
    });
    let found: Option<Vec<_>> = ours.topics.map(|topics| topics.iter().map(|topic| (topic.id, topic.name)).collect());
    assert_eq!(found, named);
    assert_eq!(ours.allow_auto_topic_creation, theirs.allow_auto_topic_creation);
    assert_eq!(ours.include_cluster_authorized_operations, theirs.include_cluster_authorized_operations);
    assert_eq!(ours.include_topic_authorized_operations, theirs.include_topic_authorized_operations);
}
