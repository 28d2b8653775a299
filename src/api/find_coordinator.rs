//! FindCoordinator (10), versions 0-6: which broker looks after a group (or a transactional id).
//!
//! The internal topic is created when it is not there; COORDINATOR_NOT_AVAILABLE until its partition has a leader that can be
//! reached on the listener that was asked. Version 0 asks for groups alone, versions from 4 for several keys at once. Keys of
//! another type are INVALID_REQUEST.

use std::sync::atomic::{AtomicBool, Ordering};

use kafka_protocol::messages::find_coordinator_response::Coordinator;
use kafka_protocol::messages::{BrokerId, FindCoordinatorRequest, FindCoordinatorResponse};

use super::context::RequestContext;
use super::group_member::text;
use super::serve::Close;
use super::throttle;
use crate::cluster::internal_topics::{GROUP_METADATA, TRANSACTION_STATE};
use crate::types::Endpoint;
use crate::wire::error_code::ErrorCode;

const GROUP: i8 = 0;
const TRANSACTION: i8 = 1;
const SHARE: i8 = 2;
/// Knows share groups.
const FIRST_WITH_SHARE: i16 = 6;
/// Asks for several keys.
const FIRST_BATCHED: i16 = 4;

pub async fn handle(
    ctx: &RequestContext<'_>,
    request: FindCoordinatorRequest,
) -> Result<FindCoordinatorResponse, Close> {
    let response = FindCoordinatorResponse::default();
    if ctx.version() < FIRST_BATCHED {
        let found = find(ctx, request.key_type, &request.key).await;
        return Ok(match found {
            Ok((id, endpoint)) => response
                .with_node_id(BrokerId(id.0))
                .with_host(text(&endpoint.host))
                .with_port(endpoint.port.into())
                .with_error_message((ctx.version() >= 1).then(|| text(ErrorCode::None.name()))),
            Err(code) => response
                .with_error_code(code.code())
                .with_error_message((ctx.version() >= 1).then(|| text(message(code))))
                .with_node_id(BrokerId(-1))
                .with_port(-1),
        });
    }
    let mut coordinators = Vec::with_capacity(request.coordinator_keys.len());
    for key in request.coordinator_keys {
        let found = find(ctx, request.key_type, &key).await;
        let answer = Coordinator::default().with_key(key);
        coordinators.push(match found {
            Ok((id, endpoint)) => {
                answer.with_node_id(BrokerId(id.0)).with_host(text(&endpoint.host)).with_port(endpoint.port.into())
            }
            Err(code) => answer
                .with_error_code(code.code())
                .with_error_message(Some(text(batched_message(request.key_type, code))))
                .with_node_id(BrokerId(-1))
                .with_port(-1),
        });
    }
    Ok(response.with_coordinators(coordinators))
}

fn message(code: ErrorCode) -> &'static str {
    match code {
        ErrorCode::CoordinatorNotAvailable => "the coordinator is not available",
        ErrorCode::InvalidRequest => "there are coordinators of groups and of transactions, and no others",
        other => other.name(),
    }
}

/// A batch explains only what can never be found.
fn batched_message(key_type: i8, code: ErrorCode) -> &'static str {
    if matches!(key_type, GROUP | TRANSACTION | SHARE) { "" } else { message(code) }
}

type Found = Result<(crate::types::BrokerId, Endpoint), ErrorCode>;

async fn find(ctx: &RequestContext<'_>, key_type: i8, key: &str) -> Found {
    let services = ctx.services;
    let (topic, partition, needs, replicas) = match key_type {
        GROUP => {
            let replicas = services.config.offsets_topic_replication_factor;
            (GROUP_METADATA, services.groups.partition_of(key), "offsets.topic.replication.factor", replicas)
        }
        TRANSACTION => {
            let replicas = services.config.transaction_state_log_replication_factor;
            let needs = "transaction.state.log.replication.factor";
            (TRANSACTION_STATE, services.transactions.partition_of(key), needs, replicas)
        }
        SHARE if ctx.version() >= FIRST_WITH_SHARE => return Err(ErrorCode::CoordinatorNotAvailable),
        _ => return Err(ErrorCode::InvalidRequest),
    };
    let snapshot = services.cluster.load();
    if snapshot.topic(topic).is_none() {
        if let Err(error) = services.admin.auto_create_topic(topic, &mut throttle::automatic(ctx)).await {
            static SAID: AtomicBool = AtomicBool::new(false);
            if !SAID.swap(true, Ordering::Relaxed) {
                tracing::warn!(
                    %error,
                    brokers = snapshot.brokers.len(),
                    "there is no coordinator: {topic} needs {needs}={replicas} brokers"
                );
            }
        }
        return Err(ErrorCode::CoordinatorNotAvailable);
    }
    let leader = snapshot.partition(topic, partition).map(|meta| meta.leader);
    let broker = leader.and_then(|leader| snapshot.brokers.get(&leader)).ok_or(ErrorCode::CoordinatorNotAvailable)?;
    let endpoint = broker.endpoints.get(&*ctx.connection.listener).ok_or(ErrorCode::CoordinatorNotAvailable)?;
    Ok((broker.id, endpoint.clone()))
}
