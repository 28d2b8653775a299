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
//! | `sync` may leave the leader behind its followers | a transaction that changes nothing, which every server applies in its place |
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
//! A login is SASL DIGEST-MD5, as Kafka's JAAS section `Client` has it ([`Login`]). Its znodes are open to all the same.
//!
//! Host names are resolved anew at each connect. Nothing here is safe because of the session alone: a server may have
//! expired it long before this process hears of it.

mod connect_string;
mod convert;
mod jaas;
mod session;
mod way;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::time::timeout;
use zookeeper_client as zk;

pub use jaas::Login;

use super::{Error, Metastore, Sessions};
use crate::spawn::Spawner;
use connect_string::ConnectString;
use session::Session;
use way::Way;

/// `zookeeper.*` of the broker's configuration.
#[derive(Clone, Debug)]
pub struct ZooKeeperConfig {
    /// `zookeeper.connect`: `host:port,host:port/chroot`.
    pub connect: String,
    pub session_timeout_ms: u32,
    /// How long the first connection may take.
    pub connection_timeout_ms: u32,
    pub max_in_flight_requests: usize,
    /// Who to log in as, by SASL DIGEST-MD5; `None` = nobody.
    pub login: Option<Login>,
}

/// An ensemble. Nothing is connected before the first session.
pub struct ZooKeeper {
    way: Arc<Way>,
    config: ZooKeeperConfig,
    spawner: Arc<dyn Spawner>,
}

impl ZooKeeper {
    /// Fails on a malformed connect string, naming it.
    pub fn new(config: ZooKeeperConfig, spawner: Arc<dyn Spawner>) -> Result<ZooKeeper, Error> {
        let to = ConnectString::parse(&config.connect)
            .map_err(|why| Error::Other(format!("zookeeper.connect {:?}: {why}", config.connect)))?;
        let way = Arc::new(Way { to, session_timeout_ms: config.session_timeout_ms, login: config.login.clone() });
        Ok(ZooKeeper { way, config, spawner })
    }

    fn cannot(&self, why: impl std::fmt::Display) -> Error {
        Error::Other(format!("cannot connect to ZooKeeper at {}: {why}", self.way.to.hosts))
    }

    async fn begin(&self) -> Result<zk::Client, Error> {
        let client = self.way.begin().await.map_err(|error| self.cannot(error))?;
        if let Some(chroot) = &self.way.to.chroot {
            let open = zk::CreateMode::Persistent.with_acls(zk::Acls::anyone_all());
            // The server asks for the right to create before it looks whether there is something to be created.
            let made = async || match client.check_stat(chroot).await? {
                Some(_) => Ok(()),
                None => client.mkdir(chroot, &open).await,
            };
            while let Err(error) = made().await {
                if !convert::is_lost(&error) || client.state().is_terminated() {
                    return Err(self.cannot(format!("chroot {chroot}: {error}")));
                }
            }
        }
        self.way.to.enter(client)
    }
}

#[async_trait]
impl Sessions for ZooKeeper {
    /// Waits for an ensemble that is not there, and says so, for `zookeeper.connection.timeout.ms`.
    async fn open_session(&self) -> Result<Arc<dyn Metastore>, Error> {
        let limit_ms = self.config.connection_timeout_ms;
        let client = match timeout(Duration::from_millis(limit_ms.into()), self.begin()).await {
            Ok(begun) => begun?,
            Err(_) => {
                let complaints = self.way.complaints().await;
                let waited = format!("not within {limit_ms} ms (zookeeper.connection.timeout.ms): {complaints}");
                return Err(self.cannot(waited));
            }
        };
        let (session, supervisor) = Session::new(client, self.way.clone(), self.config.max_in_flight_requests);
        self.spawner.control(Box::pin(supervisor));
        Ok(Arc::new(session))
    }
}
