//! Three brokers and three ZooKeeper servers, a machine each, and what is done to them.

mod acts;
mod looks;

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, bail, ensure};
use rdkafka::ClientConfig;

use super::fault::{CONTROLLER, FOLLOWER, LEADER, Node, Way};
use super::flood::Flood;
use super::ground::{Ground, Needs};
use super::witness::{Office, Registration, State, Witness};
use crate::broker::On;
use crate::cluster::Cluster;
use crate::lanes::bad_disks::Injected;
use crate::lanes::cluster::{admin, client};
use crate::network::{Machine, Network};
use crate::proxy::Counts;
use crate::znodes::ZooKeeper;

pub const BROKERS: [i32; 3] = [LEADER, CONTROLLER, FOLLOWER];
/// Those of every topic's partitions; the first of each leads it at first.
pub const REPLICAS: &[&[i32]] =
    &[&[LEADER, CONTROLLER, FOLLOWER], &[CONTROLLER, FOLLOWER, LEADER], &[LEADER, FOLLOWER, CONTROLLER]];
pub const PARTITIONS: i32 = REPLICAS.len() as i32;
pub const ZOOKEEPERS: usize = 3;
const SETTINGS: &[(&str, &str)] = &[
    ("zookeeper.session.timeout.ms", "4000"),
    ("replica.lag.time.max.ms", "1000"),
    ("auto.create.topics.enable", "false"),
    ("auto.leader.rebalance.enable", "false"),
    ("offsets.topic.num.partitions", "3"),
    ("offsets.topic.replication.factor", "3"),
    ("min.insync.replicas", "2"),
    ("group.initial.rebalance.delay.ms", "0"),
    ("log.retention.ms", "-1"),
];

pub struct Stage {
    // What runs on the network's machines ends before they are taken away, and files are left before their disks are.
    pub cluster: Cluster,
    network: Network,
    pub witness: Witness,
    ground: Ground,
    topics: Vec<String>,
    done: Done,
}

/// What acts have left, for their undoing and for those who look.
#[derive(Default)]
struct Done {
    injected: Option<Injected>,
    flood: Option<Flood>,
    floods: usize,
    /// Brokers whose power is gone, with the bytes of their logs that went with it.
    powerless: BTreeMap<i32, u64>,
    /// Bytes that a ZooKeeper server's log has lost.
    forgotten: u64,
}

/// How everything was before a fault.
pub struct Before {
    states: BTreeMap<(String, i32), State>,
    registrations: BTreeMap<i32, Option<Registration>>,
    counts: BTreeMap<(Machine, Machine), Counts>,
    controller: Office,
}

impl Stage {
    pub fn build(on: &On, needs: Needs) -> Result<Stage> {
        let mut ground = Ground::new(needs)?;
        let own = ground.settings();
        let mut settings = SETTINGS.to_vec();
        settings.extend(own.iter().map(|(key, value)| (*key, value.as_str())));
        let network = Network::new((BROKERS.len() + ZOOKEEPERS) as u8)?;
        let (brokers, zookeepers) = network.machines().split_at(BROKERS.len());
        // The first to start is the controller.
        let order = [CONTROLLER, LEADER, FOLLOWER];
        let placed: Vec<(i32, Machine)> = order.iter().map(|&id| (id, brokers[id as usize - 1].clone())).collect();
        let (tree, environment) = (ground.tree()?, ground.environment()?);
        let cluster = Cluster::start_on(on, &placed, zookeepers, tree, &settings, &environment)?;
        let witness = Witness::of(cluster.zookeeper.connect_string());
        Ok(Stage { cluster, network, witness, ground, topics: Vec::new(), done: Done::default() })
    }

    pub fn stands_on(&self, needs: Needs) -> bool {
        self.ground.needs == needs
    }

    /// Two topics, for acks=all and acks=1, whose leaders and followers are who they are to be.
    pub fn set(&mut self, all: &str, one: &str, configs: &[(&str, &str)]) -> Result<()> {
        self.topics = vec![all.to_owned(), one.to_owned()];
        self.seat_controller()?;
        let mut configs: Vec<(&str, Option<&str>)> = configs.iter().map(|&(key, value)| (key, Some(value))).collect();
        admin::create_topic(&self.cluster, all, REPLICAS, &configs)?;
        configs.push(("min.insync.replicas", Some("1")));
        admin::create_topic(&self.cluster, one, REPLICAS, &configs)?;
        self.await_in_sync()
    }

    fn seat_controller(&self) -> Result<()> {
        let zookeeper = ZooKeeper::connect(&self.cluster.zookeeper.connect_string())?;
        self.cluster.make_controller(&zookeeper, CONTROLLER)
    }

    /// Everybody leads and controls again what was his at first.
    pub fn seat_all(&self) -> Result<()> {
        self.seat_controller()?;
        let partitions: Vec<i32> = (0..PARTITIONS).collect();
        for topic in &self.topics {
            admin::elect_preferred(&self.cluster, topic, &partitions)?;
        }
        let topics: Vec<&str> = self.topics.iter().map(String::as_str).collect();
        self.cluster.await_view("the first replicas lead", |view| {
            for (at, told) in view.of_topics(&topics)? {
                ensure!(told.replicas.first() == Some(&told.leader), "{at:?} is {told:?}");
            }
            Ok(())
        })
    }

    /// From now on these ways lead through the proxy.
    pub fn divert(&mut self, ways: &[Way]) -> Result<()> {
        if ways.is_empty() {
            return Ok(());
        }
        self.prepare_detour()?;
        for (from, to) in self.pairs_of(ways) {
            self.network.divert(&from, &to)?;
        }
        Ok(())
    }

