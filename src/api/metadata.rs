//! Metadata (3), versions 0-12.
//!
//! - All topics when the list is null (v0: empty); named ones once each, however often they are asked for. v12+: as soon
//!   as one topic is asked for by id, only ids are looked at.
//! - A topic that does not exist is created when the request (below v4: always) and `auto.create.topics.enable` allow it;
//!   the answer does not wait for it: LEADER_NOT_AVAILABLE, and the client asks again.
//! - Brokers are told with the address of the listener the request came in on; those without that listener are left out,
//!   and a partition led by such a one answers LISTENER_NOT_FOUND (below v6 LEADER_NOT_AVAILABLE).
//! - v0 leaves dead replicas out of its lists and says REPLICA_NOT_AVAILABLE; later versions list them all.
//! - Authorized operations: there is no authorizer, so everything the resource knows.

use std::borrow::Cow;
use std::collections::HashSet;

use bytes::BytesMut;

use super::context::{Reply, RequestContext, Response};
use super::serve::Close;
use super::throttle;
use crate::cluster::internal_topics::is_internal;
use crate::cluster::{Broker, PartitionMeta, Snapshot, TopicMeta};
use crate::types::{BrokerId, TopicId};
use crate::wire::error_code::ErrorCode;
use crate::wire::header::put_response_header;
use crate::wire::metadata::{
    FIRST_FLEXIBLE, MetadataRequest, MetadataResponse, NOT_ASKED, Node, PartitionResponse, TopicAsked, TopicResponse,
};
use crate::wire::writer::Writer;

/// Read, write, create, delete, alter, describe, describe configs, alter configs: bit n is Kafka's operation n.
pub(super) const ALL_TOPIC_OPERATIONS: i32 = 0b1101_1111_1000;
/// Create, alter, describe, cluster action, describe configs, alter configs, idempotent write.
pub(super) const ALL_CLUSTER_OPERATIONS: i32 = 0b1_1111_1010_0000;
/// Longest name of a topic, bytes.
const MAX_NAME: usize = 249;

pub async fn handle(ctx: &RequestContext<'_>, body: BytesMut) -> Result<Reply, Close> {
    let version = ctx.version();
    let request =
        MetadataRequest::decode(&body, version).map_err(|error| Close(format!("Metadata v{version}: {error}")))?;
    if let Some((asked, code)) = refused_as_a_whole(&request, version) {
        return Ok(answer(ctx, &refusal(asked, code)));
    }
    let snapshot = ctx.known_cluster().await?;
    let mut topics = Vec::new();
    match &request.topics {
        None => {
            let mut all: Vec<&TopicMeta> = snapshot.topics.values().map(|topic| &**topic).collect();
            all.sort_unstable_by(|a, b| a.name.cmp(&b.name));
            topics.extend(all.into_iter().map(|topic| existing(ctx, &snapshot, topic)));
        }
        Some(asked) if asked.iter().any(|topic| !topic.id.is_zero()) => {
            let mut seen = HashSet::new();
            for id in asked.iter().map(|topic| topic.id).filter(|id| !id.is_zero() && seen.insert(*id)) {
                topics.push(match snapshot.topic_by_id(id) {
                    Some(topic) => existing(ctx, &snapshot, topic),
                    None => missing(ErrorCode::UnknownTopicId, None, id),
                });
            }
            topics.sort_by_key(|topic| topic.error != ErrorCode::UnknownTopicId);
        }
        Some(asked) => {
            let mut seen = HashSet::new();
            for name in asked.iter().filter_map(|topic| topic.name).filter(|name| seen.insert(*name)) {
                topics.push(match snapshot.topic(name) {
                    Some(topic) => existing(ctx, &snapshot, topic),
                    None => {
                        let code = create(ctx, name, request.allow_auto_topic_creation).await;
                        missing(code, Some(name), TopicId::ZERO)
                    }
                });
            }
            topics.sort_by_key(|topic| topic.error.is_error());
        }
    }
    if request.include_topic_authorized_operations {
        for topic in topics.iter_mut().filter(|topic| topic.error != ErrorCode::UnknownTopicId) {
            topic.authorized_operations = ALL_TOPIC_OPERATIONS;
        }
    }
    Ok(answer(
        ctx,
        &MetadataResponse {
            throttle_ms: 0,
            nodes: snapshot
                .brokers
                .values()
                .filter_map(|broker| node(broker, &ctx.connection.listener))
                .inspect(|node| ctx.services.telltales.advertised(ctx, node.host))
                .collect(),
            cluster_id: Some(&snapshot.cluster_id),
            controller_id: snapshot.controller.unwrap_or(BrokerId::NONE),
            topics,
            cluster_authorized_operations: match request.include_cluster_authorized_operations {
                true => ALL_CLUSTER_OPERATIONS,
                false => NOT_ASKED,
            },
        },
    ))
}

