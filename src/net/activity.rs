//! When a connection last moved a byte, and the word that it is to leave.

use std::sync::atomic::{AtomicI64, Ordering};

use tokio::sync::Notify;

/// Shared by a connection and by who counts connections.
#[derive(Debug)]
pub struct Activity {
    /// When bytes last moved either way, or a throttled client may speak again, monotonic ms. A request that waits moves
    /// none, as in Kafka: a client that vanished while its fetch waits is gone after `connections.max.idle.ms`.
    pub active_at: AtomicI64,
    told: Notify,
    /// For how long it had been idle when it was told so, ms; 0: it was not.
    idle_ms: AtomicI64,
}

/// Why a connection is to leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leave {
    /// Others need the room.
    Displaced,
    /// No byte has moved for so long, ms.
    Idle(i64),
}

impl Activity {
    /// Of a connection that came at `now_ms`.
    pub fn begun(now_ms: i64) -> Activity {
        Activity { active_at: AtomicI64::new(now_ms), told: Notify::new(), idle_ms: AtomicI64::new(0) }
    }

    /// The connection is to leave.
    pub fn tell(&self, why: Leave) {
        if let Leave::Idle(ms) = why {
            self.idle_ms.store(ms, Ordering::Relaxed);
        }
        self.told.notify_one();
    }

    /// Until it is to leave; at once when that was said before. One at a time may wait.
    pub async fn told(&self) -> Leave {
        self.told.notified().await;
        match self.idle_ms.load(Ordering::Relaxed) {
            0 => Leave::Displaced,
            ms => Leave::Idle(ms),
        }
    }
}
