//! Waiting for what will be.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

/// Between two looks.
const PAUSE: Duration = Duration::from_millis(20);

/// Looks until there is no complaint. After `limit` the last complaint is the error.
pub fn until<T>(what: &str, limit: Duration, mut look: impl FnMut() -> Result<T>) -> Result<T> {
    let end = Instant::now() + limit;
    loop {
        match look() {
            Err(complaint) if Instant::now() > end => {
                return Err(complaint).with_context(|| format!("{what}: not within {} s", limit.as_secs()));
            }
            Err(_) => thread::sleep(PAUSE),
            seen => return seen,
        }
    }
}
