//! Quotas of users, clients and addresses.

use std::collections::BTreeMap;

use kafka_protocol::messages::alter_client_quotas_request::{
    EntityData as AlteredEntity, EntryData as AlteredEntry, OpData,
};
use kafka_protocol::messages::describe_client_quotas_request::ComponentData;
use kafka_protocol::messages::describe_client_quotas_response::EntryData;
use kafka_protocol::messages::{AlterClientQuotasRequest, AlterClientQuotasResponse, DescribeClientQuotasRequest};
use kafka_protocol::protocol::StrBytes;

use super::entity::{Entities, Kind};
use super::settings::Settings;
use super::usage;
use crate::cli::admin::Admin;
use crate::cli::refusal::refuse;

/// `ClientQuotaFilter`'s match types.
const EXACT: i8 = 0;
const DEFAULT: i8 = 1;
const ANY: i8 = 2;
const OF_CLIENTS: [&str; 4] =
    ["producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate"];
const OF_IPS: [&str; 1] = ["connection_creation_rate"];

/// Type in the protocol and in lines; lines name users first.
const TYPES: [(&str, &str); 3] = [("user", "user-principal"), ("client-id", "client-id"), ("ip", "ip")];

/// Whether `name` is a quota of `kind`.
pub fn is_quota(kind: Kind, name: &str) -> bool {
    if kind == Kind::Ips { OF_IPS.contains(&name) } else { OF_CLIENTS.contains(&name) }
}

pub fn describe(entities: &Entities, admin: &mut Admin) -> anyhow::Result<()> {
    let mut lines: Vec<String> = entries(entities, admin)?.iter().map(line).collect();
    lines.sort();
    for line in lines {
        println!("{line}");
    }
    Ok(())
}

fn protocol_type(kind: Kind) -> StrBytes {
    StrBytes::from_static_str(match kind {
        Kind::Users => "user",
        Kind::Clients => "client-id",
        _ => "ip",
    })
}

/// Of entities that have exactly these types.
fn entries(entities: &Entities, admin: &mut Admin) -> anyhow::Result<Vec<EntryData>> {
    if entities.names.len() > entities.kinds.len() {
        return Err(usage("More entity names specified than entity types"));
    }
    let components = entities.kinds.iter().enumerate().map(|(at, kind)| {
        let component = ComponentData::default().with_entity_type(protocol_type(*kind)).with_match(None);
        match entities.names.get(at) {
            None => component.with_match_type(ANY),
            Some(None) => component.with_match_type(DEFAULT),
            Some(Some(name)) => component.with_match_type(EXACT).with_match(Some(StrBytes::from_string(name.clone()))),
        }
    });
    let request = DescribeClientQuotasRequest::default().with_components(components.collect()).with_strict(true);
    let answer = admin.ask(&request)?;
    refuse(answer.error_code, answer.error_message.as_ref())?;
    Ok(answer.entries.unwrap_or_default())
}

fn line(entry: &EntryData) -> String {
    let part = |(name, shown): &(&str, &str)| {
        let part = entry.entity.iter().find(|part| part.entity_type.as_str() == *name)?;
        Some(match &part.entity_name {
            Some(name) => format!("{shown} '{name}'"),
            None => format!("the default {shown}"),
        })
    };
    let entity: Vec<String> = TYPES.iter().filter_map(part).collect();
    let values: BTreeMap<&str, f64> = entry.values.iter().map(|value| (value.key.as_str(), value.value)).collect();
    let values: Vec<String> = values.into_iter().map(|(name, value)| format!("{name}={}", as_java(value))).collect();
    format!("Quota configs for {} are {}", entity.join(", "), values.join(", "))
}

