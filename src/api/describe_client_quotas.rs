//! DescribeClientQuotas (48), versions 0-1: the quotas of users, clients and addresses that a filter finds.
//!
//! - A component asks for one name, for the default of its type, or for all of its type. `strict` finds entities that have
//!   the named types and no others; else the types that are not named may be anything, or missing.
//! - First failing check wins: a match of no known kind (UNKNOWN_SERVER_ERROR), a type asked for twice (INVALID_REQUEST), an
//!   empty one (INVALID_REQUEST), another than user, client-id and ip (UNSUPPORTED_VERSION), ip beside others
//!   (INVALID_REQUEST). Entries are null then.
//! - Read from the metastore, so that a change is seen by whoever made it. Entities without quotas are left out.

use kafka_protocol::messages::describe_client_quotas_request::ComponentData;
use kafka_protocol::messages::describe_client_quotas_response::{EntityData, EntryData, ValueData};
use kafka_protocol::messages::{DescribeClientQuotasRequest, DescribeClientQuotasResponse};
use kafka_protocol::protocol::StrBytes;

use super::config_resource::Refusal;
use super::context::RequestContext;
use super::quota_entity::{CLIENT_ID, IP, QuotaEntity, USER};
use super::serve::Close;
use crate::cluster::Overrides;
use crate::metastore::schema::{ConfigEntity, EntityName};
use crate::quota;
use crate::wire::error_code::ErrorCode;

pub async fn handle(
    ctx: &RequestContext<'_>,
    request: DescribeClientQuotasRequest,
) -> Result<DescribeClientQuotasResponse, Close> {
    let answer = DescribeClientQuotasResponse::default();
    Ok(match entries(ctx, &request).await {
        Ok(entries) => answer.with_error_message(Some(StrBytes::default())).with_entries(Some(entries)),
        Err(refusal) => {
            answer.with_error_code(refusal.code.code()).with_error_message(refusal.text()).with_entries(None)
        }
    })
}

async fn entries(ctx: &RequestContext<'_>, request: &DescribeClientQuotasRequest) -> Result<Vec<EntryData>, Refusal> {
    let filter = Filter::of(&request.components, request.strict)?;
    let admin = &ctx.services.admin;
    let stored: Vec<(ConfigEntity, Overrides)> = match filter.only() {
        Some(entity) => {
            let overrides = admin.overrides(&entity).await?;
            vec![(entity, overrides.into())]
        }
        None => admin.quota_configs().await?,
    };
    let mut entries = Vec::new();
    for (entity, overrides) in stored {
        let Some(entity) = QuotaEntity::named(entity).filter(|entity| filter.finds(entity)) else { continue };
        let values = values(&entity, &overrides)?;
        if !values.is_empty() {
            let entity = entity
                .pairs()
                .map(|(kind, name)| EntityData::default().with_entity_type(kind).with_entity_name(name))
                .collect();
            entries.push(EntryData::default().with_entity(entity).with_values(values));
        }
    }
    Ok(entries)
}

fn values(entity: &QuotaEntity, overrides: &Overrides) -> Result<Vec<ValueData>, Refusal> {
    let keys: &[&str] = match entity.ip {
        Some(_) => &[quota::CONNECTION_CREATION_RATE],
        None => &[
            quota::PRODUCER_BYTE_RATE,
            quota::CONSUMER_BYTE_RATE,
            quota::REQUEST_PERCENTAGE,
            quota::CONTROLLER_MUTATION_RATE,
        ],
    };
    let mut values = Vec::new();
    for key in keys {
        let Some(text) = overrides.get(*key) else { continue };
        // A value that no Kafka wrote.
        let no_number = |_| Refusal { code: ErrorCode::UnknownServerError, message: None };
        let value = text.trim().parse().map_err(no_number)?;
        values.push(ValueData::default().with_key(StrBytes::from_static_str(key)).with_value(value));
    }
    Ok(values)
}

/// What is asked of one type.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Match {
    Exact(EntityName),
    Any,
}

impl Match {
    fn of(component: &ComponentData) -> Result<Match, Refusal> {
        let unknown = || Refusal { code: ErrorCode::UnknownServerError, message: None };
        match component.match_type {
            0 => component
                ._match
                .as_ref()
                .map(|name| Match::Exact(EntityName::Named(name.to_string())))
                .ok_or_else(unknown),
            1 => Ok(Match::Exact(EntityName::Default)),
            2 => Ok(Match::Any),
            _ => Err(unknown()),
        }
    }

