mod crashes;
mod model;

use std::sync::Arc;

use bytes::Bytes;

use super::EmbeddedStore;
use crate::clock::ManualClock;
use crate::metastore::{CreateMode, Error, SessionState};

#[tokio::test]
async fn ephemerals_end_with_their_session() {
    let store = EmbeddedStore::in_memory(Arc::new(ManualClock::at(5)));
    let (a, b) = (store.session(), store.session());
    a.create("/e", Some(Bytes::from_static(b"x")), CreateMode::Ephemeral).await.unwrap();
    let (data, stat, gone) = b.get_watch("/e").await.unwrap();
    assert_eq!((&data[..], stat.ephemeral_owner, stat.ctime_ms), (&b"x"[..], a.session_id(), 5));
    store.expire(a.session_id()).await.unwrap();
    gone.await;
    assert_eq!(b.exists("/e").await, Ok(None));
    assert_eq!(*a.session_states().borrow(), SessionState::Expired);
    assert_eq!(a.get("/").await, Err(Error::SessionExpired));
    b.create("/e", None, CreateMode::Ephemeral).await.unwrap();
    let watcher = store.session();
    let (_, gone) = watcher.exists_watch("/e").await.unwrap();
    drop(b);
    gone.await;
    assert_eq!(watcher.exists("/e").await, Ok(None));
}

#[tokio::test]
async fn conforms_in_memory() {
    let store = EmbeddedStore::in_memory(Arc::new(ManualClock::at(5)));
    crate::metastore::conformance::run(Arc::new(store)).await;
}
