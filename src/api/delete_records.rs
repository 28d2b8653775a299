//! DeleteRecords (21), versions 0-2: raises a partition's log start; the files go at the next retention run.
//!
//! -1 means the high watermark. Checks in order: metadata, internal topic (INVALID_TOPIC_EXCEPTION), leadership,
//! `cleanup.policy` without `delete` (POLICY_VIOLATION), offset outside 0..=high watermark (OFFSET_OUT_OF_RANGE). An offset
//! at or below the log start changes nothing and succeeds. On errors the low watermark is -1.
//!
//! Answered when every live replica's log starts there, all partitions together. One that takes longer than the request's
//! time-out is REQUEST_TIMED_OUT with the low watermark of the beginning, and is deleted all the same.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use indexmap::IndexMap;
use kafka_protocol::messages::delete_records_response::{DeleteRecordsPartitionResult, DeleteRecordsTopicResult};
use kafka_protocol::messages::{DeleteRecordsRequest, DeleteRecordsResponse};
use tokio::time::{Instant, sleep_until};

use super::context::RequestContext;
use super::serve::Close;
use crate::cluster::internal_topics::is_internal;
use crate::replication::partition::{Deleted, Partition};
use crate::spawn::for_request;
use crate::types::Offset;
use crate::wire::error_code::ErrorCode;

pub async fn handle(ctx: &RequestContext<'_>, request: DeleteRecordsRequest) -> Result<DeleteRecordsResponse, Close> {
    let deadline = Instant::now() + Duration::from_millis(request.timeout_ms.max(0) as u64);
    let topics = request.topics.iter().map(|topic| async move {
        // Of a partition that is named twice the later counts.
        let last: IndexMap<i32, i64> =
            topic.partitions.iter().map(|asked| (asked.partition_index, asked.offset)).collect();
        let partitions = last.into_iter().map(|(index, to)| async move {
            match delete(ctx, &topic.name, index, Offset(to)).await {
                Ok((partition, deleted)) => until_deleted(ctx, &partition, deleted, index, deadline).await,
                Err(code) => result(index, Err(code)),
            }
        });
        let partitions = join_all(partitions).await;
        DeleteRecordsTopicResult::default().with_name(topic.name.clone()).with_partitions(partitions)
    });
    Ok(DeleteRecordsResponse::default().with_topics(join_all(topics).await))
}

fn result(index: i32, outcome: Result<Offset, ErrorCode>) -> DeleteRecordsPartitionResult {
    let answer = DeleteRecordsPartitionResult::default().with_partition_index(index);
    match outcome {
        Ok(low_watermark) => answer.with_low_watermark(low_watermark.0),
        Err(code) => answer.with_low_watermark(-1).with_error_code(code.code()),
    }
}

/// Waits, where not every live replica knows of the deletion, for those that do not.
async fn until_deleted(
    ctx: &RequestContext<'_>,
    partition: &Partition,
    deleted: Deleted,
    index: i32,
    deadline: Instant,
) -> DeleteRecordsPartitionResult {
    let at_first = || result(index, Ok(deleted.low_watermark));
    if !deleted.is_awaited() {
        return at_first();
    }
    let mut changes = ctx.services.cluster.changes();
    let everywhere = async {
        loop {
            tokio::select! {
                biased;
                outcome = partition.deleted(deleted.to) => return outcome.map_err(|error| error.code()),
                // A replica that is waited for may have died.
                Ok(()) = changes.changed() => {}
            }
        }
    };
    tokio::select! {
        biased;
        outcome = everywhere => result(index, outcome),
        () = sleep_until(deadline) => at_first().with_error_code(ErrorCode::RequestTimedOut.code()),
        () = ctx.services.shutdown.requested() => at_first().with_error_code(ErrorCode::RequestTimedOut.code()),
    }
}

/// On the blocking pool: the log start is noted where the log lies, and not before an append under way has ended.
async fn delete(
    ctx: &RequestContext<'_>,
    topic: &str,
    partition: i32,
    to: Offset,
) -> Result<(Arc<Partition>, Deleted), ErrorCode> {
    if ctx.services.cluster.load().partition(topic, partition).is_none() {
        return Err(ErrorCode::UnknownTopicOrPartition);
    }
    if is_internal(topic) {
        return Err(ErrorCode::InvalidTopicException);
    }
    let partition = ctx.partition(topic, partition)?;
    let there = Arc::clone(&partition);
    let deleted = for_request(&*ctx.services.spawner, move || there.delete_records(to)).await;
    // Without a pool the broker stops.
    Ok((partition, deleted.ok_or(ErrorCode::NotLeaderOrFollower)??))
}
