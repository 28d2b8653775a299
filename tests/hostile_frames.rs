//! Bodies that lie about their counts, in every API and version served: an error or a value, never a crash, and memory
//! that follows the bytes that arrived.
//!
//! Valid bodies are made up by the codec itself (`bodies`), then every position is overwritten with lies.
//!
//! One test in a process of its own: it looks at the process's memory.

use std::fs;

use bytes::Bytes;
use kafka_protocol::messages::*;
use kafka_protocol::protocol::{Decodable, Message};
use klamm::wire::api_versions::{ApiKey, advertised};
use klamm::wire::fetch::FetchRequest as Fetch;
use klamm::wire::guard::{self, Malformed};
use klamm::wire::metadata::MetadataRequest as Metadata;
use klamm::wire::produce::ProduceRequest as Produce;

use bodies::{LIES, invent, put_unsigned, with_lie};

#[path = "../compat-tests/src/bodies.rs"]
mod bodies;

/// Calls `decode` with `body` cut, overwritten and lengthened at every position.
fn lie(body: &[u8], decode: &mut dyn FnMut(Vec<u8>)) {
    for at in 0..body.len() {
        decode(body[..at].to_vec());
        for lie in LIES {
            let [over, grown] = with_lie(body, at, lie);
            decode([&over[..], &[0; 100]].concat());
            decode(over);
            decode(grown);
        }
    }
}

/// Bytes of memory this process has, or had at most since the last `forget_peak`.
fn resident(field: &str) -> usize {
    let status = fs::read_to_string("/proc/self/status").expect("procfs");
    let line = status.lines().find_map(|line| line.strip_prefix(field)).expect("a field of status");
    line.trim_matches(|c: char| !c.is_ascii_digit()).parse::<usize>().expect("a number") << 10
}

fn forget_peak() {
    fs::write("/proc/self/clear_refs", "5").expect("procfs");
}

/// Fails when `work` on `bytes` bytes took more memory than they allow.
fn bounded(what: &str, bytes: usize, work: impl FnOnce()) {
    forget_peak();
    let before = resident("VmRSS:");
    work();
    let grown = resident("VmHWM:").saturating_sub(before);
    let allowed = (8 << 20) + 16 * bytes;
    assert!(grown <= allowed, "{what}: {grown} bytes of memory for {bytes} bytes, {allowed} allowed");
}

fn hostile<T: Decodable + Message>(key: ApiKey) {
    let row = key.row();
    for version in row.min_version..=row.max_version {
        let body = invent::<T>(version).bytes;
        let decoded: Result<T, Malformed> = guard::decode(body.clone().into(), version);
        assert!(decoded.is_ok(), "{key:?} v{version}: an honest body is refused");
        bounded(&format!("{key:?} v{version}"), body.len(), || {
            lie(&body, &mut |bytes| drop(guard::decode::<T>(bytes.into(), version)));
        });
    }
}

