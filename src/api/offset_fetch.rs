//! OffsetFetch (9), versions 0-9: where a group is.
//!
//! Where nothing is committed the offset is -1, without an error. From version 2 on null topics mean all; from 7 on offsets
//! of an open transaction can be refused (UNSTABLE_OFFSET_COMMIT); from 8 on several groups are asked for at once. Version 0
//! reads what version 0 of OffsetCommit wrote, and answers UNKNOWN_TOPIC_OR_PARTITION where that is nothing. What concerns
//! the whole group is every partition's error before version 2, the response's up to 7, then the group's.

use std::sync::Arc;

use indexmap::{IndexMap, IndexSet};
use kafka_protocol::messages::offset_fetch_request::{OffsetFetchRequestGroup, OffsetFetchRequestTopic};
use kafka_protocol::messages::offset_fetch_response::{
    OffsetFetchResponseGroup, OffsetFetchResponsePartition, OffsetFetchResponsePartitions, OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
};
use kafka_protocol::messages::{OffsetFetchRequest, OffsetFetchResponse, TopicName};

use super::context::RequestContext;
use super::group_member::text;
use super::serve::Close;
use crate::cluster::consumer_offsets;
use crate::coordinator::group::Fetched;
use crate::types::{LeaderEpoch, Offset};
use crate::wire::error_code::ErrorCode;

/// Asks for several groups.
const FIRST_BATCHED: i16 = 8;

pub async fn handle(ctx: &RequestContext<'_>, request: OffsetFetchRequest) -> Result<OffsetFetchResponse, Close> {
    let response = OffsetFetchResponse::default();
    if ctx.version() >= FIRST_BATCHED {
        let stable = request.require_stable;
        let groups = request.groups.into_iter().map(|group| batched(ctx, group, stable));
        return Ok(response.with_groups(groups.collect()));
    }
    if ctx.version() == 0 {
        return Ok(response.with_topics(from_metastore(ctx, request).await));
    }
    let asked = request
        .topics
        .as_ref()
        .map(|topics| partitions(topics.iter().map(|topic| (topic.name.as_str(), topic.partition_indexes.as_slice()))));
    Ok(match fetch(ctx, &request.group_id, asked.as_deref(), request.require_stable) {
        Ok(found) => response.with_topics(topics(found)),
        Err(code) if ctx.version() >= 2 => response.with_error_code(code.code()),
        Err(code) => response.with_topics(refused(request.topics.unwrap_or_default(), code)),
    })
}

/// Each partition once, and those of a topic together.
fn partitions<'a>(topics: impl Iterator<Item = (&'a str, &'a [i32])>) -> Vec<(Arc<str>, i32)> {
    let mut all: IndexMap<&str, IndexSet<i32>> = IndexMap::new();
    for (topic, partitions) in topics {
        all.entry(topic).or_default().extend(partitions);
    }
    let all = all.into_iter().flat_map(|(topic, partitions)| {
        let topic: Arc<str> = topic.into();
        partitions.into_iter().map(move |partition| (topic.clone(), partition))
    });
    all.collect()
}

fn fetch(
    ctx: &RequestContext<'_>,
    group: &str,
    asked: Option<&[(Arc<str>, i32)]>,
    require_stable: bool,
) -> Result<Vec<Fetched>, ErrorCode> {
    match asked {
        Some(asked) => ctx.services.groups.fetch(group, asked, require_stable),
        None => ctx.services.groups.fetch_all(group, require_stable),
    }
}

fn batched(ctx: &RequestContext<'_>, group: OffsetFetchRequestGroup, require_stable: bool) -> OffsetFetchResponseGroup {
    let asked = group
        .topics
        .as_ref()
        .map(|topics| partitions(topics.iter().map(|topic| (topic.name.as_str(), topic.partition_indexes.as_slice()))));
    let answer = OffsetFetchResponseGroup::default();
    let answer = match fetch(ctx, &group.group_id, asked.as_deref(), require_stable) {
        Ok(found) => answer.with_topics(topics(found).into_iter().map(batched_topic).collect()),
        Err(code) => answer.with_error_code(code.code()),
    };
    answer.with_group_id(group.group_id)
}

