//! Sessions whose writes go into the trace of a run.

use std::sync::{Arc, Weak};

use async_trait::async_trait;
use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::watch;

use super::meddler::Meddling;
use super::trace::Trace;
use crate::metastore::embedded::EmbeddedStore;
use crate::metastore::{CreateMode, Error, Metastore, MultiError, Op, OpResult, SessionState, Sessions, Stat, Watch};

/// Those that a process opened: they outlive one that is killed.
pub(super) type OpenSessions = Arc<Mutex<Vec<Arc<dyn Metastore>>>>;

/// Sessions whose writes go into the trace.
pub(super) struct Traced {
    pub who: i32,
    pub inner: Arc<EmbeddedStore>,
    pub trace: Trace,
    /// Theirs who hold the broker: a process that ends in order closes its sessions, one that is killed does not.
    pub open: Weak<Mutex<Vec<Arc<dyn Metastore>>>>,
}

#[async_trait]
impl Sessions for Traced {
    async fn open_session(&self) -> Result<Arc<dyn Metastore>, Error> {
        let inner = self.inner.session();
        if let Some(open) = self.open.upgrade() {
            open.lock().push(inner.clone());
        }
        Ok(Arc::new(TracedSession { who: self.who, inner, trace: self.trace.clone(), meddling: Meddling::default() }))
    }
}

pub(super) struct TracedSession {
    pub who: i32,
    pub inner: Arc<dyn Metastore>,
    pub trace: Trace,
    pub meddling: Meddling,
}

impl TracedSession {
    fn note(&self, what: impl std::fmt::Debug, outcome: impl std::fmt::Debug) {
        self.trace.note(format_args!("znode {}: {what:?} -> {outcome:?}", self.who));
    }
}

#[async_trait]
impl Metastore for TracedSession {
    async fn create(&self, path: &str, data: Option<Bytes>, mode: CreateMode) -> Result<String, Error> {
        let outcome = self.inner.create(path, data.clone(), mode).await;
        self.note(("create", path, data, mode), &outcome);
        outcome
    }
    async fn get(&self, path: &str) -> Result<(Bytes, Stat), Error> {
        self.inner.get(path).await
    }
    async fn get_watch(&self, path: &str) -> Result<(Bytes, Stat, Watch), Error> {
        self.inner.get_watch(path).await
    }
    async fn exists(&self, path: &str) -> Result<Option<Stat>, Error> {
        self.inner.exists(path).await
    }
    async fn exists_watch(&self, path: &str) -> Result<(Option<Stat>, Watch), Error> {
        self.inner.exists_watch(path).await
    }
    async fn children(&self, path: &str) -> Result<Vec<String>, Error> {
        self.inner.children(path).await
    }
    async fn children_watch(&self, path: &str) -> Result<(Vec<String>, Watch), Error> {
        self.inner.children_watch(path).await
    }
    async fn set(&self, path: &str, data: Bytes, version: i32) -> Result<Stat, Error> {
        let op = self.meddling.0.write(Op::Set { path: path.to_owned(), data: data.clone(), version });
        let version = if let Op::Set { version, .. } = op { version } else { version };
        let outcome = self.inner.set(path, data.clone(), version).await;
        self.note(("set", path, data, version), &outcome);
        outcome
    }
    async fn delete(&self, path: &str, version: i32) -> Result<(), Error> {
        let outcome = self.inner.delete(path, version).await;
        self.note(("delete", path, version), &outcome);
        outcome
    }
    async fn multi(&self, ops: Vec<Op>) -> Result<Vec<OpResult>, MultiError> {
        let ops: Vec<Op> = ops.into_iter().map(|op| self.meddling.0.write(op)).collect();
        let outcome = self.inner.multi(ops.clone()).await;
        self.note(("multi", ops), &outcome);
        outcome
    }
    async fn sync(&self, path: &str) -> Result<(), Error> {
        self.inner.sync(path).await
    }
    fn session_id(&self) -> i64 {
        self.inner.session_id()
    }
    fn session_states(&self) -> watch::Receiver<SessionState> {
        self.inner.session_states()
    }
}
