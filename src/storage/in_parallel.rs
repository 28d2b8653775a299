//! The same work on many items that wait for one disk.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Does `work` on every item, in up to `threads` threads; with one in this one.
pub fn in_parallel<T: Sync>(threads: usize, items: &[T], work: impl Fn(&T) + Sync) {
    let next = AtomicUsize::new(0);
    let run = || {
        while let Some(item) = items.get(next.fetch_add(1, Ordering::Relaxed)) {
            work(item);
        }
    };
    match threads.min(items.len()) {
        0 | 1 => run(),
        threads => thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(run)))),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::sync::Barrier;

    use parking_lot::Mutex;

    use super::*;

    #[test]
    fn every_item_is_done_once_by_as_many_threads_as_asked() {
        for threads in [1, 3] {
            let (done, all_here) = (Mutex::new(Vec::new()), Barrier::new(threads));
            in_parallel(threads, &[0, 1, 2], |item| {
                all_here.wait();
                done.lock().push((*item, thread::current().id()));
            });
            let done = done.into_inner();
            let (items, by): (HashSet<i32>, HashSet<_>) = done.iter().copied().unzip();
            assert_eq!((done.len(), items.len(), by.len()), (3, 3, threads));
            assert_eq!(by.contains(&thread::current().id()), threads == 1);
        }
    }
}
