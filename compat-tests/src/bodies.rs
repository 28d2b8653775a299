//! Valid request bodies made up by the codec itself: its decoder runs on a reader that invents each field as it is asked
//! for, so every array has an element and every byte of the body is known. Shared by the lane `hostile` and, by path, by
//! the broker's own test of its decoders.

use std::ops::Range;

use bytes::{Buf, Bytes, TryGetError};
use kafka_protocol::messages::*;
use kafka_protocol::protocol::Decodable;
use kafka_protocol::protocol::buf::ByteBuf;

/// A body and where its numbers lie: counts, lengths and sizes are among them.
#[derive(Clone, Debug, Default)]
pub struct Body {
    pub bytes: Vec<u8>,
    /// Begin and size (1, 2, 4 or 8 bytes) of each number, in order. Compact numbers have one byte.
    pub numbers: Vec<(usize, usize)>,
}

impl Body {
    fn give<const N: usize>(&mut self, bytes: [u8; N]) -> [u8; N] {
        self.numbers.push((self.bytes.len(), N));
        self.bytes.extend(bytes);
        bytes
    }
}

/// Reading from it makes up what is read.
impl Buf for Body {
    fn remaining(&self) -> usize {
        usize::MAX
    }
    fn chunk(&self) -> &[u8] {
        unimplemented!("every read is overridden")
    }
    fn advance(&mut self, _: usize) {
        unimplemented!("every read is overridden")
    }
    fn try_get_u8(&mut self) -> Result<u8, TryGetError> {
        // A compact length of one, a true, two tags.
        Ok(u8::from_be_bytes(self.give([2])))
    }
    fn try_get_i8(&mut self) -> Result<i8, TryGetError> {
        Ok(i8::from_be_bytes(self.give([1])))
    }
    fn try_get_i16(&mut self) -> Result<i16, TryGetError> {
        Ok(i16::from_be_bytes(self.give(1i16.to_be_bytes())))
    }
    fn try_get_i32(&mut self) -> Result<i32, TryGetError> {
        Ok(i32::from_be_bytes(self.give(1i32.to_be_bytes())))
    }
    fn try_get_i64(&mut self) -> Result<i64, TryGetError> {
        Ok(i64::from_be_bytes(self.give(1i64.to_be_bytes())))
    }
    fn try_get_f64(&mut self) -> Result<f64, TryGetError> {
        Ok(f64::from_be_bytes(self.give(1f64.to_be_bytes())))
    }
    fn try_copy_to_slice(&mut self, into: &mut [u8]) -> Result<(), TryGetError> {
        into.fill(b'i');
        self.bytes.extend_from_slice(into);
        Ok(())
    }
}

impl ByteBuf for Body {
    fn peek_bytes(&mut self, range: Range<usize>) -> Bytes {
        vec![b'p'; range.len()].into()
    }
    fn get_bytes(&mut self, size: usize) -> Bytes {
        let bytes = vec![b's'; size];
        self.bytes.extend_from_slice(&bytes);
        bytes.into()
    }
}

/// A body of one message type.
pub fn invent<T: Decodable>(version: i16) -> Body {
    let mut body = Body::default();
    T::decode(&mut body, version).expect("a made up body");
    body
}

