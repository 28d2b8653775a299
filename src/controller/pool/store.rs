//! A model of the metastore: who is registered, one topic's state nodes, and the epoch that fences controllers.

use std::collections::BTreeMap;

use crate::metastore::schema::PartitionState;
use crate::types::{BrokerId, LeaderEpoch};

/// A state node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    pub state: PartitionState,
    pub version: i32,
    pub mzxid: i64,
}

#[derive(Clone, Debug)]
pub struct Store {
    zxid: i64,
    /// The czxid of each.
    pub registrations: BTreeMap<BrokerId, i64>,
    /// By partition.
    pub states: Vec<Stored>,
    pub controller_epoch: i32,
    /// Leader epoch and ISR by partition and version.
    pub history: BTreeMap<(i32, i32), (LeaderEpoch, Vec<BrokerId>)>,
}

impl Store {
    /// All replicas of each partition live and are in sync; the first leads.
    pub fn new(assignments: &[Vec<BrokerId>]) -> Store {
        let registrations: BTreeMap<BrokerId, i64> =
            assignments.iter().flatten().map(|id| (*id, i64::from(id.0))).collect();
        let zxid = registrations.len() as i64 + 1;
        let stored = |replicas: &Vec<BrokerId>| Stored {
            state: PartitionState {
                leader: replicas[0],
                leader_epoch: LeaderEpoch(0),
                controller_epoch: 1,
                isr: replicas.clone(),
                recovering: false,
            },
            version: 0,
            mzxid: zxid,
        };
        let states: Vec<Stored> = assignments.iter().map(stored).collect();
        let first = |(partition, stored): (i32, &Stored)| ((partition, 0), (LeaderEpoch(0), stored.state.isr.clone()));
        let history = (0..).zip(&states).map(first).collect();
        Store { zxid, registrations, states, controller_epoch: 1, history }
    }

    pub fn at(&self, partition: i32) -> &Stored {
        &self.states[partition as usize]
    }

    /// Registers a broker anew. Its epoch.
    pub fn register(&mut self, broker: BrokerId) -> i64 {
        self.zxid += 1;
        self.registrations.insert(broker, self.zxid);
        self.zxid
    }

    /// Sets a state, whatever was there. Its version.
    pub fn set(&mut self, partition: i32, state: PartitionState) -> i32 {
        self.zxid += 1;
        let stored = &mut self.states[partition as usize];
        *stored = Stored { state, version: stored.version + 1, mzxid: self.zxid };
        let noted = (stored.state.leader_epoch, stored.state.isr.clone());
        self.history.insert((partition, stored.version), noted);
        stored.version
    }

    /// Whether an ISR with another member counts on `broker`.
    pub fn counts_on(&self, broker: BrokerId) -> bool {
        self.states.iter().any(|stored| stored.state.isr.len() > 1 && stored.state.isr.contains(&broker))
    }
}
