//! What is stored of quotas: the configurations of users, clients and addresses.

use futures_util::stream::{self, StreamExt, TryStreamExt};

use super::config_listener::read_overrides;
use super::configs::Overrides;
use super::until_known;
use crate::metastore::schema::ConfigEntity;
use crate::metastore::{Error, Metastore};

/// Reads under way at once: a real ZooKeeper answers them in one round trip each, pipelined.
const PIPELINED: usize = 64;

/// Every user, client of a user, client and address that has a node, in the order of their paths. Overrides may be empty.
pub async fn read_quota_configs(store: &dyn Metastore) -> Result<Vec<(ConfigEntity, Overrides)>, Error> {
    let mut paths = Vec::new();
    for parent in ["users", "clients", "ips"] {
        let names = children(store, &format!("/config/{parent}")).await?;
        paths.extend(names.into_iter().map(|name| format!("{parent}/{name}")));
    }
    let users: Vec<String> = paths.iter().filter(|path| path.starts_with("users/")).cloned().collect();
    let of_users: Vec<Vec<String>> = stream::iter(users)
        .map(|user| async move {
            let names = children(store, &format!("/config/{user}/clients")).await?;
            Ok::<_, Error>(names.into_iter().map(|name| format!("{user}/clients/{name}")).collect())
        })
        .buffered(PIPELINED)
        .try_collect()
        .await?;
    paths.extend(of_users.into_iter().flatten());
    // A name that cannot be read is nobody's.
    let entities: Vec<ConfigEntity> = paths.iter().filter_map(|path| ConfigEntity::parse(path)).collect();
    stream::iter(entities)
        .map(|entity| async move {
            let overrides = read_overrides(store, &entity).await?;
            Ok((entity, overrides))
        })
        .buffered(PIPELINED)
        .try_collect()
        .await
}

async fn children(store: &dyn Metastore, path: &str) -> Result<Vec<String>, Error> {
    match until_known(store, || store.children(path)).await {
        Ok(mut names) => {
            names.sort();
            Ok(names)
        }
        Err(Error::NoNode(_)) => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}
