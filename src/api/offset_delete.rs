//! OffsetDelete (47), version 0: committed offsets go, partition by partition. What a live group subscribes to stays
//! (GROUP_SUBSCRIBED_TO_TOPIC); a partition that does not exist is UNKNOWN_TOPIC_OR_PARTITION; what concerns the whole group
//! (GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP) is the response's error.

use std::sync::Arc;

use kafka_protocol::messages::offset_delete_response::{OffsetDeleteResponsePartition, OffsetDeleteResponseTopic};
use kafka_protocol::messages::{OffsetDeleteRequest, OffsetDeleteResponse, TopicName};

use super::context::RequestContext;
use super::group_member::{named, text};
use super::partition_errors::PartitionErrors;
use super::serve::Close;
use crate::wire::error_code::ErrorCode;

pub async fn handle(ctx: &RequestContext<'_>, request: OffsetDeleteRequest) -> Result<OffsetDeleteResponse, Close> {
    let snapshot = ctx.services.cluster.load();
    let mut errors = PartitionErrors::default();
    let mut asked: Vec<(Arc<str>, i32)> = Vec::new();
    for topic in &request.topics {
        let name: Arc<str> = topic.name.as_str().into();
        for at in &topic.partitions {
            if snapshot.partition(&name, at.partition_index).is_some() {
                asked.push((name.clone(), at.partition_index));
            }
            // Those that exist are told more below.
            errors.insert(&topic.name, at.partition_index, ErrorCode::UnknownTopicOrPartition);
        }
    }
    let told = named(&request.group_id).and_then(|group| ctx.services.groups.delete_offsets(&group, &asked));
    let told = match told {
        Ok(told) => told,
        Err(code) => return Ok(OffsetDeleteResponse::default().with_error_code(code.code())),
    };
    for ((topic, partition), error) in asked.iter().zip(told) {
        errors.insert(&TopicName(text(topic)), *partition, error);
    }
    let topics = errors.response(
        |index, error| {
            OffsetDeleteResponsePartition::default().with_partition_index(index).with_error_code(error.code())
        },
        |name, partitions| OffsetDeleteResponseTopic::default().with_name(name).with_partitions(partitions),
    );
    Ok(OffsetDeleteResponse::default().with_topics(topics))
}
