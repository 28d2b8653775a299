//! One user of the store.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use async_trait::async_trait;
use bytes::Bytes;
use tokio::sync::{oneshot, watch};

use crate::metastore::{CreateMode, Error, Metastore, MultiError, Op, OpResult, SessionState, Stat, Watch};

use super::store::{EmbeddedStore, State};
use super::watches::{Kind, WatchId};

pub(super) struct Session {
    store: Arc<EmbeddedStore>,
    id: i64,
    states: watch::Sender<SessionState>,
}

impl Session {
    pub(super) fn new(store: Arc<EmbeddedStore>, id: i64, states: watch::Sender<SessionState>) -> Session {
        Session { store, id, states }
    }

    async fn write_one(&self, op: Op) -> Result<OpResult, Error> {
        let mut results = self.multi(vec![op]).await.map_err(|failed| failed.error)?;
        results.pop().ok_or(Error::Unknown)
    }

    /// A read, and a watch when it succeeded and one is wanted.
    async fn read<T: Send + 'static>(
        &self,
        path: &str,
        watch: Option<Kind>,
        read: impl FnOnce(&State, &str) -> Result<T, Error> + Send + 'static,
    ) -> Result<(T, Option<Watch>), Error> {
        let (session, owned) = (self.id, path.to_owned());
        let (value, armed) = self
            .store
            .submit(false, move |state, _| {
                if !state.tree.has_session(session) {
                    return Err(Error::SessionExpired);
                }
                let value = read(state, &owned)?;
                let armed = watch.map(|kind| {
                    let (completed, waiting) = oneshot::channel();
                    let id = match kind {
                        Kind::Data => state.tree.watch_data(session, &owned),
                        Kind::Children => state.tree.watch_children(session, &owned),
                    };
                    state.watchers.insert(id, completed);
                    (id, waiting)
                });
                Ok((value, armed))
            })
            .await??;
        let watch =
            armed.map(|(id, waiting)| -> Watch { Box::pin(ArmedWatch { store: self.store.clone(), id, waiting }) });
        Ok((value, watch))
    }

    async fn read_watched<T: Send + 'static>(
        &self,
        path: &str,
        kind: Kind,
        read: impl FnOnce(&State, &str) -> Result<T, Error> + Send + 'static,
    ) -> Result<(T, Watch), Error> {
        let (value, watch) = self.read(path, Some(kind), read).await?;
        Ok((value, watch.ok_or(Error::Unknown)?))
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.store.close(self.id);
    }
}

/// Disarms when dropped, so that a reader who lost interest leaves nothing behind.
struct ArmedWatch {
    store: Arc<EmbeddedStore>,
    id: WatchId,
    waiting: oneshot::Receiver<()>,
}

impl Future for ArmedWatch {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        // An error means the store failed: the state may have changed for all we know.
        Pin::new(&mut self.waiting).poll(cx).map(|_| ())
    }
}

impl Drop for ArmedWatch {
    fn drop(&mut self) {
        self.store.unwatch(self.id);
    }
}

fn get(state: &State, path: &str) -> Result<(Bytes, Stat), Error> {
    state.tree.get(path).map(|node| (node.data.clone().unwrap_or_default(), node.stat()))
}

fn exists(state: &State, path: &str) -> Result<Option<Stat>, Error> {
    match state.tree.get(path) {
        Ok(node) => Ok(Some(node.stat())),
        Err(Error::NoNode(_)) => Ok(None),
        Err(error) => Err(error),
    }
}

fn children(state: &State, path: &str) -> Result<Vec<String>, Error> {
    state.tree.get(path).map(|node| node.children.iter().map(|name| String::from(&**name)).collect())
}

#[async_trait]
impl Metastore for Session {
    async fn create(&self, path: &str, data: Option<Bytes>, mode: CreateMode) -> Result<String, Error> {
        match self.write_one(Op::Create { path: path.to_owned(), data, mode }).await? {
            OpResult::Created(path) => Ok(path),
            _ => Err(Error::Unknown),
        }
    }

    async fn get(&self, path: &str) -> Result<(Bytes, Stat), Error> {
        self.read(path, None, get).await.map(|(value, _)| value)
    }

    async fn get_watch(&self, path: &str) -> Result<(Bytes, Stat, Watch), Error> {
        let ((data, stat), watch) = self.read_watched(path, Kind::Data, get).await?;
        Ok((data, stat, watch))
    }

    async fn exists(&self, path: &str) -> Result<Option<Stat>, Error> {
        self.read(path, None, exists).await.map(|(value, _)| value)
    }

    async fn exists_watch(&self, path: &str) -> Result<(Option<Stat>, Watch), Error> {
        self.read_watched(path, Kind::Data, exists).await
    }

    async fn children(&self, path: &str) -> Result<Vec<String>, Error> {
        self.read(path, None, children).await.map(|(value, _)| value)
    }

    async fn children_watch(&self, path: &str) -> Result<(Vec<String>, Watch), Error> {
        self.read_watched(path, Kind::Children, children).await
    }

    async fn set(&self, path: &str, data: Bytes, version: i32) -> Result<Stat, Error> {
        match self.write_one(Op::Set { path: path.to_owned(), data, version }).await? {
            OpResult::Set(stat) => Ok(stat),
            _ => Err(Error::Unknown),
        }
    }

    async fn delete(&self, path: &str, version: i32) -> Result<(), Error> {
        self.write_one(Op::Delete { path: path.to_owned(), version }).await.map(|_| ())
    }

    async fn multi(&self, ops: Vec<Op>) -> Result<Vec<OpResult>, MultiError> {
        let session = self.id;
        self.store
            .submit(true, move |state, batch| state.apply(session, &ops, batch))
            .await
            .unwrap_or_else(|error| Err(MultiError { index: 0, error }))
    }

    async fn sync(&self, path: &str) -> Result<(), Error> {
        // Reads never lag behind here; as in ZooKeeper the path need not exist.
        self.read(path, None, |_, path| crate::metastore::path::validate(path, false)).await.map(|_| ())
    }

    fn session_id(&self) -> i64 {
        self.id
    }

    fn session_states(&self) -> watch::Receiver<SessionState> {
        self.states.subscribe()
    }
}
