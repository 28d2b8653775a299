//! Tokens that grow back at a rate, up to a burst: the measure of KIP-599, kind to few large requests.

use super::rate::Windows;

/// A bucket, full when it is new. It may be emptied below zero; then it takes time to be empty again.
#[derive(Clone, Debug, Default)]
pub struct Bucket {
    /// `None` before its first use.
    filled: Option<Filled>,
}

#[derive(Clone, Copy, Debug)]
struct Filled {
    tokens: f64,
    at_ms: i64,
}

impl Bucket {
    /// `rate`: tokens per second. The burst is as many as grow back in all windows.
    fn refill(&mut self, windows: Windows, rate: f64, now_ms: i64) -> &mut Filled {
        let burst = rate * windows.seconds();
        let filled = self.filled.get_or_insert(Filled { tokens: burst, at_ms: now_ms });
        let grown = rate * (now_ms - filled.at_ms) as f64 / 1_000.0;
        filled.tokens = (filled.tokens + grown).min(burst);
        filled.at_ms = now_ms;
        filled
    }

    /// Takes `value` tokens, whether or not they are there.
    pub fn take(&mut self, windows: Windows, rate: f64, value: f64, now_ms: i64) {
        self.refill(windows, rate, now_ms).tokens -= value;
    }

    /// Milliseconds until the bucket is not below zero any more; 0 when it is not.
    pub fn missing_ms(&mut self, windows: Windows, rate: f64, now_ms: i64) -> i64 {
        let tokens = self.refill(windows, rate, now_ms).tokens;
        match tokens < 0.0 {
            true if rate > 0.0 => (-tokens / rate * 1_000.0).round() as i64,
            true => i64::MAX,
            false => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_bucket_may_be_overdrawn_once_and_grows_back() {
        let (windows, mut bucket) = (Windows::new(11, 1), Bucket::default());
        assert_eq!(bucket.missing_ms(windows, 2.0, 5_000), 0);
        // 22 are there.
        bucket.take(windows, 2.0, 30.0, 5_000);
        assert_eq!(bucket.missing_ms(windows, 2.0, 5_000), 4_000);
        assert_eq!(bucket.missing_ms(windows, 2.0, 8_000), 1_000);
        assert_eq!(bucket.missing_ms(windows, 2.0, 9_000), 0);
        bucket.take(windows, 2.0, 22.0, 1_000_000);
        assert_eq!(bucket.missing_ms(windows, 2.0, 1_000_000), 0, "never more than the burst grows back");
        bucket.take(windows, 2.0, 1.0, 1_000_000);
        assert_eq!(bucket.missing_ms(windows, 2.0, 1_000_000), 500);
    }

    #[test]
    fn a_rate_of_zero_gives_nothing() {
        let (windows, mut bucket) = (Windows::new(11, 1), Bucket::default());
        assert_eq!(bucket.missing_ms(windows, 0.0, 0), 0);
        bucket.take(windows, 0.0, 1.0, 0);
        assert_eq!(bucket.missing_ms(windows, 0.0, 0), i64::MAX);
    }
}
