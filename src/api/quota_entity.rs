//! Whose quotas: the entity of DescribeClientQuotas and AlterClientQuotas, as type and name pairs and as where it is stored.

use kafka_protocol::protocol::StrBytes;

use super::config_resource::Refusal;
use crate::metastore::schema::{ConfigEntity, EntityName};

pub const USER: &str = "user";
pub const CLIENT_ID: &str = "client-id";
pub const IP: &str = "ip";

/// Type and name; null is the default entity of the type.
pub type Pair = (StrBytes, Option<StrBytes>);

/// One each of what may be named.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QuotaEntity {
    pub user: Option<EntityName>,
    pub client: Option<EntityName>,
    pub ip: Option<EntityName>,
}

impl QuotaEntity {
    /// INVALID_REQUEST: nothing, an unknown type, an empty name. Of a type given twice the last name counts.
    pub fn of(pairs: &[Pair]) -> Result<QuotaEntity, Refusal> {
        if pairs.is_empty() {
            return Err(Refusal::invalid("no entity is named"));
        }
        let mut entity = QuotaEntity::default();
        for (kind, name) in pairs {
            let place = match kind.as_str() {
                USER => &mut entity.user,
                CLIENT_ID => &mut entity.client,
                IP => &mut entity.ip,
                other => return Err(Refusal::invalid(format!("there are no quotas of a {other}"))),
            };
            *place = Some(match name.as_deref() {
                None => EntityName::Default,
                Some("") => return Err(Refusal::invalid(format!("an empty {kind} is nobody"))),
                Some(name) => EntityName::Named(name.to_owned()),
            });
        }
        Ok(entity)
    }

    /// Where it is stored. INVALID_REQUEST when an address stands beside a user or client.
    pub fn stored(self) -> Result<ConfigEntity, Refusal> {
        match (self.user, self.client, self.ip) {
            (Some(user), Some(client), None) => Ok(ConfigEntity::UserClient(user, client)),
            (Some(user), None, None) => Ok(ConfigEntity::User(user)),
            (None, Some(client), None) => Ok(ConfigEntity::Client(client)),
            (None, None, Some(ip)) => Ok(ConfigEntity::Ip(ip)),
            _ => Err(Refusal::invalid("an address has quotas of its own, not together with a user or a client")),
        }
    }

    /// What a stored entity is called; `None` for what has no quotas.
    pub fn named(stored: ConfigEntity) -> Option<QuotaEntity> {
        let none = QuotaEntity::default();
        match stored {
            ConfigEntity::User(user) => Some(QuotaEntity { user: Some(user), ..none }),
            ConfigEntity::Client(client) => Some(QuotaEntity { client: Some(client), ..none }),
            ConfigEntity::UserClient(user, client) => {
                Some(QuotaEntity { user: Some(user), client: Some(client), ..none })
            }
            ConfigEntity::Ip(ip) => Some(QuotaEntity { ip: Some(ip), ..none }),
            ConfigEntity::Topic(_) | ConfigEntity::Broker(_) => None,
        }
    }

    pub fn pairs(&self) -> impl Iterator<Item = Pair> {
        let pair = |(kind, name): (&'static str, &Option<EntityName>)| {
            let name = match name.as_ref()? {
                EntityName::Default => None,
                EntityName::Named(name) => Some(StrBytes::from_string(name.clone())),
            };
            Some((StrBytes::from_static_str(kind), name))
        };
        [(USER, &self.user), (CLIENT_ID, &self.client), (IP, &self.ip)].into_iter().filter_map(pair)
    }
}
