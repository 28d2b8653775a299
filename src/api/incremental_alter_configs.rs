//! IncrementalAlterConfigs (44), versions 0-1: sets, deletes, appends to and subtracts from single overrides.
//!
//! Checks per resource: given twice, keys given twice, null values other than of a deletion (all INVALID_REQUEST), the
//! operations one by one (appending to what is no list: INVALID_CONFIG; an operation or, for lists, a key nobody knows:
//! UNKNOWN_SERVER_ERROR without a text, as on a live 3.9.1), then those of [`replace`]. Lists without an override are
//! changed from the key's own default, not from the broker's.
//! Levels of loggers are set and deleted one by one, and are not kept over a restart.

use std::collections::BTreeMap;

use kafka_protocol::messages::incremental_alter_configs_request::{AlterConfigsResource, AlterableConfig};
use kafka_protocol::messages::incremental_alter_configs_response::AlterConfigsResourceResponse;
use kafka_protocol::messages::{IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse};

use super::config_resource::{
    Altered, BROKER_LOGGER, Refusal, alter_each, check_keys, entity, is_own, replace, revealed,
};
use super::context::RequestContext;
use super::serve::Close;
use crate::config::def::{Key, Kind};
use crate::config::keys;
use crate::loggers::{Level, Loggers, ROOT};
use crate::metastore::schema::ConfigEntity;
use crate::wire::error_code::ErrorCode;

const SET: i8 = 0;
const DELETE: i8 = 1;
const APPEND: i8 = 2;
const SUBTRACT: i8 = 3;

pub async fn handle(
    ctx: &RequestContext<'_>,
    request: IncrementalAlterConfigsRequest,
) -> Result<IncrementalAlterConfigsResponse, Close> {
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
    Ok(IncrementalAlterConfigsResponse::default().with_responses(altered.into_iter().map(response).collect()))
}

async fn alter(ctx: &RequestContext<'_>, resource: &AlterConfigsResource, validate_only: bool) -> Result<(), Refusal> {
    let is_null = |config: &AlterableConfig| config.value.is_none() && config.config_operation != DELETE;
    check_keys(resource.configs.iter().map(|config| (config.name.as_str(), is_null(config))))?;
    if resource.resource_type == BROKER_LOGGER {
        return alter_loggers(ctx, resource, validate_only);
    }
    let entity = entity(ctx, resource.resource_type, &resource.resource_name)?;
    let mut overrides = revealed(ctx, &entity).await?;
    for config in &resource.configs {
        apply(&entity, &mut overrides, config)?;
    }
    replace(ctx, entity, overrides, validate_only).await
}

fn alter_loggers(
    ctx: &RequestContext<'_>,
    resource: &AlterConfigsResource,
    validate_only: bool,
) -> Result<(), Refusal> {
    is_own(ctx.services.broker_id, &resource.resource_name)?;
    let loggers = &ctx.services.loggers;
    let changes = resource.configs.iter().map(|config| Ok((config.name.to_string(), level(loggers, config)?)));
    let changes: Vec<(String, Option<Level>)> = changes.collect::<Result<_, Refusal>>()?;
    if !validate_only {
        loggers.alter(changes);
    }
    Ok(())
}

/// The level a logger is to have; `None`: none of its own.
fn level(loggers: &Loggers, config: &AlterableConfig) -> Result<Option<Level>, Refusal> {
    let name = config.name.as_str();
    let known = || match loggers.has(name) {
        true => Ok(()),
        false => Err(Refusal::new(ErrorCode::InvalidConfig, format!("there is no logger {name}"))),
    };
    match config.config_operation {
        SET => {
            known()?;
            let value = config.value.as_deref().unwrap_or_default();
            let level = Level::SETTABLE.into_iter().find(|level| level.word() == value);
            level.map(Some).ok_or_else(|| {
                let words = Level::SETTABLE.map(Level::word).join(", ");
                Refusal::new(ErrorCode::InvalidConfig, format!("{name} cannot be {value}: levels are {words}"))
            })
        }
        DELETE => {
            known()?;
            if name == ROOT { Err(Refusal::invalid("the root logger always has a level")) } else { Ok(None) }
        }
        APPEND => Err(Refusal::invalid("nothing can be appended to the level of a logger")),
        SUBTRACT => Err(Refusal::invalid("nothing can be subtracted from the level of a logger")),
        _ => Err(Refusal { code: ErrorCode::UnknownServerError, message: None }),
    }
}

fn apply(
    entity: &ConfigEntity,
    overrides: &mut BTreeMap<String, String>,
    config: &AlterableConfig,
) -> Result<(), Refusal> {
    let name = config.name.as_str();
    let value = config.value.as_deref().unwrap_or_default();
    let (word, append) = match config.config_operation {
        SET => {
            overrides.insert(name.to_owned(), value.to_owned());
            return Ok(());
        }
        DELETE => {
            overrides.remove(name);
            return Ok(());
        }
        APPEND => ("appended to", true),
        SUBTRACT => ("subtracted from", false),
        _ => return Err(Refusal { code: ErrorCode::UnknownServerError, message: None }),
    };
    let key = match entity {
        ConfigEntity::Topic(_) => keys::topic(name),
        _ => keys::broker(name),
    };
    let Some(key) = key else { return Err(Refusal { code: ErrorCode::UnknownServerError, message: None }) };
    if key.kind != Kind::List {
        let message = format!("{name} is no list: nothing can be {word} it");
        return Err(Refusal::new(ErrorCode::InvalidConfig, message));
    }
    let changed = change_list(key, overrides.get(name).map(String::as_str), value, append);
    overrides.insert(name.to_owned(), changed);
    Ok(())
}

/// The list after `change`; elements already there are not added again. Blanks in `change` are part of its elements, so
/// ` b` takes no `b` away (seen on a live 3.9.1).
fn change_list(key: &Key, current: Option<&str>, change: &str, append: bool) -> String {
    let current = current.or(key.default).unwrap_or_default();
    let mut list: Vec<&str> = current.split(',').map(str::trim).filter(|element| !element.is_empty()).collect();
    for element in change.split(',').filter(|element| !element.is_empty()) {
        if !append {
            list.retain(|other| *other != element);
        } else if !list.contains(&element) {
            list.push(element);
        }
    }
    list.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_grow_and_shrink_from_their_own_default() {
        let key = keys::topic("cleanup.policy").unwrap();
        for (current, change, append, after) in [
            (None, "compact", true, "delete,compact"),
            (None, "compact,delete", true, "delete,compact"),
            (Some(""), "compact", true, "compact"),
            (Some("compact"), "compact", true, "compact"),
            (Some("delete,compact"), "delete", false, "compact"),
            (None, "delete", false, ""),
            (Some("a,b,c"), "a, c", false, "b,c"),
        ] {
            assert_eq!(change_list(key, current, change, append), after, "{current:?} {change} {append}");
        }
    }
}
