//! Deletions that were promised: a directory that stands still lets none be done, and nobody is made to wait for it.
//!
//! From then on the replica is in no table, and what was to be done to it before the deletion comes to nothing. What comes
//! after the deletion is done after it: both wait for the same directory.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use super::partition::Partition;
use crate::types::TopicPartition;

/// A deletion while it is under way or queued.
#[derive(Debug, Default)]
pub struct Deletion(());

/// What was promised and is not done.
#[derive(Debug, Default)]
pub(super) struct Promised {
    of: Mutex<HashMap<TopicPartition, Promise>>,
}

#[derive(Debug, Default)]
struct Promise {
    /// It holds for as long as one of them lives.
    by: Vec<Weak<Deletion>>,
    /// Taken out of the table; the deletion ends them.
    replicas: Vec<Arc<Partition>>,
}

impl Promise {
    fn holds(&self) -> bool {
        self.by.iter().any(|deletion| deletion.strong_count() > 0)
    }
}

impl Promised {
    /// `replica` is taken out of the table once the promise holds. False when `deletion` is over: there is nothing to promise.
    pub fn promise(
        &self,
        tp: &TopicPartition,
        deletion: &Weak<Deletion>,
        replica: impl FnOnce() -> Option<Arc<Partition>>,
    ) -> bool {
        let mut of = self.of.lock();
        of.retain(|_, promise| promise.holds());
        // While it is looked at it cannot end.
        let Some(_under_way) = deletion.upgrade() else { return false };
        let promise = of.entry(tp.clone()).or_default();
        promise.by.push(Weak::clone(deletion));
        promise.replicas.extend(replica());
        true
    }

    /// Whether the partition is to be deleted before anything else is done to it.
    pub fn holds(&self, tp: &TopicPartition) -> bool {
        let of = self.of.lock();
        // Nearly always none is there.
        !of.is_empty() && of.get(tp).is_some_and(Promise::holds)
    }

    /// Those that the deletion of `tp` has to end.
    pub fn take(&self, tp: &TopicPartition) -> Vec<Arc<Partition>> {
        self.of.lock().get_mut(tp).map(|promise| std::mem::take(&mut promise.replicas)).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::TopicConfig;
    use crate::replication::table::LeaderAndIsr;
    use crate::replication::testing::{bench, change};
    use crate::types::LeaderEpoch;
    use crate::wire::error_code::ErrorCode;

    #[test]
    fn what_was_to_be_done_before_a_promised_deletion_comes_to_nothing_and_what_comes_after_is_done() {
        let bench = bench(TopicConfig::default());
        let (table, partition) = (&bench.table, bench.leader(&[1]));
        let tp = partition.topic_partition();
        let apply = |change| table.apply_leader_and_isr(&[change])[0];
        let deletion = Arc::new(Deletion::default());
        let promise = Arc::downgrade(&deletion);
        table.promise_deletion(tp, &promise);
        assert!(table.get("t", 0).is_none());
        assert!(partition.is_leader(), "to end it may take its disk");
        assert_eq!(apply(change(1, 4, &[1])), ErrorCode::UnknownTopicOrPartition);
        assert!(table.get("t", 0).is_none());
        assert_eq!(table.stop_replica(tp, LeaderEpoch(-2), true), ErrorCode::None);
        assert!(!partition.is_leader(), "who waits on it is told");
        let next = LeaderAndIsr { is_new: true, ..change(1, 0, &[1]) };
        assert_eq!(apply(next.clone()), ErrorCode::UnknownTopicOrPartition);
        assert!(table.logs().get(tp).is_none(), "no log is made for it either");
        drop(deletion);
        assert_eq!(apply(next), ErrorCode::None);
        table.promise_deletion(tp, &promise);
        assert!(table.get("t", 0).is_some(), "that deletion was another one's");
    }

    #[test]
    fn a_promise_holds_until_the_last_deletion_it_was_given_for_is_over() {
        let bench = bench(TopicConfig::default());
        let (table, first) = (&bench.table, bench.leader(&[1]));
        let tp = first.topic_partition();
        let deletions = [(); 2].map(|()| Arc::new(Deletion::default()));
        for deletion in &deletions {
            table.promise_deletion(tp, &Arc::downgrade(deletion));
        }
        let [one, other] = deletions;
        drop(one);
        let refused = table.apply_leader_and_isr(&[change(1, 4, &[1])]);
        assert_eq!(refused, [ErrorCode::UnknownTopicOrPartition], "the other is still to come");
        drop(other);
        let promised = Promised::default();
        let deletion = Arc::new(Deletion::default());
        assert!(promised.promise(tp, &Arc::downgrade(&deletion), || Some(Arc::clone(&first))));
        assert!(promised.holds(tp));
        assert_eq!(promised.take(tp).len(), 1);
        assert!(promised.take(tp).is_empty() && promised.holds(tp));
        drop(deletion);
        assert!(!promised.holds(tp));
    }
}
