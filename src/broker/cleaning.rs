//! The cleaners of compacted topics: `log.cleaner.threads` of them, each at one log at a time.

use std::sync::Arc;
use std::time::Duration;

use super::quiet;
use crate::spawn::{Shutdown, Spawner};
use crate::storage::manager::{CleanOutcome, LogManager};

/// With `log.cleaner.backoff.ms=0` a cleaner still takes a breath.
const SHORTEST_MS: u64 = 1;

/// Starts them, unless `log.cleaner.enable` is false. They end when the broker stops.
pub fn start(spawner: &Arc<dyn Spawner>, logs: &Arc<LogManager>, shutdown: &Shutdown) {
    if logs.cleaner_config().enable {
        begin(spawner, logs, shutdown, 0);
    }
}

fn begin(spawner: &Arc<dyn Spawner>, logs: &Arc<LogManager>, shutdown: &Shutdown, n: i32) {
    spawner.control(Box::pin(clean(spawner.clone(), logs.clone(), shutdown.clone(), n)));
}

/// Cleaner `n`, which rests while there are to be fewer. The first one starts those that come later.
async fn clean(spawner: Arc<dyn Spawner>, logs: Arc<LogManager>, shutdown: Shutdown, n: i32) {
    let mut started = 1;
    while !shutdown.is_requested() {
        let config = logs.cleaner_config();
        while n == 0 && started < config.threads {
            begin(&spawner, &logs, &shutdown, started);
            started += 1;
        }
        let outcome = if n < config.threads {
            let cleaner = logs.clone();
            match quiet(&spawner, move || cleaner.clean_dirtiest()).await {
                Ok(outcome) => outcome,
                Err(_) if shutdown.is_requested() => return,
                Err(_) => {
                    tracing::warn!("no thread for a log cleaner; it tries again in {} ms", config.backoff_ms);
                    CleanOutcome::GivenUp
                }
            }
        } else {
            CleanOutcome::NothingToDo
        };
        if outcome != CleanOutcome::Cleaned {
            let backoff_ms = u64::try_from(config.backoff_ms).unwrap_or(0).max(SHORTEST_MS);
            tokio::select! {
                () = shutdown.requested() => return,
                () = tokio::time::sleep(Duration::from_millis(backoff_ms)) => {}
                () = logs.cleaner_config_is_changed() => {}
            }
        }
    }
}
