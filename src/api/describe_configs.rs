//! DescribeConfigs (32), versions 0-4: the value in use of every config of a topic or of this broker, and its origin.
//!
//! Null keys mean all, and so does an empty list; unknown keys are left out. A broker answers only for itself; the empty
//! broker name stands for what is set for all brokers. v1 adds synonyms, v3 types and documentation. Secrets are null.
//! Topics are read from the metastore, so that a change is seen by whoever made it.
//! A broker's loggers are the parts of this one ([`crate::loggers`]), described without synonyms, type and words.

use std::collections::HashSet;

use kafka_protocol::messages::describe_configs_request::DescribeConfigsResource;
use kafka_protocol::messages::describe_configs_response::{
    DescribeConfigsResourceResult, DescribeConfigsResult, DescribeConfigsSynonym,
};
use kafka_protocol::messages::{DescribeConfigsRequest, DescribeConfigsResponse};
use kafka_protocol::protocol::StrBytes;

use super::config_resource::{
    BROKER, BROKER_LOGGER, CLIENT_METRICS, Refusal, TOPIC, current, is_own, layers, no_client_metrics, unknown_type,
};
use super::context::RequestContext;
use super::serve::Close;
use crate::config::dynamic::{Entry, Source};
use crate::controller::topic_names;
use crate::loggers::Level;
use crate::metastore::schema::ConfigEntity;
use crate::wire::error_code::ErrorCode;

/// Descriptions in one answer beyond one of each topic. A description is a thousand times the bytes that ask for it:
/// whoever asks for the same again and again is refused the rest.
const MORE_THAN_TOPICS: usize = 20;

pub async fn handle(
    ctx: &RequestContext<'_>,
    request: DescribeConfigsRequest,
) -> Result<DescribeConfigsResponse, Close> {
    let mut results = Vec::new();
    let mut left = ctx.services.cluster.load().topics.len() + MORE_THAN_TOPICS;
    for resource in &request.resources {
        let answer = DescribeConfigsResult::default()
            .with_resource_type(resource.resource_type)
            .with_resource_name(resource.resource_name.clone());
        let described = match left {
            0 => Err(Refusal::invalid("more resources than there are")),
            _ => describe(ctx, resource).await,
        };
        results.push(match described {
            Ok(entries) => {
                left -= 1;
                let asked = Asked::of(resource);
                let entries = entries.into_iter().filter(|entry| asked.includes(&entry.name));
                let configs = entries.map(|entry| encode(&request, entry)).collect();
                answer.with_error_message(Some(StrBytes::default())).with_configs(configs)
            }
            Err(refusal) => answer.with_error_code(refusal.code.code()).with_error_message(refusal.text()),
        });
    }
    Ok(DescribeConfigsResponse::default().with_results(results))
}

/// The keys of one resource that are asked for; `None` stands for all.
struct Asked<'r>(Option<HashSet<&'r str>>);

impl<'r> Asked<'r> {
    fn of(resource: &'r DescribeConfigsResource) -> Asked<'r> {
        let keys = resource.configuration_keys.as_ref().filter(|keys| !keys.is_empty());
        Asked(keys.map(|keys| keys.iter().map(|key| key.as_str()).collect()))
    }

    fn includes(&self, name: &str) -> bool {
        self.0.as_ref().is_none_or(|keys| keys.contains(name))
    }
}

async fn describe(ctx: &RequestContext<'_>, resource: &DescribeConfigsResource) -> Result<Vec<Entry>, Refusal> {
    let (configs, own) = current(ctx);
    let layers = layers(ctx, &configs, &own);
    let name = resource.resource_name.as_str();
    match resource.resource_type {
        TOPIC => {
            topic_names::validate(name)
                .map_err(|error| Refusal::new(ErrorCode::InvalidTopicException, error.to_string()))?;
            if ctx.services.cluster.load().topic(name).is_none() {
                return Err(Refusal::new(ErrorCode::UnknownTopicOrPartition, ""));
            }
            let overrides = ctx.services.admin.overrides(&ConfigEntity::Topic(name.to_owned())).await?;
            Ok(layers.topic_entries(&overrides))
        }
        BROKER if name.is_empty() => Ok(layers.default_entries()),
        BROKER => {
            is_own(ctx.services.broker_id, name)?;
            Ok(layers.broker_entries())
        }
        BROKER_LOGGER if name.is_empty() => Err(Refusal::invalid("no broker is named")),
        BROKER_LOGGER => {
            is_own(ctx.services.broker_id, name)?;
            Ok(ctx.services.loggers.list().into_iter().map(logger).collect())
        }
        CLIENT_METRICS if name.is_empty() => Err(Refusal::invalid("no client metrics subscription is named")),
        CLIENT_METRICS => Err(no_client_metrics()),
        other => Err(unknown_type(other)),
    }
}

fn logger((name, level): (String, Level)) -> Entry {
    Entry {
        name,
        value: Some(level.word().to_owned()),
        read_only: false,
        source: Source::BrokerLogger,
        sensitive: false,
        synonyms: Vec::new(),
        kind: None,
        documentation: Some(""),
    }
}

fn encode(request: &DescribeConfigsRequest, entry: Entry) -> DescribeConfigsResourceResult {
    let result = DescribeConfigsResourceResult::default()
        .with_name(StrBytes::from_string(entry.name))
        .with_value(entry.value.map(StrBytes::from_string))
        .with_read_only(entry.read_only)
        // Kafka never sets what only v0 has (seen on a live 3.9.1).
        .with_is_default(false)
        .with_config_source(entry.source as i8)
        .with_is_sensitive(entry.sensitive)
        // 0 is a type nobody knows.
        .with_config_type(entry.kind.map_or(0, |kind| kind.wire()));
    // Loggers have an empty one whatever is asked (seen on a live 3.9.1).
    let documented = request.include_documentation || entry.source == Source::BrokerLogger;
    let documentation = entry.documentation.filter(|_| documented);
    let result = result.with_documentation(documentation.map(StrBytes::from_static_str));
    if !request.include_synonyms {
        return result;
    }
    let synonyms = entry.synonyms.into_iter().map(|synonym| {
        DescribeConfigsSynonym::default()
            .with_name(StrBytes::from_string(synonym.name))
            .with_value(synonym.value.map(StrBytes::from_string))
            .with_source(synonym.source as i8)
    });
    result.with_synonyms(synonyms.collect())
}
