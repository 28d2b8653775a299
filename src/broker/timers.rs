//! The timer of each log directory: retention, delayed deletion, checkpoints and `flush.ms` when they are due.

use std::sync::Arc;
use std::time::Duration;

use super::blocking;
use crate::spawn::{Shutdown, Spawner};
use crate::storage::manager::LogManager;

/// What became due in the meantime (a topic was deleted, a flush was configured) is seen within this.
const LONGEST_MS: i64 = 1_000;
const SHORTEST_MS: i64 = 10;
/// Segments are rolled, and new logs written to, by many partitions at once: their fsyncs gather.
const GATHER: Duration = Duration::from_millis(10);

/// Runs due tasks on the blocking pool until the broker stops, each log directory's in its own time; fsyncs that are asked
/// for meanwhile wait for no task's time.
pub fn start(spawner: &Arc<dyn Spawner>, logs: &Arc<LogManager>, shutdown: &Shutdown) {
    for directory in 0..logs.directories() {
        spawner.control(Box::pin(look_after(spawner.clone(), logs.clone(), shutdown.clone(), directory)));
    }
}

async fn look_after(on_pool: Arc<dyn Spawner>, logs: Arc<LogManager>, shutdown: Shutdown, directory: usize) {
    loop {
        let due = logs.clone();
        let Ok(due_ms) = blocking(&on_pool, move || due.run_due_tasks(directory)).await else { return };
        let wait = u64::try_from(due_ms.clamp(SHORTEST_MS, LONGEST_MS)).unwrap_or(0);
        let until = tokio::time::sleep(Duration::from_millis(wait));
        tokio::select! {
            biased;
            () = shutdown.requested() => return,
            () = until => {}
            () = flush_when_asked(&on_pool, &logs, directory) => return,
        }
    }
}

/// Until the pool is gone.
async fn flush_when_asked(on_pool: &Arc<dyn Spawner>, logs: &Arc<LogManager>, directory: usize) {
    loop {
        logs.flush_is_asked(directory).await;
        tokio::time::sleep(GATHER).await;
        let asked = logs.clone();
        if blocking(on_pool, move || asked.flush_asked(directory)).await.is_err() {
            return;
        }
    }
}
