//! The timer of a connection's waits, kept from one to the next.
//!
//! Setting a timer of tokio's wakes its runtime with a system call when no other is due before it, and nearly every wait
//! of a fetch ends before its time: a timer of its own for each would cost more than the wait. So one that was set for
//! an earlier wait is left as it is, and is set anew only when it goes off too early.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll};

use parking_lot::Mutex;
use tokio::time::{Instant, Sleep, sleep_until};

/// One wait at a time: that of the request a connection is serving. Nothing is allocated before the first.
#[derive(Debug, Default)]
pub struct Alarm(Mutex<Option<Pin<Box<Sleep>>>>);

impl Alarm {
    /// Completes at `deadline`. Safe to drop while waiting.
    pub async fn at(&self, deadline: Instant) {
        poll_fn(|cx| self.poll_at(deadline, cx)).await;
    }

    fn poll_at(&self, deadline: Instant, cx: &mut Context<'_>) -> Poll<()> {
        let mut slot = self.0.lock();
        let sleep = slot.get_or_insert_with(|| Box::pin(sleep_until(deadline)));
        if sleep.deadline() > deadline {
            sleep.as_mut().reset(deadline);
        }
        while sleep.as_mut().poll(cx).is_ready() {
            if sleep.deadline() == deadline {
                return Poll::Ready(());
            }
            sleep.as_mut().reset(deadline);
        }
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures_util::FutureExt;

    use super::*;

    fn in_ms(ms: u64) -> Instant {
        Instant::now() + Duration::from_millis(ms)
    }

    #[tokio::test(start_paused = true)]
    async fn goes_off_at_its_time_whatever_was_set_before() {
        for before in [10, 500, 1000] {
            let alarm = Alarm::default();
            assert!(alarm.at(in_ms(before)).now_or_never().is_none());
            let deadline = in_ms(500);
            alarm.at(deadline).await;
            assert_eq!(Instant::now(), deadline, "after a wait of {before} ms was given up");
            alarm.at(deadline).now_or_never().expect("it is past");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_earlier_timer_is_left_as_it_is() {
        let alarm = Alarm::default();
        let first = in_ms(500);
        for later in 0..400 {
            assert!(alarm.at(first + Duration::from_millis(later)).now_or_never().is_none());
            let set = alarm.0.lock().as_ref().map(|sleep| sleep.deadline());
            assert_eq!(set, Some(first), "set anew for a wait that ends {later} ms later");
        }
    }
}
