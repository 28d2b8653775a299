//! When a connection last moved a byte, and the word that it is to make room.

use std::sync::atomic::AtomicI64;

use tokio::sync::Notify;

/// Shared by a connection and by who counts connections.
#[derive(Debug)]
pub struct Activity {
    /// When bytes last moved either way, monotonic ms. A request that waits moves none, as in Kafka: a client that vanished
    /// while its fetch waits is gone after `connections.max.idle.ms`.
    pub active_at: AtomicI64,
    displaced: Notify,
}

impl Activity {
    /// Of a connection that came at `now_ms`.
    pub fn begun(now_ms: i64) -> Activity {
        Activity { active_at: AtomicI64::new(now_ms), displaced: Notify::new() }
    }

    /// The connection is to make room for others.
    pub fn displace(&self) {
        self.displaced.notify_one();
    }

    /// Until it is to make room; at once when that was said before. One at a time may wait.
    pub async fn displaced(&self) {
        self.displaced.notified().await;
    }
}
