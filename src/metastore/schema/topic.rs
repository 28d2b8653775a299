//! `/brokers/topics/<topic>` and `…/partitions/<partition>/state`: who holds a partition, and who leads it.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::types::{BrokerId, LeaderEpoch, TopicId};

use super::{Malformed, from_json, to_json};

/// A topic's id and replicas, version 3. Read too: version 2 without the id, version 1 without adding and removing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TopicAssignment {
    /// `None` when written by a broker or tool older than 2.8: the controller gives it one.
    pub id: Option<TopicId>,
    pub partitions: BTreeMap<i32, ReplicaAssignment>,
}

/// One partition's replicas.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReplicaAssignment {
    /// The first is the preferred leader. During a reassignment: the target, then the rest of the old ones.
    pub replicas: Vec<BrokerId>,
    pub adding: Vec<BrokerId>,
    pub removing: Vec<BrokerId>,
}

impl From<Vec<BrokerId>> for ReplicaAssignment {
    fn from(replicas: Vec<BrokerId>) -> ReplicaAssignment {
        ReplicaAssignment { replicas, ..ReplicaAssignment::default() }
    }
}

impl ReplicaAssignment {
    pub fn is_being_reassigned(&self) -> bool {
        !self.adding.is_empty() || !self.removing.is_empty()
    }

    /// The replicas before the reassignment.
    pub fn original(&self) -> Vec<BrokerId> {
        without(&self.replicas, &self.adding)
    }

    /// The replicas after it.
    pub fn target(&self) -> Vec<BrokerId> {
        without(&self.replicas, &self.removing)
    }

    /// On the way from the original replicas to `target`, whatever the target was before.
    pub fn towards(&self, target: &[BrokerId]) -> ReplicaAssignment {
        let original = self.original();
        let mut replicas = target.to_vec();
        replicas.extend(without(&original, target));
        ReplicaAssignment { adding: without(&replicas, &original), removing: without(&replicas, target), replicas }
    }
}

fn without(ids: &[BrokerId], left_out: &[BrokerId]) -> Vec<BrokerId> {
    ids.iter().copied().filter(|id| !left_out.contains(id)).collect()
}

type Replicas = BTreeMap<i32, Vec<i32>>;

#[derive(Serialize, Deserialize)]
struct TopicJson {
    partitions: Replicas,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    topic_id: Option<String>,
    #[serde(default)]
    adding_replicas: Replicas,
    #[serde(default)]
    removing_replicas: Replicas,
    version: i32,
}

impl TopicAssignment {
    pub fn decode(path: &str, bytes: &[u8]) -> Result<TopicAssignment, Malformed> {
        let mut json: TopicJson = from_json(path, bytes)?;
        let id = match json.topic_id {
            None => None,
            Some(text) => {
                Some(text.parse().map_err(|error| Malformed::new(path, format_args!("topic_id {text:?}: {error}")))?)
            }
        };
        let partitions = json.partitions.into_iter().map(|(partition, replicas)| {
            let adding = json.adding_replicas.remove(&partition).unwrap_or_default();
            let removing = json.removing_replicas.remove(&partition).unwrap_or_default();
            let [replicas, adding, removing] = [replicas, adding, removing].map(brokers);
            (partition, ReplicaAssignment { replicas, adding, removing })
        });
        Ok(TopicAssignment { id, partitions: partitions.collect() })
    }

    pub fn encode(&self) -> Bytes {
        let of = |list: fn(&ReplicaAssignment) -> &Vec<BrokerId>| {
            let with =
                self.partitions.iter().map(move |(partition, assignment)| (*partition, numbers(list(assignment))));
            with.collect::<Replicas>()
        };
        let changing = |list| of(list).into_iter().filter(|(_, replicas)| !replicas.is_empty()).collect();
        to_json(&TopicJson {
            partitions: of(|assignment| &assignment.replicas),
            topic_id: self.id.map(|id| id.to_string()),
            adding_replicas: changing(|assignment| &assignment.adding),
            removing_replicas: changing(|assignment| &assignment.removing),
            version: 3,
        })
    }
}

/// A partition's leadership, version 1. The node's version is the partition epoch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionState {
    /// [`BrokerId::NONE`] when there is none.
    pub leader: BrokerId,
    pub leader_epoch: LeaderEpoch,
    /// Of the controller that decided last.
    pub controller_epoch: i32,
    /// In Kafka's order: as assigned at creation, later members last.
    pub isr: Vec<BrokerId>,
    /// The leader was elected from outside the ISR and has not finished recovering (KIP-704).
    pub recovering: bool,
}

#[derive(Serialize, Deserialize)]
struct StateJson {
    controller_epoch: i32,
    leader: i32,
    version: i32,
    #[serde(default, skip_serializing_if = "is_recovered")]
    leader_recovery_state: i8,
    leader_epoch: i32,
    isr: Vec<i32>,
}

fn is_recovered(state: &i8) -> bool {
    *state == 0
}

impl PartitionState {
    pub fn decode(path: &str, bytes: &[u8]) -> Result<PartitionState, Malformed> {
        let json: StateJson = from_json(path, bytes)?;
        if !matches!(json.leader_recovery_state, 0 | 1) {
            let why = format_args!("leader_recovery_state {} is not known", json.leader_recovery_state);
            return Err(Malformed::new(path, why));
        }
        Ok(PartitionState {
            leader: BrokerId(json.leader),
            leader_epoch: LeaderEpoch(json.leader_epoch),
            controller_epoch: json.controller_epoch,
            isr: brokers(json.isr),
            recovering: json.leader_recovery_state == 1,
        })
    }

    pub fn encode(&self) -> Bytes {
        to_json(&StateJson {
            controller_epoch: self.controller_epoch,
            leader: self.leader.0,
            version: 1,
            leader_recovery_state: i8::from(self.recovering),
            leader_epoch: self.leader_epoch.0,
            isr: numbers(&self.isr),
        })
    }
}

fn brokers(ids: Vec<i32>) -> Vec<BrokerId> {
    ids.into_iter().map(BrokerId).collect()
}

fn numbers(ids: &[BrokerId]) -> Vec<i32> {
    ids.iter().map(|id| id.0).collect()
}
