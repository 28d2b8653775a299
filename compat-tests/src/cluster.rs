//! Several brokers on one ZooKeeper, and what they say about their partitions.

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail, ensure};
use kafka_protocol::messages::{ApiKey, MetadataRequest, RequestKind, ResponseKind};
use tempfile::TempDir;

use crate::broker::{Broker, On};
use crate::network::Machine;
use crate::raw::Connection;
use crate::wait::until;
use crate::znodes::ZooKeeper;
use crate::zookeeper::Ensemble;

/// Long enough for a loaded machine; reached only by a cluster that does not heal.
const PATIENCE: Duration = Duration::from_secs(60);
/// Where files lie on no disk.
const MEMORY: &str = "/dev/shm";

/// A cluster with a directory of its own. Killed when dropped.
pub struct Cluster {
    // Brokers end before their ZooKeeper does.
    brokers: BTreeMap<i32, Broker>,
    pub zookeeper: Ensemble,
    dir: TempDir,
    /// Where ZooKeeper's data lies, unless it is beside the brokers'.
    _tree: Option<TempDir>,
}

/// A partition as Metadata tells it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Partition {
    pub error: i16,
    pub leader: i32,
    pub replicas: Vec<i32>,
    pub isr: BTreeSet<i32>,
}

/// What one broker says about the cluster.
#[derive(Debug, Default)]
pub struct View {
    /// -1 when there is none.
    pub controller: i32,
    pub brokers: BTreeSet<i32>,
    pub partitions: BTreeMap<(String, i32), Partition>,
}

impl View {
    /// As the broker at `address` has it.
    pub fn of(address: &str) -> Result<View> {
        let request = RequestKind::Metadata(MetadataRequest::default().with_topics(None));
        let answer = Connection::open(address)?.ask(ApiKey::Metadata, 1, &request)?;
        let ResponseKind::Metadata(metadata) = answer else { bail!("another API's answer") };
        let mut view = View { controller: metadata.controller_id.0, ..View::default() };
        view.brokers.extend(metadata.brokers.iter().map(|broker| broker.node_id.0));
        for topic in metadata.topics {
            let name = topic.name.map(|name| name.to_string()).unwrap_or_default();
            for partition in topic.partitions {
                let told = Partition {
                    error: partition.error_code,
                    leader: partition.leader_id.0,
                    replicas: partition.replica_nodes.iter().map(|id| id.0).collect(),
                    isr: partition.isr_nodes.iter().map(|id| id.0).collect(),
                };
                view.partitions.insert((name.clone(), partition.partition_index), told);
            }
        }
        Ok(view)
    }

    /// The partitions of these topics. A topic without any is a complaint.
    pub fn of_topics<'a>(&'a self, topics: &'a [&str]) -> Result<Vec<(&'a (String, i32), &'a Partition)>> {
        for topic in topics {
            ensure!(self.partitions.keys().any(|(name, _)| name == topic), "{topic} is unknown");
        }
        Ok(self.partitions.iter().filter(|((name, _), _)| topics.contains(&name.as_str())).collect())
    }
}

impl Cluster {
    /// Starts the brokers `ids`, the first of them alone until it serves: it becomes the controller.
    pub fn start(on: &On, ids: &[i32], zookeepers: usize, settings: &[(&str, &str)]) -> Result<Cluster> {
        let kinds: Vec<(i32, &On)> = ids.iter().map(|&id| (id, on)).collect();
        Cluster::start_of(&kinds, zookeepers, settings)
    }

    /// As [`Cluster::start`], each broker of its kind.
    pub fn start_of(kinds: &[(i32, &On)], zookeepers: usize, settings: &[(&str, &str)]) -> Result<Cluster> {
        let here = |&(id, on)| (id, on, Machine::this());
        let brokers: Vec<(i32, &On, Machine)> = kinds.iter().map(here).collect();
        let dir = TempDir::with_prefix("compat-")?;
        let zookeeper = Ensemble::start(dir.path(), zookeepers)?;
        Cluster::start_with(dir, None, zookeeper, &brokers, settings, &[])
    }

