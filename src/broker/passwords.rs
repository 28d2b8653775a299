//! Stored passwords after `password.encoder.secret` has changed.

use std::sync::Arc;

use super::RunError;
use crate::config::BrokerConfig;
use crate::config::dynamic::passwords;
use crate::metastore::schema::{ConfigEntity, EntityConfig};
use crate::metastore::{Error, Metastore};
use crate::random::Random;
use crate::spawn::{Spawner, for_request};
use crate::types::BrokerId;

/// Writes those again that only `password.encoder.old.secret` reads: it need not be set at the next start. Without a
/// change node, since the broker has not read its own configs yet and nobody else reads them.
pub async fn renew(
    store: &dyn Metastore,
    broker: BrokerId,
    config: &Arc<BrokerConfig>,
    random: &Arc<dyn Random>,
    spawner: &dyn Spawner,
) -> Result<(), RunError> {
    if config.old_password_encoder.is_none() {
        return Ok(());
    }
    let path = ConfigEntity::Broker(Some(broker)).path();
    let failed = RunError::metastore("stored passwords were encrypted with the new secret");
    let (stored, stat) = match store.get(&path).await {
        Err(Error::NoNode(_)) => return Ok(()),
        got => got.map_err(&failed)?,
    };
    // What cannot be read is said when the configs are.
    let Ok(EntityConfig(mut overrides)) = EntityConfig::decode(&path, &stored) else { return Ok(()) };
    let (config, random) = (config.clone(), random.clone());
    let work = move || {
        let needed = passwords::reveal(&config, &mut overrides);
        let hidden = passwords::hide(&config, &mut overrides, &*random);
        needed.then(|| hidden.map(|()| overrides))
    };
    match for_request(spawner, work).await.flatten() {
        None => Ok(()),
        Some(Ok(overrides)) => {
            store.set(&path, EntityConfig(overrides).encode(), stat.version).await.map_err(&failed)?;
            tracing::info!("stored passwords are encrypted with the new secret");
            Ok(())
        }
        Some(Err(config)) => {
            tracing::error!(config, "stored passwords keep the old secret: password.encoder.secret is not set");
            Ok(())
        }
    }
}
