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
use tokio::time::Instant;

use super::context::RequestContext;
use super::serve::Close;
use crate::cluster::internal_topics::is_internal;
use crate::replication::partition::{Deleted, Partition};
use crate::types::Offset;
use crate::wire::error_code::ErrorCode;

pub async fn handle(ctx: &RequestContext<'_>, request: DeleteRecordsRequest) -> Result<DeleteRecordsResponse, Close> {
    let deadline = Instant::now() + Duration::from_millis(request.timeout_ms.max(0) as u64);
    let mut answers: Vec<DeleteRecordsTopicResult> = Vec::with_capacity(request.topics.len());
    let mut waits = Vec::new();
    for (nth, topic) in request.topics.iter().enumerate() {
        // Of a partition that is named twice the later counts.
        let last: IndexMap<i32, i64> =
            topic.partitions.iter().map(|asked| (asked.partition_index, asked.offset)).collect();
        let partitions = last.into_iter().enumerate().map(|(at, (index, to))| {
            let outcome = delete(ctx, &topic.name, index, Offset(to));
            if let Ok((partition, deleted)) = &outcome
                && deleted.is_awaited()
            {
                waits.push(Wait { place: (nth, at), partition: Arc::clone(partition), to: deleted.to });
            }
            result(index, outcome.map(|(_, deleted)| deleted.low_watermark))
        });
        let partitions = partitions.collect();
        answers.push(DeleteRecordsTopicResult::default().with_name(topic.name.clone()).with_partitions(partitions));
    }
    let waited = waits.into_iter().map(|wait| async move {
        let place = wait.place;
        tokio::select! {
            biased;
            outcome = wait.until_deleted(ctx) => (place, Some(outcome)),
            () = tokio::time::sleep_until(deadline) => (place, None),
            () = ctx.services.shutdown.requested() => (place, None),
        }
    });
    for ((topic, at), outcome) in join_all(waited).await {
        let Some(answer) = answers.get_mut(topic).and_then(|topic| topic.partitions.get_mut(at)) else { continue };
        match outcome {
            Some(outcome) => *answer = result(answer.partition_index, outcome),
            None => answer.error_code = ErrorCode::RequestTimedOut.code(),
        }
    }
    Ok(DeleteRecordsResponse::default().with_topics(answers))
}

fn result(index: i32, outcome: Result<Offset, ErrorCode>) -> DeleteRecordsPartitionResult {
    let answer = DeleteRecordsPartitionResult::default().with_partition_index(index);
    match outcome {
        Ok(low_watermark) => answer.with_low_watermark(low_watermark.0),
        Err(code) => answer.with_low_watermark(-1).with_error_code(code.code()),
    }
}

/// A deletion that not every live replica knows of.
struct Wait {
    /// Topic and partition in the answer.
    place: (usize, usize),
    partition: Arc<Partition>,
    to: Offset,
}

impl Wait {
    async fn until_deleted(&self, ctx: &RequestContext<'_>) -> Result<Offset, ErrorCode> {
        let mut changes = ctx.services.cluster.changes();
        loop {
            tokio::select! {
                biased;
                outcome = self.partition.deleted(self.to) => return outcome.map_err(|error| error.code()),
                // A replica that is waited for may have died.
                Ok(()) = changes.changed() => {}
            }
        }
    }
}

fn delete(
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
    let deleted = partition.delete_records(to)?;
    Ok((partition, deleted))
}