    /// As [`Cluster::start`], each broker and each ZooKeeper server on its machine, ZooKeeper's data in `tree`, brokers
    /// with these variables.
    pub fn start_on(
        on: &On,
        brokers: &[(i32, Machine)],
        zookeepers: &[Machine],
        tree: TempDir,
        settings: &[(&str, &str)],
        environment: &[(String, String)],
    ) -> Result<Cluster> {
        let zookeeper = Ensemble::start_on(zookeepers, tree.path())?;
        let brokers: Vec<_> = brokers.iter().map(|(id, machine)| (*id, on, machine.clone())).collect();
        Cluster::start_with(TempDir::with_prefix("compat-")?, Some(tree), zookeeper, &brokers, settings, environment)
    }

    fn start_with(
        dir: TempDir,
        tree: Option<TempDir>,
        zookeeper: Ensemble,
        places: &[(i32, &On, Machine)],
        settings: &[(&str, &str)],
        environment: &[(String, String)],
    ) -> Result<Cluster> {
        let connect = zookeeper.connect_string();
        let mut brokers = BTreeMap::new();
        for (id, on, machine) in places {
            let folder = dir.path().join(format!("broker-{id}"));
            let mut broker = Broker::of_cluster_on(machine.clone(), on, *id, &folder, &connect, settings)?;
            broker.set_environment(environment);
            brokers.insert(*id, broker);
        }
        let mut cluster = Cluster { brokers, zookeeper, dir, _tree: tree };
        let ids: Vec<i32> = places.iter().map(|(id, ..)| *id).collect();
        cluster.start_in_order(&ids)?;
        Ok(cluster)
    }

    /// Starts brokers while none runs: the first of them becomes the controller, then the others follow at once.
    pub fn start_in_order(&mut self, ids: &[i32]) -> Result<()> {
        let Some((first, others)) = ids.split_first() else { return Ok(()) };
        self.broker(*first)?.start_again()?;
        until("a controller", PATIENCE, || {
            let controller = self.controller()?;
            ensure!(controller == *first, "the controller is {controller}");
            Ok(())
        })?;
        self.start_again(others)
    }

    pub fn broker(&mut self, id: i32) -> Result<&mut Broker> {
        self.brokers.get_mut(&id).with_context(|| format!("no broker has id {id}"))
    }

    /// Those that were started and neither stopped nor killed since.
    pub fn running(&self) -> Vec<i32> {
        self.brokers.iter().filter(|(_, broker)| broker.runs()).map(|(id, _)| *id).collect()
    }

    /// The addresses of all brokers, for clients.
    pub fn bootstrap(&self) -> String {
        self.brokers.values().map(Broker::address).collect::<Vec<_>>().join(",")
    }

    pub fn address(&self, id: i32) -> Result<String> {
        self.brokers.get(&id).map(Broker::address).with_context(|| format!("no broker has id {id}"))
    }

    pub fn log_dir(&self, id: i32) -> PathBuf {
        self.dir.path().join(format!("broker-{id}")).join("data")
    }

    /// Starts stopped or killed brokers at once and waits until every running broker knows them all.
    pub fn start_again(&mut self, ids: &[i32]) -> Result<()> {
        for &id in ids {
            self.broker(id)?.spawn()?;
        }
        for &id in ids {
            self.broker(id)?.await_listening().with_context(|| format!("broker {id}"))?;
        }
        self.await_whole()
    }

    /// Waits until every running broker knows all of them, nobody else, and one of them as the controller.
    pub fn await_whole(&self) -> Result<()> {
        let running: BTreeSet<i32> = self.running().into_iter().collect();
        self.await_view("brokers known to each other", |view| {
            ensure!(view.brokers == running, "{:?} are known of {running:?}", view.brokers);
            ensure!(running.contains(&view.controller), "the controller is {}", view.controller);
            Ok(())
        })
    }

    /// SIGTERM, and waits for an end in order.
    pub fn stop(&mut self, id: i32) -> Result<()> {
        self.broker(id)?.stop_in_order().with_context(|| format!("broker {id}"))
    }

    /// SIGKILL to each, and waits for their ends.
    pub fn kill(&mut self, ids: &[i32]) -> Result<()> {
        ids.iter().try_for_each(|&id| self.broker(id)?.kill())
    }

