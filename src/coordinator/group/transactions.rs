//! Offsets that producers commit in their transactions: they count when the transaction's marker says so.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use super::Groups;
use super::desk::PendingAppend;
use super::state::Group;

/// Producer → groups in which its open transaction commits offsets. A group in it may be gone.
#[derive(Debug, Default)]
pub(super) struct Transactions(HashMap<i64, BTreeSet<Arc<str>>>);

impl Transactions {
    pub fn opened(&mut self, producer_id: i64, group: &Arc<str>) {
        self.0.entry(producer_id).or_default().insert(group.clone());
    }

    /// The groups that a marker of this producer is for.
    pub fn ended(&mut self, producer_id: i64) -> BTreeSet<Arc<str>> {
        self.0.remove(&producer_id).unwrap_or_default()
    }
}

impl Groups {
    /// A marker of this producer is in the partition: what its transaction committed is committed, or gone.
    pub fn end_transaction(&mut self, producer_id: i64, commit: bool) {
        for append in self.desk.appends.values_mut() {
            if let PendingAppend::Commit(pending) = append {
                pending.transaction_ended(producer_id, commit);
            }
        }
        for group in self.transactions.ended(producer_id) {
            if let Some(Group { offsets, .. }) = self.groups.get_mut(&group) {
                offsets.end_transaction(producer_id, commit);
            }
        }
    }
}
