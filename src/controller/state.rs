//! All that the active controller knows: live brokers, topics with their partitions' leadership, pending deletions.
//! Memory only, loaded from the metastore at each election (Kafka's `ControllerContext`).

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use super::batch::Batch;
use super::status::{PartitionStatus, ReplicaStatus};
use crate::cluster::Broker;
use crate::metastore::schema::{PartitionState, ReplicaAssignment, TopicAssignment};
use crate::types::{BrokerId, TopicId, TopicPartition};

/// A partition's leadership as last read or written, with the zkVersion of its node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leadership {
    pub state: PartitionState,
    pub partition_epoch: i32,
}

/// One partition.
#[derive(Clone, Debug)]
pub struct Partition {
    pub assignment: ReplicaAssignment,
    pub status: PartitionStatus,
    /// `None` while there is no state node.
    pub leadership: Option<Leadership>,
    pub replicas: BTreeMap<BrokerId, ReplicaStatus>,
}

/// One topic.
#[derive(Clone, Debug)]
pub struct Topic {
    pub id: TopicId,
    pub partitions: BTreeMap<i32, Partition>,
}

/// A topic marked for deletion.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Deletion {
    /// Brokers were told that the topic goes, and that its partitions have no leader.
    pub begun: bool,
    /// A replica is dead or failed to delete: tried again when its broker returns.
    pub ineligible: bool,
}

/// The controller's memory.
#[derive(Debug)]
pub struct State {
    /// This broker.
    pub me: BrokerId,
    /// Epoch of this term.
    pub epoch: i32,
    /// `delete.topic.enable`.
    pub deletion_enabled: bool,
    /// Registered ones, those about to stop included: all that are spoken to.
    pub live: BTreeMap<BrokerId, Broker>,
    /// Registered, and taken for dead: none of them is in `live`.
    pub(super) suspects: BTreeMap<BrokerId, Broker>,
    /// They said that they are about to stop.
    pub shutting_down: BTreeSet<BrokerId>,
    pub topics: BTreeMap<Arc<str>, Topic>,
    names: HashMap<TopicId, Arc<str>>,
    pub deletions: BTreeMap<Arc<str>, Deletion>,
    /// Partitions in `/admin/reassign_partitions` that are under way.
    pub reassign_requests: BTreeSet<TopicPartition>,
    /// Replicas in directories that their (live) brokers called offline.
    pub offline_replicas: BTreeSet<(BrokerId, TopicPartition)>,
    /// Replicas that are gone and in the ISR still: another member had registered anew, and until that is seen nothing is
    /// written that counts on it.
    pub(super) still_in_isr: BTreeSet<(BrokerId, TopicPartition)>,
    /// Partitions whose leader epoch was not raised for the same reason, with the replicas to be told as new.
    pub(super) still_to_raise: BTreeMap<TopicPartition, Vec<BrokerId>>,
    pub(super) batch: Batch,
}

impl State {
    pub fn new(me: BrokerId, epoch: i32, deletion_enabled: bool) -> State {
        State {
            me,
            epoch,
            deletion_enabled,
            live: BTreeMap::new(),
            suspects: BTreeMap::new(),
            shutting_down: BTreeSet::new(),
            topics: BTreeMap::new(),
            names: HashMap::new(),
            deletions: BTreeMap::new(),
            reassign_requests: BTreeSet::new(),
            offline_replicas: BTreeSet::new(),
            still_in_isr: BTreeSet::new(),
            still_to_raise: BTreeMap::new(),
            batch: Batch::default(),
        }
    }

    pub fn partition(&self, tp: &TopicPartition) -> Option<&Partition> {
        self.topics.get(&tp.topic)?.partitions.get(&tp.partition)
    }

    pub fn partition_mut(&mut self, tp: &TopicPartition) -> Option<&mut Partition> {
        self.topics.get_mut(&tp.topic)?.partitions.get_mut(&tp.partition)
    }

