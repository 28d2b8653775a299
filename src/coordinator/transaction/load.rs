//! From the records of a partition to its transactional ids: what a broker does when it becomes their coordinator.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Transactions;
use super::desk::Settings;
use super::entry::Entry;
use super::records::{Key, Value};
use super::rules::{Rule, holds};
use crate::coordinator::cores::Now;
use crate::coordinator::loader::Replay;
use crate::coordinator::records::BadRecord;
use crate::types::Offset;

/// Transactional ids in the making. Records come in the order of the log.
#[derive(Debug, Default)]
pub struct Loading(BTreeMap<Arc<str>, Value>);

impl Replay for Loading {
    fn replay(
        &mut self,
        record: Offset,
        _producer_id: Option<i64>,
        key: &[u8],
        value: Option<&[u8]>,
    ) -> Result<(), BadRecord> {
        match Key::decode(key)? {
            Key::TransactionalId(id) => match value.map(Value::decode).transpose()? {
                Some(value) => drop(self.0.insert(id, value)),
                None => drop(self.0.remove(&id)),
            },
            Key::Unknown(version) => {
                tracing::warn!(offset = record.0, version, "a record of a kind that is not known is skipped");
            }
        }
        Ok(())
    }

    fn end_transaction(&mut self, _producer_id: i64, _commit: bool) {}
}

impl Loading {
    /// The ids as they are after the last record, coordinated here in leader epoch `epoch`. What was decided is gone on with.
    pub fn finish(self, now: Now, settings: Settings, epoch: i32) -> Transactions {
        let mut transactions = Transactions::new(settings, epoch);
        transactions.desk.now = now;
        let mut decided = Vec::new();
        for (id, value) in self.0 {
            if value.state.is_prepared() {
                decided.push(id.clone());
            }
            transactions.by_id.insert(id.clone(), Entry::restore(id, value));
        }
        decided.sort_unstable();
        if holds(Rule::TakenOverIsEnded) {
            decided.iter().for_each(|id| transactions.complete(id));
        }
        transactions
    }
}
