//! Three brokers and three ZooKeeper servers, a machine each, and what is done to them.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use rdkafka::ClientConfig;

use super::expiry::expire;
use super::fault::{CONTROLLER, Deed, FOLLOWER, LEADER, Node, Trace};
use super::witness::{Registration, State, Witness};
use crate::broker::On;
use crate::cluster::Cluster;
use crate::lanes::cluster::{admin, client};
use crate::network::{Machine, Network};
use crate::raw::Connection;
use crate::znodes::ZooKeeper;

pub const BROKERS: [i32; 3] = [LEADER, CONTROLLER, FOLLOWER];
/// Those of every topic's partitions; the first of each leads it at first.
pub const REPLICAS: &[&[i32]] =
    &[&[LEADER, CONTROLLER, FOLLOWER], &[CONTROLLER, FOLLOWER, LEADER], &[LEADER, FOLLOWER, CONTROLLER]];
pub const PARTITIONS: i32 = REPLICAS.len() as i32;
const ZOOKEEPERS: u8 = 3;
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
/// For a look whether a broker answers.
const LOOK: Duration = Duration::from_secs(1);

pub struct Stage {
    // What runs on the network's machines ends before they are taken away.
    pub cluster: Cluster,
    network: Network,
    pub witness: Witness,
}

/// How everything was before a fault.
pub struct Before {
    states: BTreeMap<(String, i32), State>,
    registrations: BTreeMap<i32, Option<Registration>>,
}

impl Stage {
    pub fn build(on: &On) -> Result<Stage> {
        let network = Network::new(BROKERS.len() as u8 + ZOOKEEPERS)?;
        let (brokers, zookeepers) = network.machines().split_at(BROKERS.len());
        // The first to start is the controller.
        let order = [CONTROLLER, LEADER, FOLLOWER];
        let placed: Vec<(i32, Machine)> = order.iter().map(|&id| (id, brokers[id as usize - 1].clone())).collect();
        let cluster = Cluster::start_on(on, &placed, zookeepers, SETTINGS)?;
        let witness = Witness::of(cluster.zookeeper.connect_string());
        Ok(Stage { cluster, network, witness })
    }

    /// Two topics, for acks=all and acks=1, whose leaders and followers are who they are to be.
    pub fn set(&self, all: &str, one: &str) -> Result<()> {
        let zookeeper = ZooKeeper::connect(&self.cluster.zookeeper.connect_string())?;
        self.cluster.make_controller(&zookeeper, CONTROLLER)?;
        admin::create_topic(&self.cluster, all, REPLICAS, &[])?;
        admin::create_topic(&self.cluster, one, REPLICAS, &[("min.insync.replicas", Some("1"))])?;
        self.cluster.await_isr(&[all, one], &BROKERS)
    }

    /// Settings of a client that comes back fast to brokers that do.
    pub fn client(&self) -> ClientConfig {
        client(&self.cluster)
    }

    pub fn addresses(&self) -> Result<Vec<String>> {
        BROKERS.iter().map(|&id| self.cluster.address(id)).collect()
    }

    pub fn before(&self, topics: &[&str]) -> Result<Before> {
        let mut states = BTreeMap::new();
        for topic in topics {
            for partition in 0..PARTITIONS {
                states.insert(((*topic).to_owned(), partition), self.witness.state(topic, partition)?);
            }
        }
        Ok(Before { states, registrations: self.witness.registrations(&BROKERS)? })
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

    pub fn act(&mut self, deed: &Deed) -> Result<()> {
        match deed {
            Deed::Kill(brokers) => self.cluster.kill(brokers),
            Deed::Pause(broker) => self.cluster.broker(*broker)?.pause(),
            Deed::Cut(from, to) => {
                for (from, to) in self.pairs(*from, *to) {
                    self.network.cut(&from, &to)?;
                }
                Ok(())
            }
            Deed::Expire(broker) => {
                let registered = self.witness.registration(*broker)?;
                let session = registered.with_context(|| format!("broker {broker} is not registered"))?.session;
                let servers = self.cluster.zookeeper.connect_string();
                expire(servers.split(',').next().unwrap_or_default(), session)
            }
        }
    }

    /// What is not done is undone as well: a deed may have failed half way.
    pub fn undo(&mut self, deed: &Deed) -> Result<()> {
        match deed {
            Deed::Kill(brokers) => {
                let running = self.cluster.running();
                brokers.iter().filter(|id| !running.contains(id)).try_for_each(|&id| self.cluster.broker(id)?.spawn())
            }
            Deed::Pause(broker) => self.cluster.broker(*broker)?.resume(),
            Deed::Cut(from, to) => {
                for (from, to) in self.pairs(*from, *to) {
                    self.network.mend(&from, &to)?;
                }
                Ok(())
            }
            Deed::Expire(_) => Ok(()),
        }
    }

    /// Waits until the brokers serve, know each other, and have all replicas of these topics in sync.
    pub fn await_whole(&mut self, topics: &[&str]) -> Result<()> {
        for id in BROKERS {
            self.cluster.broker(id)?.await_listening().with_context(|| format!("broker {id}"))?;
        }
        self.cluster.await_whole()?;
        self.cluster.await_isr(topics, &BROKERS)
    }

    /// What there is to see of a fault; an error while there is nothing.
    pub fn look(&self, trace: Trace, before: &Before) -> Result<String> {
        match trace {
            Trace::Deposed(broker) => self.deposed(broker, before),
            Trace::LeftIsr(broker, leader) => self.left(broker, leader, before),
            Trace::Unregistered(broker) => {
                let now = self.witness.registration(broker)?;
                ensure!(now != before.registration(broker), "broker {broker} is registered as before");
                Ok(format!("broker {broker}'s session is over"))
            }
            Trace::RegisteredAnew(broker) => {
                let now = self.witness.registration(broker)?.with_context(|| format!("broker {broker} is away"))?;
                let was = before.registration(broker).context("it was not registered before")?;
                ensure!(now.session != was.session, "broker {broker} is registered by the session before");
                Ok(format!("broker {broker} is registered by another session"))
            }
            Trace::Unreachable(broker) => {
                let refused = Connection::open_within(&self.cluster.address(broker)?, LOOK).is_err();
                ensure!(refused, "broker {broker} takes connections");
                Ok(format!("broker {broker} takes no connection"))
            }
        }
    }

    fn deposed(&self, broker: i32, before: &Before) -> Result<String> {
        let led = before.led_by(broker);
        ensure!(!led.is_empty(), "broker {broker} led nothing");
        let mut seen = String::new();
        for ((topic, partition), was) in led {
            let now = self.witness.state(topic, *partition)?;
            let other = now.leader != i64::from(broker) && now.leader >= 0 && now.leader_epoch > was.leader_epoch;
            ensure!(other, "{topic}-{partition} is {now:?}");
            seen = format!("broker {} leads in epoch {} what {broker} led", now.leader, now.leader_epoch);
        }
        Ok(seen)
    }

    fn left(&self, broker: i32, leader: i32, before: &Before) -> Result<String> {
        let led = before.led_by(leader);
        ensure!(!led.is_empty(), "broker {leader} led nothing");
        for ((topic, partition), _) in &led {
            let now = self.witness.state(topic, *partition)?;
            ensure!(!now.isr.contains(&broker.into()), "{topic}-{partition} is {now:?}");
        }
        Ok(format!("broker {broker} left the ISR of {} partitions that {leader} led", led.len()))
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
