//! Who this broker is: its cluster's id and its own.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use futures_util::future::join_all;

use super::RunError;
use crate::cluster::ensure_path;
use crate::config::BrokerConfig;
use crate::metastore::schema::{ClusterId, paths};
use crate::metastore::{CreateMode, Error, Metastore};
use crate::random::Random;
use crate::types::BrokerId;

/// Rounds of reading back before an outcome that stays unknown is given up.
const ROUNDS: usize = 10;

/// The nodes that every broker makes at every start.
pub async fn make_startup_nodes(store: &dyn Metastore) -> Result<(), RunError> {
    let wanted = paths::STARTUP.into_iter().filter(|path| *path != paths::PRODUCER_ID_BLOCK || store.keeps_null());
    // All at once: one journal write (or one round trip) serves many. Parents made twice are no error.
    let made = join_all(wanted.map(|path| ensure_path(store, path))).await;
    made.into_iter().collect::<Result<(), Error>>().map_err(RunError::metastore("the first nodes were made"))
}

/// `/cluster/id`; the first broker chooses it, or is given it.
pub async fn cluster_id(store: &dyn Metastore, given: Option<&str>, random: &dyn Random) -> Result<String, RunError> {
    let failed = RunError::metastore("the cluster id was read");
    let chosen = given.map_or_else(|| URL_SAFE_NO_PAD.encode(random.uuid().as_bytes()), str::to_owned);
    for _ in 0..ROUNDS {
        match store.get(paths::CLUSTER_ID).await {
            Ok((bytes, _)) => return Ok(ClusterId::decode(paths::CLUSTER_ID, &bytes)?.0),
            Err(Error::NoNode(_)) => {}
            Err(Error::Unknown) => continue,
            Err(error) => return Err(failed(error)),
        }
        let data = ClusterId(chosen.clone()).encode();
        match store.create(paths::CLUSTER_ID, Some(data), CreateMode::Persistent).await {
            Ok(_) => return Ok(chosen),
            // Another broker was faster, or perhaps this one: read it.
            Err(Error::NodeExists(_) | Error::Unknown) => {}
            Err(Error::NoNode(_)) => ensure_path(store, paths::CLUSTER).await.map_err(&failed)?,
            Err(error) => return Err(failed(error)),
        }
    }
    Err(failed(Error::Unknown))
}

/// `broker.id` as configured, else as stored, else the next one of the metastore's sequence.
pub async fn broker_id(
    store: &dyn Metastore,
    config: &BrokerConfig,
    stored: Option<BrokerId>,
) -> Result<BrokerId, RunError> {
    if config.broker_id >= 0 {
        return Ok(BrokerId(config.broker_id));
    }
    if let Some(stored) = stored {
        return Ok(stored);
    }
    if !config.broker_id_generation_enable {
        return Err(RunError::Refused(
            "broker.id is not set, no log directory has one, and broker.id.generation.enable is false".to_owned(),
        ));
    }
    for _ in 0..ROUNDS {
        match store.set(paths::BROKER_SEQUENCE_ID, Bytes::new(), -1).await {
            Ok(stat) => return Ok(BrokerId(config.reserved_broker_max_id.saturating_add(stat.version))),
            // A number may be lost this way; they need not be dense.
            Err(Error::Unknown) => {}
            Err(error) => return Err(RunError::metastore("a broker id was generated")(error)),
        }
    }
    Err(RunError::metastore("a broker id was generated")(Error::Unknown))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::ManualClock;
    use crate::metastore::embedded::EmbeddedStore;
    use crate::random::SeededRandom;
    use std::sync::Arc;

    fn session() -> Arc<dyn Metastore> {
        EmbeddedStore::in_memory(Arc::new(ManualClock::at(0))).session()
    }

    #[tokio::test]
    async fn the_cluster_id_is_chosen_once() {
        let store = session();
        make_startup_nodes(&*store).await.expect("nodes");
        let first = cluster_id(&*store, None, &SeededRandom::new(1)).await.expect("an id");
        assert_eq!(first.len(), 22);
        assert_eq!(cluster_id(&*store, None, &SeededRandom::new(2)).await.expect("an id"), first);
        assert_eq!(cluster_id(&*store, Some("given"), &SeededRandom::new(2)).await.expect("an id"), first);
        let store = session();
        make_startup_nodes(&*store).await.expect("nodes");
        assert_eq!(cluster_id(&*store, Some("given"), &SeededRandom::new(2)).await.expect("an id"), "given");
    }

    #[tokio::test]
    async fn generated_broker_ids_begin_above_the_reserved_ones() {
        let store = session();
        make_startup_nodes(&*store).await.expect("nodes");
        let mut config = BrokerConfig::default();
        assert_eq!(broker_id(&*store, &config, None).await.ok(), Some(BrokerId(1001)));
        assert_eq!(broker_id(&*store, &config, None).await.ok(), Some(BrokerId(1002)));
        assert_eq!(broker_id(&*store, &config, Some(BrokerId(7))).await.ok(), Some(BrokerId(7)));
        config.broker_id = 3;
        assert_eq!(broker_id(&*store, &config, None).await.ok(), Some(BrokerId(3)));
        config.broker_id = -1;
        config.broker_id_generation_enable = false;
        assert!(broker_id(&*store, &config, None).await.is_err());
    }
}
