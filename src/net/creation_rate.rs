//! `max.connection.creation.rate`: how many connections per second may be made, over all listeners.
//!
//! Kafka's measure: connections are counted in `quota.window.num` windows of `quota.window.size.seconds`. The rate is that
//! of all windows remembered over their time, of which all but the newest count whole even when there has been less: a
//! broker that was left alone takes a burst. Who comes beyond the rate waits as long as would bring it down, one window
//! at most, and its listener with it; it is counted all the same.

use std::collections::VecDeque;

/// Connections counted lately. Time comes in as an argument, monotonic milliseconds.
#[derive(Debug)]
pub struct CreationRate {
    /// Connections per second.
    limit: f64,
    windows: usize,
    window_ms: i64,
    /// Begin and count of each, oldest first.
    counted: VecDeque<(i64, u64)>,
}

impl CreationRate {
    /// `None` for Kafka's "no limit", `i32::MAX`. At least one window of at least one second.
    pub fn new(limit: i32, windows: i32, window_seconds: i32) -> Option<CreationRate> {
        (limit != i32::MAX).then(|| CreationRate {
            limit: f64::from(limit.max(0)),
            windows: usize::try_from(windows).unwrap_or(1).max(1),
            window_ms: i64::from(window_seconds.max(1)) * 1_000,
            counted: VecDeque::new(),
        })
    }

    /// Counts a connection that has come; the milliseconds it must wait before it is served.
    pub fn count(&mut self, now_ms: i64) -> u64 {
        let (windows, window_ms) = (self.windows as i64, self.window_ms);
        while self.counted.front().is_some_and(|(begin, _)| now_ms - begin >= windows * window_ms) {
            self.counted.pop_front();
        }
        match self.counted.back_mut() {
            Some((begin, count)) if now_ms - *begin < window_ms => *count += 1,
            _ => self.counted.push_back((now_ms, 1)),
        }
        let connections: u64 = self.counted.iter().map(|(_, count)| count).sum();
        let elapsed_ms = self.counted.front().map_or(0, |(begin, _)| now_ms - begin);
        let missing = (windows - 1 - elapsed_ms / window_ms).max(0);
        let seconds = (elapsed_ms + missing * window_ms).max(1) as f64 / 1_000.0;
        let rate = connections as f64 / seconds;
        if rate <= self.limit {
            return 0;
        }
        // A limit of 0 asks for an endless wait, which the longest one stands in for.
        let wait_ms = (rate - self.limit) / self.limit * seconds * 1_000.0;
        wait_ms.round().min(window_ms as f64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes connections one after the other, each after the wait of the one before; when each is served.
    fn served(rate: &mut CreationRate, count: usize) -> Vec<i64> {
        let mut now_ms = 0;
        let mut next = || {
            now_ms += i64::try_from(rate.count(now_ms)).expect("short");
            now_ms
        };
        (0..count).map(|_| next()).collect()
    }

    #[test]
    fn a_burst_is_served_then_connections_are_spread_and_held_back() {
        let mut rate = CreationRate::new(5, 11, 1).expect("a limit");
        let served = served(&mut rate, 61);
        // Ten windows at five a second; the same to within a connection as a live Kafka 3.9.1.
        assert_eq!(served.iter().filter(|at| **at == 0).count(), 50);
        assert!(served.windows(2).all(|pair| pair[1] - pair[0] <= 1_000), "{served:?}");
        assert_eq!(&served[50..54], [200, 400, 600, 800]);
        assert!(served[60] >= 1_000, "{served:?}");
    }

    #[test]
    fn a_rate_within_the_limit_never_waits() {
        let mut rate = CreationRate::new(10, 11, 1).expect("a limit");
        assert!((0..1_000).all(|n| rate.count(n * 110) == 0));
        assert!(rate.counted.len() <= 11, "what is older than its windows is forgotten");
    }

    #[test]
    fn the_largest_number_is_no_limit_and_zero_holds_everybody_back() {
        assert!(CreationRate::new(i32::MAX, 11, 1).is_none());
        assert_eq!(CreationRate::new(0, 11, 1).expect("a limit").count(0), 1_000);
        assert_eq!(CreationRate::new(0, 11, 3).expect("a limit").count(0), 3_000);
    }
}
