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

#[cfg(test)]
mod tests {
    use super::*;

    fn cache(entries: &[(i32, i64)]) -> EpochCache {
        EpochCache::from_entries(entries.iter().map(|(epoch, start)| (LeaderEpoch(*epoch), Offset(*start))))
    }

    #[test]
    fn a_new_epoch_drops_what_it_contradicts() {
        let mut epochs = cache(&[(0, 0), (2, 10), (4, 20)]);
        assert!(!epochs.assign(LeaderEpoch(4), Offset(25)));
        assert!(epochs.assign(LeaderEpoch(5), Offset(10)));
        assert_eq!(epochs, cache(&[(0, 0), (5, 10)]));
        assert!(epochs.assign(LeaderEpoch(3), Offset(12)));
        assert_eq!(epochs, cache(&[(0, 0), (3, 12)]));
        assert!(!epochs.assign(LeaderEpoch::NONE, Offset(50)));
    }

    #[test]
    fn epochs_end_where_the_next_begins() {
        let epochs = cache(&[(1, 5), (3, 10), (4, 20)]);
        let end = |epoch| epochs.end_offset_for(LeaderEpoch(epoch), Offset(33)).map(|(epoch, end)| (epoch.0, end.0));
        assert_eq!(end(-1), None);
        assert_eq!(end(0), Some((0, 5)), "before the first");
        assert_eq!(end(1), Some((1, 10)));
        assert_eq!(end(2), Some((1, 10)));
        assert_eq!(end(3), Some((3, 20)));
        assert_eq!(end(4), Some((4, 33)));
        assert_eq!(end(5), None, "not known yet");
        assert_eq!(epochs.epoch_for(Offset(4)), None);
        assert_eq!(epochs.epoch_for(Offset(19)), Some(LeaderEpoch(3)));
    }

    #[test]
    fn both_ends_can_be_cut() {
        let mut epochs = cache(&[(0, 0), (2, 10), (4, 20)]);
        assert!(epochs.truncate_from_end(Offset(20)));
        assert_eq!(epochs, cache(&[(0, 0), (2, 10)]));
        assert!(epochs.truncate_from_start(Offset(4)));
        assert_eq!(epochs, cache(&[(0, 4), (2, 10)]));
        assert!(epochs.truncate_from_start(Offset(15)));
        assert_eq!(epochs, cache(&[(2, 15)]));
        assert!(!epochs.truncate_from_start(Offset(15)));
        assert!(!epochs.truncate_from_start(Offset(3)));
    }
}
