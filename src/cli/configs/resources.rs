//! Configs of topics and brokers.

use anyhow::{Context, anyhow};
use kafka_protocol::messages::describe_configs_request::DescribeConfigsResource;
use kafka_protocol::messages::describe_configs_response::DescribeConfigsResourceResult;
use kafka_protocol::messages::incremental_alter_configs_request::{AlterConfigsResource, AlterableConfig};
use kafka_protocol::messages::{BrokerId, DescribeConfigsRequest, IncrementalAlterConfigsRequest};
use kafka_protocol::protocol::{Request, StrBytes};

use super::entity::Kind;
use super::settings::Settings;
use crate::cli::admin::Admin;
use crate::cli::refusal::refuse;

/// `ConfigResource.Type`.
const TOPIC: i8 = 2;
const BROKER: i8 = 4;
/// `AlterConfigOp.OpType`.
const SET: i8 = 0;
const DELETE: i8 = 1;
/// `config_source`, from 1.
const SOURCES: [&str; 8] = [
    "DYNAMIC_TOPIC_CONFIG",
    "DYNAMIC_BROKER_CONFIG",
    "DYNAMIC_DEFAULT_BROKER_CONFIG",
    "STATIC_BROKER_CONFIG",
    "DEFAULT_CONFIG",
    "DYNAMIC_BROKER_LOGGER_CONFIG",
    "DYNAMIC_CLIENT_METRICS_CONFIG",
    "DYNAMIC_GROUP_CONFIG",
];

/// `name`: of all without one; `Some(None)` is the default entity.
pub fn describe(kind: Kind, name: Option<&Option<String>>, all: bool, admin: &mut Admin) -> anyhow::Result<()> {
    let names = match name {
        Some(name) => vec![name.clone().unwrap_or_default()],
        None => names(kind, admin)?,
    };
    for name in names {
        match (kind, name.as_str()) {
            (Kind::Brokers, "") => println!("Default configs for brokers in the cluster are:"),
            _ => println!("{} configs for {} {name} are:", if all { "All" } else { "Dynamic" }, kind.singular()),
        }
        for entry in entries(kind, &name, all, true, admin)? {
            println!("{}", line(&entry));
        }
    }
    Ok(())
}

/// All topics, or all brokers and their default.
fn names(kind: Kind, admin: &mut Admin) -> anyhow::Result<Vec<String>> {
    let metadata = admin.metadata()?;
    let mut names: Vec<String> = match kind {
        Kind::Topics => metadata.topics.iter().filter_map(|topic| Some(topic.name.as_ref()?.to_string())).collect(),
        _ => metadata.brokers.iter().map(|broker| broker.node_id.0.to_string()).collect(),
    };
    names.sort();
    if kind == Kind::Brokers {
        names.push(String::new());
    }
    Ok(names)
}

fn line(entry: &DescribeConfigsResourceResult) -> String {
    let text = |value: &Option<StrBytes>| value.as_ref().map_or("null".to_owned(), |value| value.to_string());
    let synonyms: Vec<String> = entry
        .synonyms
        .iter()
        .map(|synonym| format!("{}:{}={}", source(synonym.source), synonym.name, text(&synonym.value)))
        .collect();
    format!(
        "  {}={} sensitive={} synonyms={{{}}}",
        entry.name,
        text(&entry.value),
        entry.is_sensitive,
        synonyms.join(", ")
    )
}

fn source(code: i8) -> &'static str {
    let at = usize::try_from(code).ok().and_then(|code| code.checked_sub(1));
    at.and_then(|at| SOURCES.get(at)).copied().unwrap_or("UNKNOWN")
}