    fn prepare_detour(&mut self) -> Result<()> {
        let mut serving = self.addresses()?;
        serving.extend(self.cluster.zookeeper.connect_string().split(',').map(str::to_owned));
        self.network.prepare_detour(&serving)
    }

    /// Undoes [`Stage::divert`].
    pub fn straighten(&mut self, ways: &[Way]) -> Result<()> {
        for (from, to) in self.pairs_of(ways) {
            self.network.straighten(&from, &to)?;
        }
        Ok(())
    }

    fn pairs_of(&self, ways: &[Way]) -> Vec<(Machine, Machine)> {
        ways.iter().flat_map(|&(from, to)| self.pairs(from, to)).collect()
    }

    /// Settings of a client that comes back fast to brokers that do, and soon gives up those that say nothing.
    pub fn client(&self) -> ClientConfig {
        let mut config = client(&self.cluster);
        config.set("socket.timeout.ms", "3000").set("socket.connection.setup.timeout.ms", "1000");
        config
    }

    pub fn addresses(&self) -> Result<Vec<String>> {
        BROKERS.iter().map(|&id| self.cluster.address(id)).collect()
    }

    /// With what the proxy has counted of these ways so far.
    pub fn before(&self, through: &[Way]) -> Result<Before> {
        let mut states = BTreeMap::new();
        for topic in &self.topics {
            for partition in 0..PARTITIONS {
                states.insert((topic.clone(), partition), self.witness.state(topic, partition)?);
            }
        }
        let mut counts = BTreeMap::new();
        for (from, to) in self.pairs_of(through) {
            let so_far = self.network.counts(&from, &to)?;
            counts.insert((from, to), so_far);
        }
        let registrations = self.witness.registrations(&BROKERS)?;
        Ok(Before { states, registrations, counts, controller: self.witness.controller()? })
    }

    fn machines(&self, node: Node) -> Vec<Machine> {
        let (brokers, zookeepers) = self.network.machines().split_at(BROKERS.len());
        match node {
            Node::Broker(id) => vec![brokers[id as usize - 1].clone()],
            Node::ZooKeeper => zookeepers.to_vec(),
            Node::Clients => vec![self.network.clients()],
        }
    }

    fn pairs(&self, from: Node, to: Node) -> Vec<(Machine, Machine)> {
        let to = self.machines(to);
        self.machines(from).into_iter().flat_map(|from| to.iter().map(move |to| (from.clone(), to.clone()))).collect()
    }

    fn await_in_sync(&self) -> Result<()> {
        let topics: Vec<&str> = self.topics.iter().map(String::as_str).collect();
        self.cluster.await_isr(&topics, &BROKERS)
    }

    /// The folder of a replica, `TOPIC-PARTITION`.
    pub fn replica(&self, broker: i32, partition: &str) -> Result<PathBuf> {
        let folders = self.ground.log_dirs(broker).into_iter().map(|dir| dir.join(partition));
        let found: Vec<PathBuf> = folders.filter(|folder| folder.is_dir()).collect();
        match <[PathBuf; 1]>::try_from(found) {
            Ok([one]) => Ok(one),
            Err(found) => bail!("{partition} lies in {} directories of broker {broker}", found.len()),
        }
    }

    /// Of all segments of a broker, in bytes.
    fn log_bytes(&self, broker: i32) -> Result<u64> {
        let mut bytes = 0;
        for dir in self.ground.log_dirs(broker) {
            for partition in fs::read_dir(&dir).with_context(|| dir.display().to_string())? {
                let path = partition?.path();
                for file in fs::read_dir(&path).into_iter().flatten().flatten() {
                    let log = file.path().extension().is_some_and(|extension| extension == "log");
                    bytes += if log { file.metadata()?.len() } else { 0 };
                }
            }
        }
        Ok(bytes)
    }

    /// Waits until the brokers serve, know each other, and have all replicas in sync.
    pub fn await_whole(&mut self) -> Result<()> {
        for id in BROKERS {
            self.cluster.broker(id)?.await_listening().with_context(|| format!("broker {id}"))?;
        }
        self.cluster.await_whole()?;
        self.await_in_sync()
    }

    /// Brokers whose session is not the one they had, though nobody meant to end it.
    pub fn strangers(&self, before: &Before, may: &[i32]) -> Result<Vec<i32>> {
        let now = self.witness.registrations(&BROKERS)?;
        let others = now.into_iter().filter(|(id, now)| !may.contains(id) && *now != before.registration(*id));
        Ok(others.map(|(id, _)| id).collect())
    }

    /// A broker that ended by itself, or panicked and went on.
    pub fn check_brokers(&mut self) -> Result<()> {
        for id in BROKERS {
            let broker = self.cluster.broker(id)?;
            if let Some(status) = broker.exited()? {
                bail!("broker {id} ended by itself with {status}: {}", broker.log_tail(12));
            }
            ensure!(!broker.log_text().contains("panicked"), "broker {id} panicked: {}", broker.log_tail(20));
        }
        Ok(())
    }
}

impl Before {
    fn registration(&self, broker: i32) -> Option<Registration> {
        self.registrations.get(&broker).copied().flatten()
    }

    fn led_by(&self, broker: i32) -> Vec<(&(String, i32), &State)> {
        self.states.iter().filter(|(_, state)| state.leader == i64::from(broker)).collect()
    }
}
