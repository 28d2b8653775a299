//! `log.cleaner.io.max.bytes.per.second`, over all threads.

/// Counts bytes read and written. Time is monotonic ms.
#[derive(Debug, Default)]
pub struct Throttle {
    /// When what was counted so far has had its time.
    paid_until_ms: f64,
}

impl Throttle {
    /// Counts bytes; how long to rest for them, ms. Time that went by unused is not saved up.
    pub fn spend(&mut self, bytes: usize, bytes_per_second: f64, now_ms: i64) -> i64 {
        let now = now_ms as f64;
        self.paid_until_ms = self.paid_until_ms.max(now) + bytes as f64 / bytes_per_second * 1000.0;
        (self.paid_until_ms - now) as i64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_at_once_is_rested_for() {
        let mut throttle = Throttle::default();
        assert_eq!(throttle.spend(500, 1000.0, 0), 500);
        assert_eq!(throttle.spend(500, 1000.0, 500), 500, "the rest was taken");
        assert_eq!(throttle.spend(100, 1000.0, 600), 500, "400 ms of it are left");
        assert_eq!(throttle.spend(100, 1000.0, 60_000), 100, "a long pause buys nothing");
        assert_eq!(throttle.spend(1 << 30, f64::MAX, 60_100), 0);
    }
}
