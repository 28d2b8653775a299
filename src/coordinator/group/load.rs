//! From the records of a partition to its groups: what a broker does when it becomes the coordinator of them.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Groups;
use super::Now;
use super::desk::Settings;
use super::offsets::{Committed, Offsets};
use super::state::{Group, State};
use super::transactions::Transactions;
use crate::coordinator::loader::Replay;
use crate::coordinator::records::{BadRecord, GroupValue, Key, OffsetValue};
use crate::types::{Offset, TopicPartition};

/// Groups in the making. Records come in the order of the log.
#[derive(Debug, Default)]
pub struct Loading {
    groups: BTreeMap<Arc<str>, GroupValue>,
    offsets: BTreeMap<Arc<str>, Offsets>,
    transactions: Transactions,
    /// One copy of each topic's name.
    topics: BTreeMap<Arc<str>, ()>,
}

impl Replay for Loading {
    fn replay(
        &mut self,
        record: Offset,
        producer_id: Option<i64>,
        key: &[u8],
        value: Option<&[u8]>,
    ) -> Result<(), BadRecord> {
        match Key::decode(key)? {
            Key::Offset { group, topic, partition } => {
                let value = value.map(OffsetValue::decode).transpose()?;
                self.replay_offset(record, producer_id, group, TopicPartition { topic, partition }, value);
            }
            Key::Group { group } => match value.map(GroupValue::decode).transpose()? {
                Some(value) => {
                    self.groups.insert(group, value);
                }
                None => {
                    self.groups.remove(&group);
                }
            },
            Key::Unknown(version) => {
                tracing::warn!(offset = record.0, version, "a record of a kind that is not known is skipped");
            }
        }
        Ok(())
    }

    fn end_transaction(&mut self, producer_id: i64, commit: bool) {
        for group in self.transactions.ended(producer_id) {
            if let Some(offsets) = self.offsets.get_mut(&group) {
                offsets.end_transaction(producer_id, commit);
            }
        }
    }
}

impl Loading {
    fn replay_offset(
        &mut self,
        record: Offset,
        producer_id: Option<i64>,
        group: Arc<str>,
        at: TopicPartition,
        value: Option<OffsetValue>,
    ) {
        let at = TopicPartition { topic: self.interned(at.topic), ..at };
        if let (Some(_), Some(id)) = (&value, producer_id) {
            self.transactions.opened(id, &group);
        }
        let offsets = self.offsets.entry(group).or_default();
        match (value, producer_id) {
            (Some(value), None) => offsets.replay(&at.topic, at.partition, Committed { record, value }),
            (Some(value), Some(id)) => offsets.replay_in_transaction(id, at, Committed { record, value }),
            (None, None) => {
                offsets.forget(&at.topic, at.partition);
            }
            (None, Some(id)) => offsets.forget_in_transaction(id, &at),
        }
    }

    fn interned(&mut self, topic: Arc<str>) -> Arc<str> {
        match self.topics.get_key_value(&topic) {
            Some((held, ())) => held.clone(),
            None => {
                self.topics.insert(topic.clone(), ());
                topic
            }
        }
    }

    /// The groups as they are after the last record. Every member's session begins now; a group that is larger than is
    /// allowed rebalances.
    pub fn finish(mut self, now: Now, settings: Settings) -> Groups {
        let mut groups = Groups::new(settings);
        groups.desk.now = now;
        groups.transactions = self.transactions;
        for (id, value) in self.groups {
            let group = Group::restore(groups.desk.begin_life(id.clone()), value);
            groups.groups.insert(id, group);
        }
        self.offsets.retain(|_, offsets| !offsets.is_empty());
        for (id, offsets) in self.offsets {
            let life = groups.desk.begin_life(id.clone());
            groups.groups.entry(id).or_insert_with(|| Group::new(life)).offsets = offsets;
        }
        let max_size = groups.desk.settings.max_size;
        for group in groups.groups.values_mut() {
            let members: Vec<Arc<str>> = group.members.keys().cloned().collect();
            for member_id in members {
                group.touch(&mut groups.desk, &member_id);
            }
            if group.state() == State::Stable && group.members.len() > max_size {
                group.rebalance(&mut groups.desk);
            }
        }
        groups
    }
}
