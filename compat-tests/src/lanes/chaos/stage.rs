//! Three brokers and three ZooKeeper servers, a machine each, and what is done to them.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use rand::seq::SliceRandom;
use rdkafka::ClientConfig;
use rustix::process::Signal;

use super::disks::Disks;
use super::expiry::expire;
use super::fault::{CONTROLLER, Deed, FOLLOWER, LEADER, Node, Server, Trace};
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
    disks: Option<Disks>,
    topics: Vec<String>,
    /// The ZooKeeper server that is killed.
    dead: Option<usize>,
}

/// What is cut one by one.
const LINKS: &[(Node, Node)] = &[
    (Node::Broker(LEADER), Node::Broker(CONTROLLER)),
    (Node::Broker(LEADER), Node::Broker(FOLLOWER)),
    (Node::Broker(CONTROLLER), Node::Broker(FOLLOWER)),
    (Node::Broker(LEADER), Node::ZooKeeper),
    (Node::Broker(CONTROLLER), Node::ZooKeeper),
    (Node::Broker(FOLLOWER), Node::ZooKeeper),
];

/// How everything was before a fault.
pub struct Before {
    states: BTreeMap<(String, i32), State>,
    registrations: BTreeMap<i32, Option<Registration>>,
}

impl Stage {
    /// With small disks the brokers' files lie in memory, each broker's on a file system of its own.
    pub fn build(on: &On, small_disks: bool) -> Result<Stage> {
        let disks = small_disks.then(Disks::new).transpose()?;
        let log_dirs = disks.as_ref().map(|disks| disks.of("{id}").join("data").display().to_string());
        let mut settings = SETTINGS.to_vec();
        settings.extend(log_dirs.as_ref().map(|dirs| ("log.dirs", dirs.as_str())));
        let network = Network::new(BROKERS.len() as u8 + ZOOKEEPERS)?;
        let (brokers, zookeepers) = network.machines().split_at(BROKERS.len());
        // The first to start is the controller.
        let order = [CONTROLLER, LEADER, FOLLOWER];
        let placed: Vec<(i32, Machine)> = order.iter().map(|&id| (id, brokers[id as usize - 1].clone())).collect();
        let cluster = Cluster::start_on(on, &placed, zookeepers, &settings)?;
        let witness = Witness::of(cluster.zookeeper.connect_string());
        Ok(Stage { cluster, network, witness, disks, topics: Vec::new(), dead: None })
    }

