//! What of a log is to be cleaned, and how much it needs it.
//!
//! ```text
//! log start ──── first dirty ──────────── first uncleanable ──────── log end
//!     │  clean: a key once  │  dirty, may be cleaned  │  open transactions, not replicated, too young, active
//! ```
//! Rules: Kafka's `LogCleanerManager`.

use crate::config::TopicConfig;
use crate::types::Offset;

/// What the decision needs to know of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentFacts {
    pub base: Offset,
    pub bytes: u64,
    /// Largest of a record, ms; -1 where there is none, or where no rule asks for it.
    pub largest_timestamp_ms: i64,
    /// Of the first batch, likewise.
    pub first_timestamp_ms: i64,
}

/// What the decision needs to know of a log.
#[derive(Clone, Debug)]
pub struct Facts {
    pub log_start: Offset,
    pub log_end: Offset,
    pub last_stable: Offset,
    /// What `cleaner-offset-checkpoint` says.
    pub checkpoint: Option<Offset>,
    /// In order; the last one is active.
    pub segments: Vec<SegmentFacts>,
}

/// The topic's wishes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Wishes {
    pub min_lag_ms: i64,
    pub max_lag_ms: i64,
    /// Share of dirty bytes above which a log is worth cleaning.
    pub dirty_ratio: f64,
}

impl Wishes {
    pub fn of(config: &TopicConfig) -> Wishes {
        Wishes {
            min_lag_ms: config.min_compaction_lag_ms,
            max_lag_ms: config.max_compaction_lag_ms,
            dirty_ratio: config.min_cleanable_dirty_ratio,
        }
    }

    pub fn ask_for_largest_timestamps(&self) -> bool {
        self.min_lag_ms > 0
    }

    pub fn ask_for_first_timestamps(&self) -> bool {
        self.max_lag_ms < i64::MAX
    }
}

/// What may be cleaned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// Below it every key is there once.
    pub first_dirty: Offset,
    /// Exclusive end: the base of a segment.
    pub first_uncleanable: Offset,
}

/// A log as the choice sees it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Candidate {
    pub range: Range,
    /// Bytes of the segments that hold anything clean; the one in which the dirt begins counts twice, as for Kafka.
    pub clean_bytes: u64,
    pub cleanable_bytes: u64,
    /// A record waits longer than `max.compaction.lag.ms`.
    pub is_overdue: bool,
    /// The checkpoint names no offset of the log.
    pub checkpoint_is_wrong: bool,
}

impl Candidate {
    /// Dirty bytes as a share of all that cleaning would read.
    pub fn ratio(&self) -> f64 {
        let all = self.clean_bytes + self.cleanable_bytes;
        if all == 0 { 0.0 } else { self.cleanable_bytes as f64 / all as f64 }
    }

    pub fn is_worth_it(&self, wishes: &Wishes) -> bool {
        self.cleanable_bytes > 0 && (self.is_overdue || self.ratio() > wishes.dirty_ratio)
    }
}

impl Facts {
    fn active_base(&self) -> Offset {
        self.segments.last().map_or(self.log_end, |segment| segment.base)
    }

    /// Sealed segments that hold `from` or something after it.
    fn sealed_from(&self, from: Offset) -> &[SegmentFacts] {
        let sealed = self.segments.len().saturating_sub(1);
        let first = self.segments.partition_point(|segment| segment.base <= from).saturating_sub(1);
        self.segments.get(first..sealed).unwrap_or_default()
    }

    pub fn candidate(&self, wishes: &Wishes, now_ms: i64) -> Candidate {
        let said = self.checkpoint.unwrap_or(self.log_start);
        let checkpoint_is_wrong = said < self.log_start || said > self.log_end;
        let first_dirty = if checkpoint_is_wrong { self.log_start } else { said };

        let mut uncleanable = self.last_stable.min(self.active_base());
        if wishes.ask_for_largest_timestamps() {
            let young =
                |segment: &&SegmentFacts| segment.largest_timestamp_ms > now_ms.saturating_sub(wishes.min_lag_ms);
            let young = self.sealed_from(first_dirty).iter().find(young);
            uncleanable = young.map_or(uncleanable, |segment| uncleanable.min(segment.base));
        }
        let uncleanable = uncleanable.max(first_dirty);
        // Whole segments are rewritten.
        let first_uncleanable =
            self.sealed_from(uncleanable).first().map_or(self.active_base(), |segment| segment.base);

        let bytes = |segments: &mut dyn Iterator<Item = &SegmentFacts>| segments.map(|segment| segment.bytes).sum();
        let dirty = self.sealed_from(first_dirty.min(first_uncleanable));
        let is_overdue = wishes.ask_for_first_timestamps()
            && self
                .sealed_from(first_dirty)
                .iter()
                .map(|segment| segment.first_timestamp_ms)
                .filter(|timestamp| *timestamp > 0)
                .min()
                .is_some_and(|first| first < now_ms.saturating_sub(wishes.max_lag_ms.max(0)));
        Candidate {
            range: Range { first_dirty, first_uncleanable },
            clean_bytes: bytes(&mut self.segments.iter().take_while(|segment| segment.base < first_dirty)),
            cleanable_bytes: bytes(&mut dirty.iter().take_while(|segment| segment.base < first_uncleanable)),
            is_overdue,
            checkpoint_is_wrong,
        }
    }
}