/// As Java writes a double: with a point, and in powers of ten from 10,000,000 and below a thousandth.
fn as_java(value: f64) -> String {
    let size = value.abs();
    if !value.is_finite() || size == 0.0 || (1e-3..1e7).contains(&size) {
        return format!("{value:?}");
    }
    let scientific = format!("{value:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let point = if digits.contains('.') { "" } else { ".0" };
    format!("{digits}{point}E{exponent}")
}

pub fn alter(entities: &Entities, settings: &Settings, admin: &mut Admin) -> anyhow::Result<()> {
    check(entities, settings)?;
    if entities.kinds.len() != entities.names.len() {
        return Err(usage("Exactly one entity name must be specified for every entity type"));
    }
    let mut ops = Vec::new();
    for (name, value) in &settings.set {
        let number = value.trim().parse::<f64>();
        let number =
            number.map_err(|_| usage(format!("Cannot parse quota configuration value for {name}: {value}")))?;
        ops.push(OpData::default().with_key(StrBytes::from_string(name.clone())).with_value(number));
    }
    let old = entries(entities, admin)?;
    settings.require(|name| old.iter().flat_map(|entry| &entry.values).any(|value| value.key.as_str() == name))?;
    let removed = settings.delete.iter().map(|name| StrBytes::from_string(name.clone()));
    ops.extend(removed.map(|name| OpData::default().with_key(name).with_remove(true)));
    let entity = entities.kinds.iter().zip(&entities.names).map(|(kind, name)| {
        let name = name.clone().map(StrBytes::from_string);
        AlteredEntity::default().with_entity_type(protocol_type(*kind)).with_entity_name(name)
    });
    let entry = AlteredEntry::default().with_entity(entity.collect()).with_ops(ops);
    let request = AlterClientQuotasRequest::default().with_entries(vec![entry]);
    let codes = |answer: &AlterClientQuotasResponse| answer.entries.iter().map(|entry| entry.error_code).collect();
    let answer = admin.ask_controller(&request, codes)?;
    answer.entries.iter().try_for_each(|entry| refuse(entry.error_code, entry.error_message.as_ref()))
}

/// An usage error for settings that are no quotas of these entities.
fn check(entities: &Entities, settings: &Settings) -> anyhow::Result<()> {
    let kind = match entities.kinds[..] {
        [one] => one,
        // Whoever names a client means quotas of clients.
        _ => Kind::Clients,
    };
    let what = match kind {
        Kind::Ips => "connection quota",
        Kind::Users => "quota and SCRAM credential",
        _ => "quota",
    };
    let foreign = |names: &mut dyn Iterator<Item = &String>, done: &str| {
        let names: Vec<&str> = names.map(String::as_str).filter(|name| !is_quota(kind, name)).collect();
        if names.is_empty() {
            return Ok(());
        }
        Err(usage(format!(
            "Only {what} configs can be {done} for '{}' using --bootstrap-server. Unexpected config names: {}",
            kind.name(),
            names.join(", ")
        )))
    };
    foreign(&mut settings.set.keys(), "added")?;
    foreign(&mut settings.delete.iter(), "deleted")
}

#[cfg(test)]
mod tests {
    use kafka_protocol::messages::describe_client_quotas_response::{EntityData, ValueData};

    use super::*;

    #[test]
    fn entries_are_written_as_kafka_writes_them() {
        let text = StrBytes::from_static_str;
        let part = |kind, name: Option<&'static str>| {
            EntityData::default().with_entity_type(text(kind)).with_entity_name(name.map(text))
        };
        let value = |key, value| ValueData::default().with_key(text(key)).with_value(value);
        let entry = EntryData::default()
            .with_entity(vec![part("client-id", None), part("user", Some("u1"))])
            .with_values(vec![value("producer_byte_rate", 1e7), value("consumer_byte_rate", 2000.0)]);
        assert_eq!(
            line(&entry),
            "Quota configs for user-principal 'u1', the default client-id are consumer_byte_rate=2000.0, \
             producer_byte_rate=1.0E7"
        );
    }

    #[test]
    fn numbers_are_written_as_java_writes_them() {
        for (number, text) in [
            (1000.0, "1000.0"),
            (50.5, "50.5"),
            (9_999_999.0, "9999999.0"),
            (1e7, "1.0E7"),
            (12_345_678.5, "1.23456785E7"),
            (0.001, "0.001"),
            (0.0001, "1.0E-4"),
            (0.0, "0.0"),
        ] {
            assert_eq!(as_java(number), text);
        }
    }

    #[test]
    fn what_is_no_quota_of_the_entity_is_refused() {
        let refused = |kinds: &[Kind], add: &str, delete: Option<&str>| {
            let entities = Entities { kinds: kinds.to_vec(), names: vec![None; kinds.len()] };
            check(&entities, &Settings::new(Some(add), None, delete).unwrap()).err().map(|error| error.to_string())
        };
        assert_eq!(refused(&[Kind::Clients], "producer_byte_rate=1", Some("request_percentage")), None);
        assert_eq!(refused(&[Kind::Users, Kind::Clients], "controller_mutation_rate=1", None), None);
        assert_eq!(
            refused(&[Kind::Ips], "producer_byte_rate=1", None).unwrap(),
            "Only connection quota configs can be added for 'ips' using --bootstrap-server. Unexpected config names: \
             producer_byte_rate"
        );
        assert_eq!(
            refused(&[Kind::Clients], "producer_byte_rate=1", Some("nope")).unwrap(),
            "Only quota configs can be deleted for 'clients' using --bootstrap-server. Unexpected config names: nope"
        );
    }
}
