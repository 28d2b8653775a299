//! Dynamic configuration as this broker last read it from the metastore (`/config/...`).

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use arc_swap::ArcSwap;

use crate::config::dynamic::Layers;
use crate::config::{BrokerConfig, TopicConfig};
use crate::types::BrokerId;

/// Overrides of one entity, key to value, as stored.
pub type Overrides = Arc<BTreeMap<String, String>>;

/// All overrides at one moment.
#[derive(Clone, Debug, Default)]
pub struct Configs {
    pub topics: HashMap<Arc<str>, Overrides>,
    /// `/config/brokers/<default>`.
    pub broker_default: Overrides,
    pub brokers: BTreeMap<BrokerId, Overrides>,
}

impl Configs {
    /// What a topic is on `broker` that sets nothing: the broker's file under these overrides.
    pub fn topic_defaults(&self, fixed: &BrokerConfig, broker: BrokerId) -> TopicConfig {
        let none = Overrides::default();
        let own = self.brokers.get(&broker).unwrap_or(&none);
        Layers { fixed, default: &self.broker_default, own }.topic_defaults()
    }

    /// What `broker` is configured as: its file under these overrides. The file alone, when they break a rule together.
    pub fn of_broker(&self, fixed: &BrokerConfig, broker: BrokerId) -> BrokerConfig {
        let none = Overrides::default();
        let own = self.brokers.get(&broker).unwrap_or(&none);
        Layers { fixed, default: &self.broker_default, own }.resolve().unwrap_or_else(|error| {
            tracing::error!(%broker, %error, "dynamic broker configs are ignored");
            fixed.clone()
        })
    }
}

/// The current overrides, swapped by the config change listener.
#[derive(Debug, Default)]
pub struct DynamicConfigs {
    current: ArcSwap<Configs>,
    broker: ArcSwap<BrokerConfig>,
}

impl DynamicConfigs {
    pub fn load(&self) -> Arc<Configs> {
        self.current.load_full()
    }
    /// This broker's configuration in use, for what can change while it runs.
    pub fn broker(&self) -> Arc<BrokerConfig> {
        self.broker.load_full()
    }
    pub fn set_broker(&self, config: Arc<BrokerConfig>) {
        self.broker.store(config);
    }
    /// One caller at a time.
    pub fn update(&self, change: impl FnOnce(&mut Configs)) {
        let mut next = Configs::clone(&self.current.load());
        change(&mut next);
        self.current.store(Arc::new(next));
    }
}
