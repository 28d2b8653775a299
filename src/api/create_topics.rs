//! CreateTopics (19), versions 0-7. Served by the active controller.
//!
//! - v1: validate_only, messages. v4: -1 counts mean the broker's defaults. v5: counts and configuration of what was made.
//!   v7: the topic's id.
//! - First failing check wins: NOT_CONTROLLER → `__cluster_metadata`, a name asked for twice (INVALID_REQUEST) → those of
//!   [`Admin::create_topic`](crate::controller::admin::Admin::create_topic). Topics succeed and fail independently.
//! - The answer waits until this broker's metadata has a leader for every partition. With `timeout_ms` ≤ 0, or when the
//!   time runs out, it is REQUEST_TIMED_OUT although the topic is made; its id is told, its counts are not.

use std::collections::HashMap;

use futures_util::future::join_all;
use kafka_protocol::messages::create_topics_request::CreatableTopic;
use kafka_protocol::messages::create_topics_response::{CreatableTopicConfigs, CreatableTopicResult};
use kafka_protocol::messages::{CreateTopicsRequest, CreateTopicsResponse};
use kafka_protocol::protocol::StrBytes;

use super::config_resource;
use super::context::RequestContext;
use super::serve::Close;
use super::throttle;
use crate::config::dynamic::Entry;
use crate::controller::admin::{AdminError, CreatedTopic, NewTopic};
use crate::controller::topic_names::CLUSTER_METADATA_TOPIC;
use crate::quota::Mutations;
use crate::types::BrokerId;
use crate::wire::error_code::ErrorCode;

/// Who has used up `controller_mutation_rate` is told so from this version on; before it, is served and waits.
const STRICT_FROM: i16 = 6;

pub async fn handle(ctx: &RequestContext<'_>, request: CreateTopicsRequest) -> Result<CreateTopicsResponse, Close> {
    let mut asked: HashMap<&str, usize> = HashMap::new();
    for topic in &request.topics {
        *asked.entry(topic.name.as_str()).or_default() += 1;
    }
    let mut mutations = throttle::mutations(ctx, STRICT_FROM);
    let mut made = Vec::with_capacity(request.topics.len());
    for topic in &request.topics {
        let twice = asked.get(topic.name.as_str()).is_some_and(|times| *times > 1);
        made.push(create(ctx, topic, twice, request.validate_only, &mut mutations).await);
    }
    let answers = request.topics.iter().zip(made).map(|(topic, made)| async move {
        let answer = CreatableTopicResult::default().with_name(topic.name.clone()).with_error_message(None);
        let created = match made {
            Ok(created) => created,
            Err(error) => {
                // Of an exceeded quota Kafka says nothing here.
                let told = error.told().filter(|_| error.code != ErrorCode::ThrottlingQuotaExceeded);
                return answer.with_error_code(error.code.code()).with_error_message(told.map(StrBytes::from_string));
            }
        };
        let answer = if ctx.version() >= 7 { answer.with_topic_id(created.id.0) } else { answer };
        let admin = &ctx.services.admin;
        let in_time = request.validate_only
            || admin.wait_for_leaders(&topic.name, created.num_partitions, request.timeout_ms).await;
        match in_time {
            true => describe(ctx, answer, &created),
            false => answer.with_error_code(ErrorCode::RequestTimedOut.code()),
        }
    });
    let answers = join_all(answers).await;
    ctx.toll.throttle(mutations.throttle_ms());
    Ok(CreateTopicsResponse::default().with_topics(answers))
}

async fn create(
    ctx: &RequestContext<'_>,
    topic: &CreatableTopic,
    twice: bool,
    validate_only: bool,
    mutations: &mut Mutations<'_>,
) -> Result<CreatedTopic, AdminError> {
    let admin = &ctx.services.admin;
    if !admin.is_controller() {
        return Err(AdminError::new(ErrorCode::NotController, ""));
    }
    if topic.name.as_str() == CLUSTER_METADATA_TOPIC {
        return Err(AdminError::new(
            ErrorCode::InvalidRequest,
            format!("topic '{CLUSTER_METADATA_TOPIC}' is reserved"),
        ));
    }
    if twice {
        return Err(AdminError::new(ErrorCode::InvalidRequest, "the topic stands twice in the request"));
    }
    let new = NewTopic {
        name: topic.name.to_string(),
        num_partitions: topic.num_partitions,
        replication_factor: topic.replication_factor,
        assignments: topic
            .assignments
            .iter()
            .map(|assigned| (assigned.partition_index, assigned.broker_ids.iter().map(|id| BrokerId(id.0)).collect()))
            .collect(),
        configs: topic
            .configs
            .iter()
            .map(|config| (config.name.to_string(), config.value.as_ref().map(ToString::to_string)))
            .collect(),
    };
    admin.create_topic(new, validate_only, mutations).await
}

/// v5+: counts and every topic config with its value and where it comes from.
fn describe(ctx: &RequestContext<'_>, answer: CreatableTopicResult, created: &CreatedTopic) -> CreatableTopicResult {
    if ctx.version() < 5 {
        return answer;
    }
    let (configs, own) = config_resource::current(ctx);
    let layers = config_resource::layers(ctx, &configs, &own);
    let entry = |entry: Entry| {
        CreatableTopicConfigs::default()
            .with_name(StrBytes::from_string(entry.name))
            .with_value(entry.value.map(StrBytes::from_string))
            .with_read_only(entry.read_only)
            .with_config_source(entry.source as i8)
            .with_is_sensitive(entry.sensitive)
    };
    answer
        .with_num_partitions(created.num_partitions)
        .with_replication_factor(created.replication_factor)
        .with_configs(Some(layers.topic_entries(&created.overrides).into_iter().map(entry).collect()))
}
