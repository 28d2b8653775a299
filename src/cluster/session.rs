//! This broker's session with the metastore, replaced when the store refuses it.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use crate::metastore::{Error, Metastore, SessionState, Sessions};

/// Between attempts that failed for want of a connection.
const BACK_OFF: Duration = Duration::from_millis(100);

/// The current session. Everybody may use it; one task, the controller's driver, replaces it.
pub struct Session {
    sessions: Arc<dyn Sessions>,
    current: watch::Sender<Arc<dyn Metastore>>,
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("id", &self.store().session_id()).finish()
    }
}

impl Session {
    pub async fn open(sessions: Arc<dyn Sessions>) -> Result<Session, Error> {
        let first = sessions.open_session().await?;
        Ok(Session { sessions, current: watch::Sender::new(first) })
    }

    pub fn store(&self) -> Arc<dyn Metastore> {
        Arc::clone(&self.current.borrow())
    }

    /// Changes with each new session: what was watched must be read again.
    pub fn replaced(&self) -> watch::Receiver<Arc<dyn Metastore>> {
        self.current.subscribe()
    }

    /// Opens another session, however long that takes, without handing it out yet.
    pub async fn open_another(&self) -> Arc<dyn Metastore> {
        loop {
            match self.sessions.open_session().await {
                Ok(store) => return store,
                Err(error) => tracing::warn!(%error, "no new metastore session yet"),
            }
            tokio::time::sleep(BACK_OFF).await;
        }
    }

    /// Hands `store` out from now on.
    pub fn replace(&self, store: Arc<dyn Metastore>) {
        self.current.send_replace(store);
    }
}

/// Returns when a call that ended [`Error::Unknown`] may be tried again: connected, or expired for good.
pub async fn settle(store: &dyn Metastore) {
    tokio::time::sleep(BACK_OFF).await;
    let mut states = store.session_states();
    // An error means that the session is gone: the next call says so.
    let _ = states.wait_for(|state| *state != SessionState::Disconnected).await;
}

/// Repeats `call` until its outcome is known. The caller must bear that an earlier try took effect.
pub async fn until_known<T, Call, Fut>(store: &dyn Metastore, mut call: Call) -> Result<T, Error>
where
    Call: FnMut() -> Fut,
    Fut: Future<Output = Result<T, Error>>,
{
    loop {
        match call().await {
            Err(Error::Unknown) => settle(store).await,
            known => return known,
        }
    }
}
