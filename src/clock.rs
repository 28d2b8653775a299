//! The only reader of clocks. Cores get the time as an argument.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Wall time for what is stored and compared with timestamps; monotonic time for waiting.
pub trait Clock: Send + Sync {
    /// Milliseconds since the Unix epoch. May jump either way.
    fn wall_ms(&self) -> i64;
    /// Milliseconds since some fixed point. Never goes back.
    fn monotonic_ms(&self) -> i64;
    /// The same in microseconds, as fine as the clock is.
    fn monotonic_us(&self) -> i64 {
        self.monotonic_ms() * 1_000
    }
}

/// The machine's clocks.
#[derive(Debug)]
pub struct SystemClock {
    start: Instant,
}

impl Default for SystemClock {
    fn default() -> SystemClock {
        SystemClock { start: Instant::now() }
    }
}

impl Clock for SystemClock {
    fn wall_ms(&self) -> i64 {
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_millis() as i64)
    }

    fn monotonic_ms(&self) -> i64 {
        self.start.elapsed().as_millis() as i64
    }

    fn monotonic_us(&self) -> i64 {
        self.start.elapsed().as_micros() as i64
    }
}

/// A clock that moves when told.
#[derive(Debug)]
pub struct ManualClock {
    now_ms: AtomicI64,
}

impl ManualClock {
    pub fn at(now_ms: i64) -> ManualClock {
        ManualClock { now_ms: AtomicI64::new(now_ms) }
    }

    pub fn advance(&self, ms: i64) {
        self.now_ms.fetch_add(ms, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn wall_ms(&self) -> i64 {
        self.now_ms.load(Ordering::SeqCst)
    }

    fn monotonic_ms(&self) -> i64 {
        self.now_ms.load(Ordering::SeqCst)
    }
}
