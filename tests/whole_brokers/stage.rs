//! Where it all happens: a world of brokers, what is put down of it, and what its metastore says.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use klamm::metastore::schema::{PartitionState, TopicAssignment, paths};
use klamm::metastore::{Error, Metastore};
use klamm::random::SeededRandom;
use klamm::sim::brokers::{Delays, World};
use klamm::sim::meddler::Meddler;
use klamm::types::BrokerId;

use crate::chronicle::Chronicle;

/// The topic whose history is judged.
pub const TOPIC: &str = "t";
pub const PARTITIONS: i32 = 3;

pub const SESSION: Duration = Duration::from_secs(6);

pub struct Stage {
    pub world: World,
    pub chronicle: Chronicle,
    pub brokers: i32,
    seed: u64,
    admin: Arc<dyn Metastore>,
}

/// What the metastore says of a partition.
#[derive(Clone, Debug)]
pub struct Stored {
    pub topic: String,
    pub partition: i32,
    pub replicas: Vec<BrokerId>,
    pub is_moving: bool,
    pub state: PartitionState,
    /// Writes of its state.
    pub version: i32,
}

impl Stage {
    pub fn new(seed: u64, brokers: i32, delays: Delays, meddler: Option<Arc<dyn Meddler>>) -> Stage {
        let world = World::with_delays(seed, delays, SESSION, meddler);
        let admin = world.tree.session();
        Stage { chronicle: Chronicle::new(world.trace.clone()), world, brokers, seed, admin }
    }

    /// The `nth` source of random numbers.
    pub fn random(&self, nth: u64) -> SeededRandom {
        SeededRandom::new(self.seed.wrapping_mul(1_000_003).wrapping_add(nth))
    }

    /// As whom the network knows the `nth` client.
    pub fn client_way(nth: i32) -> BrokerId {
        BrokerId(1_000 + nth)
    }

    /// As an operator's hands on ZooKeeper.
    pub fn admin(&self) -> &dyn Metastore {
        &*self.admin
    }

    /// Names below a path, in order; none where there is no such node.
    pub async fn names(&self, path: &str) -> Vec<String> {
        match self.admin.children(path).await {
            Ok(mut names) => {
                names.sort();
                names
            }
            Err(Error::NoNode(_)) => Vec::new(),
            Err(error) => panic!("{path}: {error}"),
        }
    }

    /// Every partition that has a state.
    pub async fn partitions(&self) -> Vec<Stored> {
        let mut all = Vec::new();
        for topic in self.names(paths::TOPICS).await {
            let path = paths::topic(&topic);
            let Ok((bytes, _)) = self.admin.get(&path).await else { continue };
            let assignment = TopicAssignment::decode(&path, &bytes).expect("an assignment");
            for (partition, assigned) in assignment.partitions {
                let path = paths::partition_state(&topic, partition);
                let Ok((bytes, stat)) = self.admin.get(&path).await else { continue };
                all.push(Stored {
                    topic: topic.clone(),
                    partition,
                    is_moving: !assigned.adding.is_empty() || !assigned.removing.is_empty(),
                    replicas: assigned.replicas,
                    state: PartitionState::decode(&path, &bytes).expect("a state"),
                    version: stat.version,
                });
            }
        }
        all
    }

    /// What is promised of topics that an administrator was told are made, or gone.
    pub async fn topics(&self) -> BTreeMap<String, usize> {
        let mut all = BTreeMap::new();
        for stored in self.partitions().await {
            *all.entry(stored.topic).or_default() += 1;
        }
        all
    }
}
