//! What DescribeConfigs, AlterConfigs and IncrementalAlterConfigs share: resources, and the last step of a change.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::Hash;

use futures_util::future::BoxFuture;
use kafka_protocol::protocol::StrBytes;

use super::context::RequestContext;
use crate::cluster::{Configs, Overrides};
use crate::config::dynamic::{AlterError, Layers, passwords};
use crate::config::{TopicConfig, TopicConfigError};
use crate::controller::admin::AdminError;
use crate::metastore::schema::ConfigEntity;
use crate::spawn::for_request;
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
        TOPIC if name.is_empty() => Err(Refusal::invalid("a topic is named, there is no default one")),
        TOPIC => Ok(ConfigEntity::Topic(name.to_owned())),
        BROKER if name.is_empty() => Ok(ConfigEntity::Broker(None)),
        BROKER => {
            let own = ctx.services.broker_id;
            is_own(own, name)?;
            Ok(ConfigEntity::Broker(Some(own)))
        }
        CLIENT_METRICS => Err(no_client_metrics()),
        other => Err(unknown_type(other)),
    }
}

/// Whether `name` is the id of this broker, `own`: what a broker is configured with only itself knows.
pub fn is_own(own: BrokerId, name: &str) -> Result<(), Refusal> {
    match name.parse() {
        Ok(id) if BrokerId(id) == own => Ok(()),
        Ok(id) => Err(Refusal::invalid(format!("this is broker {own}, broker {id} is asked for"))),
        Err(_) => Err(Refusal::invalid(format!("{name} is no broker id"))),
    }
}

/// Client metrics subscriptions (KIP-714) come with KRaft only.
pub fn no_client_metrics() -> Refusal {
    Refusal::invalid("a cluster with ZooKeeper has no client metrics subscriptions")
}

pub fn unknown_type(resource_type: i8) -> Refusal {
    Refusal::invalid(format!("there is no resource type {resource_type}"))
}

/// What became of one resource of AlterConfigs or IncrementalAlterConfigs.
pub struct Altered {
    pub resource_type: i8,
    pub resource_name: StrBytes,
    pub error_code: i16,
    pub error_message: Option<StrBytes>,
}

/// Alters resources one by one, independently of each other. One that is given twice is refused in both places.
pub async fn alter_each<'r, R>(
    resources: &'r [R],
    names: impl Fn(&'r R) -> (i8, &'r StrBytes),
    alter: impl Fn(&'r R) -> BoxFuture<'r, Result<(), Refusal>>,
) -> Vec<Altered> {
    let twice = duplicates(resources.iter().map(|resource| {
        let (resource_type, name) = names(resource);
        (resource_type, name.as_str())
    }));
    let mut altered = Vec::with_capacity(resources.len());
    for resource in resources {
        let (resource_type, name) = names(resource);
        let outcome = match twice.contains(&(resource_type, name.as_str())) {
            true => Err(Refusal::invalid("the resource stands twice in the request")),
            false => alter(resource).await,
        };
        let refusal = outcome.err();
        altered.push(Altered {
            resource_type,
            resource_name: name.clone(),
            error_code: refusal.as_ref().map_or(ErrorCode::None, |refusal| refusal.code).code(),
            error_message: refusal.and_then(|refusal| refusal.text()),
        });
    }
    altered
}

/// Duplicate keys, then null values where there must be none, in the order a live 3.9.1 complains.
pub fn check_keys<'a>(keys: impl Iterator<Item = (&'a str, bool)> + Clone) -> Result<(), Refusal> {
    let mut seen = HashSet::new();
    if !keys.clone().all(|(key, _)| seen.insert(key)) {
        return Err(Refusal::invalid("a key is given twice"));
    }
    let nulls: Vec<&str> = keys.filter(|(_, is_null)| *is_null).map(|(key, _)| key).collect();
    if !nulls.is_empty() {
        return Err(Refusal::invalid(format!("keys without a value: {}", nulls.join(", "))));
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
                let message = format!("there is no topic '{topic}'");
                return Err(Refusal::new(ErrorCode::UnknownTopicOrPartition, message));
            }
            TopicConfig::resolve(&layers.topic_defaults(), &overrides)
                .map_err(|error| Refusal::new(ErrorCode::InvalidConfig, topic_error_text(&topic, &error)))?;
            if !validate_only {
                ctx.services.admin.set_topic_configs(&topic, overrides).await?;
            }
        }
        ConfigEntity::Broker(broker) => {
            layers.check(&overrides, broker.is_none()).map_err(unalterable)?;
            if !validate_only {
                let overrides = hidden(ctx, overrides).await?;
                ctx.services.admin.set_broker_configs(broker, overrides).await?;
            }
        }
        _ => return Err(Refusal { code: ErrorCode::UnknownServerError, message: None }),
    }
    Ok(())
}

fn unalterable(error: AlterError) -> Refusal {
    let code = match error {
        AlterError::Secret(_) => ErrorCode::InvalidConfig,
        _ => ErrorCode::InvalidRequest,
    };
    Refusal::new(code, error.to_string())
}

/// What is stored, to be altered: passwords in clear.
pub async fn revealed(ctx: &RequestContext<'_>, entity: &ConfigEntity) -> Result<BTreeMap<String, String>, Refusal> {
    let mut overrides = ctx.services.admin.overrides(entity).await?;
    if !matches!(entity, ConfigEntity::Broker(_)) || !overrides.keys().any(|name| passwords::is_secret(name)) {
        return Ok(overrides);
    }
    let config = ctx.services.config.clone();
    let work = move || {
        passwords::reveal(&config, &mut overrides);
        overrides
    };
    for_request(&*ctx.services.spawner, work).await.ok_or_else(stopping)
}

/// What is stored of `overrides`.
async fn hidden(
    ctx: &RequestContext<'_>,
    mut overrides: BTreeMap<String, String>,
) -> Result<BTreeMap<String, String>, Refusal> {
    if !overrides.keys().any(|name| passwords::is_secret(name)) {
        return Ok(overrides);
    }
    let (config, random) = (ctx.services.config.clone(), ctx.services.random.clone());
    let work = move || {
        let hidden = passwords::hide(&config, &mut overrides, &*random);
        hidden.map(|()| overrides).map_err(|name| unalterable(AlterError::Secret(name)))
    };
    for_request(&*ctx.services.spawner, work).await.ok_or_else(stopping)?
}

fn stopping() -> Refusal {
    Refusal::new(ErrorCode::UnknownServerError, "the broker is stopping")
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
