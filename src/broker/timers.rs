//! The one timer of storage: retention, delayed deletion, checkpoints and `flush.ms` when they are due.

use std::sync::Arc;
use std::time::Duration;

use super::blocking;
use crate::spawn::{Shutdown, Spawner};
use crate::storage::manager::LogManager;

/// What became due in the meantime (a topic was deleted, a flush was configured) is seen within this.
const LONGEST_MS: i64 = 1_000;
const SHORTEST_MS: i64 = 10;

/// Runs due tasks on the blocking pool until the broker stops.
pub fn start(spawner: &Arc<dyn Spawner>, logs: &Arc<LogManager>, shutdown: &Shutdown) {
    let (on_pool, logs, shutdown) = (spawner.clone(), logs.clone(), shutdown.clone());
    spawner.control(Box::pin(async move {
        loop {
            let logs = logs.clone();
            let Ok(due_ms) = blocking(&on_pool, move || logs.run_due_tasks()).await else { return };
            let wait = u64::try_from(due_ms.clamp(SHORTEST_MS, LONGEST_MS)).unwrap_or(0);
            tokio::select! {
                () = shutdown.requested() => return,
                () = tokio::time::sleep(Duration::from_millis(wait)) => {}
            }
        }
    }));
}
