//! AlterClientQuotas (49), versions 0-1: sets and removes quotas of users, clients and addresses, entity by entity.
//!
//! - Any broker writes. Other brokers, and this one, hear of it by the change node.
//! - First failing check of an entity wins: those of [`QuotaEntity`], an address that is none (INVALID_REQUEST), then key by
//!   key one that the entity does not have or a value that is no whole number, at least 0, where it must be
//!   (INVALID_REQUEST). What is no number is 0 then, as on a live 3.9.1.
//! - An entity that stands twice is changed twice and answered once, with its last outcome.
//! - A removal of what is not there is a success. An entity without quotas has no node.

use std::collections::BTreeMap;
use std::net::{IpAddr, ToSocketAddrs};

use indexmap::IndexMap;
use kafka_protocol::messages::alter_client_quotas_request::{EntryData as Change, OpData};
use kafka_protocol::messages::alter_client_quotas_response::{EntityData, EntryData};
use kafka_protocol::messages::{AlterClientQuotasRequest, AlterClientQuotasResponse};

use super::config_resource::Refusal;
use super::context::RequestContext;
use super::quota_entity::{Pair, QuotaEntity};
use super::serve::Close;
use crate::config::def::Value;
use crate::metastore::schema::{ConfigEntity, EntityName, paths};
use crate::quota::{
    CONNECTION_CREATION_RATE, CONSUMER_BYTE_RATE, CONTROLLER_MUTATION_RATE, PRODUCER_BYTE_RATE, REQUEST_PERCENTAGE,
};
use crate::spawn::for_request;
use crate::wire::error_code::ErrorCode;

pub async fn handle(
    ctx: &RequestContext<'_>,
    request: AlterClientQuotasRequest,
) -> Result<AlterClientQuotasResponse, Close> {
    let mut outcomes: IndexMap<Vec<Pair>, Result<(), Refusal>> = IndexMap::new();
    for change in &request.entries {
        let mut pairs: IndexMap<_, _> = IndexMap::new();
        pairs.extend(change.entity.iter().map(|part| (part.entity_type.clone(), part.entity_name.clone())));
        pairs.sort_unstable_keys();
        let pairs: Vec<Pair> = pairs.into_iter().collect();
        let outcome = alter(ctx, &pairs, change, request.validate_only).await;
        outcomes.insert(pairs, outcome);
    }
    let answer = |(pairs, outcome): (Vec<Pair>, Result<(), Refusal>)| {
        let entity = pairs
            .into_iter()
            .map(|(kind, name)| EntityData::default().with_entity_type(kind).with_entity_name(name))
            .collect();
        let answer = EntryData::default().with_entity(entity);
        match outcome {
            Ok(()) => answer.with_error_message(None),
            Err(refusal) => answer.with_error_code(refusal.code.code()).with_error_message(refusal.text()),
        }
    };
    Ok(AlterClientQuotasResponse::default().with_entries(outcomes.into_iter().map(answer).collect()))
}

async fn alter(ctx: &RequestContext<'_>, pairs: &[Pair], change: &Change, validate_only: bool) -> Result<(), Refusal> {
    let entity = QuotaEntity::of(pairs)?.stored()?;
    if let ConfigEntity::Ip(EntityName::Named(ip)) = &entity
        && !is_address(ctx, ip).await
    {
        return Err(Refusal::invalid(format!("{ip} is no IP address and no host that is known")));
    }
    let admin = &ctx.services.admin;
    let mut configs = admin.overrides(&entity).await?;
    for op in &change.ops {
        apply(&entity, op, &mut configs)?;
    }
    if validate_only {
        return Ok(());
    }
    Ok(admin.set_quota_configs(&entity, configs).await?)
}

/// An address, or a host name that has one. What its node would be called decides: one of IPv6 cannot be told from a name.
async fn is_address(ctx: &RequestContext<'_>, ip: &str) -> bool {
    let name = paths::sanitize(ip);
    if name.parse::<IpAddr>().is_ok() {
        return true;
    }
    let known = move || (name.as_str(), 0).to_socket_addrs().is_ok_and(|mut found| found.next().is_some());
    for_request(&*ctx.services.spawner, known).await.unwrap_or(false)
}