    /// What any running broker says.
    pub fn view(&self) -> Result<View> {
        let views = self.running().into_iter().map(|id| View::of(&self.address(id)?));
        let mut last = Err(anyhow!("no broker runs"));
        for view in views {
            if view.is_ok() {
                return view;
            }
            last = view;
        }
        last
    }

    pub fn controller(&self) -> Result<i32> {
        let controller = self.view()?.controller;
        ensure!(controller >= 0, "there is no controller");
        Ok(controller)
    }

    pub fn leader(&self, topic: &str, partition: i32) -> Result<i32> {
        let view = self.view()?;
        let told = view.partitions.get(&(topic.to_owned(), partition));
        let leader = told.with_context(|| format!("{topic}-{partition} is unknown"))?.leader;
        ensure!(leader >= 0, "{topic}-{partition} has no leader");
        Ok(leader)
    }

    /// Deposes controllers until it is this broker's turn, and all know it.
    pub fn make_controller(&self, zookeeper: &ZooKeeper, id: i32) -> Result<()> {
        zookeeper.make_controller(id)?;
        self.await_view("the controller", |view| {
            ensure!(view.controller == id, "it is {}", view.controller);
            Ok(())
        })
    }

    /// Waits until no running broker's view gives a complaint.
    pub fn await_view(&self, what: &str, complaint: impl Fn(&View) -> Result<()>) -> Result<()> {
        let running = self.running();
        until(what, PATIENCE, || {
            for &id in &running {
                View::of(&self.address(id)?)
                    .and_then(|view| complaint(&view))
                    .with_context(|| format!("broker {id}"))?;
            }
            Ok(())
        })
    }

    /// Waits until every running broker says that these topics' partitions have all of `isr` that are their replicas in
    /// their ISR, nobody else, and a leader among them.
    pub fn await_isr(&self, topics: &[&str], isr: &[i32]) -> Result<()> {
        self.await_view(&format!("the ISR {isr:?}"), |view| {
            for ((topic, partition), told) in view.of_topics(topics)? {
                let wanted: BTreeSet<i32> = told.replicas.iter().copied().filter(|id| isr.contains(id)).collect();
                let whole = told.isr == wanted && wanted.contains(&told.leader);
                ensure!(whole && told.error == 0, "{topic}-{partition} is {told:?}");
            }
            Ok(())
        })
    }

    /// Whether these brokers hold the same bytes of a partition, `TOPIC-PARTITION`, however cut into segments.
    pub fn same_bytes(&self, partition: &str, brokers: &[i32]) -> Result<()> {
        let logs: Vec<Vec<u8>> =
            brokers.iter().map(|&id| log(&self.log_dir(id).join(partition))).collect::<Result<_>>()?;
        let first = logs.first().map(Vec::as_slice).unwrap_or_default();
        ensure!(!first.is_empty(), "{partition} is empty");
        for (broker, log) in brokers.iter().zip(&logs) {
            let common = first.iter().zip(log).take_while(|(a, b)| a == b).count();
            ensure!(
                log == first,
                "{partition} has {} bytes on broker {}, {} on broker {broker}, and they differ from byte {common} on",
                first.len(),
                brokers[0],
                log.len()
            );
        }
        Ok(())
    }

    /// The ends of all brokers' logs.
    pub fn log_tails(&self, lines: usize) -> String {
        let tails = self.brokers.iter().map(|(id, broker)| format!("-- broker {id}\n{}\n", broker.log_tail(lines)));
        tails.collect()
    }
}

/// A directory whose files are on no disk, where there is one.
pub fn in_memory() -> Result<TempDir> {
    let memory = Some(Path::new(MEMORY)).filter(|dir| dir.is_dir()).map_or_else(env::temp_dir, Path::to_owned);
    Ok(TempDir::with_prefix_in("compat-", memory)?)
}

/// All segments of a partition, one after the other.
pub fn log(dir: &Path) -> Result<Vec<u8>> {
    let mut segments = Vec::new();
    for entry in fs::read_dir(dir).with_context(|| dir.display().to_string())? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "log") {
            segments.push(path);
        }
    }
    segments.sort();
    let mut bytes = Vec::new();
    for segment in segments {
        bytes.extend(fs::read(segment)?);
    }
    Ok(bytes)
}