#[test]
fn counts_are_not_believed() {
    for row in advertised() {
        let known = bodies::request(row.key.code(), row.max_version);
        let body = known.unwrap_or_else(|| panic!("the lane hostile has no requests of {:?}", row.key));
        assert!(body.numbers.iter().all(|(at, size)| at + size <= body.bytes.len()), "{:?}: {body:?}", row.key);
        match row.key {
            ApiKey::Produce => {
                hand_written::<ProduceRequest>(row.key, |body, version| Produce::decode(body, 0, version).is_ok())
            }
            ApiKey::Fetch => {
                hand_written::<FetchRequest>(row.key, |body, version| Fetch::decode(body, 0, version).is_ok())
            }
            ApiKey::ListOffsets => hostile::<ListOffsetsRequest>(row.key),
            ApiKey::Metadata => {
                hand_written::<MetadataRequest>(row.key, |body, version| Metadata::decode(body, version).is_ok())
            }
            ApiKey::ApiVersions => hostile::<ApiVersionsRequest>(row.key),
            ApiKey::CreateTopics => hostile::<CreateTopicsRequest>(row.key),
            ApiKey::DeleteTopics => hostile::<DeleteTopicsRequest>(row.key),
            ApiKey::DeleteRecords => hostile::<DeleteRecordsRequest>(row.key),
            ApiKey::InitProducerId => hostile::<InitProducerIdRequest>(row.key),
            ApiKey::OffsetForLeaderEpoch => hostile::<OffsetForLeaderEpochRequest>(row.key),
            ApiKey::AddPartitionsToTxn => hostile::<AddPartitionsToTxnRequest>(row.key),
            ApiKey::AddOffsetsToTxn => hostile::<AddOffsetsToTxnRequest>(row.key),
            ApiKey::EndTxn => hostile::<EndTxnRequest>(row.key),
            ApiKey::TxnOffsetCommit => hostile::<TxnOffsetCommitRequest>(row.key),
            ApiKey::DescribeTransactions => hostile::<DescribeTransactionsRequest>(row.key),
            ApiKey::ListTransactions => hostile::<ListTransactionsRequest>(row.key),
            ApiKey::WriteTxnMarkers => hostile::<WriteTxnMarkersRequest>(row.key),
            ApiKey::DescribeConfigs => hostile::<DescribeConfigsRequest>(row.key),
            ApiKey::AlterConfigs => hostile::<AlterConfigsRequest>(row.key),
            ApiKey::DescribeLogDirs => hostile::<DescribeLogDirsRequest>(row.key),
            ApiKey::CreatePartitions => hostile::<CreatePartitionsRequest>(row.key),
            ApiKey::IncrementalAlterConfigs => hostile::<IncrementalAlterConfigsRequest>(row.key),
            ApiKey::DescribeCluster => hostile::<DescribeClusterRequest>(row.key),
            ApiKey::DescribeProducers => hostile::<DescribeProducersRequest>(row.key),
            ApiKey::OffsetCommit => hostile::<OffsetCommitRequest>(row.key),
            ApiKey::OffsetFetch => hostile::<OffsetFetchRequest>(row.key),
            ApiKey::FindCoordinator => hostile::<FindCoordinatorRequest>(row.key),
            ApiKey::JoinGroup => hostile::<JoinGroupRequest>(row.key),
            ApiKey::Heartbeat => hostile::<HeartbeatRequest>(row.key),
            ApiKey::LeaveGroup => hostile::<LeaveGroupRequest>(row.key),
            ApiKey::SyncGroup => hostile::<SyncGroupRequest>(row.key),
            ApiKey::DescribeGroups => hostile::<DescribeGroupsRequest>(row.key),
            ApiKey::ListGroups => hostile::<ListGroupsRequest>(row.key),
            ApiKey::DeleteGroups => hostile::<DeleteGroupsRequest>(row.key),
            ApiKey::OffsetDelete => hostile::<OffsetDeleteRequest>(row.key),
            ApiKey::SaslHandshake => hostile::<SaslHandshakeRequest>(row.key),
            ApiKey::DescribeAcls => hostile::<DescribeAclsRequest>(row.key),
            ApiKey::CreateAcls => hostile::<CreateAclsRequest>(row.key),
            ApiKey::DeleteAcls => hostile::<DeleteAclsRequest>(row.key),
            ApiKey::SaslAuthenticate => hostile::<SaslAuthenticateRequest>(row.key),
            ApiKey::CreateDelegationToken => hostile::<CreateDelegationTokenRequest>(row.key),
            ApiKey::RenewDelegationToken => hostile::<RenewDelegationTokenRequest>(row.key),
            ApiKey::ExpireDelegationToken => hostile::<ExpireDelegationTokenRequest>(row.key),
            ApiKey::DescribeDelegationToken => hostile::<DescribeDelegationTokenRequest>(row.key),
            ApiKey::Envelope => hostile::<EnvelopeRequest>(row.key),
            ApiKey::AllocateProducerIds => hostile::<AllocateProducerIdsRequest>(row.key),
            ApiKey::ConsumerGroupHeartbeat => hostile::<ConsumerGroupHeartbeatRequest>(row.key),
            ApiKey::ConsumerGroupDescribe => hostile::<ConsumerGroupDescribeRequest>(row.key),
            ApiKey::DescribeUserScramCredentials => hostile::<DescribeUserScramCredentialsRequest>(row.key),
            ApiKey::AlterUserScramCredentials => hostile::<AlterUserScramCredentialsRequest>(row.key),
            ApiKey::UpdateFeatures => hostile::<UpdateFeaturesRequest>(row.key),
            ApiKey::ElectLeaders => hostile::<ElectLeadersRequest>(row.key),
            ApiKey::AlterPartitionReassignments => hostile::<AlterPartitionReassignmentsRequest>(row.key),
            ApiKey::ListPartitionReassignments => hostile::<ListPartitionReassignmentsRequest>(row.key),
            ApiKey::AlterReplicaLogDirs => hostile::<AlterReplicaLogDirsRequest>(row.key),
            ApiKey::DescribeClientQuotas => hostile::<DescribeClientQuotasRequest>(row.key),
            ApiKey::AlterClientQuotas => hostile::<AlterClientQuotasRequest>(row.key),
            ApiKey::LeaderAndIsr => hostile::<LeaderAndIsrRequest>(row.key),
            ApiKey::StopReplica => hostile::<StopReplicaRequest>(row.key),
            ApiKey::UpdateMetadata => hostile::<UpdateMetadataRequest>(row.key),
            ApiKey::ControlledShutdown => hostile::<ControlledShutdownRequest>(row.key),
            ApiKey::AlterPartition => hostile::<AlterPartitionRequest>(row.key),
        }
    }
    elements_without_bytes();
}

