//! ZooKeeper's nodes, read and written by a subcommand without a broker.

use std::process;
use std::sync::Arc;

use anyhow::Context;
use bytes::Bytes;
use tokio::runtime::Builder;

use super::zookeeper_login;
use crate::metastore::zookeeper::{ZooKeeper, ZooKeeperConfig};
use crate::metastore::{Error, Metastore, Sessions};
use crate::spawn::Threads;

/// Of the session and of the first connection, ms.
const TIMEOUT_MS: u32 = 30_000;
const IN_FLIGHT: usize = 10;

/// Does `work` in a session. `connect`: `host:port,host:port/chroot`.
pub fn in_session<T>(connect: &str, work: impl AsyncFnOnce(&dyn Metastore) -> anyhow::Result<T>) -> anyhow::Result<T> {
    let config = ZooKeeperConfig {
        connect: connect.to_owned(),
        session_timeout_ms: TIMEOUT_MS,
        connection_timeout_ms: TIMEOUT_MS,
        max_in_flight_requests: IN_FLIGHT,
        login: zookeeper_login::of_environment()?,
    };
    on_threads(async |threads| {
        let session = ZooKeeper::new(config, threads)?.open_session().await?;
        session.sync("/").await?;
        work(&*session).await
    })
}

/// Does `work` with threads for what it needs beside itself.
pub fn on_threads<T>(work: impl AsyncFnOnce(Arc<Threads>) -> anyhow::Result<T>) -> anyhow::Result<T> {
    let runtime = Builder::new_current_thread().enable_all().build().context("a runtime")?;
    let halt = Arc::new(|text: &str| {
        eprintln!("{text}");
        process::exit(1);
    });
    let threads = Arc::new(Threads::start(runtime.handle().clone(), 1, false, 1, halt).context("threads")?);
    let done = runtime.block_on(work(threads.clone()));
    drop(runtime);
    if let Some(threads) = Arc::into_inner(threads) {
        threads.stop();
    }
    done
}

/// Names, not paths; none of a node that is not there.
pub async fn children(store: &dyn Metastore, path: &str) -> anyhow::Result<Vec<String>> {
    match store.children(path).await {
        Ok(names) => Ok(names),
        Err(Error::NoNode(_)) => Ok(Vec::new()),
        Err(error) => Err(error.into()),
    }
}

pub async fn data(store: &dyn Metastore, path: &str) -> anyhow::Result<Option<Bytes>> {
    match store.get(path).await {
        Ok((data, _)) => Ok(Some(data)),
        Err(Error::NoNode(_)) => Ok(None),
        Err(error) => Err(error.into()),
    }
}
