//! DeleteRecords (21), versions 0-2: raises a partition's log start; the files go at the next retention run.
//!
//! -1 means the high watermark. Checks in order: metadata, internal topic (INVALID_TOPIC_EXCEPTION), leadership,
//! `cleanup.policy` without `delete` (POLICY_VIOLATION), offset outside 0..=high watermark (OFFSET_OUT_OF_RANGE). An offset
//! at or below the log start changes nothing and succeeds. On errors the low watermark is -1.
//! Gap: followers are not waited for, see `gaps.md`.

use indexmap::IndexMap;
use kafka_protocol::messages::delete_records_response::{DeleteRecordsPartitionResult, DeleteRecordsTopicResult};
use kafka_protocol::messages::{DeleteRecordsRequest, DeleteRecordsResponse};

use super::context::RequestContext;
use super::serve::Close;
use crate::cluster::internal_topics::is_internal;
use crate::types::Offset;
use crate::wire::error_code::ErrorCode;

pub async fn handle(ctx: &RequestContext<'_>, request: DeleteRecordsRequest) -> Result<DeleteRecordsResponse, Close> {
    let topics = request.topics.iter().map(|topic| {
        // Of a partition that is named twice the later counts.
        let last: IndexMap<i32, i64> =
            topic.partitions.iter().map(|asked| (asked.partition_index, asked.offset)).collect();
        let partitions = last.into_iter().map(|(index, to)| {
            let answer = DeleteRecordsPartitionResult::default().with_partition_index(index);
            match delete(ctx, &topic.name, index, Offset(to)) {
                Ok(low_watermark) => answer.with_low_watermark(low_watermark.0),
                Err(code) => answer.with_low_watermark(-1).with_error_code(code.code()),
            }
        });
        DeleteRecordsTopicResult::default().with_name(topic.name.clone()).with_partitions(partitions.collect())
    });
    Ok(DeleteRecordsResponse::default().with_topics(topics.collect()))
}

fn delete(ctx: &RequestContext<'_>, topic: &str, partition: i32, to: Offset) -> Result<Offset, ErrorCode> {
    if ctx.services.cluster.load().partition(topic, partition).is_none() {
        return Err(ErrorCode::UnknownTopicOrPartition);
    }
    if is_internal(topic) {
        return Err(ErrorCode::InvalidTopicException);
    }
    ctx.partition(topic, partition)?.delete_records(to)
}
