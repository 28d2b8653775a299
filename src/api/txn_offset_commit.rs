//! TxnOffsetCommit (28), versions 0-4: a group's positions, committed in a producer's transaction. They count when its marker
//! says so.
//!
//! First failing check: partitions that do not exist (UNKNOWN_TOPIC_OR_PARTITION, alone), a group without a name
//! (INVALID_GROUP_ID), a group that is coordinated elsewhere; the transaction must have the group's partition of
//! `__consumer_offsets` (KIP-890), as its coordinator says; then the group's checks. From version 3 on the producer may say
//! for which member it speaks (KIP-447).
//!
//! Below version 4 TRANSACTION_ABORTABLE is told as INVALID_TXN_STATE, below 2 COORDINATOR_LOAD_IN_PROGRESS as
//! COORDINATOR_NOT_AVAILABLE: those clients crash on it.

use std::sync::Arc;

use kafka_protocol::messages::txn_offset_commit_response::{
    TxnOffsetCommitResponsePartition, TxnOffsetCommitResponseTopic,
};
use kafka_protocol::messages::{TxnOffsetCommitRequest, TxnOffsetCommitResponse};

use super::context::RequestContext;
use super::group_member::{named, speaker};
use super::partition_errors::PartitionErrors;
use super::serve::Close;
use crate::coordinator::group::{Commit, CommitPartition, InTransaction, RequestId};
use crate::storage::log::Verification;
use crate::types::{LeaderEpoch, Offset};
use crate::wire::error_code::ErrorCode;

/// Its clients know COORDINATOR_LOAD_IN_PROGRESS.
const FIRST_WITH_LOADING: i16 = 2;
/// Its clients know TRANSACTION_ABORTABLE.
const FIRST_WITH_ABORTABLE: i16 = 4;
/// Offsets have no sequence.
const NO_SEQUENCE: i32 = -1;

pub async fn handle(
    ctx: &RequestContext<'_>,
    mut request: TxnOffsetCommitRequest,
) -> Result<TxnOffsetCommitResponse, Close> {
    let mut errors = PartitionErrors::default();
    let snapshot = ctx.services.cluster.load();
    for topic in &mut request.topics {
        let name = &topic.name;
        topic.partitions.retain(|at| {
            let exists = snapshot.partition(name, at.partition_index).is_some();
            if !exists {
                errors.insert(name, at.partition_index, ErrorCode::UnknownTopicOrPartition);
            }
            exists
        });
    }
    drop(snapshot);
    request.topics.retain(|topic| !topic.partitions.is_empty());
    if !request.topics.is_empty() {
        let told = commit(ctx, &request).await;
        let asked = request.topics.iter().flat_map(|topic| topic.partitions.iter().map(move |at| (topic, at)));
        for (nth, (topic, at)) in asked.enumerate() {
            let code = match &told {
                Ok(codes) => codes.get(nth).copied().unwrap_or(ErrorCode::UnknownServerError),
                Err(code) => *code,
            };
            errors.insert(&topic.name, at.partition_index, for_client(ctx.version(), code));
        }
    }
    let topics = errors.response(
        |index, error| {
            TxnOffsetCommitResponsePartition::default().with_partition_index(index).with_error_code(error.code())
        },
        |name, partitions| TxnOffsetCommitResponseTopic::default().with_name(name).with_partitions(partitions),
    );
    Ok(TxnOffsetCommitResponse::default().with_topics(topics))
}

fn for_client(version: i16, code: ErrorCode) -> ErrorCode {
    match code {
        ErrorCode::CoordinatorLoadInProgress if version < FIRST_WITH_LOADING => ErrorCode::CoordinatorNotAvailable,
        ErrorCode::TransactionAbortable if version < FIRST_WITH_ABORTABLE => ErrorCode::InvalidTxnState,
        code => code,
    }
}

/// An error for each partition, in order, or one for all.
async fn commit(ctx: &RequestContext<'_>, request: &TxnOffsetCommitRequest) -> Result<Vec<ErrorCode>, ErrorCode> {
    let group = named(&request.group_id)?;
    let verification = verify(ctx, request, &group).await?;
    let (producer_id, producer_epoch) = (request.producer_id.0, request.producer_epoch);
    if producer_id < 0 || producer_epoch < 0 {
        return Err(ErrorCode::UnknownServerError);
    }
    let mut partitions = Vec::new();
    for topic in &request.topics {
        let name: Arc<str> = topic.name.as_str().into();
        partitions.extend(topic.partitions.iter().map(|at| CommitPartition {
            topic: name.clone(),
            partition: at.partition_index,
            offset: Offset(at.committed_offset),
            leader_epoch: LeaderEpoch(at.committed_leader_epoch),
            metadata: at.committed_metadata.as_deref().unwrap_or_default().into(),
            commit_timestamp_ms: None,
        }));
    }
    let commit = Commit {
        // The coordinator numbers its requests.
        request: RequestId(0),
        group,
        speaker: speaker(request.generation_id, &request.member_id, request.group_instance_id.as_ref()),
        retention_ms: None,
        transaction: Some(InTransaction { producer_id, producer_epoch, verification }),
        partitions,
    };
    ctx.services.groups.commit(commit).await
}

/// Asks the transaction's coordinator whether it has the group's partition, unless its transaction is open there.
async fn verify(
    ctx: &RequestContext<'_>,
    request: &TxnOffsetCommitRequest,
    group: &str,
) -> Result<Verification, ErrorCode> {
    let home = ctx.services.groups.home_of(group)?;
    if !ctx.services.configs.broker().transaction_partition_verification_enable {
        return Ok(Verification::NotAsked);
    }
    let (producer_id, epoch) = (request.producer_id.0, request.producer_epoch);
    let now_ms = ctx.services.clock.wall_ms();
    let begun = home.begin_verification(producer_id, epoch, NO_SEQUENCE, now_ms).map_err(unverified)?;
    let Some(guard) = begun else { return Ok(Verification::Required(None)) };
    let id = request.transactional_id.as_str();
    if id.is_empty() {
        return Err(ErrorCode::InvalidRequest);
    }
    let partitions = vec![home.topic_partition().clone()];
    let codes = ctx.services.transactions.verify(id, producer_id, epoch, partitions).await;
    match codes.first().copied().unwrap_or(ErrorCode::UnknownServerError) {
        ErrorCode::None => Ok(Verification::Required(Some(guard))),
        code => Err(unverified(code)),
    }
}

/// What a client is told of a verification that failed.
fn unverified(code: ErrorCode) -> ErrorCode {
    match code {
        // They ask again then, and not for the coordinator.
        ErrorCode::NetworkException => ErrorCode::CoordinatorLoadInProgress,
        ErrorCode::UnknownTopicOrPartition => ErrorCode::CoordinatorNotAvailable,
        ErrorCode::NotLeaderOrFollower | ErrorCode::KafkaStorageError => ErrorCode::NotCoordinator,
        code => code,
    }
}
