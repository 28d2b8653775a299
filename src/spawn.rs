//! Where work runs, as a value: threads in production, one current-thread runtime in a simulation.

use std::future::Future;
use std::pin::Pin;

/// A task that owns what it needs.
pub type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Places work. Tasks may use tokio's timers and primitives; only `net` uses its sockets.
pub trait Spawner: Send + Sync {
    /// On one of the data runtimes (connections).
    fn data(&self, task: Task);
    /// On the control thread: metastore session, controller, timers. Never blocks on file I/O.
    fn control(&self, task: Task);
    /// On the bounded pool for what may block: fsync, cold reads, recovery, deletion.
    fn blocking(&self, job: Box<dyn FnOnce() + Send>);
}
