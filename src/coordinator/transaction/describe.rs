//! DescribeTransactions, ListTransactions.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::{State, Transactions};
use crate::coordinator::cores::Now;
use crate::types::TopicPartition;

/// A transactional id, whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Described {
    pub state: State,
    pub producer_id: i64,
    pub producer_epoch: i16,
    pub timeout_ms: i32,
    /// Wall ms; -1 = none was begun.
    pub started_ms: i64,
    /// In order.
    pub partitions: Vec<TopicPartition>,
}

/// A transactional id in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    pub transactional_id: Arc<str>,
    pub producer_id: i64,
    pub state: State,
}

/// Who is listed.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// Empty = all.
    pub producer_ids: BTreeSet<i64>,
    /// `None` = all.
    pub states: Option<BTreeSet<State>>,
    /// Those that began longer ago, ms.
    pub longer_than_ms: Option<i64>,
}

impl Transactions {
    pub fn describe(&self, id: &str) -> Option<Described> {
        let entry = self.by_id.get(id).filter(|entry| entry.state != State::Dead)?;
        Some(Described {
            state: entry.state,
            producer_id: entry.producer_id,
            producer_epoch: entry.epoch,
            timeout_ms: entry.timeout_ms,
            started_ms: entry.started_ms,
            partitions: entry.partitions.iter().cloned().collect(),
        })
    }

    /// By transactional id.
    pub fn list(&self, now: Now, filter: &Filter) -> Vec<Listed> {
        let entries = self.by_id.values().filter(|entry| {
            let producer = filter.producer_ids.is_empty() || filter.producer_ids.contains(&entry.producer_id);
            let state = filter.states.as_ref().is_none_or(|states| states.contains(&entry.state));
            let age_ms = now.wall_ms.saturating_sub(entry.started_ms);
            let old = filter.longer_than_ms.is_none_or(|longer_ms| age_ms > longer_ms);
            entry.state != State::Dead && producer && state && old
        });
        let mut listed: Vec<Listed> = entries
            .map(|entry| Listed {
                transactional_id: entry.id.clone(),
                producer_id: entry.producer_id,
                state: entry.state,
            })
            .collect();
        listed.sort_by(|a, b| a.transactional_id.cmp(&b.transactional_id));
        listed
    }
}
