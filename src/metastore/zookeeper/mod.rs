//! A ZooKeeper ensemble as the metastore, through the crate `zookeeper-client`.
//!
//! What this adds to the crate:
//!
//! | crate | here |
//! |---|---|
//! | a lost connection fails what was in flight | reads are asked again; a write is [`Error::Unknown`], the caller reads back |
//! | calls made while disconnected wait | likewise: they leave when the connection is back |
//! | declares the session expired by itself after 7/5 of its timeout | that is only a lost connection: a client with the same session takes its place, until a server refuses it |
//! | any number of requests in flight | ten, as Kafka |
//! | requests of any size, which the server answers by hanging up | [`Error::TooLarge`] |
//! | chroot must exist | it is made when the session opens |
//! | cannot send null data | see below |
//!
//! Null data is written as empty. Kafka reads the two alike, except in `/latest_producer_id_block`, where empty data breaks
//! its brokers for good: creating that node without data is refused ([`Metastore::keeps_null`]); it is made with the first
//! block instead.
//!
//! Watches are one-shot; the crate arms them again after a reconnect and the server then tells what was missed. They
//! complete when a client is replaced.
//!
//! Host names are resolved anew at each connect. Nothing here is safe because of the session alone: a server may have
//! expired it long before this process hears of it.

mod connect_string;
mod convert;
mod session;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use zookeeper_client as zk;

use super::{Error, Metastore, Sessions};
use crate::spawn::Spawner;
use connect_string::ConnectString;
use session::Session;

/// `zookeeper.*` of the broker's configuration.
#[derive(Clone, Debug)]
pub struct ZooKeeperConfig {
    /// `zookeeper.connect`: `host:port,host:port/chroot`.
    pub connect: String,
    pub session_timeout_ms: u32,
    /// How long the first connection may take.
    pub connection_timeout_ms: u32,
    pub max_in_flight_requests: usize,
}

/// An ensemble. Nothing is connected before the first session.
pub struct ZooKeeper {
    to: ConnectString,
    config: ZooKeeperConfig,
    spawner: Arc<dyn Spawner>,
}

impl ZooKeeper {
    /// Fails on a malformed connect string, naming it.
    pub fn new(config: ZooKeeperConfig, spawner: Arc<dyn Spawner>) -> Result<ZooKeeper, Error> {
        let to = ConnectString::parse(&config.connect)
            .map_err(|why| Error::Other(format!("zookeeper.connect {:?}: {why}", config.connect)))?;
        Ok(ZooKeeper { to, config, spawner })
    }

    fn connector(&self) -> zk::Connector {
        connector(self.config.session_timeout_ms)
    }

    async fn connect(&self) -> Result<zk::Client, Error> {
        let cannot = |why: String| Error::Other(format!("cannot connect to ZooKeeper at {}: {why}", self.to.hosts));
        let limit = Duration::from_millis(self.config.connection_timeout_ms.into());
        let connecting = async {
            let client = self.connector().connect(&self.to.hosts).await.map_err(|error| cannot(error.to_string()))?;
            if let Some(chroot) = &self.to.chroot {
                let open = zk::CreateMode::Persistent.with_acls(zk::Acls::anyone_all());
                while let Err(error) = client.mkdir(chroot, &open).await {
                    if !convert::is_lost(&error) || client.state().is_terminated() {
                        return Err(cannot(format!("chroot {chroot}: {error}")));
                    }
                }
            }
            self.to.enter(client)
        };
        tokio::time::timeout(limit, connecting)
            .await
            .unwrap_or_else(|_| Err(cannot(format!("no answer in {} ms", self.config.connection_timeout_ms))))
    }
}

fn connector(session_timeout_ms: u32) -> zk::Connector {
    zk::Client::connector().with_session_timeout(Duration::from_millis(session_timeout_ms.into()))
}

#[async_trait]
impl Sessions for ZooKeeper {
    async fn open_session(&self) -> Result<Arc<dyn Metastore>, Error> {
        let client = self.connect().await?;
        let (session, supervisor) = Session::new(client, self.to.clone(), &self.config);
        self.spawner.control(Box::pin(supervisor));
        Ok(Arc::new(session))
    }
}
