//! Deadlines in time order. What a timer is for decides, when it fires, whether its deadline has moved meanwhile: a
//! heartbeat then costs one store, not a removal and an insertion.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// One armed timer. Equal deadlines fire in the order in which they were armed.
#[derive(Debug)]
struct Armed<K> {
    due_ms: i64,
    ticket: u64,
    key: K,
}

impl<K> PartialEq for Armed<K> {
    fn eq(&self, other: &Self) -> bool {
        (self.due_ms, self.ticket) == (other.due_ms, other.ticket)
    }
}

impl<K> Eq for Armed<K> {}

impl<K> PartialOrd for Armed<K> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<K> Ord for Armed<K> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.due_ms, self.ticket).cmp(&(other.due_ms, other.ticket))
    }
}

/// Timers of one owner, monotonic ms. None is ever taken back: what fires is checked by its owner.
#[derive(Debug)]
pub struct Timers<K> {
    heap: BinaryHeap<Reverse<Armed<K>>>,
    next_ticket: u64,
}

impl<K> Default for Timers<K> {
    fn default() -> Timers<K> {
        Timers { heap: BinaryHeap::new(), next_ticket: 0 }
    }
}

impl<K> Timers<K> {
    pub fn arm(&mut self, due_ms: i64, key: K) {
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        self.heap.push(Reverse(Armed { due_ms, ticket, key }));
    }

    /// When the next one fires.
    pub fn next_due_ms(&self) -> Option<i64> {
        self.heap.peek().map(|Reverse(armed)| armed.due_ms)
    }

    /// The next one that is due at `now_ms`.
    pub fn fire(&mut self, now_ms: i64) -> Option<K> {
        if self.next_due_ms()? > now_ms {
            return None;
        }
        self.heap.pop().map(|Reverse(armed)| armed.key)
    }
}

/// What a timer that fired means for its [`Deadline`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fired {
    Passed,
    /// It was pushed back: a timer is to be armed for then.
    Again(i64),
    /// Another timer is armed for it.
    Stale,
}

/// A deadline that is pushed back far more often than it passes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Deadline {
    due_ms: i64,
    /// The earliest timer that is armed for it.
    armed_ms: Option<i64>,
}

impl Deadline {
    /// Moves it; true when a timer has to be armed because none fires early enough.
    #[must_use]
    pub fn set(&mut self, due_ms: i64) -> bool {
        self.due_ms = due_ms;
        let arm = self.armed_ms.is_none_or(|armed_ms| armed_ms > due_ms);
        if arm {
            self.armed_ms = Some(due_ms);
        }
        arm
    }

    /// A timer fired for it.
    pub fn fired(&mut self, now_ms: i64) -> Fired {
        if self.armed_ms.is_some_and(|armed_ms| armed_ms > now_ms) {
            return Fired::Stale;
        }
        if self.due_ms > now_ms {
            self.armed_ms = Some(self.due_ms);
            return Fired::Again(self.due_ms);
        }
        self.armed_ms = None;
        Fired::Passed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timers_fire_in_time_order_and_not_before() {
        let mut timers = Timers::default();
        timers.arm(30, 'c');
        timers.arm(10, 'a');
        timers.arm(10, 'b');
        assert_eq!(timers.next_due_ms(), Some(10));
        assert_eq!(timers.fire(9), None);
        assert_eq!((timers.fire(10), timers.fire(10), timers.fire(10)), (Some('a'), Some('b'), None));
        assert_eq!(timers.fire(99), Some('c'));
        assert_eq!(timers.next_due_ms(), None);
    }

    #[test]
    fn a_deadline_pushed_back_arms_nothing_and_one_brought_forward_does() {
        let mut deadline = Deadline::default();
        assert!(deadline.set(100));
        assert!(!deadline.set(150));
        assert!(deadline.set(50));
        assert!(!deadline.set(300));
        assert_eq!(deadline.fired(50), Fired::Again(300));
        // The first one, which nobody took back.
        assert_eq!(deadline.fired(100), Fired::Stale);
        assert_eq!(deadline.fired(300), Fired::Passed);
        assert!(deadline.set(400));
    }
}
