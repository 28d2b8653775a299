//! A lock for each partition that something is done to, made when it is needed.

use std::collections::HashSet;

use parking_lot::{Condvar, Mutex};

use crate::types::TopicPartition;

/// Who holds a partition keeps others from it, and nobody from another one.
#[derive(Debug, Default)]
pub(crate) struct OneAtATime {
    held: Mutex<HashSet<TopicPartition>>,
    freed: Condvar,
}

/// Lets go when dropped.
#[must_use]
pub(crate) struct Held<'a> {
    of: &'a OneAtATime,
    tp: TopicPartition,
}

impl OneAtATime {
    /// Waits until nobody holds the partition.
    pub fn hold(&self, tp: &TopicPartition) -> Held<'_> {
        let mut held = self.held.lock();
        while !held.insert(tp.clone()) {
            self.freed.wait(&mut held);
        }
        Held { of: self, tp: tp.clone() }
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.of.held.lock().remove(&self.tp);
        self.of.freed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;

    use super::*;

    #[test]
    fn a_partition_is_held_by_one_and_others_are_free() {
        let (lock, freed) = (OneAtATime::default(), AtomicBool::new(false));
        let (a, b) = (TopicPartition::new("t", 0), TopicPartition::new("t", 1));
        let held = lock.hold(&a);
        drop(lock.hold(&b));
        thread::scope(|scope| {
            let second = scope.spawn(|| {
                let _held = lock.hold(&a);
                freed.load(Ordering::SeqCst)
            });
            // It waits, as far as it has come.
            freed.store(true, Ordering::SeqCst);
            drop(held);
            assert!(second.join().expect("no panic"), "the second came before the first had gone");
        });
        drop(lock.hold(&a));
    }
}