/// Requests that name topics in a way their version has no meaning for.
fn refused_as_a_whole<'r>(request: &'r MetadataRequest<'r>, version: i16) -> Option<(&'r [TopicAsked<'r>], ErrorCode)> {
    let asked = request.topics.as_deref()?;
    if version < 12 && asked.iter().any(|topic| topic.name.is_none() || !topic.id.is_zero()) {
        return Some((asked, ErrorCode::InvalidRequest));
    }
    let by_name = asked.iter().all(|topic| topic.id.is_zero());
    (by_name && asked.iter().any(|topic| topic.name.is_none())).then_some((asked, ErrorCode::UnknownServerError))
}

/// The answer to such a request: each topic with the error, nothing else.
fn refusal<'r>(asked: &[TopicAsked<'r>], code: ErrorCode) -> MetadataResponse<'r> {
    MetadataResponse {
        throttle_ms: 0,
        nodes: Vec::new(),
        cluster_id: None,
        controller_id: BrokerId::NONE,
        topics: asked
            .iter()
            .map(|topic| TopicResponse {
                error: code,
                name: Some(topic.name.unwrap_or_default()),
                id: topic.id,
                is_internal: false,
                partitions: Vec::new(),
                authorized_operations: NOT_ASKED,
            })
            .collect(),
        cluster_authorized_operations: NOT_ASKED,
    }
}

fn existing<'s>(ctx: &RequestContext<'_>, snapshot: &'s Snapshot, topic: &'s TopicMeta) -> TopicResponse<'s> {
    TopicResponse {
        error: ErrorCode::None,
        name: Some(&topic.name),
        id: topic.id,
        is_internal: is_internal(&topic.name),
        partitions: topic.partitions.iter().map(|(index, meta)| partition(ctx, snapshot, *index, meta)).collect(),
        authorized_operations: NOT_ASKED,
    }
}

fn missing(error: ErrorCode, name: Option<&str>, id: TopicId) -> TopicResponse<'_> {
    TopicResponse {
        error,
        name,
        id,
        is_internal: name.is_some_and(is_internal),
        partitions: Vec::new(),
        authorized_operations: NOT_ASKED,
    }
}

/// What is said of a topic that is not there, after it was created if that is allowed.
async fn create(ctx: &RequestContext<'_>, name: &str, allowed: bool) -> ErrorCode {
    if !is_valid_name(name) {
        return ErrorCode::InvalidTopicException;
    }
    if !allowed || !ctx.services.config.auto_create_topics_enable {
        return ErrorCode::UnknownTopicOrPartition;
    }
    match ctx.services.admin.auto_create_topic(name, &mut throttle::automatic(ctx)).await {
        Ok(()) => ErrorCode::LeaderNotAvailable,
        Err(refused) => match refused.code {
            ErrorCode::TopicAlreadyExists | ErrorCode::RequestTimedOut => ErrorCode::LeaderNotAvailable,
            code => code,
        },
    }
}

/// Letters, digits, dots, dashes and underscores, but not `.` or `..`.
fn is_valid_name(name: &str) -> bool {
    let letter = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    !matches!(name, "" | "." | "..") && name.len() <= MAX_NAME && name.as_bytes().iter().all(letter)
}

fn partition<'s>(
    ctx: &RequestContext<'_>,
    snapshot: &'s Snapshot,
    index: i32,
    meta: &'s PartitionMeta,
) -> PartitionResponse<'s> {
    let version = ctx.version();
    let listener = &*ctx.connection.listener;
    let reachable =
        |id: &BrokerId| snapshot.brokers.get(id).is_some_and(|broker| broker.endpoints.contains_key(listener));
    let lists = [&meta.replicas, &meta.isr].map(|brokers| match version {
        0 => Cow::Owned(brokers.iter().copied().filter(reachable).collect()),
        _ => Cow::Borrowed(brokers.as_slice()),
    });
    let [replicas, isr] = lists;
    let error = if !snapshot.brokers.contains_key(&meta.leader) {
        ErrorCode::LeaderNotAvailable
    } else if !reachable(&meta.leader) {
        if version >= 6 { ErrorCode::ListenerNotFound } else { ErrorCode::LeaderNotAvailable }
    } else if replicas.len() < meta.replicas.len() || isr.len() < meta.isr.len() {
        ErrorCode::ReplicaNotAvailable
    } else {
        ErrorCode::None
    };
    PartitionResponse {
        error,
        index,
        leader: if reachable(&meta.leader) { meta.leader } else { BrokerId::NONE },
        leader_epoch: meta.leader_epoch,
        replicas,
        isr,
        offline: &meta.offline_replicas,
    }
}

fn node<'s>(broker: &'s Broker, listener: &str) -> Option<Node<'s>> {
    let endpoint = broker.endpoints.get(listener)?;
    Some(Node { id: broker.id, host: &endpoint.host, port: endpoint.port, rack: broker.rack.as_deref() })
}

fn answer(ctx: &RequestContext<'_>, response: &MetadataResponse<'_>) -> Reply {
    let version = ctx.version();
    let mut buf = BytesMut::with_capacity(256);
    put_response_header(&mut buf, ctx.header.api_key, version, ctx.header.correlation_id);
    let mut out = Writer::new(buf, version >= FIRST_FLEXIBLE);
    response.encode(&mut out, version);
    Reply::Send(Response::of(out.buf, 0))
}
