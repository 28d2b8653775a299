//! ListPartitionReassignments (46), version 0: partitions on their way to other replicas. Served by the active controller.
//!
//! NOT_CONTROLLER is the only error: what is not under way, or not known, is left out. Null topics mean all; `timeout_ms`
//! is not looked at.

use std::collections::HashSet;

use indexmap::IndexMap;
use kafka_protocol::messages::list_partition_reassignments_response::{
    OngoingPartitionReassignment, OngoingTopicReassignment,
};
use kafka_protocol::messages::{
    BrokerId, ListPartitionReassignmentsRequest, ListPartitionReassignmentsResponse, TopicName,
};

use super::context::RequestContext;
use super::group_member::text;
use super::serve::Close;
use crate::wire::error_code::ErrorCode;

pub async fn handle(
    ctx: &RequestContext<'_>,
    request: ListPartitionReassignmentsRequest,
) -> Result<ListPartitionReassignmentsResponse, Close> {
    let answer = ListPartitionReassignmentsResponse::default();
    let running = match ctx.services.admin.controller().list_reassignments().await {
        Ok(running) => running,
        Err(error) => {
            let told = Some(text(&error.to_string()));
            return Ok(answer.with_error_code(ErrorCode::NotController.code()).with_error_message(told));
        }
    };
    let wanted: Option<HashSet<(&str, i32)>> = request.topics.as_ref().map(|topics| {
        let of =
            topics.iter().flat_map(|topic| topic.partition_indexes.iter().map(|index| (topic.name.as_str(), *index)));
        of.collect()
    });
    let mut topics: IndexMap<String, Vec<OngoingPartitionReassignment>> = IndexMap::new();
    for (tp, assignment) in running {
        if wanted.as_ref().is_some_and(|wanted| !wanted.contains(&(&*tp.topic, tp.partition))) {
            continue;
        }
        let ids = |ids: Vec<crate::types::BrokerId>| ids.into_iter().map(|id| BrokerId(id.0)).collect();
        let partition = OngoingPartitionReassignment::default()
            .with_partition_index(tp.partition)
            .with_replicas(ids(assignment.replicas))
            .with_adding_replicas(ids(assignment.adding))
            .with_removing_replicas(ids(assignment.removing));
        topics.entry(tp.topic.to_string()).or_default().push(partition);
    }
    let topics = topics.into_iter().map(|(topic, partitions)| {
        OngoingTopicReassignment::default().with_name(TopicName(text(&topic))).with_partitions(partitions)
    });
    Ok(answer.with_topics(topics.collect()))
}
