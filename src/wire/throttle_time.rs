//! Where `throttle_time_ms` stands in a response, so that it can be set when the rest is written already.

use super::api_versions::ApiKey;

/// Bytes of the body before `throttle_time_ms`. `None`: that version does not have it, or has it behind what varies in
/// length (Produce, ApiVersions), where whoever writes the body has to know it.
pub fn place(api: ApiKey, version: i16) -> Option<usize> {
    let (since, place) = match api {
        ApiKey::Fetch => (1, 0),
        ApiKey::ListOffsets => (2, 0),
        ApiKey::Metadata => (3, 0),
        ApiKey::OffsetCommit => (3, 0),
        ApiKey::OffsetFetch => (3, 0),
        ApiKey::FindCoordinator => (1, 0),
        ApiKey::JoinGroup => (2, 0),
        ApiKey::Heartbeat => (1, 0),
        ApiKey::LeaveGroup => (1, 0),
        ApiKey::SyncGroup => (1, 0),
        ApiKey::DescribeGroups => (1, 0),
        ApiKey::ListGroups => (1, 0),
        ApiKey::CreateTopics => (2, 0),
        ApiKey::DeleteTopics => (1, 0),
        ApiKey::OffsetForLeaderEpoch => (2, 0),
        // Behind the error.
        ApiKey::OffsetDelete => (0, 2),
        ApiKey::DeleteRecords
        | ApiKey::InitProducerId
        | ApiKey::AddPartitionsToTxn
        | ApiKey::AddOffsetsToTxn
        | ApiKey::EndTxn
        | ApiKey::TxnOffsetCommit
        | ApiKey::DescribeAcls
        | ApiKey::CreateAcls
        | ApiKey::DeleteAcls
        | ApiKey::DescribeConfigs
        | ApiKey::AlterConfigs
        | ApiKey::AlterReplicaLogDirs
        | ApiKey::DescribeLogDirs
        | ApiKey::CreatePartitions
        | ApiKey::DeleteGroups
        | ApiKey::ElectLeaders
        | ApiKey::IncrementalAlterConfigs
        | ApiKey::AlterPartitionReassignments
        | ApiKey::ListPartitionReassignments
        | ApiKey::DescribeClientQuotas
        | ApiKey::AlterClientQuotas
        | ApiKey::DescribeUserScramCredentials
        | ApiKey::AlterUserScramCredentials
        | ApiKey::AlterPartition
        | ApiKey::UpdateFeatures
        | ApiKey::DescribeCluster
        | ApiKey::DescribeProducers
        | ApiKey::DescribeTransactions
        | ApiKey::ListTransactions
        | ApiKey::AllocateProducerIds
        | ApiKey::ConsumerGroupHeartbeat
        | ApiKey::ConsumerGroupDescribe => (0, 0),
        // Behind what varies in length.
        ApiKey::RenewDelegationToken | ApiKey::ExpireDelegationToken => (0, 10),
        _ => return None,
    };
    (version >= since).then_some(place)
}

