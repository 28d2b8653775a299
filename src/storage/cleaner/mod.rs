//! Compaction: of each key of a log with `cleanup.policy=compact` the last record stays, where it is.
//!
//! ```text
//! which log?    range      what of a log may be cleaned, how dirty it is, which log is the dirtiest
//! pass 1        offset_map the keys of the dirty part, each with its last offset, as many as memory holds
//! pass 2        groups     neighbouring segments, from the log's first on, that fit into one
//!               filter     what is left of each batch            transactions  which of them are aborted, which markers go
//!               pass       both passes over a log, group after group into `.cleaned` files
//!               swap       the new segment takes the place of the old ones
//! ```
//! Offsets, order, timestamps and sequences never change; gaps appear. What may be cleaned is below the last stable offset:
//! replicated and decided. A pass reads and writes beside appends and fetches, and takes their locks only to exchange a list
//! of segments; who truncates, deletes or moves a log need not wait for it: it notices, and gives up.
//!
//! Which log is cleaned when is [`LogManager`](super::manager::LogManager)'s, on a thread of its own. Rules: log-format of
//! 3.9; Kafka's `LogCleaner` and `LogCleanerManager`.

pub(super) mod range;
// The rest in reading order.
mod groups;
mod offset_map;
mod transactions;

mod batches;
mod filter;

pub(super) mod pass;
mod swap;

pub(super) mod throttle;

use std::sync::atomic::{AtomicBool, Ordering};

/// What a log remembers of being cleaned.
#[derive(Debug, Default)]
pub struct Mark {
    under_way: AtomicBool,
    uncleanable: AtomicBool,
}

impl Mark {
    /// Begins, unless somebody is at it.
    pub fn begin(&self) -> bool {
        !self.under_way.swap(true, Ordering::AcqRel)
    }

    pub fn is_under_way(&self) -> bool {
        self.under_way.load(Ordering::Acquire)
    }

    pub fn end(&self) {
        self.under_way.store(false, Ordering::Release);
    }

    /// Damage was met: it is not tried again before the next start.
    pub fn set_uncleanable(&self) {
        self.uncleanable.store(true, Ordering::Relaxed);
    }

    pub fn is_uncleanable(&self) -> bool {
        self.uncleanable.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests;
