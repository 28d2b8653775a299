//! Waiting for others: what is not so yet is looked at again.

use std::thread;
use std::time::Duration;

use crate::clock::{Clock, SystemClock};

/// Between two looks.
const RETRY: Duration = Duration::from_millis(500);

/// For how long, over all that is waited for.
pub struct Patience {
    clock: SystemClock,
    /// Monotonic ms.
    deadline_ms: i64,
}

impl Patience {
    pub fn of(seconds: u64) -> Patience {
        let clock = SystemClock::default();
        let patience_ms = i64::try_from(seconds).unwrap_or(i64::MAX).saturating_mul(1000);
        let deadline_ms = clock.monotonic_ms().saturating_add(patience_ms);
        Patience { clock, deadline_ms }
    }

    /// Looks, at least once, until there is no error; the last one when patience is over.
    pub fn until<T>(&self, mut look: impl FnMut() -> anyhow::Result<T>) -> anyhow::Result<T> {
        loop {
            match look() {
                Err(_) if self.clock.monotonic_ms() < self.deadline_ms => thread::sleep(RETRY),
                outcome => return outcome,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::anyhow;

    #[test]
    fn it_is_looked_again_until_patience_is_over() {
        let mut looks = 0;
        let mut look = |wanted| {
            looks += 1;
            if looks >= wanted { Ok(looks) } else { Err(anyhow!("{looks}")) }
        };
        assert_eq!(Patience::of(0).until(|| look(2)).expect_err("once").to_string(), "1");
        assert_eq!(Patience::of(600).until(|| look(3)).expect("the third time"), 3);
        assert_eq!(Patience::of(u64::MAX).until(|| look(4)).expect("the first time"), 4);
    }
}
