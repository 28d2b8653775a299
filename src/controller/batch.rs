//! Messages collected while one step is decided, then sent together: to each broker LeaderAndIsr, then
//! UpdateMetadata, then StopReplica (Kafka's `ControllerBrokerRequestBatch`).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::decide::Effect;
use super::message::{
    ControlBody, ControlRequest, DURING_DELETE, EPOCH_DURING_DELETE, LeadershipUpdate, MetadataUpdate, PartitionUpdate,
    StopReplica,
};
use super::state::State;
use crate::cluster::PartitionMeta;
use crate::replication::table::LeaderAndIsr;
use crate::types::{BrokerId, LeaderEpoch, TopicPartition};

/// What is to be sent.
#[derive(Debug, Default)]
pub struct Batch {
    leader_and_isr: BTreeMap<BrokerId, BTreeMap<TopicPartition, LeaderAndIsr>>,
    stop_replica: BTreeMap<BrokerId, BTreeMap<TopicPartition, StopReplica>>,
    /// To every live broker.
    metadata: BTreeSet<TopicPartition>,
    /// To every live broker, though no partition changed.
    brokers_changed: bool,
}

impl State {
    /// LeaderAndIsr about `tp` to `to`, and its metadata to everyone. Nothing while it has no state node.
    pub(super) fn tell_leadership(&mut self, tp: &TopicPartition, to: &[BrokerId], is_new: bool) {
        let Some((topic_id, partition, leadership)) = self.topics.get(&tp.topic).and_then(|topic| {
            let partition = topic.partitions.get(&tp.partition)?;
            Some((topic.id, partition, partition.leadership.as_ref()?))
        }) else {
            return;
        };
        let message = LeaderAndIsr {
            tp: tp.clone(),
            topic_id,
            controller_epoch: leadership.state.controller_epoch,
            leader: leadership.state.leader,
            leader_epoch: leadership.state.leader_epoch,
            isr: leadership.state.isr.clone(),
            partition_epoch: leadership.partition_epoch,
            replicas: partition.assignment.replicas.clone(),
            adding_replicas: partition.assignment.adding.clone(),
            removing_replicas: partition.assignment.removing.clone(),
            is_new,
            recovering: leadership.state.recovering,
        };
        for broker in to {
            let queued = self.batch.leader_and_isr.entry(*broker).or_default();
            // A replica told twice in one batch stays new if it was new.
            let is_new = is_new || queued.get(tp).is_some_and(|before| before.is_new);
            queued.insert(tp.clone(), LeaderAndIsr { is_new, ..message.clone() });
        }
        self.batch.metadata.insert(tp.clone());
    }

    /// A partition's metadata to everyone.
    pub(super) fn tell_change(&mut self, tp: &TopicPartition) {
        self.batch.metadata.insert(tp.clone());
    }

    pub(super) fn tell_metadata(&mut self, partitions: impl IntoIterator<Item = TopicPartition>) {
        self.batch.metadata.extend(partitions);
        self.batch.brokers_changed = true;
    }

    pub(super) fn tell_stop(&mut self, tp: &TopicPartition, to: BrokerId, delete: bool) {
        let leader_epoch = if self.is_being_deleted(&tp.topic) {
            EPOCH_DURING_DELETE
        } else {
            let leadership = self.partition(tp).and_then(|partition| partition.leadership.as_ref());
            leadership.map_or(LeaderEpoch::NONE, |leadership| leadership.state.leader_epoch)
        };
        let message = StopReplica { tp: tp.clone(), leader_epoch, delete };
        self.batch.stop_replica.entry(to).or_default().insert(tp.clone(), message);
    }

    /// The collected messages as effects; those to brokers that are not live are dropped.
    pub(super) fn send_batch(&mut self) -> Vec<Effect> {
        let batch = std::mem::take(&mut self.batch);
        let mut effects = Vec::new();
        for (to, messages) in batch.leader_and_isr {
            let partitions: Vec<LeaderAndIsr> = messages.into_values().collect();
            let leaders: BTreeSet<BrokerId> = partitions.iter().map(|change| change.leader).collect();
            let leaders = leaders.iter().filter_map(|id| self.live.get(id).cloned()).collect();
            self.send(&mut effects, to, ControlBody::LeaderAndIsr(LeadershipUpdate { partitions, leaders }));
        }
        if batch.brokers_changed || !batch.metadata.is_empty() {
            let partitions = batch.metadata.iter().filter_map(|tp| self.metadata_of(tp)).collect();
            let update = Arc::new(MetadataUpdate { partitions, brokers: self.live.values().cloned().collect() });
            for to in self.live.keys() {
                self.send(&mut effects, *to, ControlBody::UpdateMetadata(Arc::clone(&update)));
            }
        }
        for (to, messages) in batch.stop_replica {
            self.send(&mut effects, to, ControlBody::StopReplica(messages.into_values().collect()));
        }
        effects
    }

    /// UpdateMetadata about `partitions` to one broker alone.
    pub(super) fn metadata_for(&self, to: BrokerId, partitions: &[TopicPartition]) -> Vec<Effect> {
        let partitions = partitions.iter().filter_map(|tp| self.metadata_of(tp)).collect();
        let update = MetadataUpdate { partitions, brokers: self.live.values().cloned().collect() };
        let mut effects = Vec::new();
        self.send(&mut effects, to, ControlBody::UpdateMetadata(Arc::new(update)));
        effects
    }

    fn send(&self, effects: &mut Vec<Effect>, to: BrokerId, body: ControlBody) {
        let Some(broker) = self.live.get(&to) else { return };
        effects.push(Effect::Send {
            to,
            request: ControlRequest {
                controller: self.me,
                controller_epoch: self.epoch,
                broker_epoch: broker.epoch,
                body,
            },
        });
    }

    fn metadata_of(&self, tp: &TopicPartition) -> Option<PartitionUpdate> {
        let topic = self.topics.get(&tp.topic)?;
        let partition = topic.partitions.get(&tp.partition)?;
        let leadership = partition.leadership.as_ref()?;
        let replicas = partition.assignment.replicas.clone();
        let mut meta = PartitionMeta {
            leader: leadership.state.leader,
            leader_epoch: leadership.state.leader_epoch,
            partition_epoch: leadership.partition_epoch,
            offline_replicas: replicas.iter().copied().filter(|id| !self.is_online(*id, tp)).collect(),
            isr: leadership.state.isr.clone(),
            replicas,
        };
        if self.is_being_deleted(&tp.topic) {
            (meta.leader, meta.leader_epoch, meta.partition_epoch) = (DURING_DELETE, LeaderEpoch(0), 0);
        }
        let controller_epoch = leadership.state.controller_epoch;
        Some(PartitionUpdate { tp: tp.clone(), topic_id: topic.id, controller_epoch, meta })
    }
}