fn apply(entity: &ConfigEntity, op: &OpData, configs: &mut BTreeMap<String, String>) -> Result<(), Refusal> {
    let key = op.key.as_str();
    if op.remove {
        configs.remove(key);
        return Ok(());
    }
    let value = match (entity, key) {
        (ConfigEntity::Ip(_), CONNECTION_CREATION_RATE) => Value::Integer(whole(key, op.value, |v| (v as i32).into())?),
        (ConfigEntity::Ip(_), _) => return Err(Refusal::invalid(format!("an address has no {key}"))),
        (_, PRODUCER_BYTE_RATE | CONSUMER_BYTE_RATE) => Value::Integer(whole(key, op.value, |v| v as i64)?),
        (_, REQUEST_PERCENTAGE | CONTROLLER_MUTATION_RATE) => Value::Double(op.value),
        // Passwords of users lie in the same node.
        (ConfigEntity::User(_) | ConfigEntity::UserClient(..), "SCRAM-SHA-256" | "SCRAM-SHA-512") => {
            return Err(Refusal { code: ErrorCode::UnknownServerError, message: None });
        }
        _ => return Err(Refusal::invalid(format!("users and clients have no {key}"))),
    };
    configs.insert(key.to_owned(), value.to_string());
    Ok(())
}

/// A value that is whole but for what is lost in writing it as a fraction.
fn whole(key: &str, value: f64, truncate: fn(f64) -> i64) -> Result<i64, Refusal> {
    const EPSILON: f64 = 1e-6;
    let whole = truncate(value + EPSILON);
    if (whole as f64 - value).abs() > EPSILON {
        return Err(Refusal::invalid(format!("{key} should be a whole number")));
    }
    Ok(whole)
}

#[cfg(test)]
mod tests {
    use kafka_protocol::protocol::StrBytes;

    use super::*;

    fn stored(entity: &str, key: &'static str, value: f64) -> Result<String, ErrorCode> {
        let op = OpData::default().with_key(StrBytes::from_static_str(key)).with_value(value);
        let mut configs = BTreeMap::new();
        let entity = ConfigEntity::parse(entity).expect("an entity");
        apply(&entity, &op, &mut configs).map_err(|refusal| refusal.code)?;
        Ok(configs.remove(key).expect("set"))
    }

    #[test]
    fn values_are_stored_in_the_words_of_kafka() {
        let refused = Err(ErrorCode::InvalidRequest);
        for (entity, key, value, text) in [
            ("users/u", PRODUCER_BYTE_RATE, 1_000_000.0, Ok("1000000")),
            ("users/u", CONSUMER_BYTE_RATE, 0.0000001, Ok("0")),
            ("users/u", CONSUMER_BYTE_RATE, 1.5, refused),
            ("clients/c", REQUEST_PERCENTAGE, 50.0, Ok("50.0")),
            ("clients/c", CONTROLLER_MUTATION_RATE, 0.25, Ok("0.25")),
            ("clients/c", CONTROLLER_MUTATION_RATE, 1e8, Ok("1.0E8")),
            ("clients/c", CONNECTION_CREATION_RATE, 1.0, refused),
            ("clients/c", "SCRAM-SHA-256", 1.0, refused),
            ("users/u/clients/c", "SCRAM-SHA-256", 1.0, Err(ErrorCode::UnknownServerError)),
            ("ips/<default>", CONNECTION_CREATION_RATE, 7.0, Ok("7")),
            ("ips/<default>", CONNECTION_CREATION_RATE, 1e10, refused),
            ("ips/<default>", PRODUCER_BYTE_RATE, 7.0, refused),
        ] {
            assert_eq!(stored(entity, key, value), text.map(str::to_owned), "{entity} {key}={value}");
        }
    }
}
