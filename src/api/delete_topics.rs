//! DeleteTopics (20), versions 0-6. Served by the active controller.
//!
//! - v6 names topics by name or by id; both at once refuse the whole request (INVALID_REQUEST on every topic), neither is
//!   TOPIC_AUTHORIZATION_FAILED (both seen on a live 3.9.1).
//! - First failing check wins: NOT_CONTROLLER → `delete.topic.enable=false`: TOPIC_DELETION_DISABLED, INVALID_REQUEST
//!   below v3 → UNKNOWN_TOPIC_ID → UNKNOWN_TOPIC_OR_PARTITION. A topic marked already counts as success.
//! - The answer waits until the topic is gone from this broker's metadata; with `timeout_ms` ≤ 0, or when the time runs
//!   out, it is REQUEST_TIMED_OUT although the topic goes. error_message is always null, as Kafka's.

use std::collections::HashMap;

use futures_util::future::join_all;
use kafka_protocol::messages::delete_topics_request::DeleteTopicState;
use kafka_protocol::messages::delete_topics_response::DeletableTopicResult;
use kafka_protocol::messages::{DeleteTopicsRequest, DeleteTopicsResponse, TopicName};
use kafka_protocol::protocol::StrBytes;

use super::context::RequestContext;
use super::serve::Close;
use super::throttle;
use crate::cluster::Snapshot;
use crate::types::TopicId;
use crate::wire::error_code::ErrorCode;

/// Who has used up `controller_mutation_rate` is told so from this version on; before it, is served and waits.
const STRICT_FROM: i16 = 5;

pub async fn handle(ctx: &RequestContext<'_>, request: DeleteTopicsRequest) -> Result<DeleteTopicsResponse, Close> {
    let asked: Vec<DeleteTopicState> = match ctx.version() {
        6.. => request.topics,
        _ => {
            let named = |name| DeleteTopicState::default().with_name(Some(name));
            request.topic_names.into_iter().map(named).collect()
        }
    };
    let refused = refused_as_a_whole(ctx, &asked);
    // One look at the metadata: a topic asked for twice is there both times, though the first mark may remove it.
    let snapshot = ctx.services.cluster.load();
    let mut results: HashMap<TopicName, Result<(), ErrorCode>> = HashMap::new();
    let mut mutations = throttle::mutations(ctx, STRICT_FROM);
    let mut marked = Vec::with_capacity(asked.len());
    for topic in &asked {
        let named = match refused {
            Some(code) => Err((topic.name.clone(), code)),
            None => name_of(&snapshot, topic).map_err(|code| (None, code)),
        };
        marked.push(match named {
            Err((name, code)) => (name, Err(code)),
            Ok(name) => {
                let result = match results.get(&name) {
                    Some(known) => *known,
                    None => {
                        let admin = &ctx.services.admin;
                        admin.delete_topic(&name, &mut mutations).await.map_err(|error| error.code)
                    }
                };
                results.insert(name.clone(), result);
                (Some(name), result)
            }
        });
    }
    let snapshot = &snapshot;
    let answers = asked.iter().zip(marked).map(|(topic, (name, marked))| async move {
        let code = match (&marked, &name) {
            (Err(code), _) => *code,
            (Ok(()), Some(name)) => {
                let id = snapshot.topic(name).map_or(TopicId::ZERO, |topic| topic.id);
                match ctx.services.admin.wait_until_gone(name, id, request.timeout_ms).await {
                    true => ErrorCode::None,
                    false => ErrorCode::RequestTimedOut,
                }
            }
            (Ok(()), None) => ErrorCode::UnknownServerError,
        };
        let answer =
            DeletableTopicResult::default().with_name(name).with_error_code(code.code()).with_error_message(None);
        if ctx.version() >= 6 { answer.with_topic_id(topic.topic_id) } else { answer }
    });
    let answers = join_all(answers).await;
    ctx.toll.throttle(mutations.throttle_ms());
    Ok(DeleteTopicsResponse::default().with_responses(answers))
}

fn refused_as_a_whole(ctx: &RequestContext<'_>, asked: &[DeleteTopicState]) -> Option<ErrorCode> {
    let admin = &ctx.services.admin;
    if !admin.is_controller() {
        Some(ErrorCode::NotController)
    } else if !admin.deletion_enabled() {
        Some(if ctx.version() < 3 { ErrorCode::InvalidRequest } else { ErrorCode::TopicDeletionDisabled })
    } else if asked.iter().any(|topic| topic.name.is_some() && !topic.topic_id.is_nil()) {
        Some(ErrorCode::InvalidRequest)
    } else {
        None
    }
}

fn name_of(snapshot: &Snapshot, topic: &DeleteTopicState) -> Result<TopicName, ErrorCode> {
    match &topic.name {
        Some(name) => Ok(name.clone()),
        None if topic.topic_id.is_nil() => Err(ErrorCode::TopicAuthorizationFailed),
        None => match snapshot.topic_by_id(TopicId(topic.topic_id)) {
            Some(found) => Ok(TopicName(StrBytes::from_string(found.name.to_string()))),
            None => Err(ErrorCode::UnknownTopicId),
        },
    }
}
