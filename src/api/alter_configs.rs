//! AlterConfigs (33), versions 0-2: the configs given become all a topic's or broker's overrides; others are dropped.
//!
//! Checks per resource: given twice, type, keys given twice, null values (all INVALID_REQUEST), then those of
//! [`replace`]: topic unknown, INVALID_CONFIG for topics, INVALID_REQUEST for brokers. The same resource given twice is
//! refused in both places; a live 3.9.1 never answers such a request.

use kafka_protocol::messages::alter_configs_request::AlterConfigsResource;
use kafka_protocol::messages::alter_configs_response::AlterConfigsResourceResponse;
use kafka_protocol::messages::{AlterConfigsRequest, AlterConfigsResponse};

use super::config_resource::{Altered, Refusal, alter_each, check_keys, entity, replace};
use super::context::RequestContext;
use super::serve::Close;

pub async fn handle(ctx: &RequestContext<'_>, request: AlterConfigsRequest) -> Result<AlterConfigsResponse, Close> {
    let altered = alter_each(
        &request.resources,
        |resource| (resource.resource_type, &resource.resource_name),
        |resource| Box::pin(alter(ctx, resource, request.validate_only)),
    )
    .await;
    let response = |altered: Altered| {
        AlterConfigsResourceResponse::default()
            .with_resource_type(altered.resource_type)
            .with_resource_name(altered.resource_name)
            .with_error_code(altered.error_code)
            .with_error_message(altered.error_message)
    };
    Ok(AlterConfigsResponse::default().with_responses(altered.into_iter().map(response).collect()))
}

async fn alter(ctx: &RequestContext<'_>, resource: &AlterConfigsResource, validate_only: bool) -> Result<(), Refusal> {
    check_keys(resource.configs.iter().map(|config| (config.name.as_str(), config.value.is_none())))?;
    let entity = entity(ctx, resource.resource_type, &resource.resource_name)?;
    let pairs = resource.configs.iter().filter_map(|config| {
        let value = config.value.as_ref()?;
        Some((config.name.to_string(), value.to_string()))
    });
    replace(ctx, entity, pairs.collect(), validate_only).await
}
