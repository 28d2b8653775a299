//! `/config/<type>/<name>`: overrides of a topic, broker, user, client or address, and the announcements of their changes.

use std::collections::BTreeMap;
use std::fmt;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::types::BrokerId;

use super::paths::{DEFAULT_ENTITY, desanitize, sanitize};
use super::{Malformed, from_json, to_json};

/// Whose overrides: where they lie below `/config`. Displayed as such: `users/u/clients/<default>`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ConfigEntity {
    Topic(String),
    /// `None` = all brokers.
    Broker(Option<BrokerId>),
    User(EntityName),
    Client(EntityName),
    UserClient(EntityName, EntityName),
    Ip(EntityName),
}

/// A user's, client's or address's name, or the one that stands for all others.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EntityName {
    Default,
    Named(String),
}

impl EntityName {
    fn parse(element: &str) -> Option<EntityName> {
        match element {
            DEFAULT_ENTITY => Some(EntityName::Default),
            name => desanitize(name).map(EntityName::Named),
        }
    }
}

impl fmt::Display for EntityName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EntityName::Default => f.write_str(DEFAULT_ENTITY),
            EntityName::Named(name) => f.write_str(&sanitize(name)),
        }
    }
}

impl ConfigEntity {
    /// The path of its node.
    pub fn path(&self) -> String {
        format!("/config/{self}")
    }

    /// From a path below `/config`. `None` when it names no entity.
    pub fn parse(path: &str) -> Option<ConfigEntity> {
        let elements: Vec<&str> = path.split('/').collect();
        Some(match *elements.as_slice() {
            ["topics", name] if !name.is_empty() => ConfigEntity::Topic(name.to_owned()),
            ["brokers", DEFAULT_ENTITY] => ConfigEntity::Broker(None),
            ["brokers", id] => ConfigEntity::Broker(Some(BrokerId(id.parse().ok()?))),
            ["users", user] => ConfigEntity::User(EntityName::parse(user)?),
            ["clients", client] => ConfigEntity::Client(EntityName::parse(client)?),
            ["users", user, "clients", client] => {
                ConfigEntity::UserClient(EntityName::parse(user)?, EntityName::parse(client)?)
            }
            ["ips", DEFAULT_ENTITY] => ConfigEntity::Ip(EntityName::Default),
            ["ips", ip] => ConfigEntity::Ip(EntityName::Named(ip.to_owned())),
            _ => return None,
        })
    }
}

impl fmt::Display for ConfigEntity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConfigEntity::Topic(name) => write!(f, "topics/{name}"),
            ConfigEntity::Broker(None) => write!(f, "brokers/{DEFAULT_ENTITY}"),
            ConfigEntity::Broker(Some(id)) => write!(f, "brokers/{id}"),
            ConfigEntity::User(user) => write!(f, "users/{user}"),
            ConfigEntity::Client(client) => write!(f, "clients/{client}"),
            ConfigEntity::UserClient(user, client) => write!(f, "users/{user}/clients/{client}"),
            ConfigEntity::Ip(EntityName::Default) => write!(f, "ips/{DEFAULT_ENTITY}"),
            ConfigEntity::Ip(EntityName::Named(ip)) => write!(f, "ips/{ip}"),
        }
    }
}

/// An entity's overrides, key to value. Null or empty data (an intermediate node) holds none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EntityConfig(pub BTreeMap<String, String>);

#[derive(Serialize, Deserialize)]
struct EntityConfigJson {
    version: i32,
    config: BTreeMap<String, String>,
}

impl EntityConfig {
    pub fn decode(path: &str, bytes: &[u8]) -> Result<EntityConfig, Malformed> {
        if bytes.is_empty() {
            return Ok(EntityConfig::default());
        }
        let json: EntityConfigJson = from_json(path, bytes)?;
        if json.version != 1 {
            return Err(Malformed::new(path, format_args!("version {} is not known", json.version)));
        }
        Ok(EntityConfig(json.config))
    }

    pub fn encode(&self) -> Bytes {
        to_json(&EntityConfigJson { version: 1, config: self.0.clone() })
    }
}

/// `/config/changes/config_change_<n>`, version 2: says which entity to read again, not what changed. Version 1 is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigChange(pub ConfigEntity);

#[derive(Serialize)]
struct ConfigChangeJson {
    version: i32,
    entity_path: String,
}

#[derive(Deserialize)]
struct AnyConfigChangeJson {
    version: i32,
    entity_path: Option<String>,
    entity_type: Option<String>,
    entity_name: Option<String>,
}

impl ConfigChange {
    pub fn decode(path: &str, bytes: &[u8]) -> Result<ConfigChange, Malformed> {
        let json: AnyConfigChangeJson = from_json(path, bytes)?;
        let entity = match json {
            AnyConfigChangeJson { version: 2, entity_path: Some(entity), .. } => entity,
            AnyConfigChangeJson { version: 1, entity_type: Some(kind), entity_name: Some(name), .. }
                if kind == "topics" || kind == "clients" =>
            {
                format!("{kind}/{name}")
            }
            AnyConfigChangeJson { version, .. } => {
                return Err(Malformed::new(path, format_args!("version {version} with these fields is not known")));
            }
        };
        ConfigEntity::parse(&entity)
            .map(ConfigChange)
            .ok_or_else(|| Malformed::new(path, format_args!("{entity:?} names no entity")))
    }

    pub fn encode(&self) -> Bytes {
        to_json(&ConfigChangeJson { version: 2, entity_path: self.0.to_string() })
    }
}
