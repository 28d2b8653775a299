//! DescribeProducers (61), version 0: what a replica of a partition knows of the producers that wrote to it. Followers
//! answer too (KIP-664: `kafka-transactions --find-hanging --broker-id`).
//!
//! INVALID_TOPIC_EXCEPTION for a name no topic can have, UNKNOWN_TOPIC_OR_PARTITION, both with a message when it is the
//! topic's; NOT_LEADER_OR_FOLLOWER from a broker that has no replica, KAFKA_STORAGE_ERROR. Answered from memory; a producer that is idle for
//! `producer.id.expiration.ms` is gone.
//!
//! Differs: a partition that is named twice is answered once, and a request that names too many closes the connection
//! ([`bounded`]).

use std::collections::HashSet;

use kafka_protocol::messages::describe_producers_response::{PartitionResponse, ProducerState, TopicResponse};
use kafka_protocol::messages::{DescribeProducersRequest, DescribeProducersResponse, ProducerId};
use kafka_protocol::protocol::StrBytes;

use super::context::RequestContext;
use super::serve::{Close, bounded};
use crate::controller::topic_names;
use crate::spawn::again;
use crate::storage::producer_state as storage;
use crate::types::LeaderEpoch;
use crate::wire::error_code::ErrorCode;

pub async fn handle(
    ctx: &RequestContext<'_>,
    request: DescribeProducersRequest,
) -> Result<DescribeProducersResponse, Close> {
    let named: usize = request.topics.iter().map(|topic| topic.partition_indexes.len()).sum();
    bounded(ctx, named)?;
    let mut answered = HashSet::with_capacity(named);
    let mut topics = Vec::with_capacity(request.topics.len());
    for topic in &request.topics {
        let unknown = unknown_topic(ctx, &topic.name);
        let mut partitions = Vec::new();
        for index in &topic.partition_indexes {
            if answered.insert((&topic.name, *index)) {
                let answer = PartitionResponse::default().with_partition_index(*index).with_error_message(None);
                partitions.push(match &unknown {
                    Some((code, why)) => answer.with_error_code(code.code()).with_error_message(Some(why.clone())),
                    None => match producers(ctx, &topic.name, *index).await {
                        Ok(producers) => answer.with_active_producers(producers),
                        Err(code) => answer.with_error_code(code.code()),
                    },
                });
            }
        }
        topics.push(TopicResponse::default().with_name(topic.name.clone()).with_partitions(partitions));
    }
    Ok(DescribeProducersResponse::default().with_topics(topics))
}

/// Why no partition of a topic of this name can be here.
fn unknown_topic(ctx: &RequestContext<'_>, name: &str) -> Option<(ErrorCode, StrBytes)> {
    if let Err(why) = topic_names::validate(name) {
        return Some((ErrorCode::InvalidTopicException, StrBytes::from_string(why.to_string())));
    }
    let known = ctx.services.cluster.load().topic(name).is_some();
    let unknown = || (ErrorCode::UnknownTopicOrPartition, StrBytes::from_static_str("there is no such topic"));
    (!known).then(unknown)
}

/// Waits for an append under way, and with it perhaps for a disk: without the thread.
async fn producers(ctx: &RequestContext<'_>, topic: &str, partition: i32) -> Result<Vec<ProducerState>, ErrorCode> {
    let partition = ctx.partition(topic, partition)?;
    let shown = |id, state: &storage::ProducerState| {
        ProducerState::default()
            .with_producer_id(ProducerId(id))
            .with_producer_epoch(state.epoch.into())
            .with_last_sequence(state.last_sequence())
            .with_last_timestamp(state.last_timestamp_ms)
            .with_coordinator_epoch(state.coordinator_epoch)
            .with_current_txn_start_offset(state.txn_first_offset.map_or(-1, |offset| offset.0))
    };
    again(|| {
        let log = partition.check(LeaderEpoch::NONE, false).and_then(|()| partition.log());
        log.map_or_else(|code| Some(Err(code)), |log| log.producers_as(shown).map(Ok))
    })
    .await
}