/// The one with the largest share of dirt among those worth cleaning.
pub fn dirtiest<T>(candidates: impl IntoIterator<Item = (T, Candidate, Wishes)>) -> Option<(T, Candidate)> {
    let worth = candidates.into_iter().filter(|(_, candidate, wishes)| candidate.is_worth_it(wishes));
    worth.map(|(log, candidate, _)| (log, candidate)).max_by(|(_, a), (_, b)| a.ratio().total_cmp(&b.ratio()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const WISHES: Wishes = Wishes { min_lag_ms: 0, max_lag_ms: i64::MAX, dirty_ratio: 0.5 };

    /// Segments of 100 bytes at 0, 10, 20, …, the last one active; the timestamps of the one at `n` are `n` and `n + 9`.
    fn facts(segments: i64, checkpoint: Option<i64>) -> Facts {
        let segment = |n: i64| SegmentFacts {
            base: Offset(10 * n),
            bytes: 100,
            largest_timestamp_ms: 10 * n + 9,
            first_timestamp_ms: 10 * n,
        };
        Facts {
            log_start: Offset(0),
            log_end: Offset(10 * segments),
            last_stable: Offset(10 * segments),
            checkpoint: checkpoint.map(Offset),
            segments: (0..segments).map(segment).collect(),
        }
    }

    fn range(candidate: &Candidate) -> (i64, i64) {
        (candidate.range.first_dirty.0, candidate.range.first_uncleanable.0)
    }

    #[test]
    fn the_active_segment_open_transactions_and_young_records_are_left() {
        let all = facts(5, None).candidate(&WISHES, 1000);
        assert_eq!((range(&all), all.clean_bytes, all.cleanable_bytes), ((0, 40), 0, 400));
        let open = Facts { last_stable: Offset(27), ..facts(5, Some(10)) }.candidate(&WISHES, 1000);
        assert_eq!((range(&open), open.clean_bytes, open.cleanable_bytes), ((10, 20), 100, 100));
        let young = facts(5, Some(10)).candidate(&Wishes { min_lag_ms: 70, ..WISHES }, 100);
        assert_eq!(range(&young), (10, 30), "what is newer than 30");
        assert_eq!(range(&facts(5, Some(10)).candidate(&Wishes { min_lag_ms: 72, ..WISHES }, 100)), (10, 20));
    }

    #[test]
    fn a_checkpoint_outside_the_log_counts_as_none() {
        for (checkpoint, log_start, first_dirty, wrong) in [(7, 10, 10, true), (51, 10, 10, true), (50, 10, 50, false)]
        {
            let facts = Facts { log_start: Offset(log_start), ..facts(5, Some(checkpoint)) };
            let candidate = facts.candidate(&WISHES, 1000);
            assert_eq!((candidate.range.first_dirty.0, candidate.checkpoint_is_wrong), (first_dirty, wrong));
        }
    }

    #[test]
    fn dirt_that_begins_inside_a_segment_is_cleaned_with_all_of_it() {
        let candidate = facts(5, Some(15)).candidate(&WISHES, 1000);
        assert_eq!((range(&candidate), candidate.clean_bytes, candidate.cleanable_bytes), ((15, 40), 200, 300));
    }

    #[test]
    fn the_ratio_or_the_lag_decides() {
        let half = facts(5, Some(20)).candidate(&WISHES, 1000);
        assert!(!half.is_worth_it(&WISHES), "the ratio must be exceeded");
        assert!(half.is_worth_it(&Wishes { dirty_ratio: 0.49, ..WISHES }));
        let lag = |max_lag_ms| Wishes { max_lag_ms, ..WISHES };
        let overdue = |max_lag_ms| facts(5, Some(20)).candidate(&lag(max_lag_ms), 100).is_worth_it(&lag(max_lag_ms));
        assert!(overdue(79) && !overdue(80), "the oldest dirty record is of 20");
        assert!(!facts(5, Some(40)).candidate(&lag(1), 1000).is_worth_it(&lag(1)), "nothing is dirty");
    }

    #[test]
    fn the_dirtiest_is_chosen() {
        let wishes = Wishes { dirty_ratio: 0.1, ..WISHES };
        let logs = [("a", Some(20)), ("b", Some(10)), ("c", Some(40)), ("d", Some(30))];
        let candidates = logs.map(|(log, at)| (log, facts(5, at).candidate(&wishes, 1000), wishes));
        assert_eq!(dirtiest(candidates).map(|(log, _)| log), Some("b"));
        assert_eq!(dirtiest::<&str>([]), None);
    }
}
