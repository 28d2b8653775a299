//! One file per Kafka API, each opening with its versions, behaviour and gaps; and the dispatch in front of them.
//!
//! A frame's header is read by hand and its key and version looked up in the one table before any byte of the body is
//! looked at. Handlers of `kafka-protocol` messages share [`serve`]; Produce, Fetch and Metadata read and write their own bytes.

pub mod alarm;
pub mod context;
pub mod serve;
pub mod telltale;
pub mod throttle;

mod acl_elements;
mod add_offsets_to_txn;
mod add_partitions_to_txn;
mod allocate_producer_ids;
mod alter_client_quotas;
mod alter_configs;
mod alter_partition;
mod alter_partition_reassignments;
mod alter_replica_log_dirs;
mod alter_user_scram_credentials;
mod api_versions;
mod config_resource;
mod consumer_group_describe;
mod consumer_group_heartbeat;
mod controlled_shutdown;
mod create_acls;
mod create_delegation_token;
mod create_partitions;
mod create_topics;
mod delete_acls;
mod delete_groups;
mod delete_records;
mod delete_topics;
mod describe_acls;
mod describe_client_quotas;
mod describe_cluster;
mod describe_configs;
mod describe_delegation_token;
mod describe_groups;
mod describe_log_dirs;
mod describe_producers;
mod describe_transactions;
mod describe_user_scram_credentials;
mod elect_leaders;
mod end_txn;
mod envelope;
mod expire_delegation_token;
mod fetch;
pub mod fetch_session;
mod find_coordinator;
mod group_member;
mod heartbeat;
mod incremental_alter_configs;
mod init_producer_id;
mod join_group;
mod leader_and_isr;
mod leader_hint;
mod leave_group;
mod list_groups;
mod list_offsets;
mod list_partition_reassignments;
mod list_transactions;
mod metadata;
mod offset_commit;
mod offset_delete;
mod offset_fetch;
mod offset_for_leader_epoch;
mod partition_errors;
mod produce;
mod quota_entity;
mod renew_delegation_token;
mod sasl_authenticate;
mod sasl_handshake;
mod stop_replica;
mod sync_group;
mod transactional;
mod txn_offset_commit;
mod update_features;
mod update_metadata;
mod write_txn_markers;

pub use context::*;
pub use fetch::is_of_large_session;

use bytes::BytesMut;

use crate::wire::api_versions::ApiKey;
use crate::wire::frame::Frame;
use serve::{Close, decode, encode};
use throttle::Toll;

/// Serves one frame (without its length prefix). One request of a connection at a time. `share` is what the request takes
/// of a budget for received bytes: it is dropped with them, which for requests that wait long is before they wait.
///
/// What can be answered at once is, without a future: making one costs a tenth of a small request.
pub fn dispatch<'a, S: Send + 'a>(
    services: &'a Services,
    connection: &'a Connection,
    mut frame: Frame<'_>,
    share: S,
) -> Served<'a> {
    let header = match RequestHeader::take(&mut frame, &connection.last_client_id) {
        Ok(header) => header,
        Err(error) => return Served::AtOnce(Reply::Close(error.to_string())),
    };
    let ctx = RequestContext { services, connection, header, toll: Toll::default() };
    if services.quotas.clients.is_set() {
        let mut body = frame.take();
        return Served::Later(Box::pin(async move {
            let serving = async {
                let size = body.len();
                let begun = begin(&ctx, Frame::at_front(&mut body, size))?;
                finish(&ctx, begun, share).await
            };
            or_closed(throttle::charged(&ctx, Box::pin(serving)).await)
        }));
    }
    match begin(&ctx, frame) {
        Ok(Begun::Answered(reply)) => Served::AtOnce(reply),
        Ok(begun) => Served::Later(Box::pin(async move { or_closed(finish(&ctx, begun, share).await) })),
        Err(Close(reason)) => Served::AtOnce(Reply::Close(reason)),
    }
}

fn or_closed(served: Result<Reply, Close>) -> Reply {
    served.unwrap_or_else(|Close(reason)| Reply::Close(reason))
}

/// A request after what could be done without waiting.
enum Begun {
    Answered(Reply),
    Produce(Box<produce::Waiting>),
    Fetch(fetch::Waiting),
    /// Not begun, with its body.
    Other(BytesMut),
}

