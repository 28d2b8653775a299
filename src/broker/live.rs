//! What changes while the broker runs: quotas, and those of its own configs that need no restart.

use std::sync::Arc;

use crate::cluster::{DynamicConfigs, OnConfigChange, Overrides};
use crate::config::BrokerConfig;
use crate::metastore::schema::ConfigEntity;
use crate::net::{ConnectionLimits, ConnectionQuotas};
use crate::quota::Quotas;
use crate::replication::fetcher::Fetchers;
use crate::spawn::Spawner;
use crate::storage::manager::LogManager;
use crate::types::BrokerId;

/// Those that are told of changes.
#[derive(Clone)]
pub struct Live {
    pub broker: BrokerId,
    /// As the file says.
    pub fixed: Arc<BrokerConfig>,
    pub configs: Arc<DynamicConfigs>,
    pub logs: Arc<LogManager>,
    pub connections: Arc<ConnectionQuotas>,
    pub quotas: Arc<Quotas>,
    /// None until partitions can be followed.
    pub fetchers: Option<Arc<Fetchers>>,
    pub spawner: Arc<dyn Spawner>,
}

impl Live {
    /// Tells them what is stored already.
    pub fn begin(&self, quotas: &[(ConfigEntity, Overrides)]) {
        self.broker_changed();
        self.quotas_changed(quotas);
    }

    /// These are told, too, and of what is stored already.
    pub fn with(self, fetchers: Arc<Fetchers>) -> Live {
        fetchers.resize(self.configs.broker().replication.num_replica_fetchers);
        Live { fetchers: Some(fetchers), ..self }
    }

    /// Tells them whenever something changes.
    pub fn on_change(self) -> OnConfigChange {
        Box::new(move |entity, overrides| match entity {
            ConfigEntity::Topic(_) => {}
            ConfigEntity::Broker(_) => self.broker_changed(),
            _ => self.quotas_changed(&[(entity.clone(), overrides.clone())]),
        })
    }

    fn broker_changed(&self) {
        let config = Arc::new(self.configs.load().of_broker(&self.fixed, self.broker));
        self.configs.set_broker(config.clone());
        self.logs.set_config(config.clone());
        self.quotas.replication.set_limits(config.throttled_rates);
        if let Some(fetchers) = &self.fetchers {
            fetchers.resize(config.replication.num_replica_fetchers);
        }
        self.spawner.set_blocking_threads(usize::try_from(config.background_threads).unwrap_or(1));
        // Host names are looked up; the newest configuration counts, whichever is done last.
        let (configs, connections) = (self.configs.clone(), self.connections.clone());
        self.spawner.blocking(Box::new(move || connections.set_limits(ConnectionLimits::of(&configs.broker()))));
    }

    fn quotas_changed(&self, entities: &[(ConfigEntity, Overrides)]) {
        for host in self.quotas.update(entities) {
            let quotas = self.quotas.clone();
            self.spawner.blocking(Box::new(move || quotas.ips.resolve(&host)));
        }
    }
}
