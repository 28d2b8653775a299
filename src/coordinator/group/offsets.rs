//! What a group has committed, and what is on its way.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::coordinator::records::OffsetValue;
use crate::types::{Offset, TopicPartition};

/// An offset and the record that holds it: of two commits the later record wins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Committed {
    pub record: Offset,
    pub value: OffsetValue,
}

#[derive(Debug, Default)]
struct Slot {
    committed: Option<Committed>,
    /// Commits appended and not yet replicated.
    under_way: usize,
    /// The first of them that a tombstone behind them takes back: they end in the order of the log.
    taken_back: usize,
}

/// Offsets of one group.
#[derive(Debug, Default)]
pub(super) struct Offsets {
    topics: BTreeMap<Arc<str>, BTreeMap<i32, Slot>>,
    /// Producer → offsets committed in its open transaction.
    in_transactions: HashMap<i64, BTreeMap<TopicPartition, Committed>>,
    /// Commits in transactions, appended and not yet replicated.
    under_way_in_transactions: BTreeMap<TopicPartition, usize>,
}

impl Offsets {
    pub fn get(&self, topic: &str, partition: i32) -> Option<&OffsetValue> {
        let slot = self.topics.get(topic)?.get(&partition)?;
        slot.committed.as_ref().map(|committed| &committed.value)
    }

    /// Committed ones, with their topics and partitions.
    pub fn iter(&self) -> impl Iterator<Item = (&Arc<str>, i32, &OffsetValue)> {
        self.topics.iter().flat_map(|(topic, partitions)| {
            partitions
                .iter()
                .filter_map(move |(partition, slot)| Some((topic, *partition, &slot.committed.as_ref()?.value)))
        })
    }

    /// Neither committed nor on their way.
    pub fn is_empty(&self) -> bool {
        self.topics.is_empty() && self.in_transactions.is_empty() && self.under_way_in_transactions.is_empty()
    }

    /// Every partition there is a record of, committed or on its way.
    pub fn partitions(&self) -> Vec<TopicPartition> {
        let all = |(topic, partitions): (&Arc<str>, &BTreeMap<i32, Slot>)| {
            partitions.keys().map(|partition| TopicPartition::new(topic.clone(), *partition)).collect::<Vec<_>>()
        };
        self.topics.iter().flat_map(all).collect()
    }

    pub fn is_under_way(&self, topic: &str, partition: i32) -> bool {
        let slot = self.topics.get(topic).and_then(|partitions| partitions.get(&partition));
        slot.is_some_and(|slot| slot.under_way > 0)
    }

    /// Whether an open transaction commits an offset of this partition.
    pub fn is_in_transaction(&self, topic: &str, partition: i32) -> bool {
        let is_it = |at: &TopicPartition| &*at.topic == topic && at.partition == partition;
        self.under_way_in_transactions.keys().any(is_it)
            || self.in_transactions.values().any(|offsets| offsets.keys().any(is_it))
    }

    fn slot(&mut self, topic: &Arc<str>, partition: i32) -> &mut Slot {
        self.topics.entry(topic.clone()).or_default().entry(partition).or_default()
    }

    /// A commit was appended.
    pub fn begin(&mut self, topic: &Arc<str>, partition: i32) {
        self.slot(topic, partition).under_way += 1;
    }

    /// A commit that began is replicated, or (`None`) failed.
    pub fn end(&mut self, topic: &Arc<str>, partition: i32, committed: Option<Committed>) {
        let slot = self.slot(topic, partition);
        slot.under_way = slot.under_way.saturating_sub(1);
        if slot.taken_back > 0 {
            slot.taken_back -= 1;
        } else if let Some(committed) = committed {
            slot.take_over(committed);
        }
        if slot.is_free() {
            self.free(topic, partition);
        }
    }

    /// A record of the log.
    pub fn replay(&mut self, topic: &Arc<str>, partition: i32, committed: Committed) {
        self.slot(topic, partition).take_over(committed);
    }

    pub fn replay_in_transaction(&mut self, producer_id: i64, at: TopicPartition, committed: Committed) {
        self.in_transactions.entry(producer_id).or_default().insert(at, committed);
    }

    pub fn forget_in_transaction(&mut self, producer_id: i64, at: &TopicPartition) {
        if let Some(offsets) = self.in_transactions.get_mut(&producer_id) {
            offsets.remove(at);
            if offsets.is_empty() {
                self.in_transactions.remove(&producer_id);
            }
        }
    }

    /// A commit in a transaction was appended.
    pub fn begin_in_transaction(&mut self, at: TopicPartition) {
        *self.under_way_in_transactions.entry(at).or_default() += 1;
    }

    /// A commit that began so is replicated, or (`None`) failed. `ended`: the transaction's marker is in the log already.
    pub fn end_in_transaction(
        &mut self,
        producer_id: i64,
        at: TopicPartition,
        committed: Option<Committed>,
        ended: Option<bool>,
    ) {
        if let Some(under_way) = self.under_way_in_transactions.get_mut(&at) {
            *under_way -= 1;
            if *under_way == 0 {
                self.under_way_in_transactions.remove(&at);
            }
        }
        match (committed, ended) {
            (Some(committed), None) => self.replay_in_transaction(producer_id, at, committed),
            (Some(committed), Some(true)) => self.slot(&at.topic, at.partition).take_over(committed),
            (Some(_), Some(false)) | (None, _) => {}
        }
    }

    /// A topic is gone: so is what open transactions commit for it.
    pub fn forget_in_transactions(&mut self, topic: &str) {
        self.in_transactions.retain(|_, offsets| {
            offsets.retain(|at, _| &*at.topic != topic);
            !offsets.is_empty()
        });
    }

    /// A marker ended a transaction.
    pub fn end_transaction(&mut self, producer_id: i64, commit: bool) {
        let Some(offsets) = self.in_transactions.remove(&producer_id) else { return };
        if commit {
            for (at, committed) in offsets {
                self.slot(&at.topic, at.partition).take_over(committed);
            }
        }
    }

    /// A tombstone follows: what is committed, and what is on its way in front of the tombstone, is gone. False when
    /// there was nothing.
    pub fn forget(&mut self, topic: &str, partition: i32) -> bool {
        let Some(slot) = self.topics.get_mut(topic).and_then(|partitions| partitions.get_mut(&partition)) else {
            return false;
        };
        slot.committed = None;
        slot.taken_back = slot.under_way;
        if slot.is_free() {
            self.free(topic, partition);
        }
        true
    }

    fn free(&mut self, topic: &str, partition: i32) {
        if let Some(partitions) = self.topics.get_mut(topic) {
            partitions.remove(&partition);
            if partitions.is_empty() {
                self.topics.remove(topic);
            }
        }
    }
}

impl Slot {
    fn take_over(&mut self, committed: Committed) {
        if self.committed.as_ref().is_none_or(|held| held.record < committed.record) {
            self.committed = Some(committed);
        }
    }

    fn is_free(&self) -> bool {
        self.committed.is_none() && self.under_way == 0
    }
}
