//! CreatePartitions (37), versions 0-3. Served by the active controller.
//!
//! First failing check wins: NOT_CONTROLLER → a topic asked for twice (INVALID_REQUEST, answered once) → those of
//! [`Admin::create_partitions`](crate::controller::admin::Admin::create_partitions). The answer waits for leaders of all
//! partitions; with `timeout_ms` ≤ 0, or when the time runs out, it is REQUEST_TIMED_OUT although they are made.
//! Refused as duplicates come after the others, as on a live 3.9.1.

use std::collections::HashMap;

use futures_util::future::join_all;
use kafka_protocol::messages::create_partitions_request::CreatePartitionsTopic;
use kafka_protocol::messages::create_partitions_response::CreatePartitionsTopicResult;
use kafka_protocol::messages::{CreatePartitionsRequest, CreatePartitionsResponse};
use kafka_protocol::protocol::StrBytes;

use super::context::RequestContext;
use super::serve::Close;
use super::throttle;
use crate::controller::admin::AdminError;
use crate::controller::ask::NotController;
use crate::quota::Mutations;
use crate::types::BrokerId;
use crate::wire::error_code::ErrorCode;

/// Who has used up `controller_mutation_rate` is told so from this version on; before it, is served and waits.
const STRICT_FROM: i16 = 3;

pub async fn handle(
    ctx: &RequestContext<'_>,
    request: CreatePartitionsRequest,
) -> Result<CreatePartitionsResponse, Close> {
    let mut asked: HashMap<&str, usize> = HashMap::new();
    for topic in &request.topics {
        *asked.entry(topic.name.as_str()).or_default() += 1;
    }
    let mut mutations = throttle::mutations(ctx, STRICT_FROM);
    let mut changed = Vec::new();
    let mut duplicates: Vec<CreatePartitionsTopicResult> = Vec::new();
    let is_controller = ctx.services.admin.is_controller();
    for topic in &request.topics {
        if is_controller && asked.get(topic.name.as_str()).is_some_and(|times| *times > 1) {
            if duplicates.iter().all(|known| known.name != topic.name) {
                duplicates.push(
                    CreatePartitionsTopicResult::default()
                        .with_name(topic.name.clone())
                        .with_error_code(ErrorCode::InvalidRequest.code())
                        .with_error_message(Some(StrBytes::from_static_str("the topic stands twice in the request"))),
                );
            }
            continue;
        }
        changed.push((topic, create(ctx, topic, request.validate_only, &mut mutations).await));
    }
    let answers = changed.into_iter().map(|(topic, changed)| async move {
        let answer = CreatePartitionsTopicResult::default().with_name(topic.name.clone()).with_error_message(None);
        if let Err(error) = changed {
            // Kafka has no words for who asks the wrong broker.
            let told = error.told().filter(|_| error.code != ErrorCode::NotController);
            return answer.with_error_code(error.code.code()).with_error_message(told.map(StrBytes::from_string));
        }
        let admin = &ctx.services.admin;
        let in_time =
            request.validate_only || admin.wait_for_leaders(&topic.name, topic.count, request.timeout_ms).await;
        match in_time {
            true => answer,
            false => answer.with_error_code(ErrorCode::RequestTimedOut.code()),
        }
    });
    let mut results = join_all(answers).await;
    ctx.toll.throttle(mutations.throttle_ms());
    results.extend(duplicates);
    Ok(CreatePartitionsResponse::default().with_results(results))
}

async fn create(
    ctx: &RequestContext<'_>,
    topic: &CreatePartitionsTopic,
    validate_only: bool,
    mutations: &mut Mutations<'_>,
) -> Result<(), AdminError> {
    let admin = &ctx.services.admin;
    if !admin.is_controller() {
        return Err(AdminError::new(ErrorCode::NotController, NotController));
    }
    let assignments = topic.assignments.as_ref().map(|assignments| {
        assignments.iter().map(|one| one.broker_ids.iter().map(|id| BrokerId(id.0)).collect()).collect()
    });
    admin.create_partitions(&topic.name, topic.count, assignments, validate_only, mutations).await
}
