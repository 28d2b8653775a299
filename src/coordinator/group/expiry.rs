//! Offsets that nobody needs any more, and groups that are nothing without them.

use std::sync::Arc;

use super::state::{Group, State};
use super::{Groups, Now};
use crate::coordinator::records::{Key, OffsetValue};
use crate::coordinator::subscription;

impl Groups {
    /// Takes away the offsets whose time is up, and the groups that are empty then.
    pub fn expire(&mut self, now: Now) {
        self.desk.now = now;
        let retention_ms = self.desk.settings.offsets_retention_ms;
        let names: Vec<Arc<str>> = self.groups.keys().cloned().collect();
        for name in names {
            let Some(group) = self.groups.get_mut(&name) else { continue };
            let expired = group.expired(now.wall_ms, retention_ms);
            for (topic, partition) in &expired {
                group.offsets.forget(topic, *partition);
            }
            self.bury(&name, expired);
        }
    }

    /// A topic is deleted: what was committed for it is meaningless.
    pub fn forget_topic(&mut self, now: Now, topic: &str) {
        self.desk.now = now;
        let names: Vec<Arc<str>> = self.groups.keys().cloned().collect();
        for name in names {
            let Some(group) = self.groups.get_mut(&name) else { continue };
            let held = group.offsets.partitions().into_iter().filter(|at| &*at.topic == topic);
            let held: Vec<_> = held.map(|at| (at.topic, at.partition)).collect();
            for (topic, partition) in &held {
                group.offsets.forget(topic, *partition);
            }
            group.offsets.forget_in_transactions(topic);
            if !held.is_empty() {
                self.bury(&name, held);
            }
        }
    }

    /// Tombstones for offsets that are gone; with the last of them goes a group without members. A group that never had
    /// a generation has no record of its own.
    pub(super) fn bury(&mut self, group: &str, offsets: impl IntoIterator<Item = (Arc<str>, i32)>) {
        let Some(found) = self.groups.get(group) else { return };
        let id = found.id.clone();
        let offset = |(topic, partition)| Key::Offset { group: id.clone(), topic, partition };
        let mut keys: Vec<Key> = offsets.into_iter().map(offset).collect();
        if found.state() == State::Empty && found.offsets.is_empty() {
            if found.generation > 0 {
                keys.push(Key::Group { group: id.clone() });
            }
            self.groups.remove(group);
        }
        self.desk.append_tombstones(&id, keys);
    }
}

impl Group {
    /// A group that consumes together keeps its offsets while it has members, and for the retention time after the last
    /// left; of a live one go those of topics that nobody subscribes to. Without a protocol the time of the commit counts.
    fn expired(&self, now_ms: i64, retention_ms: i64) -> Vec<(Arc<str>, i32)> {
        let since: Box<dyn Fn(&OffsetValue) -> i64> = match self.protocol_type.as_deref() {
            Some(_) if self.state() == State::Empty => {
                let since_ms = self.state_since_ms;
                Box::new(move |value| since_ms.unwrap_or(value.commit_timestamp_ms))
            }
            Some(subscription::CONSUMER) if self.state() == State::Stable && self.subscribed.is_some() => {
                Box::new(|value| value.commit_timestamp_ms)
            }
            None => Box::new(|value| value.commit_timestamp_ms),
            Some(_) => return Vec::new(),
        };
        let live = self.state() == State::Stable;
        let is_over = |topic: &Arc<str>, partition: i32, value: &OffsetValue| {
            let over = match value.expire_timestamp_ms {
                Some(expire_ms) => now_ms >= expire_ms,
                None => now_ms.saturating_sub(since(value)) >= retention_ms,
            };
            let wanted = live && self.is_subscribed(topic);
            let unfinished =
                self.offsets.is_under_way(topic, partition) || self.offsets.is_in_transaction(topic, partition);
            over && !wanted && !unfinished
        };
        let all = self.offsets.iter().filter(|(topic, partition, value)| is_over(topic, *partition, value));
        all.map(|(topic, partition, _)| (topic.clone(), partition)).collect()
    }
}
