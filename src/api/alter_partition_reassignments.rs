//! AlterPartitionReassignments (45), version 0: moves partitions to other replicas, or (null replicas) takes that back.
//! Served by the active controller.
//!
//! First failing check wins: NOT_CONTROLLER (top level) → those of the controller's
//! [reassignments](crate::controller::decide). The answer is there when a move has begun, not when it is done;
//! `timeout_ms` is not looked at. Of a partition given twice the last one counts, as in Kafka.

use std::sync::Arc;

use indexmap::IndexMap;
use kafka_protocol::messages::alter_partition_reassignments_response::{
    ReassignablePartitionResponse, ReassignableTopicResponse,
};
use kafka_protocol::messages::{AlterPartitionReassignmentsRequest, AlterPartitionReassignmentsResponse, TopicName};

use super::context::RequestContext;
use super::group_member::text;
use super::serve::{Close, bounded};
use crate::controller::decide::Target;
use crate::types::{BrokerId, TopicPartition};
use crate::wire::error_code::ErrorCode;

pub async fn handle(
    ctx: &RequestContext<'_>,
    request: AlterPartitionReassignmentsRequest,
) -> Result<AlterPartitionReassignmentsResponse, Close> {
    bounded(ctx, request.topics.iter().map(|topic| topic.partitions.len()).sum())?;
    let mut wanted: IndexMap<TopicPartition, Target> = IndexMap::new();
    for topic in &request.topics {
        let name: Arc<str> = topic.name.as_str().into();
        for partition in &topic.partitions {
            let tp = TopicPartition::new(Arc::clone(&name), partition.partition_index);
            let target = partition.replicas.as_ref().map(|ids| ids.iter().map(|id| BrokerId(id.0)).collect());
            wanted.insert(tp, target);
        }
    }
    let answer = AlterPartitionReassignmentsResponse::default();
    let outcomes = match ctx.services.admin.controller().alter_reassignments(wanted.into_iter().collect()).await {
        Ok(outcomes) => outcomes,
        Err(error) => {
            let told = Some(text(&error.to_string()));
            return Ok(answer.with_error_code(ErrorCode::NotController.code()).with_error_message(told));
        }
    };
    let mut topics: IndexMap<String, Vec<ReassignablePartitionResponse>> = IndexMap::new();
    for (tp, outcome) in outcomes {
        let result = ReassignablePartitionResponse::default().with_partition_index(tp.partition);
        topics.entry(tp.topic.to_string()).or_default().push(match outcome {
            Ok(()) => result.with_error_message(None),
            Err((code, why)) => result.with_error_code(code.code()).with_error_message(Some(text(why))),
        });
    }
    let responses = topics.into_iter().map(|(topic, partitions)| {
        ReassignableTopicResponse::default().with_name(TopicName(text(&topic))).with_partitions(partitions)
    });
    Ok(answer.with_responses(responses.collect()))
}
