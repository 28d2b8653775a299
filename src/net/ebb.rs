//! When connections have gone: the moment to give the memory they used back to the system.
//!
//! The allocator keeps what was freed for the next who asks: a crowd of connections, or one with large answers, leaves
//! megabytes for nobody. Giving pages back and touching them again costs more than little memory is worth, so that it looks
//! how much is kept, a while after a connection has gone, once for all that went meanwhile.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::alloc::{self, Kept};

/// From the end of a connection to the look.
pub const PAUSE: Duration = Duration::from_secs(2);

/// Bytes that are kept without a look at what is in use.
const FREE: usize = 16 << 20;

#[derive(Debug, Default)]
pub struct Ebb {
    /// Somebody is going to look.
    due: AtomicBool,
}

impl Ebb {
    /// A connection went. True for who is to look after [`PAUSE`].
    pub fn went(&self) -> bool {
        !self.due.swap(true, Ordering::Relaxed)
    }

    /// The look; takes milliseconds where it gives back.
    pub fn look(&self) {
        self.due.store(false, Ordering::Relaxed);
        if alloc::kept().is_some_and(is_much) {
            alloc::give_back();
        }
    }
}

/// As much as is in use may be wanted again soon.
fn is_much(kept: Kept) -> bool {
    kept.free > FREE.max(kept.used)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_looks_for_all_who_went_meanwhile() {
        let ebb = Ebb::default();
        assert_eq!([ebb.went(), ebb.went(), ebb.went()], [true, false, false]);
        ebb.look();
        assert_eq!([ebb.went(), ebb.went()], [true, false]);
    }

    #[test]
    fn little_is_kept() {
        assert!(!is_much(Kept { free: FREE, used: 0 }));
        assert!(is_much(Kept { free: FREE + 1, used: 0 }));
        assert!(!is_much(Kept { free: 1 << 30, used: 1 << 30 }));
        assert!(is_much(Kept { free: 1 << 30, used: 1 << 29 }));
    }
}
