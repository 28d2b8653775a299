//! What DescribeConfigs, AlterConfigs and IncrementalAlterConfigs share: resources, and the last step of a change.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::Hash;

use kafka_protocol::protocol::StrBytes;

use super::context::RequestContext;
use crate::cluster::{Configs, Overrides};
use crate::config::dynamic::{AlterError, Layers};
use crate::config::{TopicConfig, TopicConfigError};
use crate::controller::admin::AdminError;
use crate::metastore::schema::ConfigEntity;
use crate::types::BrokerId;
use crate::wire::error_code::ErrorCode;

/// `resource_type` on the wire.
pub const TOPIC: i8 = 2;
pub const BROKER: i8 = 4;
pub const BROKER_LOGGER: i8 = 8;
pub const CLIENT_METRICS: i8 = 16;

/// Code and, where Kafka gives one, text of a resource that is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub code: ErrorCode,
    pub message: Option<String>,
}

impl Refusal {
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Refusal {
        Refusal { code, message: Some(message.into()) }
    }
    pub fn invalid(message: impl Into<String>) -> Refusal {
        Refusal::new(ErrorCode::InvalidRequest, message)
    }
    pub fn text(&self) -> Option<StrBytes> {
        self.message.clone().map(StrBytes::from_string)
    }
}

impl From<AdminError> for Refusal {
    fn from(error: AdminError) -> Refusal {
        Refusal { code: error.code, message: Some(error.message) }
    }
}

/// The overrides this broker knows of; kept while [`layers`] borrows from it.
pub fn current(ctx: &RequestContext<'_>) -> (std::sync::Arc<Configs>, Overrides) {
    let configs = ctx.services.configs.load();
    let own = configs.brokers.get(&ctx.services.broker_id).cloned().unwrap_or_default();
    (configs, own)
}

/// This broker's configuration in its layers.
pub fn layers<'a>(ctx: &RequestContext<'a>, configs: &'a Configs, own: &'a Overrides) -> Layers<'a> {
    Layers { fixed: &ctx.services.config, default: &configs.broker_default, own }
}

/// Which entity a change is for; `None` means all brokers in `Broker`.
pub fn entity(ctx: &RequestContext<'_>, resource_type: i8, name: &str) -> Result<ConfigEntity, Refusal> {
    match resource_type {
        TOPIC if name.is_empty() => Err(Refusal::invalid("Default topic resources are not allowed.")),
        TOPIC => Ok(ConfigEntity::Topic(name.to_owned())),
        BROKER if name.is_empty() => Ok(ConfigEntity::Broker(None)),
        BROKER => {
            let own = ctx.services.broker_id;
            let id =
                name.parse().map_err(|_| Refusal::invalid(format!("Node id must be an integer, but it is: {name}")))?;
            if BrokerId(id) != own {
                return Err(Refusal::invalid(format!("Unexpected broker id, expected {own}, but received {id}")));
            }
            Ok(ConfigEntity::Broker(Some(own)))
        }
        CLIENT_METRICS => Err(Refusal::invalid(
            "AlterConfigs is only supported for topics and brokers, but resource type is CLIENT_METRICS",
        )),
        other => Err(Refusal::invalid(format!("Unknown resource type {other}"))),
    }
}

/// Duplicate keys, then null values where there must be none, in the order a live 3.9.1 complains.
pub fn check_keys<'a>(keys: impl Iterator<Item = (&'a str, bool)> + Clone) -> Result<(), Refusal> {
    let mut seen = HashSet::new();
    if !keys.clone().all(|(key, _)| seen.insert(key)) {
        return Err(Refusal::invalid("Error due to duplicate config keys"));
    }
    let nulls: Vec<&str> = keys.filter(|(_, is_null)| *is_null).map(|(key, _)| key).collect();
    if !nulls.is_empty() {
        return Err(Refusal::invalid(format!("Null value not supported for : {}", nulls.join(", "))));
    }
    Ok(())
}

/// Those that stand in `all` more than once.
pub fn duplicates<T: Copy + Eq + Hash>(all: impl Iterator<Item = T>) -> HashSet<T> {
    let mut counts = HashMap::new();
    for one in all {
        *counts.entry(one).or_insert(0) += 1;
    }
    counts.into_iter().filter(|(_, count)| *count > 1).map(|(one, _)| one).collect()
}

/// Validates `overrides` as the whole new configuration of `entity` and, unless asked only that, writes it.
pub async fn replace(
    ctx: &RequestContext<'_>,
    entity: ConfigEntity,
    overrides: BTreeMap<String, String>,
    validate_only: bool,
) -> Result<(), Refusal> {
    let (configs, own) = current(ctx);
    let layers = layers(ctx, &configs, &own);
    match entity {
        ConfigEntity::Topic(topic) => {
            if ctx.services.cluster.load().topic(&topic).is_none() {
                let message = format!("The topic '{topic}' does not exist.");
                return Err(Refusal::new(ErrorCode::UnknownTopicOrPartition, message));
            }
            TopicConfig::resolve(&layers.topic_defaults(), &overrides)
                .map_err(|error| Refusal::new(ErrorCode::InvalidConfig, topic_error_text(&topic, &error)))?;
            if !validate_only {
                ctx.services.admin.set_topic_configs(&topic, overrides).await?;
            }
        }
        ConfigEntity::Broker(broker) => {
            layers.check(&overrides, broker.is_none()).map_err(|error| {
                let code = match error {
                    AlterError::Secret(_) => ErrorCode::InvalidConfig,
                    _ => ErrorCode::InvalidRequest,
                };
                Refusal::new(code, error.to_string())
            })?;
            if !validate_only {
                ctx.services.admin.set_broker_configs(broker, overrides).await?;
            }
        }
        _ => return Err(Refusal { code: ErrorCode::UnknownServerError, message: None }),
    }
    Ok(())
}

/// A bad value is said with its resource, as Kafka's clients know it from Kafka.
fn topic_error_text(topic: &str, error: &TopicConfigError) -> String {
    match error {
        TopicConfigError::BadValue(_) | TopicConfigError::TieredStorage => {
            format!("Invalid config value for resource ConfigResource(type=TOPIC, name='{topic}'): {error}")
        }
        _ => error.to_string(),
    }
}
