//! ElectLeaders (43), versions 0-2: elections of preferred leaders and (v1+) unclean ones. Served by the active controller.
//!
//! Null partitions mean all, and then those that need no election are left out of the answer. First failing check wins:
//! NOT_CONTROLLER (of each partition) → those of the controller's [elections](crate::controller::decide). An election type
//! nobody knows is UNKNOWN_SERVER_ERROR. The answer waits until this broker's metadata shows the new leaders;
//! REQUEST_TIMED_OUT for those it does not show within `timeout_ms`.

use std::collections::BTreeSet;
use std::sync::Arc;

use indexmap::IndexMap;
use kafka_protocol::messages::elect_leaders_request::TopicPartitions;
use kafka_protocol::messages::elect_leaders_response::{PartitionResult, ReplicaElectionResult};
use kafka_protocol::messages::{ElectLeadersRequest, ElectLeadersResponse, TopicName};
use kafka_protocol::protocol::StrBytes;

use super::context::RequestContext;
use super::group_member::text;
use super::serve::{Close, bounded};
use crate::cluster::TopicMeta;
use crate::controller::ask::{Elected, NotController};
use crate::controller::decide::ElectionType;
use crate::types::{BrokerId, TopicPartition};
use crate::wire::error_code::ErrorCode;

/// First with a type of election, and with an error of the whole.
const FIRST_WITH_TYPE: i16 = 1;

pub async fn handle(ctx: &RequestContext<'_>, request: ElectLeadersRequest) -> Result<ElectLeadersResponse, Close> {
    let partitions: BTreeSet<TopicPartition> = match &request.topic_partitions {
        Some(topics) => {
            bounded(ctx, topics.iter().map(|topic| topic.partitions.len()).sum())?;
            let of = |topic: &TopicPartitions| {
                let name: Arc<str> = topic.topic.as_str().into();
                topic
                    .partitions
                    .iter()
                    .map(move |index| TopicPartition::new(Arc::clone(&name), *index))
                    .collect::<Vec<_>>()
            };
            topics.iter().flat_map(of).collect()
        }
        None => all_partitions(ctx),
    };
    let kind = match request.election_type {
        _ if ctx.version() < FIRST_WITH_TYPE => Some(ElectionType::Preferred),
        0 => Some(ElectionType::Preferred),
        1 => Some(ElectionType::Unclean),
        _ => None,
    };
    let Some(kind) = kind else {
        let code = ErrorCode::UnknownServerError;
        let named = if request.topic_partitions.is_some() { partitions } else { BTreeSet::new() };
        return Ok(answer(ctx, code, named.into_iter().map(|tp| (tp, code)).collect()));
    };
    let asked = partitions.iter().cloned().collect();
    let mut outcomes = match ctx.services.admin.controller().elect_leaders(asked, kind).await {
        Ok(elected) => shown(ctx, elected, request.timeout_ms).await,
        Err(NotController) => {
            let refused = partitions.into_iter().map(|tp| (tp, ErrorCode::NotController));
            return Ok(answer(ctx, ErrorCode::None, refused.collect()));
        }
    };
    if request.topic_partitions.is_none() {
        outcomes.retain(|(_, code)| *code != ErrorCode::ElectionNotNeeded);
    }
    Ok(answer(ctx, ErrorCode::None, outcomes))
}

fn all_partitions(ctx: &RequestContext<'_>) -> BTreeSet<TopicPartition> {
    let snapshot = ctx.services.cluster.load();
    let of = |topic: &Arc<TopicMeta>| {
        topic.partitions.keys().map(|index| TopicPartition::new(topic.name.clone(), *index)).collect::<Vec<_>>()
    };
    snapshot.topics.values().flat_map(of).collect()
}

/// Waits for the leaders that were elected to be known here.
async fn shown(ctx: &RequestContext<'_>, elected: Elected, timeout_ms: i32) -> Vec<(TopicPartition, ErrorCode)> {
    let mut codes = Vec::with_capacity(elected.len());
    let mut awaited: Vec<(TopicPartition, BrokerId)> = Vec::new();
    for (tp, outcome) in elected {
        match outcome {
            Ok(leader) => awaited.push((tp, leader)),
            Err(code) => codes.push((tp, code)),
        }
    }
    let admin = &ctx.services.admin;
    if !awaited.is_empty() {
        admin
            .wait_until(timeout_ms, |snapshot| {
                awaited.iter().all(|(tp, leader)| {
                    snapshot.partition(&tp.topic, tp.partition).is_some_and(|meta| meta.leader == *leader)
                })
            })
            .await;
    }
    let snapshot = ctx.services.cluster.load();
    codes.extend(awaited.into_iter().map(|(tp, leader)| {
        let known = snapshot.partition(&tp.topic, tp.partition).is_some_and(|meta| meta.leader == leader);
        (tp, if known { ErrorCode::None } else { ErrorCode::RequestTimedOut })
    }));
    codes
}

fn answer(
    ctx: &RequestContext<'_>,
    code: ErrorCode,
    outcomes: Vec<(TopicPartition, ErrorCode)>,
) -> ElectLeadersResponse {
    let mut topics: IndexMap<String, Vec<PartitionResult>> = IndexMap::new();
    for (tp, code) in outcomes {
        let result = PartitionResult::default()
            .with_partition_id(tp.partition)
            .with_error_code(code.code())
            .with_error_message(message(code));
        topics.entry(tp.topic.to_string()).or_default().push(result);
    }
    let results = topics.into_iter().map(|(topic, partitions)| {
        ReplicaElectionResult::default().with_topic(TopicName(text(&topic))).with_partition_result(partitions)
    });
    let answer = ElectLeadersResponse::default().with_replica_election_results(results.collect());
    match ctx.version() >= FIRST_WITH_TYPE {
        true => answer.with_error_code(code.code()),
        false => answer,
    }
}

fn message(code: ErrorCode) -> Option<StrBytes> {
    let why = match code {
        ErrorCode::UnknownTopicOrPartition => "there is no such partition",
        ErrorCode::InvalidTopicException => "the topic is being deleted",
        ErrorCode::ElectionNotNeeded => "the leader is the one wanted",
        ErrorCode::PreferredLeaderNotAvailable => "the preferred leader is not live, or not in sync",
        ErrorCode::EligibleLeadersNotAvailable => "no replica is live",
        _ => return None,
    };
    Some(StrBytes::from_static_str(why))
}
