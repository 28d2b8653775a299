//! OffsetCommit (8), versions 0-9: a group's positions.
//!
//! Partitions that do not exist are UNKNOWN_TOPIC_OR_PARTITION and come first in the answer; the rest is up to the group (see
//! `coordinator::group`) and answered when it is replicated. Version 0 writes to the metastore, as clients before 0.8.2 do, and
//! version 1 may say when the commit was made; 2 to 4 may say how long it is kept, ms.

use std::sync::Arc;

use kafka_protocol::messages::offset_commit_request::OffsetCommitRequestTopic;
use kafka_protocol::messages::offset_commit_response::{OffsetCommitResponsePartition, OffsetCommitResponseTopic};
use kafka_protocol::messages::{OffsetCommitRequest, OffsetCommitResponse};

use super::context::RequestContext;
use super::group_member::speaker;
use super::partition_errors::PartitionErrors;
use super::serve::Close;
use crate::cluster::consumer_offsets;
use crate::coordinator::group::{Commit, CommitPartition, RequestId};
use crate::types::{LeaderEpoch, Offset};
use crate::wire::error_code::ErrorCode;

pub async fn handle(ctx: &RequestContext<'_>, mut request: OffsetCommitRequest) -> Result<OffsetCommitResponse, Close> {
    let mut errors = PartitionErrors::default();
    take_unknown(ctx, &mut request.topics, &mut errors);
    if !request.topics.is_empty() {
        let told = match ctx.version() {
            0 => to_metastore(ctx, &request).await,
            _ => to_coordinator(ctx, &request).await,
        };
        let asked = request.topics.iter().flat_map(|topic| topic.partitions.iter().map(move |at| (topic, at)));
        for ((topic, at), error) in asked.zip(told) {
            errors.insert(&topic.name, at.partition_index, error);
        }
    }
    let topics = errors.response(
        |index, error| {
            OffsetCommitResponsePartition::default().with_partition_index(index).with_error_code(error.code())
        },
        |name, partitions| OffsetCommitResponseTopic::default().with_name(name).with_partitions(partitions),
    );
    Ok(OffsetCommitResponse::default().with_topics(topics))
}

/// Takes the partitions out that do not exist.
fn take_unknown(ctx: &RequestContext<'_>, topics: &mut Vec<OffsetCommitRequestTopic>, errors: &mut PartitionErrors) {
    let snapshot = ctx.services.cluster.load();
    for topic in topics.iter_mut() {
        let name = &topic.name;
        topic.partitions.retain(|at| {
            let exists = snapshot.partition(name, at.partition_index).is_some();
            if !exists {
                errors.insert(name, at.partition_index, ErrorCode::UnknownTopicOrPartition);
            }
            exists
        });
    }
    topics.retain(|topic| !topic.partitions.is_empty());
}

/// An error for each partition, in order.
async fn to_coordinator(ctx: &RequestContext<'_>, request: &OffsetCommitRequest) -> Vec<ErrorCode> {
    let mut partitions = Vec::new();
    for topic in &request.topics {
        let name: Arc<str> = topic.name.as_str().into();
        partitions.extend(topic.partitions.iter().map(|at| CommitPartition {
            topic: name.clone(),
            partition: at.partition_index,
            offset: Offset(at.committed_offset),
            leader_epoch: LeaderEpoch(at.committed_leader_epoch),
            metadata: at.committed_metadata.as_deref().unwrap_or_default().into(),
            commit_timestamp_ms: Some(at.commit_timestamp).filter(|at_ms| *at_ms != -1),
        }));
    }
    let count = partitions.len();
    let commit = Commit {
        // The coordinator numbers its requests.
        request: RequestId(0),
        group: request.group_id.as_str().into(),
        speaker: speaker(request.generation_id_or_member_epoch, &request.member_id, request.group_instance_id.as_ref()),
        retention_ms: Some(request.retention_time_ms).filter(|keep_ms| *keep_ms != -1),
        transaction: None,
        partitions,
    };
    let told = ctx.services.groups.commit(commit).await.unwrap_or_else(|code| vec![code; count]);
    if told.first() == Some(&ErrorCode::UnknownMemberId) {
        ctx.services.telltales.lost_member(ctx, &request.group_id, &request.member_id);
    }
    told
}

async fn to_metastore(ctx: &RequestContext<'_>, request: &OffsetCommitRequest) -> Vec<ErrorCode> {
    let store = ctx.services.admin.store();
    let longest = usize::try_from(ctx.services.config.group.offset_metadata_max_bytes).unwrap_or(0);
    let mut codes = Vec::new();
    for topic in &request.topics {
        for at in &topic.partitions {
            let metadata = at.committed_metadata.as_deref().unwrap_or_default();
            codes.push(match metadata.encode_utf16().count() > longest {
                true => ErrorCode::OffsetMetadataTooLarge,
                false => {
                    let offset = Offset(at.committed_offset);
                    consumer_offsets::commit(&*store, &request.group_id, &topic.name, at.partition_index, offset)
                        .await
                        .map_or_else(
                            |error| {
                                tracing::warn!(group = %*request.group_id, %error, "an offset is not written to the metastore");
                                ErrorCode::UnknownServerError
                            },
                            |()| ErrorCode::None,
                        )
                }
            });
        }
    }
    codes
}