    pub fn add_topic(&mut self, name: Arc<str>, topic: Topic) {
        self.names.insert(topic.id, Arc::clone(&name));
        self.topics.insert(name, topic);
    }

    pub fn forget_topic(&mut self, name: &str) {
        if let Some(topic) = self.topics.remove(name) {
            self.names.remove(&topic.id);
        }
    }

    pub fn topic_named(&self, id: TopicId) -> Option<&Arc<str>> {
        self.names.get(&id)
    }

    /// The registration in which `broker` was last seen, live or a suspect: its epoch says in which life.
    pub fn registration(&self, broker: BrokerId) -> Option<&Broker> {
        self.live.get(&broker).or_else(|| self.suspects.get(&broker))
    }

    /// Whether `broker` is registered, not suspected and not about to stop.
    pub fn is_live(&self, broker: BrokerId) -> bool {
        self.live.contains_key(&broker) && !self.shutting_down.contains(&broker)
    }

    /// Whether `replica` of `tp` can be spoken to about it: broker registered, directory not offline, and not still counted
    /// on in an earlier life.
    pub fn is_there(&self, replica: BrokerId, tp: &TopicPartition) -> bool {
        let key = (replica, tp.clone());
        let is_gone = self.offline_replicas.contains(&key) || self.still_in_isr.contains(&key);
        self.live.contains_key(&replica) && !is_gone
    }

    /// Whether `replica` of `tp` can serve: it is there, and its broker is not about to stop.
    pub fn is_online(&self, replica: BrokerId, tp: &TopicPartition) -> bool {
        self.is_there(replica, tp) && !self.shutting_down.contains(&replica)
    }

    pub fn is_being_deleted(&self, topic: &str) -> bool {
        self.deletions.contains_key(topic)
    }

    pub fn partitions_of(&self, topic: &str) -> Vec<TopicPartition> {
        let Some((name, topic)) = self.topics.get_key_value(topic) else { return Vec::new() };
        topic.partitions.keys().map(|index| TopicPartition::new(Arc::clone(name), *index)).collect()
    }

    pub fn all_partitions(&self) -> Vec<TopicPartition> {
        self.topics.keys().flat_map(|topic| self.partitions_of(topic)).collect()
    }

    /// Every partition that `broker` has a replica of.
    pub fn partitions_on(&self, broker: BrokerId) -> Vec<TopicPartition> {
        let has_replica = |tp: &TopicPartition| {
            self.partition(tp).is_some_and(|partition| partition.assignment.replicas.contains(&broker))
        };
        self.all_partitions().into_iter().filter(has_replica).collect()
    }

    /// Partitions on their way to other replicas.
    pub fn reassignments(&self) -> Vec<(TopicPartition, ReplicaAssignment)> {
        let running = |tp: TopicPartition| {
            let assignment = &self.partition(&tp)?.assignment;
            assignment.is_being_reassigned().then(|| (tp.clone(), assignment.clone()))
        };
        self.all_partitions().into_iter().filter_map(running).collect()
    }

    /// The topic node as it should read.
    pub fn assignment_of(&self, topic: &str) -> Option<TopicAssignment> {
        let topic = self.topics.get(topic)?;
        let partitions =
            topic.partitions.iter().map(|(index, partition)| (*index, partition.assignment.clone())).collect();
        Some(TopicAssignment { id: Some(topic.id), partitions })
    }
}

impl Partition {
    /// Assigned, not created yet.
    pub fn new(assignment: ReplicaAssignment) -> Partition {
        let replicas = assignment.replicas.iter().map(|id| (*id, ReplicaStatus::New)).collect();
        Partition { assignment, status: PartitionStatus::New, leadership: None, replicas }
    }

    pub fn is_led_by(&self, broker: BrokerId) -> bool {
        self.leadership.as_ref().is_some_and(|leadership| leadership.state.leader == broker)
    }
}
