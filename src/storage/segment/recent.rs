//! The newest batches of a segment, so that reads at the tail and at the high watermark need no search.

use std::collections::VecDeque;

use crate::storage::entry::Entry;
use crate::types::Offset;

/// Batches that are remembered.
const RECENT: usize = 32;

/// Where a batch lies in its segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Located {
    pub position: u64,
    /// Bytes.
    pub size: u64,
}

/// The newest batches: (base offset, position), and where the next will lie.
#[derive(Debug)]
pub(super) struct Recent {
    batches: VecDeque<(Offset, u64)>,
    /// `None` until it is known.
    end: Option<(Offset, u64)>,
}

impl Recent {
    /// None is known; the next begins at `end`, if that is known.
    pub fn new(end: Option<(Offset, u64)>) -> Recent {
        Recent { batches: VecDeque::new(), end }
    }

    /// Lets go of the memory; where the next batch will lie stays known.
    pub fn forget(&mut self) {
        self.batches = VecDeque::new();
    }

    /// Batches were written from position `at` on; `heads` tells where behind it each begins, and its head.
    pub fn push(&mut self, at: u64, heads: &[(usize, Entry)]) {
        for (position, entry) in heads {
            if self.batches.len() == RECENT {
                self.batches.pop_front();
            }
            self.batches.push_back((entry.base_offset, at + *position as u64));
            self.end = Some((entry.last_offset + 1, at + *position as u64 + entry.size));
        }
    }

    /// `Some` when these batches know the answer: where the batch that reaches `target` lies, or that none does.
    pub fn locate(&self, target: Offset) -> Option<Option<Located>> {
        let end = self.end?;
        if target >= end.0 {
            return Some(None);
        }
        let (first, _) = self.batches.front()?;
        if target < *first {
            return None;
        }
        let at = self.batches.partition_point(|(base, _)| *base <= target);
        let (_, position) = self.batches.get(at.checked_sub(1)?)?;
        let next = self.batches.get(at).map_or(end.1, |(_, position)| *position);
        Some(Some(Located { position: *position, size: next - position }))
    }
}