/// A body of the request with this key; `None` for a key that is missing here.
pub fn request(key: i16, version: i16) -> Option<Body> {
    Some(match ApiKey::try_from(key).ok()? {
        ApiKey::Produce => invent::<ProduceRequest>(version),
        ApiKey::Fetch => invent::<FetchRequest>(version),
        ApiKey::ListOffsets => invent::<ListOffsetsRequest>(version),
        ApiKey::Metadata => invent::<MetadataRequest>(version),
        ApiKey::ApiVersions => invent::<ApiVersionsRequest>(version),
        ApiKey::CreateTopics => invent::<CreateTopicsRequest>(version),
        ApiKey::DeleteTopics => invent::<DeleteTopicsRequest>(version),
        ApiKey::DeleteRecords => invent::<DeleteRecordsRequest>(version),
        ApiKey::InitProducerId => invent::<InitProducerIdRequest>(version),
        ApiKey::OffsetForLeaderEpoch => invent::<OffsetForLeaderEpochRequest>(version),
        ApiKey::AddPartitionsToTxn => invent::<AddPartitionsToTxnRequest>(version),
        ApiKey::AddOffsetsToTxn => invent::<AddOffsetsToTxnRequest>(version),
        ApiKey::EndTxn => invent::<EndTxnRequest>(version),
        ApiKey::TxnOffsetCommit => invent::<TxnOffsetCommitRequest>(version),
        ApiKey::DescribeTransactions => invent::<DescribeTransactionsRequest>(version),
        ApiKey::ListTransactions => invent::<ListTransactionsRequest>(version),
        ApiKey::WriteTxnMarkers => invent::<WriteTxnMarkersRequest>(version),
        ApiKey::DescribeConfigs => invent::<DescribeConfigsRequest>(version),
        ApiKey::AlterConfigs => invent::<AlterConfigsRequest>(version),
        ApiKey::DescribeLogDirs => invent::<DescribeLogDirsRequest>(version),
        ApiKey::CreatePartitions => invent::<CreatePartitionsRequest>(version),
        ApiKey::IncrementalAlterConfigs => invent::<IncrementalAlterConfigsRequest>(version),
        ApiKey::DescribeCluster => invent::<DescribeClusterRequest>(version),
        ApiKey::DescribeProducers => invent::<DescribeProducersRequest>(version),
        ApiKey::OffsetCommit => invent::<OffsetCommitRequest>(version),
        ApiKey::OffsetFetch => invent::<OffsetFetchRequest>(version),
        ApiKey::FindCoordinator => invent::<FindCoordinatorRequest>(version),
        ApiKey::JoinGroup => invent::<JoinGroupRequest>(version),
        ApiKey::Heartbeat => invent::<HeartbeatRequest>(version),
        ApiKey::LeaveGroup => invent::<LeaveGroupRequest>(version),
        ApiKey::SyncGroup => invent::<SyncGroupRequest>(version),
        ApiKey::DescribeGroups => invent::<DescribeGroupsRequest>(version),
        ApiKey::ListGroups => invent::<ListGroupsRequest>(version),
        ApiKey::DeleteGroups => invent::<DeleteGroupsRequest>(version),
        ApiKey::OffsetDelete => invent::<OffsetDeleteRequest>(version),
        ApiKey::SaslHandshake => invent::<SaslHandshakeRequest>(version),
        ApiKey::DescribeAcls => invent::<DescribeAclsRequest>(version),
        ApiKey::CreateAcls => invent::<CreateAclsRequest>(version),
        ApiKey::DeleteAcls => invent::<DeleteAclsRequest>(version),
        ApiKey::SaslAuthenticate => invent::<SaslAuthenticateRequest>(version),
        ApiKey::CreateDelegationToken => invent::<CreateDelegationTokenRequest>(version),
        ApiKey::RenewDelegationToken => invent::<RenewDelegationTokenRequest>(version),
        ApiKey::ExpireDelegationToken => invent::<ExpireDelegationTokenRequest>(version),
        ApiKey::DescribeDelegationToken => invent::<DescribeDelegationTokenRequest>(version),
        ApiKey::Envelope => invent::<EnvelopeRequest>(version),
        ApiKey::AllocateProducerIds => invent::<AllocateProducerIdsRequest>(version),
        ApiKey::ConsumerGroupHeartbeat => invent::<ConsumerGroupHeartbeatRequest>(version),
        ApiKey::ConsumerGroupDescribe => invent::<ConsumerGroupDescribeRequest>(version),
        ApiKey::DescribeUserScramCredentials => invent::<DescribeUserScramCredentialsRequest>(version),
        ApiKey::AlterUserScramCredentials => invent::<AlterUserScramCredentialsRequest>(version),
        ApiKey::UpdateFeatures => invent::<UpdateFeaturesRequest>(version),
        ApiKey::ElectLeaders => invent::<ElectLeadersRequest>(version),
        ApiKey::AlterPartitionReassignments => invent::<AlterPartitionReassignmentsRequest>(version),
        ApiKey::ListPartitionReassignments => invent::<ListPartitionReassignmentsRequest>(version),
        ApiKey::AlterReplicaLogDirs => invent::<AlterReplicaLogDirsRequest>(version),
        ApiKey::DescribeClientQuotas => invent::<DescribeClientQuotasRequest>(version),
        ApiKey::AlterClientQuotas => invent::<AlterClientQuotasRequest>(version),
        ApiKey::LeaderAndIsr => invent::<LeaderAndIsrRequest>(version),
        ApiKey::StopReplica => invent::<StopReplicaRequest>(version),
        ApiKey::UpdateMetadata => invent::<UpdateMetadataRequest>(version),
        ApiKey::ControlledShutdown => invent::<ControlledShutdownRequest>(version),
        ApiKey::AlterPartition => invent::<AlterPartitionRequest>(version),
        _ => return None,
    })
}

/// What stands in place of a number and promises more than there is, or less than nothing.
pub const LIES: &[&[u8]] = &[
    &[0x7f, 0xff, 0xff, 0xff],
    &[0xff, 0xff, 0xff, 0xfe],
    &[0x80, 0, 0, 0],
    &[0x00, 0x10, 0, 0],
    &[0x7f, 0xff],
    &[0xff, 0xfe],
    &[0xff, 0xff, 0xff, 0xff, 0x0f],
    &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
    &[0xff, 0xff, 0x03],
];

/// `body` with `lie` written over it at `at`, and with `lie` in place of the one byte there: a compact count grows by its
/// further bytes.
pub fn with_lie(body: &[u8], at: usize, lie: &[u8]) -> [Vec<u8>; 2] {
    let before = &body[..at];
    [
        [before, lie, body.get(at + lie.len()..).unwrap_or_default()].concat(),
        [before, lie, body.get(at + 1..).unwrap_or_default()].concat(),
    ]
}

/// A number in as many bytes as it needs, seven bits each: what tags and compact lengths are written in.
pub fn put_unsigned(out: &mut Vec<u8>, mut value: u32) {
    while value > 0x7f {
        out.push(value as u8 & 0x7f | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}
