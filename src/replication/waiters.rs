//! Parked requests: a fetch names the partitions it waits on, a produce the offset it must see passed.
//!
//! Nobody polls. Both kinds are woken by the append, flush or high watermark move that may complete them, and both
//! leave no trace when their request ends first: a produce takes its entry with it, a fetch is held weakly.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};

use parking_lot::Mutex;
use tokio::sync::{Notify, oneshot};

use super::partition::{NotCommitted, Reader};
use crate::types::Offset;

/// One parked fetch. Partitions hold it weakly: dropping it is deregistering it.
#[derive(Debug, Default)]
pub struct Parked {
    notify: Notify,
}

impl Parked {
    pub fn new() -> Arc<Parked> {
        Arc::default()
    }
    /// Something it waits on moved: look again.
    pub fn wake(&self) {
        self.notify.notify_one();
    }
    /// Completes after a `wake`, also one from before the call.
    pub async fn woken(&self) {
        self.notify.notified().await;
    }
}

/// The fetches parked on one partition. An entry stays until its fetch is gone, so a fetch parks once, before it
/// first reads.
#[derive(Debug, Default)]
pub struct ParkedFetches(Mutex<Vec<(Weak<Parked>, WokenBy)>>);

/// What a parked reader waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WokenBy {
    /// Replicas and the debugging consumer read to the log end.
    Append,
    HighWatermark,
}

impl ParkedFetches {
    pub fn park(&self, parked: &Arc<Parked>, reader: Reader) {
        let woken_by = match reader {
            Reader::Consumer(_) => WokenBy::HighWatermark,
            Reader::Replica { .. } | Reader::Debugging => WokenBy::Append,
        };
        let mut all = self.0.lock();
        // Before the list would grow, those that timed out go: it stays within twice the fetches alive.
        if all.len() == all.capacity() {
            all.retain(|(entry, _)| entry.strong_count() > 0);
        }
        all.push((Arc::downgrade(parked), woken_by));
    }

    /// Records were appended; the high watermark stayed.
    pub fn wake_appended(&self) {
        self.wake(|woken_by| woken_by == WokenBy::Append);
    }

    /// The high watermark moved, or the partition's role did.
    pub fn wake_all(&self) {
        self.wake(|_| true);
    }

    fn wake(&self, whom: impl Fn(WokenBy) -> bool) {
        self.0.lock().retain(|(entry, woken_by)| match entry.upgrade() {
            Some(parked) => {
                if whom(*woken_by) {
                    parked.wake();
                }
                true
            }
            None => false,
        });
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.lock().len()
    }
}

type Outcome = Result<(), NotCommitted>;

#[derive(Debug, Default)]
struct Waiting {
    /// Tells entries at one offset apart.
    next_ticket: u64,
    by_offset: BTreeMap<(Offset, u64), oneshot::Sender<Outcome>>,
}

/// Requests that wait until an offset is passed (by the high watermark, or by an fsync), in offset order.
#[derive(Debug, Default)]
pub struct OffsetWaiters(Mutex<Waiting>);

impl OffsetWaiters {
    /// Waits until `offset` (exclusive end) is passed. The caller looks once more after registering, so that no
    /// move in between is missed.
    pub fn register(&self, offset: Offset) -> OffsetWaiter<'_> {
        let (sender, receiver) = oneshot::channel();
        let mut waiting = self.0.lock();
        let key = (offset, waiting.next_ticket);
        waiting.next_ticket += 1;
        waiting.by_offset.insert(key, sender);
        OffsetWaiter { key, all: self, receiver }
    }

    /// Completes everyone who waits for `reached` or less.
    pub fn passed(&self, reached: Offset) {
        let done = {
            let mut waiting = self.0.lock();
            match waiting.by_offset.first_key_value() {
                Some(((offset, _), _)) if *offset <= reached => {}
                _ => return,
            }
            let rest = waiting.by_offset.split_off(&(reached + 1, 0));
            std::mem::replace(&mut waiting.by_offset, rest)
        };
        for (_, sender) in done {
            // A request that timed out meanwhile no longer listens.
            let _ = sender.send(Ok(()));
        }
    }

    /// Nobody will see their offset passed.
    pub fn fail(&self, why: NotCommitted) {
        let all = std::mem::take(&mut self.0.lock().by_offset);
        for (_, sender) in all {
            let _ = sender.send(Err(why));
        }
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.0.lock().by_offset.len()
    }
}

/// One wait; dropping it withdraws it.
#[derive(Debug)]
pub struct OffsetWaiter<'a> {
    key: (Offset, u64),
    all: &'a OffsetWaiters,
    receiver: oneshot::Receiver<Outcome>,
}

impl Future for OffsetWaiter<'_> {
    type Output = Outcome;
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Outcome> {
        // The sender is dropped unsent only with the partition itself.
        Pin::new(&mut self.receiver).poll(context).map(|sent| sent.unwrap_or(Err(NotCommitted::NotLeader)))
    }
}

impl Drop for OffsetWaiter<'_> {
    fn drop(&mut self) {
        self.all.0.lock().by_offset.remove(&self.key);
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;
    use crate::types::IsolationLevel;

    const CONSUMER: Reader = Reader::Consumer(IsolationLevel::ReadUncommitted);

    #[test]
    fn one_move_completes_the_prefix_it_passed() {
        let waiters = OffsetWaiters::default();
        let mut five = waiters.register(Offset(5));
        let mut also_five = waiters.register(Offset(5));
        let mut nine = waiters.register(Offset(9));
        waiters.passed(Offset(8));
        assert_eq!((&mut five).now_or_never(), Some(Ok(())));
        assert_eq!((&mut also_five).now_or_never(), Some(Ok(())));
        assert_eq!((&mut nine).now_or_never(), None);
        waiters.fail(NotCommitted::NotLeader);
        assert_eq!((&mut nine).now_or_never(), Some(Err(NotCommitted::NotLeader)));
    }

    #[test]
    fn a_wait_that_is_given_up_leaves_nothing_behind() {
        let waiters = OffsetWaiters::default();
        drop(waiters.register(Offset(5)));
        assert_eq!(waiters.len(), 0);
    }

    #[test]
    fn consumers_sleep_through_an_append_that_is_not_committed() {
        let fetches = ParkedFetches::default();
        let (consumer, debugger) = (Parked::new(), Parked::new());
        fetches.park(&consumer, CONSUMER);
        fetches.park(&debugger, Reader::Debugging);
        fetches.wake_appended();
        assert_eq!(debugger.woken().now_or_never(), Some(()));
        assert_eq!(consumer.woken().now_or_never(), None);
        fetches.wake_all();
        assert_eq!(consumer.woken().now_or_never(), Some(()));
    }

    #[test]
    fn fetches_that_time_out_on_an_idle_partition_do_not_pile_up() {
        let fetches = ParkedFetches::default();
        let alive = Parked::new();
        fetches.park(&alive, CONSUMER);
        for _ in 0..10_000 {
            fetches.park(&Parked::new(), CONSUMER);
        }
        assert!(fetches.len() <= 16, "{} entries for one live fetch", fetches.len());
        fetches.wake_all();
        assert_eq!(fetches.len(), 1);
    }
}
