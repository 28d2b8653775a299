//! Keeps [`DynamicConfigs`] what the metastore says: each entity that a change node names is read again.
//!
//! A change node says *which* entity changed, not what: its config node is read again, so several changes collapse
//! into the last. Change nodes are numbered; the highest handled number is remembered and nodes older than 15 minutes
//! are purged, by whoever sees them (Kafka's `ZkNodeChangeNotificationListener`).

use std::sync::Arc;

use super::configs::{DynamicConfigs, Overrides};
use super::session::{Session, settle, until_known};
use crate::clock::Clock;
use crate::metastore::schema::{ConfigChange, ConfigEntity, EntityConfig, paths};
use crate::metastore::{Error, Metastore};

const CHANGE_EXPIRATION_MS: i64 = 15 * 60 * 1000;

/// Called after an entity's overrides were replaced, with the new ones.
pub type OnConfigChange = Box<dyn Fn(&ConfigEntity, &Overrides) + Send + Sync>;

/// An entity's overrides as stored; none when it has no node or the node cannot be read.
pub async fn read_overrides(store: &dyn Metastore, entity: &ConfigEntity) -> Result<Overrides, Error> {
    let path = entity.path();
    match until_known(store, || store.get(&path)).await {
        Ok((data, _)) => Ok(Arc::new(EntityConfig::decode(&path, &data).map_or_else(
            |error| {
                tracing::error!(%error, "configuration node ignored");
                Default::default()
            },
            |config| config.0,
        ))),
        Err(Error::NoNode(_)) => Ok(Overrides::default()),
        Err(error) => Err(error),
    }
}

impl DynamicConfigs {
    /// Reads one entity again, and keeps what it says of topics and brokers.
    pub async fn refresh(&self, store: &dyn Metastore, entity: &ConfigEntity) -> Result<Overrides, Error> {
        let overrides = read_overrides(store, entity).await?;
        let kept = overrides.clone();
        match entity {
            ConfigEntity::Topic(name) => self.update(|configs| {
                configs.topics.insert(Arc::from(name.as_str()), kept);
            }),
            ConfigEntity::Broker(None) => self.update(|configs| configs.broker_default = kept),
            ConfigEntity::Broker(Some(id)) => self.update(|configs| {
                configs.brokers.insert(*id, kept);
            }),
            ConfigEntity::User(_) | ConfigEntity::Client(_) | ConfigEntity::UserClient(..) | ConfigEntity::Ip(_) => {}
        }
        Ok(overrides)
    }
}

/// The listener; run it as a task of the control thread.
pub struct ConfigListener {
    pub session: Arc<Session>,
    pub configs: Arc<DynamicConfigs>,
    pub clock: Arc<dyn Clock>,
    pub on_change: OnConfigChange,
    /// Highest change number handled.
    pub last_handled: i64,
}

impl ConfigListener {
    /// Never returns; the task is dropped with its runtime.
    pub async fn run(mut self) {
        let mut replaced = self.session.replaced();
        loop {
            let store = Arc::clone(&replaced.borrow_and_update());
            match store.children_watch(paths::CONFIG_CHANGES).await {
                Ok((names, watch)) => {
                    if let Err(error) = self.handle(&*store, names).await {
                        tracing::warn!(%error, "configuration changes not read");
                        settle(&*store).await;
                        continue;
                    }
                    tokio::select! {
                        biased;
                        () = watch => {}
                        _ = replaced.changed() => {}
                    }
                }
                Err(Error::SessionExpired) => {
                    if replaced.changed().await.is_err() {
                        return;
                    }
                }
                Err(error) => {
                    tracing::warn!(%error, "configuration changes not read");
                    settle(&*store).await;
                }
            }
        }
    }

    async fn handle(&mut self, store: &dyn Metastore, names: Vec<String>) -> Result<(), Error> {
        let mut numbered: Vec<(i64, String)> = names
            .into_iter()
            .filter_map(|name| Some((paths::sequence_number(&name, paths::CONFIG_CHANGE_PREFIX)?, name)))
            .collect();
        numbered.sort_unstable();
        for (number, name) in numbered {
            let path = format!("{}/{name}", paths::CONFIG_CHANGES);
            let (data, stat) = match until_known(store, || store.get(&path)).await {
                Ok(found) => found,
                Err(Error::NoNode(_)) => continue,
                Err(error) => return Err(error),
            };
            if number > self.last_handled {
                match ConfigChange::decode(&path, &data) {
                    Ok(ConfigChange(entity)) => {
                        let overrides = self.configs.refresh(store, &entity).await?;
                        tracing::info!(%entity, "configuration changed");
                        (self.on_change)(&entity, &overrides);
                    }
                    // A bad one never blocks those behind it.
                    Err(error) => tracing::error!(%error, "configuration change ignored"),
                }
                self.last_handled = number;
            }
            if self.clock.wall_ms() - stat.ctime_ms > CHANGE_EXPIRATION_MS {
                match until_known(store, || store.delete(&path, -1)).await {
                    Ok(()) | Err(Error::NoNode(_)) => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(())
    }
}
