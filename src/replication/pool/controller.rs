//! A model of the metastore and of the controllers that write to it: one state node, registrations, elections from the
//! ISR. What the real ones do in many steps happens in one; what the network does to their messages does not.

use std::collections::{BTreeMap, BTreeSet};

use super::{Message, Rule};
use crate::replication::isr::{Confirmed, Proposal};
use crate::replication::table::LeaderAndIsr;
use crate::types::{BrokerId, LeaderEpoch};
use crate::wire::error_code::ErrorCode;

/// The partition's state node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    pub leader: BrokerId,
    pub leader_epoch: LeaderEpoch,
    pub isr: Vec<BrokerId>,
    pub version: i32,
    pub mzxid: i64,
}

/// The metastore.
#[derive(Clone, Debug)]
pub struct Store {
    zxid: i64,
    pub registrations: BTreeMap<BrokerId, i64>,
    pub state: State,
    pub controller_epoch: i32,
    /// ISR and leader epoch by version.
    pub history: BTreeMap<i32, (LeaderEpoch, Vec<BrokerId>)>,
}

impl Store {
    /// A topic made by its first controller.
    pub fn new(replicas: &[BrokerId]) -> Store {
        let registrations = replicas.iter().map(|id| (*id, i64::from(id.0))).collect();
        let zxid = replicas.len() as i64 + 1;
        let isr = replicas.to_vec();
        let state = State { leader: isr[0], leader_epoch: LeaderEpoch(0), isr: isr.clone(), version: 0, mzxid: zxid };
        let history = [(0, (LeaderEpoch(0), isr))].into_iter().collect();
        Store { zxid, registrations, state, controller_epoch: 1, history }
    }

    /// Registers a broker anew. Its epoch.
    pub fn register(&mut self, broker: BrokerId) -> i64 {
        self.zxid += 1;
        self.registrations.insert(broker, self.zxid);
        self.zxid
    }
}

/// A controller, active or replaced without knowing it.
#[derive(Clone, Debug)]
pub struct Controller {
    pub epoch: i32,
    replicas: Vec<BrokerId>,
    /// Brokers it knows to live, in the epoch it knows.
    pub live: BTreeMap<BrokerId, i64>,
    /// Replicas whose log is not there.
    offline: BTreeSet<BrokerId>,
    known: State,
    /// A write told it that another one was elected: it says nothing any more.
    has_resigned: bool,
}

impl Controller {
    pub fn new(store: &Store, replicas: &[BrokerId]) -> Controller {
        Controller {
            epoch: store.controller_epoch,
            replicas: replicas.to_vec(),
            live: store.registrations.clone(),
            offline: BTreeSet::new(),
            known: store.state.clone(),
            has_resigned: false,
        }
    }

    /// A new controller is elected. F8: who registered after the state was written may have failed unseen.
    pub fn elect(store: &mut Store, replicas: &[BrokerId], off: Option<Rule>) -> Controller {
        store.controller_epoch += 1;
        let mut controller = Controller::new(store, replicas);
        for id in replicas {
            // Who is not registered failed, whenever that was.
            controller.live.entry(*id).or_insert(-1);
        }
        if off != Some(Rule::F8) {
            let mzxid = store.state.mzxid;
            controller.live.values_mut().filter(|epoch| **epoch > mzxid).for_each(|epoch| *epoch = -1);
        }
        controller
    }

    /// Looks who is registered, and acts on it.
    pub fn look(&mut self, store: &mut Store, off: Option<Rule>) -> Vec<Message> {
        if self.has_resigned {
            return Vec::new();
        }
        let registered = store.registrations.clone();
        let failed: BTreeSet<BrokerId> =
            self.live.iter().filter(|(id, epoch)| registered.get(id) != Some(epoch)).map(|(id, _)| *id).collect();
        let started: Vec<BrokerId> =
            registered.iter().filter(|(id, epoch)| self.live.get(id) != Some(epoch)).map(|(id, _)| *id).collect();
        self.live.retain(|id, _| !failed.contains(id));
        let mut messages = Vec::new();
        if failed.iter().any(|id| self.known.isr.contains(id) || self.known.leader == *id) {
            messages.extend(self.fail(store, &failed, off));
        }
        if self.has_resigned {
            // Who started is told of when the deaths are written.
            return Vec::new();
        }
        for id in &started {
            self.live.insert(*id, registered[id]);
            self.offline.remove(id);
        }
        if self.known.leader == BrokerId::NONE {
            messages.extend(self.fail(store, &BTreeSet::new(), off));
        }
        messages.extend(self.tell(&started));
        messages
    }

    /// Takes `failed` out of the ISR and sees that somebody in it leads.
    fn fail(&mut self, store: &mut Store, failed: &BTreeSet<BrokerId>, off: Option<Rule>) -> Vec<Message> {
        let mut isr: Vec<BrokerId> = self.known.isr.iter().copied().filter(|id| !failed.contains(id)).collect();
        if isr.is_empty() {
            // The last ones: who led, had everything.
            let last = if self.known.isr.contains(&self.known.leader) { self.known.leader } else { self.known.isr[0] };
            isr.push(last);
        }
        let may = |id: &BrokerId| isr.contains(id) && self.live.contains_key(id) && !self.offline.contains(id);
        let stays = may(&self.known.leader) && !failed.contains(&self.known.leader);
        let leader = match stays {
            true => self.known.leader,
            false => self.replicas.iter().copied().find(may).unwrap_or(BrokerId::NONE),
        };
        if (leader, &isr) == (self.known.leader, &self.known.isr) {
            return Vec::new();
        }
        let epoch = LeaderEpoch(self.known.leader_epoch.0 + 1);
        let next = State { leader, leader_epoch: epoch, isr, ..self.known.clone() };
        match self.write(store, next, off) {
            true => self.tell(&self.replicas),
            false => Vec::new(),
        }
    }

