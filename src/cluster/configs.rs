//! Dynamic configuration as this broker last read it from the metastore (`/config/...`).

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use arc_swap::ArcSwap;

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

/// The current overrides, swapped by the config change listener.
#[derive(Debug, Default)]
pub struct DynamicConfigs {
    current: ArcSwap<Configs>,
}

impl DynamicConfigs {
    pub fn load(&self) -> Arc<Configs> {
        self.current.load_full()
    }
    /// One caller at a time.
    pub fn update(&self, change: impl FnOnce(&mut Configs)) {
        let mut next = Configs::clone(&self.current.load());
        change(&mut next);
        self.current.store(Arc::new(next));
    }
}