fn batched_topic(topic: OffsetFetchResponseTopic) -> OffsetFetchResponseTopics {
    let partitions = topic.partitions.into_iter().map(|at| {
        OffsetFetchResponsePartitions::default()
            .with_partition_index(at.partition_index)
            .with_committed_offset(at.committed_offset)
            .with_committed_leader_epoch(at.committed_leader_epoch)
            .with_metadata(at.metadata)
            .with_error_code(at.error_code)
    });
    OffsetFetchResponseTopics::default().with_name(topic.name).with_partitions(partitions.collect())
}

/// One entry for each topic: its partitions stand together.
fn topics(found: Vec<Fetched>) -> Vec<OffsetFetchResponseTopic> {
    let mut topics: Vec<OffsetFetchResponseTopic> = Vec::new();
    for fetched in found {
        let at = match fetched.offset {
            Ok(Some(value)) => partition(fetched.partition, value.offset, value.leader_epoch, ErrorCode::None)
                .with_metadata(Some(text(&value.metadata))),
            Ok(None) => partition(fetched.partition, Offset::NONE, LeaderEpoch::NONE, ErrorCode::None),
            Err(code) => partition(fetched.partition, Offset::NONE, LeaderEpoch::NONE, code),
        };
        match topics.last_mut().filter(|topic| topic.name.as_str() == &*fetched.topic) {
            Some(topic) => topic.partitions.push(at),
            None => topics.push(
                OffsetFetchResponseTopic::default()
                    .with_name(TopicName(text(&fetched.topic)))
                    .with_partitions(vec![at]),
            ),
        }
    }
    topics
}

fn partition(index: i32, offset: Offset, epoch: LeaderEpoch, code: ErrorCode) -> OffsetFetchResponsePartition {
    OffsetFetchResponsePartition::default()
        .with_partition_index(index)
        .with_committed_offset(offset.0)
        .with_committed_leader_epoch(epoch.0)
        .with_metadata(Some(text("")))
        .with_error_code(code.code())
}

fn refused(asked: Vec<OffsetFetchRequestTopic>, code: ErrorCode) -> Vec<OffsetFetchResponseTopic> {
    let topics = asked.into_iter().map(|topic| {
        let partitions = topic.partition_indexes.iter();
        let partitions = partitions.map(|index| partition(*index, Offset::NONE, LeaderEpoch::NONE, code)).collect();
        OffsetFetchResponseTopic::default().with_name(topic.name).with_partitions(partitions)
    });
    topics.collect()
}

async fn from_metastore(ctx: &RequestContext<'_>, request: OffsetFetchRequest) -> Vec<OffsetFetchResponseTopic> {
    let store = ctx.services.admin.store();
    let snapshot = ctx.services.cluster.load();
    let mut topics = Vec::new();
    for topic in request.topics.unwrap_or_default() {
        let mut partitions = Vec::new();
        for index in topic.partition_indexes {
            let found = match snapshot.partition(&topic.name, index) {
                Some(_) => consumer_offsets::fetch(&*store, &request.group_id, &topic.name, index).await,
                None => Ok(None),
            };
            let unknown = ErrorCode::UnknownTopicOrPartition;
            partitions.push(match found {
                Ok(Some(offset)) => partition(index, offset, LeaderEpoch::NONE, ErrorCode::None),
                Ok(None) => partition(index, Offset::NONE, LeaderEpoch::NONE, unknown),
                Err(error) => {
                    tracing::warn!(group = %*request.group_id, %error, "an offset is not read from the metastore");
                    partition(index, Offset::NONE, LeaderEpoch::NONE, ErrorCode::UnknownServerError)
                }
            });
        }
        topics.push(OffsetFetchResponseTopic::default().with_name(topic.name).with_partitions(partitions));
    }
    topics
}
