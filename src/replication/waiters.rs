//! Parked requests: a fetch names the partitions it waits on, a produce the offset it must see committed.

use std::sync::Arc;

use tokio::sync::Notify;

/// One parked fetch. Partitions hold it weakly: dropping it is deregistering it.
#[derive(Debug, Default)]
pub struct Parked {
    notify: Notify,
}

impl Parked {
    pub fn new() -> Arc<Parked> {
        Arc::default()
    }
    /// Something it waits on moved: look again.
    pub fn wake(&self) {
        self.notify.notify_one();
    }
    /// Completes after a `wake`, also one from before the call.
    pub async fn woken(&self) {
        self.notify.notified().await;
    }
}