/// Sets it in `answer`, header and body.
pub fn set(answer: &mut [u8], api: ApiKey, version: i16, ms: i32) {
    let Some(place) = place(api, version) else { return };
    let header = 4 + usize::from(api.response_header_version(version) >= 1);
    if let Some(field) = answer.get_mut(header + place..header + place + 4) {
        field.copy_from_slice(&ms.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use bytes::BytesMut;
    use kafka_protocol::messages::*;
    use kafka_protocol::protocol::Encodable;

    use super::*;
    use crate::wire::api_versions::{ApiKey as Api, TABLE};

    /// The first byte of the body that differs when the field does, from an independent codec.
    fn found<M: Encodable>(version: i16, without: M, with: M) -> Option<usize> {
        let [without, with] = [without, with].map(|message| {
            let mut body = BytesMut::new();
            message.encode(&mut body, version).map(|()| body)
        });
        let (Ok(without), Ok(with)) = (without, with) else { panic!("a default cannot be written") };
        without.iter().zip(&with).position(|(a, b)| a != b)
    }

    #[test]
    fn it_stands_where_an_independent_codec_writes_it() {
        /// Bytes that are all different from what a default holds.
        const MS: i32 = 0x7a7b_7c7d;
        macro_rules! of {
            ($api:expr, $version:expr, $($name:ident => $response:ident,)*) => {
                match $api {
                    $(Api::$name => found(
                        $version,
                        $response::default(),
                        $response::default().with_throttle_time_ms(MS),
                    ),)*
                    _ => None,
                }
            };
        }
        for &api in TABLE {
            for version in api.row().min_version..=api.row().max_version {
                let theirs = of!(api, version,
                    Fetch => FetchResponse, ListOffsets => ListOffsetsResponse, Metadata => MetadataResponse,
                    OffsetCommit => OffsetCommitResponse, OffsetFetch => OffsetFetchResponse,
                    FindCoordinator => FindCoordinatorResponse, JoinGroup => JoinGroupResponse,
                    Heartbeat => HeartbeatResponse, LeaveGroup => LeaveGroupResponse, SyncGroup => SyncGroupResponse,
                    DescribeGroups => DescribeGroupsResponse, ListGroups => ListGroupsResponse,
                    CreateTopics => CreateTopicsResponse, DeleteTopics => DeleteTopicsResponse,
                    DeleteRecords => DeleteRecordsResponse, InitProducerId => InitProducerIdResponse,
                    OffsetForLeaderEpoch => OffsetForLeaderEpochResponse,
                    AddPartitionsToTxn => AddPartitionsToTxnResponse, AddOffsetsToTxn => AddOffsetsToTxnResponse,
                    EndTxn => EndTxnResponse, TxnOffsetCommit => TxnOffsetCommitResponse,
                    DescribeAcls => DescribeAclsResponse, CreateAcls => CreateAclsResponse,
                    DeleteAcls => DeleteAclsResponse, DescribeConfigs => DescribeConfigsResponse,
                    AlterConfigs => AlterConfigsResponse, AlterReplicaLogDirs => AlterReplicaLogDirsResponse,
                    DescribeLogDirs => DescribeLogDirsResponse, CreatePartitions => CreatePartitionsResponse,
                    DeleteGroups => DeleteGroupsResponse, ElectLeaders => ElectLeadersResponse,
                    IncrementalAlterConfigs => IncrementalAlterConfigsResponse,
                    AlterPartitionReassignments => AlterPartitionReassignmentsResponse,
                    ListPartitionReassignments => ListPartitionReassignmentsResponse,
                    OffsetDelete => OffsetDeleteResponse, DescribeClientQuotas => DescribeClientQuotasResponse,
                    AlterClientQuotas => AlterClientQuotasResponse,
                    DescribeUserScramCredentials => DescribeUserScramCredentialsResponse,
                    AlterUserScramCredentials => AlterUserScramCredentialsResponse,
                    AlterPartition => AlterPartitionResponse, UpdateFeatures => UpdateFeaturesResponse,
                    DescribeCluster => DescribeClusterResponse, DescribeProducers => DescribeProducersResponse,
                    DescribeTransactions => DescribeTransactionsResponse, ListTransactions => ListTransactionsResponse,
                    AllocateProducerIds => AllocateProducerIdsResponse,
                    RenewDelegationToken => RenewDelegationTokenResponse,
                    ExpireDelegationToken => ExpireDelegationTokenResponse,
                    ConsumerGroupHeartbeat => ConsumerGroupHeartbeatResponse,
                    ConsumerGroupDescribe => ConsumerGroupDescribeResponse,
                );
                assert_eq!(place(api, version), theirs, "{api:?} v{version}");
            }
        }
    }

    #[test]
    fn it_is_set_behind_either_header() {
        let set = |api, version, answer: &[u8]| {
            let mut answer = answer.to_vec();
            set(&mut answer, api, version, 0x0102_0304);
            answer
        };
        assert_eq!(&set(Api::Heartbeat, 1, b"corr\0\0\0\0rest")[..], b"corr\x01\x02\x03\x04rest");
        assert_eq!(&set(Api::Heartbeat, 4, b"corr\0\0\0\0\0rest")[..], b"corr\0\x01\x02\x03\x04rest");
        assert_eq!(&set(Api::Heartbeat, 0, b"corr\0\0\0\0")[..], b"corr\0\0\0\0");
        assert_eq!(&set(Api::Heartbeat, 1, b"cor")[..], b"cor");
    }
}
