//! What the commands ask of brokers: coordinators of transactions, and what partitions know of their producers.

use std::collections::BTreeMap;

use anyhow::{Context, anyhow, bail};
use kafka_protocol::messages::describe_producers_request::TopicRequest;
use kafka_protocol::messages::describe_producers_response::ProducerState;
use kafka_protocol::messages::describe_transactions_response::TransactionState;
use kafka_protocol::messages::list_transactions_response::TransactionState as Listed;
use kafka_protocol::messages::{
    BrokerId, DescribeProducersRequest, DescribeTransactionsRequest, FindCoordinatorRequest, ListTransactionsRequest,
    MetadataResponse, ProducerId, TransactionalId,
};
use kafka_protocol::protocol::StrBytes;

use crate::cli::admin::{Admin, topic_name};
use crate::cli::refusal;
use crate::types::TopicPartition;
use crate::wire::error_code::ErrorCode;

const TRANSACTION: i8 = 1;

/// Each broker's transactional ids.
pub fn list(
    admin: &mut Admin,
    producer_ids: &[i64],
    longer_than_ms: Option<i64>,
) -> anyhow::Result<BTreeMap<i32, Vec<Listed>>> {
    let mut listed = BTreeMap::new();
    for broker in admin.cluster()?.brokers {
        let request = ListTransactionsRequest::default()
            .with_producer_id_filters(producer_ids.iter().map(|id| ProducerId(*id)).collect())
            .with_duration_filter(longer_than_ms.unwrap_or(-1));
        let answer = admin.patiently_of(broker.node_id, &request, |answer| answer.error_code)?;
        let answer = answer.map_err(|code| anyhow!("{code}"))?;
        let mut states = answer.transaction_states;
        states.sort_by(|a, b| a.transactional_id.cmp(&b.transactional_id));
        listed.insert(broker.node_id.0, states);
    }
    Ok(listed)
}

/// One transactional id, with the broker that coordinates it. The error code of one that cannot be described.
pub fn describe(admin: &mut Admin, id: &str) -> anyhow::Result<Result<(BrokerId, TransactionState), ErrorCode>> {
    let find = FindCoordinatorRequest::default()
        .with_key_type(TRANSACTION)
        .with_coordinator_keys(vec![StrBytes::from_string(id.to_owned())]);
    let request = DescribeTransactionsRequest::default()
        .with_transactional_ids(vec![TransactionalId(StrBytes::from_string(id.to_owned()))]);
    admin.patiently(|client| {
        let found = client.send(&find)?.coordinators.into_iter().next();
        let found = found.ok_or_else(|| anyhow!("the broker says nothing of '{id}'"))?;
        if let Err(code) = ErrorCode::check(found.error_code) {
            return Ok(Err(code));
        }
        let state = client.send_to(found.node_id, &request)?.transaction_states.into_iter().next();
        let state = state.ok_or_else(|| anyhow!("the coordinator says nothing of '{id}'"))?;
        Ok(ErrorCode::check(state.error_code).map(|()| (found.node_id, state)))
    })
}

/// The leader of a partition; UNKNOWN_TOPIC_OR_PARTITION, LEADER_NOT_AVAILABLE.
pub fn leader(metadata: &MetadataResponse, at: &TopicPartition) -> Result<BrokerId, ErrorCode> {
    let is_it = |name: &Option<kafka_protocol::messages::TopicName>| {
        name.as_ref().is_some_and(|name| name.as_str() == &*at.topic)
    };
    let topic = metadata.topics.iter().find(|topic| is_it(&topic.name));
    let partitions = topic.map_or(&[][..], |topic| topic.partitions.as_slice());
    match partitions.iter().find(|partition| partition.partition_index == at.partition) {
        None => Err(ErrorCode::UnknownTopicOrPartition),
        Some(partition) if partition.leader_id.0 < 0 => Err(ErrorCode::LeaderNotAvailable),
        Some(partition) => Ok(partition.leader_id),
    }
}

/// What partitions know of their producers, by the replicas of one broker or by their leaders.
pub fn producers(
    admin: &mut Admin,
    broker: Option<i32>,
    partitions: &[TopicPartition],
) -> anyhow::Result<Vec<(TopicPartition, Vec<ProducerState>)>> {
    let mut by_broker: BTreeMap<BrokerId, Vec<&TopicPartition>> = BTreeMap::new();
    match broker {
        Some(id) => drop(by_broker.insert(BrokerId(id), partitions.iter().collect())),
        None => {
            let metadata = admin.metadata()?;
            for at in partitions {
                let leader = leader(&metadata, at).map_err(|code| anyhow!("{code}")).with_context(|| at.to_string())?;
                by_broker.entry(leader).or_default().push(at);
            }
        }
    }
    let mut known = Vec::new();
    for (id, asked) in by_broker {
        let mut topics: BTreeMap<&str, Vec<i32>> = BTreeMap::new();
        for at in asked {
            topics.entry(&at.topic).or_default().push(at.partition);
        }
        let topics = topics
            .into_iter()
            .map(|(name, indexes)| TopicRequest::default().with_name(topic_name(name)).with_partition_indexes(indexes));
        let request = DescribeProducersRequest::default().with_topics(topics.collect());
        for topic in admin.ask_broker(id, &request)?.topics {
            for partition in topic.partitions {
                let at = TopicPartition::new(topic.name.as_str(), partition.partition_index);
                refusal::refuse(partition.error_code, partition.error_message.as_ref())
                    .with_context(|| at.to_string())?;
                let mut producers = partition.active_producers;
                producers.sort_by_key(|producer| producer.producer_id.0);
                known.push((at, producers));
            }
        }
    }
    if known.len() < partitions.len() {
        bail!("the brokers say nothing of some partitions");
    }
    known.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(known)
}