fn hand_written<T: Decodable>(key: ApiKey, decode: fn(&[u8], i16) -> bool) {
    let row = key.row();
    for version in row.min_version..=row.max_version {
        let body = invent::<T>(version).bytes;
        assert!(decode(&body, version), "{key:?} v{version}: an honest body is refused");
        bounded(&format!("{key:?} v{version}"), body.len(), || {
            lie(&body, &mut |bytes| {
                decode(&bytes, version);
            });
        });
    }
}

/// Arrays whose elements are as many as announced, each of the fewest bytes and the most memory.
fn elements_without_bytes() {
    const COUNT: u32 = 8 << 20;
    // Topics with empty names, two bytes each, by our own decoder and by the codec behind its guard.
    let body: Bytes = [&COUNT.to_be_bytes()[..], &vec![0; 2 * COUNT as usize]].concat().into();
    bounded("Metadata v1", body.len(), || {
        let decoded = Metadata::decode(&body, 1).expect("as many topics as were announced");
        assert_eq!(decoded.topics.map(|topics| topics.len()), Some(COUNT as usize));
    });
    bounded("DeleteTopics v1", body.len(), || {
        let body: Bytes = [&body[..], &[0; 4]].concat().into();
        let decoded = guard::decode::<DeleteTopicsRequest>(body.clone(), 1);
        assert_eq!(decoded.err(), Some(Malformed::Counts { bytes: body.len() }));
    });
    // Names of one byte each in version 4, and tags of two to five bytes each in version 6.
    let count = [0x81, 0x80, 0x80, 0x04];
    let body: Bytes = [&count[..], &vec![1; COUNT as usize], &[0, 0, 0, 0]].concat().into();
    bounded("DeleteTopics v4", body.len(), || {
        let decoded = guard::decode::<DeleteTopicsRequest>(body.clone(), 4);
        assert_eq!(decoded.err(), Some(Malformed::Counts { bytes: body.len() }));
    });
    let mut tags = vec![1, 0, 0, 0, 0, 0x80, 0x80, 0x80, 0x04];
    for tag in 0..COUNT {
        put_unsigned(&mut tags, tag);
        tags.push(0);
    }
    let body = Bytes::from(tags);
    bounded("DeleteTopics v6", body.len(), || {
        let decoded = guard::decode::<DeleteTopicsRequest>(body.clone(), 6);
        assert_eq!(decoded.err(), Some(Malformed::Counts { bytes: body.len() }));
    });
}