    /// Two topics, for acks=all and acks=1, whose leaders and followers are who they are to be.
    pub fn set(&mut self, all: &str, one: &str) -> Result<()> {
        self.topics = vec![all.to_owned(), one.to_owned()];
        let zookeeper = ZooKeeper::connect(&self.cluster.zookeeper.connect_string())?;
        self.cluster.make_controller(&zookeeper, CONTROLLER)?;
        admin::create_topic(&self.cluster, all, REPLICAS, &[])?;
        admin::create_topic(&self.cluster, one, REPLICAS, &[("min.insync.replicas", Some("1"))])?;
        self.cluster.await_isr(&[all, one], &BROKERS)
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

    pub fn before(&self) -> Result<Before> {
        let mut states = BTreeMap::new();
        for topic in &self.topics {
            for partition in 0..PARTITIONS {
                states.insert((topic.clone(), partition), self.witness.state(topic, partition)?);
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
            Deed::Cut(from, to) => self.cut(*from, *to),
            Deed::Expire(broker) => {
                let registered = self.witness.registration(*broker)?;
                let session = registered.with_context(|| format!("broker {broker} is not registered"))?.session;
                let servers = self.cluster.zookeeper.connect_string();
                expire(servers.split(',').next().unwrap_or_default(), session)
            }
            Deed::KillZooKeeper(server) => {
                let leader = self.cluster.zookeeper.leader()?;
                let number = match server {
                    Server::Leader => leader,
                    Server::Follower => leader % usize::from(ZOOKEEPERS) + 1,
                };
                self.dead = Some(number);
                self.cluster.zookeeper.kill(number)
            }
            Deed::LoseQuorum => self.signal_two(Signal::STOP),
            Deed::Slow(broker, rate) => {
                let machine = self.machines(Node::Broker(*broker)).remove(0);
                self.network.slow(&machine, rate)
            }
            Deed::Fill(broker) => self.disks()?.fill(*broker),
            Deed::Storm { times, pause } => {
                for &broker in BROKERS.iter().cycle().take(*times) {
                    self.cluster.kill(&[broker])?;
                    self.cluster.broker(broker)?.spawn()?;
                    thread::sleep(*pause);
                }
                Ok(())
            }
            Deed::RollingRestart(rounds) => {
                for &broker in BROKERS.iter().cycle().take(rounds * BROKERS.len()) {
                    self.cluster.stop(broker)?;
                    self.cluster.start_again(&[broker])?;
                    self.await_in_sync()?;
                }
                Ok(())
            }
            Deed::Swizzle(pause) => {
                let mut links = LINKS.to_vec();
                links.shuffle(&mut rand::rng());
                println!("      links are cut in the order {links:?}");
                self.each_way(&links, *pause, Stage::cut)?;
                links.shuffle(&mut rand::rng());
                println!("      and mended in the order {links:?}");
                self.each_way(&links, *pause, Stage::mend)
            }
        }
    }

    fn cut(&mut self, from: Node, to: Node) -> Result<()> {
        self.pairs(from, to).iter().try_for_each(|(from, to)| self.network.cut(from, to))
    }

    fn mend(&mut self, from: Node, to: Node) -> Result<()> {
        self.pairs(from, to).iter().try_for_each(|(from, to)| self.network.mend(from, to))
    }

    fn each_way(
        &mut self,
        links: &[(Node, Node)],
        pause: Duration,
        change: fn(&mut Stage, Node, Node) -> Result<()>,
    ) -> Result<()> {
        for &(one, other) in links {
            change(self, one, other)?;
            change(self, other, one)?;
            thread::sleep(pause);
        }
        Ok(())
    }

    fn signal_two(&mut self, signal: Signal) -> Result<()> {
        [1, 2].into_iter().try_for_each(|number| self.cluster.zookeeper.signal(number, signal))
    }

    fn disks(&self) -> Result<&Disks> {
        self.disks.as_ref().context("the disks are not small")
    }

    /// What is not done is undone as well: a deed may have failed half way.
    pub fn undo(&mut self, deed: &Deed) -> Result<()> {
        match deed {
            Deed::Kill(brokers) => self.spawn_dead(brokers),
            Deed::Storm { .. } | Deed::RollingRestart(_) => self.spawn_dead(&BROKERS),
            Deed::Pause(broker) => self.cluster.broker(*broker)?.resume(),
            Deed::Cut(from, to) => self.mend(*from, *to),
            Deed::Expire(_) => Ok(()),
            Deed::KillZooKeeper(_) => self.dead.take().map_or(Ok(()), |one| self.cluster.zookeeper.start_again(one)),
            Deed::LoseQuorum => self.signal_two(Signal::CONT),
            Deed::Slow(broker, _) => {
                let machine = self.machines(Node::Broker(*broker)).remove(0);
                self.network.swift(&machine)
            }
            Deed::Fill(broker) => {
                self.disks()?.make_room(*broker)?;
                if self.cluster.broker(*broker)?.exited()?.is_some() {
                    self.cluster.kill(&[*broker])?;
                }
                self.spawn_dead(&[*broker])
            }
            Deed::Swizzle(_) => {
                LINKS.iter().try_for_each(|&(one, other)| self.mend(one, other).and_then(|()| self.mend(other, one)))
            }
        }
    }

    fn spawn_dead(&mut self, brokers: &[i32]) -> Result<()> {
        let running = self.cluster.running();
        brokers.iter().filter(|id| !running.contains(id)).try_for_each(|&id| self.cluster.broker(id)?.spawn())
    }

    fn await_in_sync(&self) -> Result<()> {
        let topics: Vec<&str> = self.topics.iter().map(String::as_str).collect();
        self.cluster.await_isr(&topics, &BROKERS)
    }

    /// Waits until the brokers serve, know each other, and have all replicas in sync.
    pub fn await_whole(&mut self) -> Result<()> {
        for id in BROKERS {
            self.cluster.broker(id)?.await_listening().with_context(|| format!("broker {id}"))?;
        }
        self.cluster.await_whole()?;
        self.await_in_sync()
    }

    /// What there is to see of a fault; an error while there is nothing.
    pub fn look(&mut self, trace: Trace, before: &Before) -> Result<String> {
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
            Trace::Serving(servers) => {
                let serving = self.cluster.zookeeper.serving();
                ensure!(serving == servers, "{serving} ZooKeeper servers serve");
                Ok(format!("{serving} ZooKeeper servers serve"))
            }
            Trace::Ended(broker) => {
                let status = self.cluster.broker(broker)?.exited()?;
                let status = status.with_context(|| format!("broker {broker} runs"))?;
                Ok(format!("broker {broker} ended with {status}"))
            }
            Trace::StateChanged => {
                for ((topic, partition), was) in &before.states {
                    let now = self.witness.state(topic, *partition)?;
                    if now != *was {
                        return Ok(format!("the state of a partition went from {was} to {now}"));
                    }
                }
                bail!("the state of every partition is as it was")
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

    pub fn has_small_disks(&self) -> bool {
        self.disks.is_some()
    }

    pub fn log_dir(&self, broker: i32) -> PathBuf {
        let small = self.disks.as_ref().map(|disks| disks.of(&broker.to_string()).join("data"));
        small.unwrap_or_else(|| self.cluster.log_dir(broker))
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