    fn name(this: &Option<Match>) -> Option<&EntityName> {
        match this {
            Some(Match::Exact(name)) => Some(name),
            _ => None,
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Filter {
    user: Option<Match>,
    client: Option<Match>,
    ip: Option<Match>,
    strict: bool,
}

impl Filter {
    fn of(components: &[ComponentData], strict: bool) -> Result<Filter, Refusal> {
        let matches = components.iter().map(Match::of).collect::<Result<Vec<_>, Refusal>>()?;
        let mut filter = Filter { strict, ..Filter::default() };
        for (component, wanted) in components.iter().zip(matches) {
            let place = match component.entity_type.as_str() {
                USER => &mut filter.user,
                CLIENT_ID => &mut filter.client,
                IP => &mut filter.ip,
                "" => return Err(Refusal::invalid("a component without a type")),
                other => {
                    let message = format!("there are no quotas of a {other}");
                    return Err(Refusal::new(ErrorCode::UnsupportedVersion, message));
                }
            };
            if place.replace(wanted).is_some() {
                return Err(Refusal::invalid(format!("{} is asked for twice", component.entity_type)));
            }
        }
        if filter.ip.is_some() && (filter.user.is_some() || filter.client.is_some()) {
            return Err(Refusal::invalid("addresses are not asked for together with users or clients"));
        }
        Ok(filter)
    }

    /// The one entity that can be found, where it is known beforehand.
    fn only(&self) -> Option<ConfigEntity> {
        let (user, client) = (Match::name(&self.user), Match::name(&self.client));
        match (user, client) {
            (Some(user), Some(client)) => Some(ConfigEntity::UserClient(user.clone(), client.clone())),
            (Some(user), None) if self.strict && self.client.is_none() => Some(ConfigEntity::User(user.clone())),
            (None, Some(client)) if self.strict && self.user.is_none() => Some(ConfigEntity::Client(client.clone())),
            _ => Match::name(&self.ip).map(|ip| ConfigEntity::Ip(ip.clone())),
        }
    }

    fn finds(&self, entity: &QuotaEntity) -> bool {
        let of_type = |wanted: &Option<Match>, name: &Option<EntityName>| match wanted {
            Some(Match::Exact(wanted)) => name.as_ref() == Some(wanted),
            Some(Match::Any) => name.is_some(),
            None => name.is_none() || !self.strict,
        };
        of_type(&self.user, &entity.user) && of_type(&self.client, &entity.client) && of_type(&self.ip, &entity.ip)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(components: &[(&'static str, i8, Option<&'static str>)], strict: bool) -> Vec<&'static str> {
        let components: Vec<ComponentData> = components
            .iter()
            .map(|(kind, match_type, name)| {
                ComponentData::default()
                    .with_entity_type(StrBytes::from_static_str(kind))
                    .with_match_type(*match_type)
                    .with_match(name.map(StrBytes::from_static_str))
            })
            .collect();
        let filter = Filter::of(&components, strict).expect("a filter");
        let entity = |path| ConfigEntity::parse(path).and_then(QuotaEntity::named).expect("an entity");
        let all = [
            "users/u",
            "users/<default>",
            "users/u/clients/c",
            "users/u/clients/<default>",
            "clients/c",
            "clients/<default>",
            "ips/10.0.0.1",
            "ips/<default>",
        ];
        let found: Vec<&str> = all.into_iter().filter(|path| filter.finds(&entity(path))).collect();
        if let Some(only) = filter.only() {
            assert_eq!(found, [only.to_string()], "what is looked up is what is found");
        }
        found
    }

    #[test]
    fn a_filter_finds_what_it_names_and_strictly_nothing_else() {
        assert_eq!(found(&[], false).len(), 8);
        assert_eq!(found(&[], true), [""; 0]);
        assert_eq!(
            found(&[(USER, 0, Some("u"))], false),
            ["users/u", "users/u/clients/c", "users/u/clients/<default>"]
        );
        assert_eq!(found(&[(USER, 0, Some("u"))], true), ["users/u"]);
        assert_eq!(found(&[(USER, 1, None)], true), ["users/<default>"]);
        assert_eq!(found(&[(USER, 2, None)], true), ["users/u", "users/<default>"]);
        assert_eq!(found(&[(CLIENT_ID, 0, Some("c"))], false), ["users/u/clients/c", "clients/c"]);
        assert_eq!(found(&[(USER, 2, None), (CLIENT_ID, 1, None)], false), ["users/u/clients/<default>"]);
        assert_eq!(found(&[(USER, 0, Some("u")), (CLIENT_ID, 0, Some("c"))], true), ["users/u/clients/c"]);
        assert_eq!(found(&[(IP, 2, None)], false), ["ips/10.0.0.1", "ips/<default>"]);
        assert_eq!(found(&[(IP, 0, Some("10.0.0.1"))], false), ["ips/10.0.0.1"]);
    }
}
