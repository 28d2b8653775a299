//! What readers see of a log: its segments at one moment. Appends to the last segment do not make a new view, only
//! rolls, deletions and truncations do.

use std::sync::Arc;

use super::segment::Segment;
use crate::types::Offset;

/// Segments in ascending order, at least one; the last is active.
#[derive(Debug)]
pub struct LogView {
    pub segments: Vec<Arc<Segment>>,
}

impl LogView {
    /// Index of the segment that holds `offset`, or would: the last one whose base is not above it.
    pub fn index_of(&self, offset: Offset) -> Option<usize> {
        self.segments.partition_point(|segment| segment.base() <= offset).checked_sub(1)
    }

    pub fn active(&self) -> Option<&Arc<Segment>> {
        self.segments.last()
    }

    pub fn first_base(&self) -> Offset {
        self.segments.first().map_or(Offset::ZERO, |segment| segment.base())
    }

    /// Bytes.
    pub fn size(&self) -> u64 {
        self.segments.iter().map(|segment| segment.len()).sum()
    }
}
