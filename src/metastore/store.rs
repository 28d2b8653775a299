//! What the broker asks of ZooKeeper, as a trait: a tree of versioned nodes with one-shot watches and sessions.

use async_trait::async_trait;
use bytes::Bytes;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

/// Create modes that Kafka uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CreateMode {
    Persistent,
    PersistentSequential,
    Ephemeral,
}

/// A node's numbers (ZooKeeper's `Stat`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stat {
    /// Transaction that created the node. Of a broker registration: the broker epoch.
    pub czxid: i64,
    pub mzxid: i64,
    /// Of the data; the first is 0.
    pub version: i32,
    /// Of the child list.
    pub cversion: i32,
    pub num_children: i32,
    /// Session that owns an ephemeral node; 0 for others.
    pub ephemeral_owner: i64,
    /// Milliseconds since the Unix epoch.
    pub ctime_ms: i64,
    pub mtime_ms: i64,
}

/// Why a call failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("no node {0}")]
    NoNode(String),
    #[error("node {0} exists")]
    NodeExists(String),
    #[error("node {0} has another version")]
    BadVersion(String),
    #[error("node {0} has children")]
    NotEmpty(String),
    #[error("ephemeral nodes have no children: {0}")]
    NoChildrenForEphemerals(String),
    #[error("{0} is no valid path")]
    BadPath(String),
    /// The request may or may not have been carried out: read back, then decide.
    #[error("connection to the metastore lost: outcome unknown")]
    Unknown,
    /// The server refused the session; ephemerals are gone. Only the server's word counts.
    #[error("session expired")]
    SessionExpired,
    /// The request would be refused by a server with default limits, which hangs up. Of a transaction: all of it.
    #[error("request for {path} has {bytes} bytes, the limit is {limit}")]
    TooLarge { path: String, bytes: usize, limit: usize },
    #[error("{0}")]
    Other(String),
}

/// One operation of a multi.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    Check {
        path: String,
        version: i32,
    },
    Create {
        path: String,
        data: Option<Bytes>,
        mode: CreateMode,
    },
    /// `version` -1 = any.
    Set {
        path: String,
        data: Bytes,
        version: i32,
    },
    Delete {
        path: String,
        version: i32,
    },
}

/// What one operation of a successful multi answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OpResult {
    Checked,
    /// The path, with its sequence number if any.
    Created(String),
    Set(Stat),
    Deleted,
}

/// The first operation that failed; none took effect.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("operation {index} of the transaction: {error}")]
pub struct MultiError {
    pub index: usize,
    pub error: Error,
}

/// Completes once, when the watched thing may have changed (or the connection was lost): re-read, which re-arms.
/// Dropping it disarms.
pub type Watch = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Comes up when the session's standing changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionState {
    Connected,
    Disconnected,
    Expired,
}

/// A session with the store. Dropping it closes the session.
///
/// Calls take effect in the order of their first poll. Reads are never [`Error::Unknown`]: they wait for the connection.
#[async_trait]
pub trait Metastore: Send + Sync {
    /// Returns the path, with its sequence number if any. `None` = null data.
    async fn create(&self, path: &str, data: Option<Bytes>, mode: CreateMode) -> Result<String, Error>;
    /// Null data reads as empty.
    async fn get(&self, path: &str) -> Result<(Bytes, Stat), Error>;
    async fn get_watch(&self, path: &str) -> Result<(Bytes, Stat, Watch), Error>;
    async fn exists(&self, path: &str) -> Result<Option<Stat>, Error>;
    async fn exists_watch(&self, path: &str) -> Result<(Option<Stat>, Watch), Error>;
    /// Names, not paths, unsorted.
    async fn children(&self, path: &str) -> Result<Vec<String>, Error>;
    async fn children_watch(&self, path: &str) -> Result<(Vec<String>, Watch), Error>;
    /// `version` -1 = any.
    async fn set(&self, path: &str, data: Bytes, version: i32) -> Result<Stat, Error>;
    async fn delete(&self, path: &str, version: i32) -> Result<(), Error>;
    async fn multi(&self, ops: Vec<Op>) -> Result<Vec<OpResult>, MultiError>;
    /// Everything committed before this call is seen by reads after it.
    async fn sync(&self, path: &str) -> Result<(), Error>;
    /// 0 until the first connection.
    fn session_id(&self) -> i64;
    fn session_states(&self) -> tokio::sync::watch::Receiver<SessionState>;
    /// Whether null data stays null. Where it does not, `/latest_producer_id_block` must be left out until there is a
    /// block to write: Kafka takes empty data there for broken, absent it creates the node.
    fn keeps_null(&self) -> bool {
        true
    }
}

/// Where sessions come from: after [`Error::SessionExpired`] the holder opens another.
#[async_trait]
pub trait Sessions: Send + Sync {
    /// Returns when the session is there, or why it cannot be within the connection timeout.
    async fn open_session(&self) -> Result<Arc<dyn Metastore>, Error>;
}
