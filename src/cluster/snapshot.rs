//! Brokers, topics and partitions as this broker last learned them (Kafka's metadata cache).

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arc_swap::{ArcSwap, Guard};

use crate::types::{BrokerId, Endpoint, LeaderEpoch, TopicId};

/// A live broker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broker {
    pub id: BrokerId,
    pub rack: Option<Arc<str>>,
    /// By listener name.
    pub endpoints: BTreeMap<String, Endpoint>,
    /// czxid of its registration.
    pub epoch: i64,
}

/// One partition's leadership.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionMeta {
    /// [`BrokerId::NONE`] when there is none.
    pub leader: BrokerId,
    pub leader_epoch: LeaderEpoch,
    /// zkVersion of the state node.
    pub partition_epoch: i32,
    /// Assignment order; the first is the preferred leader.
    pub replicas: Vec<BrokerId>,
    pub isr: Vec<BrokerId>,
    pub offline_replicas: Vec<BrokerId>,
}

/// A topic with its partitions by index. An index may be missing while it is being created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicMeta {
    pub name: Arc<str>,
    pub id: TopicId,
    pub partitions: BTreeMap<i32, PartitionMeta>,
}

/// Everything, at one moment.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    pub cluster_id: Arc<str>,
    /// `None` while unknown.
    pub controller: Option<BrokerId>,
    pub brokers: BTreeMap<BrokerId, Broker>,
    /// Looked up for every partition of every request: hashed with keys of this process, as by std, in a fifth of the time.
    pub topics: HashMap<Arc<str>, Arc<TopicMeta>, ahash::RandomState>,
    pub topic_names: HashMap<TopicId, Arc<str>>,
}

impl Snapshot {
    pub fn topic(&self, name: &str) -> Option<&Arc<TopicMeta>> {
        self.topics.get(name)
    }
    pub fn topic_by_id(&self, id: TopicId) -> Option<&Arc<TopicMeta>> {
        self.topic_names.get(&id).and_then(|name| self.topics.get(name))
    }
    /// Where a broker is reached, by listener name.
    pub fn endpoint(&self, broker: BrokerId, listener: &str) -> Option<&Endpoint> {
        self.brokers.get(&broker)?.endpoints.get(listener)
    }
    pub fn partition(&self, topic: &str, partition: i32) -> Option<&PartitionMeta> {
        self.topics.get(topic)?.partitions.get(&partition)
    }

    fn is_large(&self) -> bool {
        self.topics.values().map(|topic| topic.partitions.len()).sum::<usize>() > MANY
    }
}

/// Partitions that are described in less than a millisecond.
const MANY: usize = 5_000;

/// The current snapshot: cheap to read, swapped by the controller's messages.
#[derive(Debug)]
pub struct Cluster {
    current: ArcSwap<Snapshot>,
    /// There are topics, and none was heard of.
    has_topics: AtomicBool,
    /// It has more partitions than [`MANY`].
    is_large: AtomicBool,
    changed: tokio::sync::watch::Sender<u64>,
}

impl Cluster {
    pub fn new(first: Snapshot) -> Cluster {
        let (has_topics, is_large) = (AtomicBool::new(false), AtomicBool::new(first.is_large()));
        let changed = tokio::sync::watch::Sender::new(0);
        Cluster { current: ArcSwap::from_pointee(first), has_topics, is_large, changed }
    }
    pub fn load(&self) -> Arc<Snapshot> {
        self.current.load_full()
    }
    /// For a look that is over at once: nothing is counted that other threads count in too.
    pub fn glance(&self) -> Guard<Arc<Snapshot>> {
        self.current.load()
    }
    /// Applies `change` to a copy and publishes it. One caller at a time.
    pub fn update(&self, change: impl FnOnce(&mut Snapshot)) {
        let mut next = Snapshot::clone(&self.current.load());
        change(&mut next);
        self.is_large.store(next.is_large(), Ordering::Relaxed);
        self.current.store(Arc::new(next));
        self.changed.send_modify(|generation| *generation += 1);
    }

    /// Whether to describe all of it takes long.
    pub fn is_large(&self) -> bool {
        self.is_large.load(Ordering::Relaxed)
    }

    /// Whether the metastore has topics of which nothing was heard yet.
    pub fn expect_topics(&self, expected: bool) {
        self.has_topics.store(expected, Ordering::Relaxed);
    }

    /// The snapshot, if a controller has told all of it: a new one names the brokers first, then the topics.
    pub fn if_known(&self) -> Option<Arc<Snapshot>> {
        let snapshot = self.load();
        if self.has_topics.load(Ordering::Relaxed) {
            if snapshot.topics.is_empty() {
                return None;
            }
            self.expect_topics(false);
        }
        (!snapshot.brokers.is_empty()).then_some(snapshot)
    }

    /// As [`Cluster::if_known`], as soon as that is so.
    pub async fn known(&self) -> Arc<Snapshot> {
        let mut changes = self.changes();
        loop {
            if let Some(snapshot) = self.if_known() {
                return snapshot;
            }
            // The sender is this cluster's: it outlives the wait.
            let _ = changes.changed().await;
        }
    }

    /// Wakes after each update.
    pub fn changes(&self) -> tokio::sync::watch::Receiver<u64> {
        self.changed.subscribe()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_partitions_make_it_large_whatever_topics_they_are_of() {
        let partition = PartitionMeta {
            leader: BrokerId(1),
            leader_epoch: LeaderEpoch(0),
            partition_epoch: 0,
            replicas: Vec::new(),
            isr: Vec::new(),
            offline_replicas: Vec::new(),
        };
        let cluster = Cluster::new(Snapshot::default());
        let add = |name: &str, partitions: usize| {
            let partitions = (0..partitions as i32).map(|index| (index, partition.clone())).collect();
            let topic = TopicMeta { name: name.into(), id: TopicId::ZERO, partitions };
            cluster.update(|snapshot| drop(snapshot.topics.insert(topic.name.clone(), Arc::new(topic))));
        };
        add("a", MANY - 10);
        add("b", 10);
        assert!(!cluster.is_large());
        add("c", 1);
        assert!(cluster.is_large());
        cluster.update(|snapshot| drop(snapshot.topics.remove("a")));
        assert!(!cluster.is_large());
    }

    #[test]
    fn what_there_is_is_known_when_brokers_and_expected_topics_are() {
        let cluster = Cluster::new(Snapshot::default());
        cluster.expect_topics(true);
        let broker = Broker { id: BrokerId(1), rack: None, endpoints: BTreeMap::new(), epoch: 1 };
        cluster.update(|snapshot| drop(snapshot.brokers.insert(broker.id, broker.clone())));
        assert!(cluster.if_known().is_none(), "its topics would be told not to exist");
        let topic = TopicMeta { name: "t".into(), id: TopicId::ZERO, partitions: BTreeMap::new() };
        cluster.update(|snapshot| drop(snapshot.topics.insert(topic.name.clone(), Arc::new(topic.clone()))));
        assert!(cluster.if_known().is_some());
        cluster.update(|snapshot| snapshot.topics.clear());
        assert!(cluster.if_known().is_some(), "the last topic may be deleted");
        cluster.update(|snapshot| snapshot.brokers.clear());
        assert!(cluster.if_known().is_none());
    }
}