    pub fn known_isr(&self) -> &[BrokerId] {
        &self.known.isr
    }

    /// A preferred election: the ISR stays, and whoever leads gives way.
    pub fn prefer(&mut self, store: &mut Store, leader: BrokerId, off: Option<Rule>) -> Vec<Message> {
        let leader_epoch = LeaderEpoch(self.known.leader_epoch.0 + 1);
        let next = State { leader, leader_epoch, ..self.known.clone() };
        match self.write(store, next, off) {
            true => self.tell(&self.replicas),
            false => Vec::new(),
        }
    }

    /// One compare-and-set under the controller epoch.
    fn write(&mut self, store: &mut Store, next: State, off: Option<Rule>) -> bool {
        let checked = off != Some(Rule::B10);
        if checked && (store.controller_epoch != self.epoch || store.state.version != self.known.version) {
            self.has_resigned = true;
            return false;
        }
        store.zxid += 1;
        store.state = State { version: store.state.version + 1, mzxid: store.zxid, ..next };
        store.history.insert(store.state.version, (store.state.leader_epoch, store.state.isr.clone()));
        self.known = store.state.clone();
        true
    }

    /// LeaderAndIsr to those of `whom` that live.
    pub fn tell(&self, whom: &[BrokerId]) -> Vec<Message> {
        let known = &self.known;
        let change = LeaderAndIsr {
            controller_epoch: self.epoch,
            leader: known.leader,
            leader_epoch: known.leader_epoch,
            isr: known.isr.clone(),
            partition_epoch: known.version,
            ..super::change(&self.replicas)
        };
        let whom = if self.has_resigned { &[] } else { whom };
        let told = whom.iter().filter_map(|id| self.live.get(id).map(|epoch| (*id, *epoch)));
        let message = |(to, broker_epoch)| Message::Lead {
            to,
            broker_epoch,
            change: Box::new(change.clone()),
            alive: self.live.clone(),
        };
        told.map(message).collect()
    }

    /// A leader's log is not there.
    pub fn storage_failed(
        &mut self,
        store: &mut Store,
        broker: BrokerId,
        leader_epoch: LeaderEpoch,
        off: Option<Rule>,
    ) -> Vec<Message> {
        if (self.known.leader, self.known.leader_epoch) != (broker, leader_epoch) {
            return Vec::new();
        }
        self.offline.insert(broker);
        self.fail(store, &[broker].into_iter().collect(), off)
    }

    /// AlterPartition.
    pub fn alter(
        &mut self,
        store: &mut Store,
        from: BrokerId,
        broker_epoch: i64,
        proposal: &Proposal,
        members: &[(BrokerId, i64)],
        off: Option<Rule>,
    ) -> Result<Confirmed, ErrorCode> {
        let now = self.known.clone();
        let confirmed = |state: &State| Confirmed {
            leader_epoch: state.leader_epoch,
            partition_epoch: state.version,
            isr: state.isr.clone(),
        };
        if self.has_resigned {
            return Err(ErrorCode::NotController);
        }
        if store.registrations.get(&from) != Some(&broker_epoch) || self.live.get(&from) != Some(&broker_epoch) {
            return Err(ErrorCode::StaleBrokerEpoch);
        }
        if off != Some(Rule::B4) {
            if proposal.leader_epoch > now.leader_epoch || proposal.partition_epoch > now.version {
                return Err(ErrorCode::NotController);
            }
            if proposal.leader_epoch < now.leader_epoch {
                return Err(ErrorCode::FencedLeaderEpoch);
            }
            if now.leader != from || !proposal.isr.contains(&from) {
                return Err(ErrorCode::InvalidRequest);
            }
            if proposal.partition_epoch < now.version {
                return match proposal.isr == now.isr {
                    true => Ok(confirmed(&now)),
                    false => Err(ErrorCode::InvalidUpdateVersion),
                };
            }
        }
        let lives = |(id, epoch): &(BrokerId, i64)| {
            self.live.get(id).is_some_and(|live| *epoch < 0 || live == epoch)
                && store.registrations.get(id).is_some_and(|live| *epoch < 0 || live == epoch)
        };
        if off != Some(Rule::B5) && !members.iter().all(lives) {
            return Err(ErrorCode::IneligibleReplica);
        }
        let next = State { isr: proposal.isr.clone(), ..now };
        match self.write(store, next, off) {
            true => Ok(confirmed(&self.known)),
            false => Err(ErrorCode::NotController),
        }
    }
}

/// `t-0` on these replicas.
pub fn change(replicas: &[BrokerId]) -> LeaderAndIsr {
    LeaderAndIsr { replicas: replicas.to_vec(), ..crate::replication::testing::change(1, 0, &[1]) }
}
