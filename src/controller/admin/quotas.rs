//! Quotas of users, clients and addresses, as they are stored.

use std::collections::BTreeMap;

use super::{Admin, AdminError};
use crate::cluster::{Overrides, read_overrides, read_quota_configs, until_known};
use crate::metastore::schema::{ConfigEntity, EntityName};
use crate::metastore::{Error, Metastore};

impl Admin {
    /// Every entity that has a node, with its configs.
    pub async fn quota_configs(&self) -> Result<Vec<(ConfigEntity, Overrides)>, AdminError> {
        Ok(read_quota_configs(&*self.session.store()).await?)
    }

    /// Replaces an entity's configs (already validated) and writes the change node. A node that would be empty and has
    /// no children goes, and with it parents that hold nothing else: users come and go, their nodes must not pile up.
    pub async fn set_quota_configs(
        &self,
        entity: &ConfigEntity,
        configs: BTreeMap<String, String>,
    ) -> Result<(), AdminError> {
        self.change_config(entity, configs).await
    }
}

/// Whether the node is gone; one with children is not touched, and topics and brokers keep theirs.
pub async fn forget(store: &dyn Metastore, entity: &ConfigEntity) -> Result<bool, Error> {
    if matches!(entity, ConfigEntity::Topic(_) | ConfigEntity::Broker(_)) {
        return Ok(false);
    }
    let path = entity.path();
    if !children(store, &path).await?.is_empty() {
        return Ok(false);
    }
    delete(store, &path).await?;
    if let ConfigEntity::UserClient(user, _) = entity
        && let Some((clients, _)) = path.rsplit_once('/')
        && children(store, clients).await?.is_empty()
    {
        delete(store, clients).await?;
        remove_empty_user(store, user).await?;
    }
    Ok(true)
}

async fn remove_empty_user(store: &dyn Metastore, user: &EntityName) -> Result<(), Error> {
    let user = ConfigEntity::User(user.clone());
    let path = user.path();
    if read_overrides(store, &user).await?.is_empty() && children(store, &path).await?.is_empty() {
        delete(store, &path).await?;
    }
    Ok(())
}

async fn children(store: &dyn Metastore, path: &str) -> Result<Vec<String>, Error> {
    match until_known(store, || store.children(path)).await {
        Err(Error::NoNode(_)) => Ok(Vec::new()),
        other => other,
    }
}

/// What is gone already is a success, and so is what somebody gave a child meanwhile.
async fn delete(store: &dyn Metastore, path: &str) -> Result<(), Error> {
    match until_known(store, || store.delete(path, -1)).await {
        Ok(()) | Err(Error::NoNode(_) | Error::NotEmpty(_)) => Ok(()),
        Err(error) => Err(error),
    }
}