/// By name; without `all` what was set for this entity alone.
fn entries(
    kind: Kind,
    name: &str,
    all: bool,
    synonyms: bool,
    admin: &mut Admin,
) -> anyhow::Result<Vec<DescribeConfigsResourceResult>> {
    let resource = DescribeConfigsResource::default()
        .with_resource_type(resource_type(kind))
        .with_resource_name(StrBytes::from_string(name.to_owned()))
        .with_configuration_keys(None);
    let request = DescribeConfigsRequest::default().with_resources(vec![resource]).with_include_synonyms(synonyms);
    let answer = send(kind, name, &request, admin)?;
    let result = answer.results.into_iter().next();
    let result = result.ok_or_else(|| anyhow!("the broker says nothing of {} {name}", kind.singular()))?;
    refuse(result.error_code, result.error_message.as_ref())?;
    let own = match (kind, name) {
        (Kind::Topics, _) => "DYNAMIC_TOPIC_CONFIG",
        (_, "") => "DYNAMIC_DEFAULT_BROKER_CONFIG",
        _ => "DYNAMIC_BROKER_CONFIG",
    };
    let mut entries = result.configs;
    entries.retain(|entry| all || source(entry.config_source) == own);
    entries.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(entries)
}

pub fn alter(kind: Kind, name: Option<&str>, settings: &Settings, admin: &mut Admin) -> anyhow::Result<()> {
    let name = name.unwrap_or_default();
    let old = entries(kind, name, false, false, admin)?;
    settings.require(|name| old.iter().any(|entry| entry.name.as_str() == name))?;
    let text = |text: &String| StrBytes::from_string(text.clone());
    let set = settings.set.iter().map(|(name, value)| {
        AlterableConfig::default().with_name(text(name)).with_config_operation(SET).with_value(Some(text(value)))
    });
    let delete = settings
        .delete
        .iter()
        .map(|name| AlterableConfig::default().with_name(text(name)).with_config_operation(DELETE).with_value(None));
    let resource = AlterConfigsResource::default()
        .with_resource_type(resource_type(kind))
        .with_resource_name(StrBytes::from_string(name.to_owned()))
        .with_configs(set.chain(delete).collect());
    let request = IncrementalAlterConfigsRequest::default().with_resources(vec![resource]);
    let answer = send(kind, name, &request, admin)?;
    answer.responses.iter().try_for_each(|result| refuse(result.error_code, result.error_message.as_ref()))
}

fn resource_type(kind: Kind) -> i8 {
    if kind == Kind::Topics { TOPIC } else { BROKER }
}

/// A broker is asked itself: others do not know what its file says.
fn send<R: Request>(kind: Kind, name: &str, request: &R, admin: &mut Admin) -> anyhow::Result<R::Response> {
    match kind {
        Kind::Brokers if !name.is_empty() => {
            admin.ask_broker(BrokerId(name.parse().with_context(|| format!("{name} is no broker id"))?), request)
        }
        _ => admin.ask(request),
    }
}

#[cfg(test)]
mod tests {
    use kafka_protocol::messages::describe_configs_response::DescribeConfigsSynonym;

    use super::*;

    #[test]
    fn entries_are_written_as_kafka_writes_them() {
        let text = StrBytes::from_static_str;
        let synonym = |name, value, source| {
            let synonym = DescribeConfigsSynonym::default().with_name(text(name));
            synonym.with_value(Some(text(value))).with_source(source)
        };
        let entry = DescribeConfigsResourceResult::default().with_name(text("cleanup.policy"));
        let entry = entry.with_value(Some(text("compact,delete")));
        assert_eq!(line(&entry), "  cleanup.policy=compact,delete sensitive=false synonyms={}");
        let of_topic = synonym("cleanup.policy", "compact,delete", 1);
        let entry = entry.with_synonyms(vec![of_topic, synonym("log.cleanup.policy", "delete", 5)]);
        assert_eq!(
            line(&entry),
            "  cleanup.policy=compact,delete sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:cleanup.policy=compact,delete, \
             DEFAULT_CONFIG:log.cleanup.policy=delete}"
        );
        let secret =
            DescribeConfigsResourceResult::default().with_name(text("k")).with_is_sensitive(true).with_value(None);
        assert_eq!(line(&secret), "  k=null sensitive=true synonyms={}");
        assert_eq!([source(0), source(9), source(-1)], ["UNKNOWN"; 3]);
    }
}
