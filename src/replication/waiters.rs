//! Parked requests: a fetch names the partitions it waits on, a produce the offset it must see passed.
//!
//! Nobody polls. Both kinds are woken by the append, flush or high watermark move that may complete them, and both
//! leave no trace when their request ends first: a produce takes its entry with it, a fetch is held weakly.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};

use parking_lot::Mutex;
use tokio::sync::{Notify, oneshot};

use super::partition::{NotCommitted, Reader};
use crate::types::Offset;

/// One parked fetch. Partitions hold it weakly: dropping it is deregistering it.
#[derive(Debug)]
pub struct Parked {
    notify: Notify,
    /// Which of its partitions moved since it last looked: a bit each, the first 64 here.
    moved: AtomicU64,
    moved_beyond: Box<[AtomicU64]>,
    /// To be answered now, with what there is.
    released: AtomicBool,
}

impl Parked {
    /// For a fetch of `partitions` partitions, which it knows by their places from 0 on.
    pub fn new(partitions: usize) -> Arc<Parked> {
        let beyond = partitions.div_ceil(64).saturating_sub(1);
        let moved_beyond = (0..beyond).map(|_| AtomicU64::new(0)).collect();
        Arc::new(Parked {
            notify: Notify::new(),
            moved: AtomicU64::new(0),
            moved_beyond,
            released: AtomicBool::new(false),
        })
    }

    /// The partition at `place` moved: look at it again.
    pub fn wake(&self, place: usize) {
        let Some(word) = self.words().nth(place / 64) else { return };
        let bit = 1 << (place % 64);
        // Who set the bit first wakes, and one wake is enough until the fetch has taken it.
        if word.fetch_or(bit, Ordering::AcqRel) & bit == 0 {
            self.notify.notify_one();
        }
    }

    /// Has it answered now, with what there is.
    pub(super) fn release(&self) {
        self.released.store(true, Ordering::Release);
        self.notify.notify_one();
    }

    /// Whether it is to be answered whatever there is.
    pub fn is_released(&self) -> bool {
        self.released.load(Ordering::Acquire)
    }

    /// Completes after a `wake`, also one from before the call.
    pub async fn woken(&self) {
        self.notify.notified().await;
    }

    /// The places that moved since the last call, in order.
    pub fn take_moved(&self) -> impl Iterator<Item = usize> {
        self.words().enumerate().flat_map(|(n, word)| {
            let mut bits = word.swap(0, Ordering::AcqRel);
            std::iter::from_fn(move || {
                let lowest = (bits != 0).then(|| bits.trailing_zeros() as usize)?;
                bits &= bits - 1;
                Some(n * 64 + lowest)
            })
        })
    }

    fn words(&self) -> impl Iterator<Item = &AtomicU64> {
        std::iter::once(&self.moved).chain(&*self.moved_beyond)
    }
}

/// How often a partition has moved. A reader that takes it before it reads, and parks with it afterwards, misses nothing
/// in between.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moves(u64);

/// The fetches parked on one partition. An entry stays until its fetch is gone.
#[derive(Debug, Default)]
pub struct ParkedFetches {
    /// Grows under the lock of `parked`.
    moves: AtomicU64,
    parked: Mutex<Vec<Entry>>,
}

#[derive(Debug)]
struct Entry {
    fetch: Weak<Parked>,
    /// Of this partition in the fetch.
    place: usize,
    woken_by: WokenBy,
}

/// What a parked reader waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WokenBy {
    /// Replicas and the debugging consumer read to the log end.
    Append,
    HighWatermark,
}

impl ParkedFetches {
    pub fn moves(&self) -> Moves {
        Moves(self.moves.load(Ordering::Acquire))
    }

    /// `seen` is from before the fetch read: a move since then wakes it at once.
    pub fn park(&self, parked: &Arc<Parked>, place: usize, reader: Reader, seen: Moves) {
        let woken_by = match reader {
            Reader::Consumer(_) => WokenBy::HighWatermark,
            Reader::Replica { .. } | Reader::Debugging => WokenBy::Append,
        };
        let mut all = self.parked.lock();
        // Before the list would grow, those that timed out go: it stays within twice the fetches alive.
        if all.len() == all.capacity() {
            all.retain(|entry| entry.fetch.strong_count() > 0);
        }
        all.push(Entry { fetch: Arc::downgrade(parked), place, woken_by });
        if self.moves() != seen {
            parked.wake(place);
        }
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
        let mut all = self.parked.lock();
        self.moves.fetch_add(1, Ordering::Release);
        all.retain(|entry| match entry.fetch.upgrade() {
            Some(fetch) => {
                if whom(entry.woken_by) {
                    fetch.wake(entry.place);
                }
                true
            }
            None => false,
        });
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.parked.lock().len()
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

    fn woken(fetch: &Parked) -> Option<Vec<usize>> {
        fetch.woken().now_or_never().map(|()| fetch.take_moved().collect())
    }

    #[test]
    fn consumers_sleep_through_an_append_that_is_not_committed() {
        let fetches = ParkedFetches::default();
        let (consumer, debugger) = (Parked::new(1), Parked::new(1));
        fetches.park(&consumer, 0, CONSUMER, fetches.moves());
        fetches.park(&debugger, 0, Reader::Debugging, fetches.moves());
        fetches.wake_appended();
        assert_eq!(woken(&debugger), Some(vec![0]));
        assert_eq!(woken(&consumer), None);
        fetches.wake_all();
        assert_eq!(woken(&consumer), Some(vec![0]));
    }

    #[test]
    fn a_fetch_is_told_which_of_its_partitions_moved_and_once() {
        let partitions: Vec<ParkedFetches> = (0..200).map(|_| ParkedFetches::default()).collect();
        let fetch = Parked::new(partitions.len());
        for (place, partition) in partitions.iter().enumerate() {
            partition.park(&fetch, place, CONSUMER, partition.moves());
        }
        assert_eq!(woken(&fetch), None);
        for place in [199, 3, 63, 64, 3, 128, 3] {
            partitions[place].wake_all();
        }
        assert_eq!(woken(&fetch), Some(vec![3, 63, 64, 128, 199]));
        assert_eq!(woken(&fetch), None, "seven moves are one wake");
        partitions[3].wake_all();
        assert_eq!(woken(&fetch), Some(vec![3]));
    }

    #[test]
    fn a_move_between_the_read_and_the_parking_wakes() {
        let fetches = ParkedFetches::default();
        let (before, after) = (Parked::new(1), Parked::new(1));
        let seen = fetches.moves();
        fetches.wake_all();
        fetches.park(&before, 0, CONSUMER, seen);
        fetches.park(&after, 0, CONSUMER, fetches.moves());
        assert_eq!(woken(&before), Some(vec![0]));
        assert_eq!(woken(&after), None);
    }

    #[test]
    fn fetches_that_time_out_on_an_idle_partition_do_not_pile_up() {
        let fetches = ParkedFetches::default();
        let alive = Parked::new(1);
        fetches.park(&alive, 0, CONSUMER, fetches.moves());
        for _ in 0..10_000 {
            fetches.park(&Parked::new(1), 0, CONSUMER, fetches.moves());
        }
        assert!(fetches.len() <= 16, "{} entries for one live fetch", fetches.len());
        fetches.wake_all();
        assert_eq!(fetches.len(), 1);
    }
}
