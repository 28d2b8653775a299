//! The leader epochs of a log and where each begins (KIP-101), kept in `leader-epoch-checkpoint`.
//!
//! Epochs and start offsets both strictly rise. Rules: Kafka's `LeaderEpochFileCache`.

use crate::types::{LeaderEpoch, Offset};

/// Epochs with the offset of their first record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EpochCache {
    entries: Vec<(LeaderEpoch, Offset)>,
}

impl EpochCache {
    /// Entries as read; those that break the order give way to the later ones.
    pub fn from_entries(entries: impl IntoIterator<Item = (LeaderEpoch, Offset)>) -> EpochCache {
        let mut cache = EpochCache::default();
        for (epoch, start) in entries {
            cache.assign(epoch, start);
        }
        cache
    }

    pub fn entries(&self) -> &[(LeaderEpoch, Offset)] {
        &self.entries
    }

    /// Notes that `epoch` begins at `start`. Whether anything changed.
    pub fn assign(&mut self, epoch: LeaderEpoch, start: Offset) -> bool {
        if epoch.0 < 0 || self.entries.last().is_some_and(|(last, at)| *last == epoch && start >= *at) {
            return false;
        }
        while self.entries.last().is_some_and(|(last, at)| *last >= epoch || *at >= start) {
            self.entries.pop();
        }
        self.entries.push((epoch, start));
        true
    }

    /// Notes epochs that lie before the first known one.
    pub fn prepend(&mut self, earlier: EpochCache) {
        let mut entries = earlier.entries;
        if let Some((last, _)) = entries.last() {
            let last = *last;
            entries.extend(self.entries.iter().filter(|(epoch, _)| *epoch > last));
            self.entries = entries;
        }
    }

    pub fn latest(&self) -> Option<LeaderEpoch> {
        self.entries.last().map(|(epoch, _)| *epoch)
    }

    /// The largest epoch ≤ `epoch` with the offset (exclusive) where it ends; `None` when undefined: unknown future
    /// epoch, or no epoch at all. An epoch before the first yields itself, ending where the first begins.
    pub fn end_offset_for(&self, epoch: LeaderEpoch, log_end: Offset) -> Option<(LeaderEpoch, Offset)> {
        let latest = self.latest()?;
        if epoch == LeaderEpoch::NONE || epoch > latest {
            return None;
        }
        if epoch == latest {
            return Some((epoch, log_end));
        }
        let after = self.entries.partition_point(|(known, _)| *known <= epoch);
        let (_, end) = *self.entries.get(after)?;
        match after.checked_sub(1) {
            None => Some((epoch, end)),
            Some(at) => Some((self.entries[at].0, end)),
        }
    }

    /// The epoch whose records hold `offset`.
    pub fn epoch_for(&self, offset: Offset) -> Option<LeaderEpoch> {
        let after = self.entries.partition_point(|(_, start)| *start <= offset);
        after.checked_sub(1).map(|at| self.entries[at].0)
    }

    /// Drops epochs that begin at `end` or later. Whether anything changed.
    pub fn truncate_from_end(&mut self, end: Offset) -> bool {
        let keep = self.entries.partition_point(|(_, start)| *start < end);
        let changed = keep < self.entries.len();
        self.entries.truncate(keep);
        changed
    }

    /// Drops epochs that end at `start` or before; the one that spans it begins there. Whether anything changed.
    pub fn truncate_from_start(&mut self, start: Offset) -> bool {
        let after = self.entries.partition_point(|(_, at)| *at <= start);
        let Some(last) = after.checked_sub(1) else { return false };
        if last == 0 && self.entries[0].1 == start {
            return false;
        }
        self.entries.drain(..last);
        self.entries[0].1 = start;
        true
    }

    pub fn clear(&mut self) {
        self.entries.clear();
    }
}
