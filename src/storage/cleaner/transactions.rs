//! What of transactions may go: records of aborted ones at once, a marker when nothing is left of what it ended.
//!
//! A marker is needed as long as the log holds a batch of its transaction: without it a reader would take the batch for
//! undecided, or for part of the next one. Told of batches in the order of the log.

use std::collections::{HashMap, HashSet};

use crate::storage::txn_index::AbortedTxn;
use crate::types::Offset;
use crate::wire::batch::{BatchHeader, Marker};

/// Transactions as they pass by.
#[derive(Debug, Default)]
pub struct Transactions {
    /// By producer, in order.
    aborted: HashMap<i64, Vec<Aborted>>,
    /// Producers of whose transaction, not ended yet and not aborted, a batch was seen.
    committing: HashSet<i64>,
    /// Aborted ones whose marker stays.
    kept: Vec<AbortedTxn>,
}

#[derive(Debug)]
struct Aborted {
    txn: AbortedTxn,
    /// The log holds a batch of it.
    seen: bool,
}

impl Transactions {
    /// With all that were aborted and reach into what passes by.
    pub fn new(aborted: impl IntoIterator<Item = AbortedTxn>) -> Transactions {
        let mut by_producer: HashMap<i64, Vec<Aborted>> = HashMap::new();
        for txn in aborted {
            by_producer.entry(txn.producer_id).or_default().push(Aborted { txn, seen: false });
        }
        by_producer.values_mut().for_each(|list| list.sort_by_key(|aborted| aborted.txn.last_offset));
        Transactions { aborted: by_producer, ..Transactions::default() }
    }

    /// The aborted transaction that reaches over `offset`.
    fn aborted_at(&mut self, producer_id: i64, offset: Offset) -> Option<&mut Aborted> {
        let list = self.aborted.get_mut(&producer_id)?;
        let at = list.partition_point(|aborted| aborted.txn.last_offset < offset);
        list.get_mut(at).filter(|aborted| aborted.txn.first_offset <= offset)
    }

    /// A batch of data passes by. Whether it was aborted.
    pub fn is_aborted(&mut self, batch: &BatchHeader) -> bool {
        if !batch.is_transactional() {
            return false;
        }
        match self.aborted_at(batch.producer_id, batch.base_offset) {
            Some(aborted) => {
                aborted.seen = true;
                true
            }
            None => {
                self.committing.insert(batch.producer_id);
                false
            }
        }
    }

    /// A control batch passes by. Whether nothing is left of what it ended. `marker` is `None` for one that is emptied
    /// already (`record_count` 0), or of another kind, which stays.
    pub fn may_go(&mut self, batch: &BatchHeader, marker: Option<Marker>) -> bool {
        match marker {
            None => batch.record_count == 0,
            Some(Marker { commit: true, .. }) => !self.committing.remove(&batch.producer_id),
            Some(Marker { commit: false, .. }) => {
                let at = batch.last_offset();
                let aborted = self.aborted_at(batch.producer_id, at);
                match aborted.filter(|aborted| aborted.txn.last_offset == at && aborted.seen) {
                    Some(aborted) => {
                        let txn = aborted.txn;
                        self.kept.push(txn);
                        false
                    }
                    None => true,
                }
            }
        }
    }

    /// The aborted ones whose marker passed by and stays, since the last time this was asked.
    pub fn take_kept(&mut self) -> Vec<AbortedTxn> {
        std::mem::take(&mut self.kept)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::testing::{Sender, batch_of, marker};
    use crate::wire::batch::Batch;

    fn txn(producer_id: i64, first: i64, last: i64) -> AbortedTxn {
        AbortedTxn {
            producer_id,
            first_offset: Offset(first),
            last_offset: Offset(last),
            last_stable_offset: Offset(last + 1),
        }
    }

    fn data(id: i64, at: i64) -> BatchHeader {
        let sender = Sender { id, epoch: 0, sequence: 0, transactional: true };
        let mut header = Batch::parse(&batch_of(2, 1, 1, Some(sender))).unwrap().header;
        header.base_offset = Offset(at);
        header
    }

    fn end(id: i64, at: i64, commit: bool) -> (BatchHeader, Option<Marker>) {
        let mut header = Batch::parse(&marker(id, 0, commit, 1)).unwrap().header;
        header.base_offset = Offset(at);
        (header, Some(Marker { commit, coordinator_epoch: 1 }))
    }

    #[test]
    fn what_is_aborted_goes_and_its_marker_when_nothing_was_left_of_it() {
        let all = [txn(1, 0, 10), txn(2, 4, 6), txn(1, 20, 22)];
        let mut first = Transactions::new(all);
        assert!(first.is_aborted(&data(1, 0)));
        assert!(first.is_aborted(&data(2, 4)));
        let (header, marker) = end(2, 6, false);
        assert!(!first.may_go(&header, marker), "a batch of it lies before");
        assert!(first.is_aborted(&data(1, 8)));
        let (header, marker) = end(1, 10, false);
        assert!(!first.may_go(&header, marker));
        assert!(!first.is_aborted(&data(1, 12)), "the next one of the same producer");
        let (header, marker) = end(1, 14, true);
        assert!(!first.may_go(&header, marker));
        assert_eq!(first.take_kept(), [txn(2, 4, 6), txn(1, 0, 10)]);
        // The next time nothing of the second is there any more.
        let mut second = Transactions::new(all);
        let (header, marker) = end(2, 6, false);
        assert!(second.may_go(&header, marker));
        let (header, marker) = end(1, 14, true);
        assert!(second.may_go(&header, marker));
        assert_eq!(second.take_kept(), []);
    }

    #[test]
    fn an_emptied_marker_may_go_and_a_control_batch_of_another_kind_stays() {
        let mut transactions = Transactions::new([]);
        let (mut header, _) = end(1, 5, true);
        assert!(!transactions.may_go(&header, None));
        header.record_count = 0;
        assert!(transactions.may_go(&header, None));
        let (header, marker) = end(3, 7, false);
        assert!(transactions.may_go(&header, marker), "an abort of which no index tells");
    }
}