fn begin(ctx: &RequestContext<'_>, frame: Frame<'_>) -> Result<Begun, Close> {
    Ok(match ctx.header.api_key {
        ApiKey::Produce => produce::begin(ctx, frame)?.map_or_else(Begun::Produce, Begun::Answered),
        ApiKey::Fetch => fetch::begin(ctx, &frame)?.map_or_else(Begun::Fetch, Begun::Answered),
        ApiKey::ApiVersions => Begun::Answered(api_versions::handle(ctx, frame.take())?),
        _ => Begun::Other(frame.take()),
    })
}

async fn finish<S>(ctx: &RequestContext<'_>, begun: Begun, share: S) -> Result<Reply, Close> {
    match begun {
        Begun::Answered(reply) => Ok(reply),
        Begun::Produce(waiting) => produce::finish(ctx, *waiting, share).await,
        Begun::Fetch(waiting) => {
            drop(share);
            fetch::finish(ctx, waiting).await
        }
        Begun::Other(body) => match ctx.header.api_key {
            ApiKey::Metadata => Box::pin(metadata::handle(ctx, body)).await,
            _ => Box::pin(serve(ctx, body)).await,
        },
    }
}

/// The APIs whose messages are `kafka-protocol`'s: decode, handle, encode.
async fn serve(ctx: &RequestContext<'_>, body: BytesMut) -> Result<Reply, Close> {
    match ctx.header.api_key {
        ApiKey::ListOffsets => encode(ctx, &list_offsets::handle(ctx, decode(ctx, body)?).await?),
        ApiKey::CreateTopics => encode(ctx, &create_topics::handle(ctx, decode(ctx, body)?).await?),
        ApiKey::DeleteTopics => encode(ctx, &delete_topics::handle(ctx, decode(ctx, body)?).await?),
        ApiKey::DeleteRecords => encode(ctx, &delete_records::handle(ctx, decode(ctx, body)?).await?),
        ApiKey::InitProducerId => encode(ctx, &init_producer_id::handle(ctx, decode(ctx, body)?).await?),
        ApiKey::OffsetForLeaderEpoch => encode(ctx, &offset_for_leader_epoch::handle(ctx, decode(ctx, body)?).await?),
        ApiKey::AddPartitionsToTxn => encode(ctx, &add_partitions_to_txn::handle(ctx, decode(ctx, body)?).await?),
        ApiKey::AddOffsetsToTxn => encode(ctx, &add_offsets_to_txn::handle(ctx, decode(ctx, body)?).await?),
        ApiKey::EndTxn => encode(ctx, &end_txn::handle(ctx, decode(ctx, body)?).await?),
        ApiKey::TxnOffsetCommit => encode(ctx, &txn_offset_commit::handle(ctx, decode(ctx, body)?).await?),
        ApiKey::DescribeTransactions => encode(ctx, &describe_transactions::handle(ctx, decode(ctx, body)?).await?),
        ApiKey::ListTransactions => encode(ctx, &list_transactions::handle(ctx, decode(ctx, body)?).await?),
        ApiKey::WriteTxnMarkers => encode(ctx, &write_txn_markers::handle(ctx, decode(ctx, body)?).await?),
        ApiKey::DescribeConfigs => encode(ctx, &describe_configs::handle(ctx, decode(ctx, body)?).await?),
        ApiKey::AlterConfigs => encode(ctx, &alter_configs::handle(ctx, decode(ctx, body)?).await?),
        ApiKey::DescribeLogDirs => encode(ctx, &describe_log_dirs::handle(ctx, decode(ctx, body)?).await?),
        ApiKey::CreatePartitions => encode(ctx, &create_partitions::handle(ctx, decode(ctx, body)?).await?),
        ApiKey::IncrementalAlterConfigs => {
            encode(ctx, &incremental_alter_configs::handle(ctx, decode(ctx, body)?).await?)
        }
        ApiKey::DescribeClientQuotas => encode(ctx, &describe_client_quotas::handle(ctx, decode(ctx, body)?).await?),
        ApiKey::AlterClientQuotas => encode(ctx, &alter_client_quotas::handle(ctx, decode(ctx, body)?).await?),
        ApiKey::FindCoordinator => encode(ctx, &find_coordinator::handle(ctx, decode(ctx, body)?).await?),
        ApiKey::JoinGroup => encode(ctx, &join_group::handle(ctx, decode(ctx, body)?).await?),
        ApiKey::SyncGroup => encode(ctx, &sync_group::handle(ctx, decode(ctx, body)?).await?),
        ApiKey::Heartbeat => encode(ctx, &heartbeat::handle(ctx, decode(ctx, body)?).await?),
        ApiKey::LeaveGroup => encode(ctx, &leave_group::handle(ctx, decode(ctx, body)?).await?),
        ApiKey::OffsetCommit => encode(ctx, &offset_commit::handle(ctx, decode(ctx, body)?).await?),
        ApiKey::OffsetFetch => encode(ctx, &offset_fetch::handle(ctx, decode(ctx, body)?).await?),
        ApiKey::OffsetDelete => encode(ctx, &offset_delete::handle(ctx, decode(ctx, body)?).await?),
        ApiKey::DescribeGroups => encode(ctx, &describe_groups::handle(ctx, decode(ctx, body)?).await?),
        ApiKey::ListGroups => encode(ctx, &list_groups::handle(ctx, decode(ctx, body)?).await?),
        ApiKey::DeleteGroups => encode(ctx, &delete_groups::handle(ctx, decode(ctx, body)?).await?),
        ApiKey::DescribeCluster => encode(ctx, &describe_cluster::handle(ctx, decode(ctx, body)?).await?),
        ApiKey::DescribeProducers => encode(ctx, &describe_producers::handle(ctx, decode(ctx, body)?).await?),
        ApiKey::SaslHandshake => encode(ctx, &sasl_handshake::handle(ctx, decode(ctx, body)?).await?),
        ApiKey::DescribeAcls => encode(ctx, &describe_acls::handle(ctx, decode(ctx, body)?).await?),
        ApiKey::CreateAcls => encode(ctx, &create_acls::handle(ctx, decode(ctx, body)?).await?),
        ApiKey::DeleteAcls => encode(ctx, &delete_acls::handle(ctx, decode(ctx, body)?).await?),
        ApiKey::SaslAuthenticate => encode(ctx, &sasl_authenticate::handle(ctx, decode(ctx, body)?).await?),
        ApiKey::CreateDelegationToken => encode(ctx, &create_delegation_token::handle(ctx, decode(ctx, body)?).await?),
        ApiKey::RenewDelegationToken => encode(ctx, &renew_delegation_token::handle(ctx, decode(ctx, body)?).await?),
        ApiKey::ExpireDelegationToken => encode(ctx, &expire_delegation_token::handle(ctx, decode(ctx, body)?).await?),
        ApiKey::DescribeDelegationToken => {
            encode(ctx, &describe_delegation_token::handle(ctx, decode(ctx, body)?).await?)
        }
        ApiKey::DescribeUserScramCredentials => {
            encode(ctx, &describe_user_scram_credentials::handle(ctx, decode(ctx, body)?).await?)
        }
        ApiKey::AlterUserScramCredentials => {
            encode(ctx, &alter_user_scram_credentials::handle(ctx, decode(ctx, body)?).await?)
        }
        ApiKey::UpdateFeatures => encode(ctx, &update_features::handle(ctx, decode(ctx, body)?).await?),
        ApiKey::ElectLeaders => encode(ctx, &elect_leaders::handle(ctx, decode(ctx, body)?).await?),
        ApiKey::AlterPartitionReassignments => {
            encode(ctx, &alter_partition_reassignments::handle(ctx, decode(ctx, body)?).await?)
        }
        ApiKey::ListPartitionReassignments => {
            encode(ctx, &list_partition_reassignments::handle(ctx, decode(ctx, body)?).await?)
        }
        ApiKey::AlterReplicaLogDirs => encode(ctx, &alter_replica_log_dirs::handle(ctx, decode(ctx, body)?).await?),
        ApiKey::Envelope => encode(ctx, &envelope::handle(ctx, decode(ctx, body)?).await?),
        ApiKey::AllocateProducerIds => encode(ctx, &allocate_producer_ids::handle(ctx, decode(ctx, body)?).await?),
        ApiKey::ConsumerGroupHeartbeat => {
            encode(ctx, &consumer_group_heartbeat::handle(ctx, decode(ctx, body)?).await?)
        }
        ApiKey::ConsumerGroupDescribe => encode(ctx, &consumer_group_describe::handle(ctx, decode(ctx, body)?).await?),
        ApiKey::LeaderAndIsr => encode(ctx, &leader_and_isr::handle(ctx, decode(ctx, body)?).await?),
        ApiKey::UpdateMetadata => encode(ctx, &update_metadata::handle(ctx, decode(ctx, body)?).await?),
        ApiKey::StopReplica => encode(ctx, &stop_replica::handle(ctx, decode(ctx, body)?).await?),
        ApiKey::ControlledShutdown => encode(ctx, &controlled_shutdown::handle(ctx, decode(ctx, body)?).await?),
        ApiKey::AlterPartition => encode(ctx, &alter_partition::handle(ctx, decode(ctx, body)?).await?),
        key => Err(Close(format!("{} is not served", key.name()))),
    }
}
