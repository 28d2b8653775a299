//! How much is used per second: sums of a few windows over the time they cover, as Kafka measures (`Rate` over `SampledStat`).

/// `quota.window.num` and `quota.window.size.seconds`, or their siblings of the controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Windows {
    num: i64,
    size_ms: i64,
}

impl Windows {
    /// At least one window of at least one second.
    pub fn new(num: i32, size_seconds: i32) -> Windows {
        Windows { num: num.max(1).into(), size_ms: i64::from(size_seconds.max(1)) * 1_000 }
    }

    /// Milliseconds of one window.
    pub fn size_ms(self) -> i64 {
        self.size_ms
    }

    /// Seconds of all windows.
    pub fn seconds(self) -> f64 {
        (self.num * self.size_ms) as f64 / 1_000.0
    }

    /// Seconds of all windows but the newest: what a measure that has just begun is divided by.
    pub fn full_seconds(self) -> f64 {
        ((self.num - 1) * self.size_ms) as f64 / 1_000.0
    }
}

#[derive(Clone, Copy, Debug)]
struct Sample {
    begin_ms: i64,
    last_ms: i64,
    sum: f64,
}

impl Sample {
    fn begun(now_ms: i64) -> Sample {
        Sample { begin_ms: now_ms, last_ms: now_ms, sum: 0.0 }
    }
}

/// A rate. All windows but the newest count whole even when there has been less: who was left alone has a burst of
/// `limit` × [`Windows::full_seconds`].
#[derive(Clone, Debug, Default)]
pub struct Rate {
    /// A ring of up to one more than `Windows::num`.
    samples: Vec<Sample>,
    current: usize,
}

impl Rate {
    /// Counts `value`; a negative one takes back what was counted.
    pub fn record(&mut self, windows: Windows, value: f64, now_ms: i64) {
        let newest = self.samples.get(self.current).copied();
        if newest.is_none_or(|newest| now_ms - newest.begin_ms >= windows.size_ms) {
            if newest.is_some() {
                self.current = (self.current + 1) % (windows.num as usize + 1);
            }
            match self.samples.get_mut(self.current) {
                Some(oldest) => *oldest = Sample::begun(now_ms),
                None => self.samples.push(Sample::begun(now_ms)),
            }
        }
        if let Some(newest) = self.samples.get_mut(self.current) {
            newest.sum += value;
            newest.last_ms = now_ms;
        }
    }

    /// The sum of all windows, and the milliseconds since the oldest began.
    fn sum(&mut self, windows: Windows, now_ms: i64) -> (f64, i64) {
        for sample in &mut self.samples {
            if now_ms - sample.last_ms >= windows.num * windows.size_ms {
                *sample = Sample::begun(now_ms);
            }
        }
        let begin_ms = self.samples.iter().map(|sample| sample.begin_ms).min().unwrap_or(now_ms);
        (self.samples.iter().map(|sample| sample.sum).sum(), now_ms - begin_ms)
    }

    /// The rate per second over the time there was, one window at least: no burst is free (Kafka's `SimpleRate`).
    pub fn so_far(&mut self, windows: Windows, now_ms: i64) -> f64 {
        let (sum, elapsed_ms) = self.sum(windows, now_ms);
        sum / (elapsed_ms.max(windows.size_ms) as f64 / 1_000.0)
    }

    /// The rate per second, and the milliseconds it was measured over.
    fn measure(&mut self, windows: Windows, now_ms: i64) -> (f64, i64) {
        let (sum, elapsed_ms) = self.sum(windows, now_ms);
        let missing = (windows.num - 1 - elapsed_ms / windows.size_ms).max(0);
        let over_ms = (elapsed_ms + missing * windows.size_ms).max(1);
        (sum / (over_ms as f64 / 1_000.0), over_ms)
    }

    /// Milliseconds of silence that bring the rate down to `limit` per second; 0 when it is not above it. A limit of 0 or
    /// less, which no silence reaches, is as many as there are.
    pub fn excess_ms(&mut self, windows: Windows, limit: f64, now_ms: i64) -> i64 {
        let (rate, over_ms) = self.measure(windows, now_ms);
        match rate > limit {
            true if limit > 0.0 => ((rate - limit) / limit * over_ms as f64).round() as i64,
            true => i64::MAX,
            false => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ELEVEN: Windows = Windows { num: 11, size_ms: 1_000 };

    #[test]
    fn a_burst_of_all_full_windows_is_free_and_what_is_above_it_costs_its_time() {
        let mut rate = Rate::default();
        rate.record(ELEVEN, 1_000.0, 0);
        assert_eq!(rate.excess_ms(ELEVEN, 100.0, 0), 0);
        rate.record(ELEVEN, 500.0, 0);
        // 1,500 over ten seconds are 150 a second; after five more they are 100.
        assert_eq!(rate.excess_ms(ELEVEN, 100.0, 0), 5_000);
        assert_eq!(rate.excess_ms(ELEVEN, 100.0, 4_000), 5_000, "windows still to come count whole");
        rate.record(ELEVEN, -500.0, 0);
        assert_eq!(rate.excess_ms(ELEVEN, 100.0, 0), 0);
    }

    #[test]
    fn who_waits_as_long_as_he_is_told_is_not_told_to_wait_again() {
        let mut rate = Rate::default();
        let (mut now_ms, mut sent, mut waits) = (0, 0.0, 0);
        while now_ms < 120_000 {
            rate.record(ELEVEN, 700.0, now_ms);
            sent += 700.0;
            let wait = rate.excess_ms(ELEVEN, 1_000.0, now_ms);
            waits += usize::from(wait > 0);
            now_ms += wait.max(100);
        }
        let per_second = sent / (now_ms as f64 / 1_000.0);
        assert!((900.0..=1_100.0).contains(&per_second), "{per_second} in {waits} waits");
    }

    #[test]
    fn what_lies_before_the_windows_is_forgotten_and_the_ring_has_its_size() {
        let mut rate = Rate::default();
        for second in 0..100 {
            rate.record(ELEVEN, 10.0, second * 1_000);
        }
        assert_eq!(rate.samples.len(), 12);
        let (per_second, over_ms) = rate.measure(ELEVEN, 99_000);
        assert_eq!((per_second, over_ms), (11.0, 10_000), "eleven windows, the newest just begun");
        assert_eq!(rate.measure(ELEVEN, 200_000), (0.0, 10_000));
    }

    #[test]
    fn nothing_brings_a_rate_down_to_a_limit_of_zero() {
        let mut rate = Rate::default();
        assert_eq!(rate.excess_ms(ELEVEN, 0.0, 0), 0);
        rate.record(ELEVEN, 1.0, 0);
        assert_eq!(rate.excess_ms(ELEVEN, 0.0, 0), i64::MAX);
        assert_eq!(rate.excess_ms(ELEVEN, -1.0, 0), i64::MAX);
    }
}
