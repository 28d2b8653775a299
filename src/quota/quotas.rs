//! All quotas of a broker, as last read.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::CONNECTION_CREATION_RATE;
use super::clients::ClientQuotas;
use super::ips::IpQuotas;
use super::rate::Windows;
use super::replication::ReplicationQuotas;
use crate::config::BrokerConfig;
use crate::metastore::schema::{ConfigEntity, EntityName};

/// Quotas of users and clients, of addresses, and of replication.
#[derive(Debug)]
pub struct Quotas {
    pub clients: ClientQuotas,
    pub replication: ReplicationQuotas,
    pub ips: IpQuotas,
}

impl Quotas {
    /// None yet.
    pub fn new(config: &BrokerConfig) -> Quotas {
        let windows = Windows::new(config.quota_window_num, config.quota_window_size_seconds);
        Quotas {
            clients: ClientQuotas::new(config),
            replication: ReplicationQuotas::new(config),
            ips: IpQuotas::new(windows),
        }
    }

    /// Takes over what is stored for entities. Returns the host names among them: their limits hold once
    /// [`IpQuotas::resolve`] has looked up their addresses, which may take long.
    #[must_use]
    pub fn update(&self, entities: &[(ConfigEntity, Arc<BTreeMap<String, String>>)]) -> Vec<String> {
        self.clients.update(entities);
        let mut host_names = Vec::new();
        for (entity, overrides) in entities {
            let ConfigEntity::Ip(name) = entity else { continue };
            let limit = overrides.get(CONNECTION_CREATION_RATE).and_then(|text| {
                let limit = text.trim().parse().ok();
                if limit.is_none() {
                    tracing::error!(%entity, text, "a stored quota is no number and is ignored");
                }
                limit
            });
            match name {
                EntityName::Default => self.ips.set(None, limit),
                EntityName::Named(name) => match name.parse() {
                    Ok(ip) => self.ips.set(Some(ip), limit),
                    Err(_) => {
                        self.ips.set_host(name, limit);
                        host_names.push(name.clone());
                    }
                },
            }
        }
        host_names
    }
}
