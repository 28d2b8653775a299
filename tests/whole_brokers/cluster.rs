//! The brokers of a stage: which run, which stand, and what those left that do not run.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use klamm::broker::RunError;
use klamm::random::{Random, SeededRandom};
use klamm::sim::brokers::{SimBroker, World};
use klamm::sim::disk::{Keep, SimDisk};
use klamm::storage::machine::Machine;

use crate::stage::Stage;

pub enum Place {
    Runs(SimBroker),
    Stands(SimBroker),
    /// With what the last life left on the disk.
    Down(SimDisk),
}

pub struct Cluster {
    stage: Arc<Stage>,
    places: BTreeMap<i32, Place>,
    overrides: Vec<String>,
    /// Those that were asked to end.
    stopping: BTreeSet<i32>,
    /// How often each machine was started.
    boots: BTreeMap<i32, u32>,
    cuts_on_gone_disks: u64,
}

impl Cluster {
    pub fn start(stage: &Arc<Stage>, overrides: Vec<String>) -> Cluster {
        let (places, stopping, boots) = Default::default();
        let mut cluster = Cluster { stage: stage.clone(), places, overrides, stopping, boots, cuts_on_gone_disks: 0 };
        for id in 1..=stage.brokers {
            let disk = SimDisk::new(stage.world.clock.clone());
            cluster.places.insert(id, Place::Down(disk));
            cluster.start_broker(id);
        }
        cluster
    }

    pub fn place(&self, id: i32) -> &Place {
        &self.places[&id]
    }

    pub fn those(&self, which: impl Fn(&Place) -> bool) -> Vec<i32> {
        self.places.iter().filter(|(_, place)| which(place)).map(|(id, _)| *id).collect()
    }

    pub fn running(&self) -> Vec<i32> {
        self.those(|place| matches!(place, Place::Runs(_)))
    }

    pub fn is_any_stopping(&self) -> bool {
        !self.stopping.is_empty()
    }

    pub fn all_run(&self) -> bool {
        self.running().len() == self.places.len()
    }

    /// Starts one that is down.
    pub fn start_broker(&mut self, id: i32) {
        let Some(Place::Down(disk)) = self.places.get(&id) else { return };
        self.stage.chronicle.note(format_args!("broker {id} starts"));
        self.stopping.remove(&id);
        let boot = self.boots.entry(id).or_default();
        let machine = Machine { boot: Some(format!("boot-{id}-{boot}")), ..World::machine(id) };
        let broker = self.stage.world.start_at(machine, id, Some(disk.clone()), &self.overrides);
        self.places.insert(id, Place::Runs(broker.expect("a configuration")));
    }

    fn take(&mut self, id: i32) -> Option<SimBroker> {
        match self.places.remove(&id) {
            Some(Place::Runs(broker) | Place::Stands(broker)) => Some(broker),
            down => {
                self.places.extend(down.map(|place| (id, place)));
                None
            }
        }
    }

    /// As SIGKILL.
    pub async fn kill(&mut self, id: i32) {
        let Some(broker) = self.take(id) else { return };
        self.stage.chronicle.note(format_args!("broker {id} is killed"));
        self.stage.chronicle.count(|counts| counts.kills += 1);
        let remains = broker.kill().await;
        self.places.insert(id, Place::Down(remains.disk));
    }

    /// The power goes, and with it some of what was not synced.
    pub async fn cut_power(&mut self, id: i32, random: &SeededRandom) {
        self.kill(id).await;
        *self.boots.entry(id).or_default() += 1;
        let Some(Place::Down(disk)) = self.places.get(&id) else { return };
        let keep = match random.below(4) {
            0 => Keep::Nothing,
            1 => Keep::Torn,
            _ => Keep::Prefix(random),
        };
        disk.crash(keep);
        self.stage.chronicle.note(format_args!("broker {id} has lost what was not synced"));
        self.stage.chronicle.count(|counts| counts.lossy += 1);
    }

    /// How often logs were made shorter, on all disks so far.
    pub fn truncations(&self) -> u64 {
        let now: u64 = self.places.keys().filter_map(|id| self.disk(*id)).map(SimDisk::cuts).sum();
        self.cuts_on_gone_disks + now
    }

    /// It dies, and comes back with another disk.
    pub async fn wipe(&mut self, id: i32) {
        self.kill(id).await;
        self.cuts_on_gone_disks += self.disk(id).map_or(0, SimDisk::cuts);
        self.places.insert(id, Place::Down(SimDisk::new(self.stage.world.clock.clone())));
        self.stage.chronicle.note(format_args!("broker {id} has another disk"));
        self.stage.chronicle.count(|counts| counts.lossy += 1);
    }

    pub fn stand(&mut self, id: i32) {
        let Some(Place::Runs(broker)) = self.places.remove(&id) else { return };
        self.stage.chronicle.note(format_args!("broker {id} stands"));
        self.stage.chronicle.count(|counts| counts.stands += 1);
        broker.stand();
        self.places.insert(id, Place::Stands(broker));
    }

    pub fn go_on(&mut self, id: i32) {
        match self.places.remove(&id) {
            Some(Place::Stands(broker)) => {
                self.stage.chronicle.note(format_args!("broker {id} goes on"));
                broker.go_on();
                self.places.insert(id, Place::Runs(broker));
            }
            other => self.places.extend(other.map(|place| (id, place))),
        }
    }

    /// Asks it to end in order; it is [`Place::Down`] some time later.
    pub fn ask_to_stop(&mut self, id: i32) {
        if let Some(Place::Runs(broker)) = self.places.get(&id) {
            self.stage.chronicle.note(format_args!("broker {id} is to stop"));
            self.stage.chronicle.count(|counts| counts.stops += 1);
            broker.ask_to_stop();
            self.stopping.insert(id);
        }
    }

    /// Takes note of those that have ended: in order, or because they could not start without ZooKeeper.
    pub async fn tend(&mut self) -> Vec<i32> {
        let ended = self.those(|place| matches!(place, Place::Runs(broker) if broker.has_ended()));
        for id in &ended {
            let Some(broker) = self.take(*id) else { continue };
            let disk = broker.disk.fork();
            match broker.ended().await {
                Ok(Ok(())) => self.stage.chronicle.note(format_args!("broker {id} has stopped")),
                Ok(Err(RunError::Halted(why))) => {
                    self.stage.chronicle.wrong(format_args!("broker {id} halted: {why}"));
                }
                Ok(Err(error)) => self.stage.chronicle.note(format_args!("broker {id} did not start: {error}")),
                Err(error) => self.stage.chronicle.wrong(format_args!("broker {id} panicked: {error}")),
            }
            self.places.insert(*id, Place::Down(disk));
        }
        ended
    }

    /// The disk of one that is down.
    pub fn disk(&self, id: i32) -> Option<&SimDisk> {
        match self.places.get(&id) {
            Some(Place::Down(disk)) => Some(disk),
            Some(Place::Runs(broker) | Place::Stands(broker)) => Some(&broker.disk),
            None => None,
        }
    }

    /// Where broker `id` keeps its logs.
    pub fn log_dir(id: i32) -> PathBuf {
        PathBuf::from(format!("/broker{id}"))
    }
}
