//! One line on stderr that tells how far a pipe has come; only where a terminal shows it and nothing else is shown there.

use std::io::{self, IsTerminal, Write};

use crate::clock::{Clock, SystemClock};

const EVERY_MS: i64 = 500;

/// Counts what has passed.
#[derive(Debug)]
pub struct Progress {
    clock: SystemClock,
    shown: bool,
    next_ms: i64,
    pub records: u64,
    pub bytes: u64,
}

impl Progress {
    /// `piped`: whether the records go through a pipe or a file and not over the terminal.
    pub fn new(piped: bool) -> Progress {
        let shown = piped && io::stderr().is_terminal();
        Progress { clock: SystemClock::default(), shown, next_ms: EVERY_MS, records: 0, bytes: 0 }
    }

    /// Shows the line when half a second has passed.
    pub fn tick(&mut self) {
        if self.shown && self.clock.monotonic_ms() >= self.next_ms {
            self.next_ms = self.clock.monotonic_ms() + EVERY_MS;
            self.show("");
        }
    }

    /// Shows the line a last time and leaves it.
    pub fn finish(&mut self) {
        if self.shown {
            self.show("\n");
        }
    }

    fn show(&self, end: &str) {
        let line = line(self.records, self.bytes, self.clock.monotonic_ms());
        let mut err = io::stderr().lock();
        // A terminal that is gone is no reason to stop.
        let _ = write!(err, "\r{line}\x1b[K{end}").and_then(|()| err.flush());
    }
}

fn line(records: u64, bytes: u64, ms: i64) -> String {
    let per_second = |n: u64| n as f64 * 1000.0 / ms.max(1) as f64;
    let megabytes = 1e6;
    format!(
        "{records} records, {:.1} MB, {:.0} records/s, {:.1} MB/s",
        bytes as f64 / megabytes,
        per_second(records),
        per_second(bytes) / megabytes
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_per_second() {
        assert_eq!(line(3000, 5_000_000, 2000), "3000 records, 5.0 MB, 1500 records/s, 2.5 MB/s");
        assert_eq!(line(0, 0, 0), "0 records, 0.0 MB, 0 records/s, 0.0 MB/s");
    }
}
