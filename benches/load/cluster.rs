//! Three brokers on one ZooKeeper server. They share all cores with the load.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use crate::admin::{Metadata, metadata};
use crate::connection::Connection;
use crate::drive::{Outcome, Peer};
use crate::process::{Member, Program, Server};
use crate::zookeeper::ZooKeeper;

pub const BROKERS: i32 = 3;
const PATIENCE: Duration = Duration::from_secs(120);
/// In this run.
static STARTED: AtomicU32 = AtomicU32::new(0);

pub struct Cluster {
    /// In the order they end in: brokers first.
    brokers: Vec<Server>,
    _zookeeper: ZooKeeper,
    dir: PathBuf,
}

impl Cluster {
    /// Starts over empty directories below `parent`; returns when each broker knows the others.
    pub fn start(program: &Program, jars: &Path, parent: &Path) -> Outcome<Cluster> {
        std::fs::create_dir_all(parent)?;
        // Another cluster of this run may still be there.
        let (run, nth) = (std::process::id(), STARTED.fetch_add(1, Ordering::Relaxed));
        let dir = parent.join(format!("klamm-load-{run}-cluster-{}-{nth}", program.name()));
        std::fs::create_dir(&dir)?;
        let zookeeper = ZooKeeper::start(jars, &dir)?;
        let member = |id| Member { id, zookeeper: zookeeper.connect.clone() };
        let brokers = (1..=BROKERS).map(|id| Server::join(program, &dir, member(id))).collect::<Outcome<_>>()?;
        let cluster = Cluster { brokers, _zookeeper: zookeeper, dir };
        let until = Instant::now() + PATIENCE;
        for broker in &cluster.brokers {
            broker.listening()?;
            let mut c = Connection::open(&broker.addr)?;
            while metadata(&mut c, "")?.brokers.len() < BROKERS as usize {
                past(until, "brokers do not know each other")?;
            }
        }
        Ok(cluster)
    }

    pub fn broker(&self, id: i32) -> Outcome<&Server> {
        self.brokers.get(place(id)?).ok_or_else(|| "no such broker".into())
    }

    pub fn broker_mut(&mut self, id: i32) -> Outcome<&mut Server> {
        self.brokers.get_mut(place(id)?).ok_or_else(|| "no such broker".into())
    }

    pub fn pids(&self) -> Vec<u32> {
        self.brokers.iter().map(Server::pid).collect()
    }

    /// Any broker that runs, but `without`.
    pub fn any(&self, without: i32) -> Outcome<&Server> {
        let others = self.brokers.iter().zip(1..).filter(|(broker, id)| *id != without && broker.pid() != 0);
        others.map(|(broker, _)| broker).next().ok_or_else(|| "no broker runs".into())
    }

    /// A broker as the load speaks to it: all of them pay for what is asked of one.
    pub fn peer(&self, id: i32) -> Outcome<Peer> {
        let paying = self.pids();
        Ok(Peer { paying, ..self.broker(id)?.peer() })
    }

    /// What a broker other than `without` says.
    pub fn metadata(&self, topic: &str, without: i32) -> Outcome<Metadata> {
        Ok(metadata(&mut Connection::open(&self.any(without)?.addr)?, topic)?)
    }

    /// Leader of partition 0.
    pub fn leader(&self, topic: &str) -> Outcome<i32> {
        let known = self.metadata(topic, 0)?;
        known.partitions.get(&0).map(|partition| partition.leader).ok_or_else(|| "no such partition".into())
    }

    /// Returns when so many replicas of partition 0 are in sync, as every broker sees it.
    pub fn in_sync(&self, topic: &str, replicas: usize) -> Outcome<()> {
        let mut running = self.brokers.iter().filter(|broker| broker.pid() != 0);
        running.try_for_each(|broker| in_sync_at(&broker.addr, topic, replicas))
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.brokers.clear();
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

/// As [`Cluster::in_sync`], as one broker sees it.
pub fn in_sync_at(addr: &str, topic: &str, replicas: usize) -> Outcome<()> {
    all_in_sync_at(addr, topic, 1, replicas)
}

/// Returns when so many replicas of each of so many partitions are in sync, as one broker sees it.
pub fn all_in_sync_at(addr: &str, topic: &str, partitions: usize, replicas: usize) -> Outcome<()> {
    let until = Instant::now() + PATIENCE;
    let mut c = Connection::open(addr)?;
    let whole = |known: Metadata| {
        known.partitions.len() == partitions && known.partitions.values().all(|one| one.isr.len() == replicas)
    };
    while !whole(metadata(&mut c, topic)?) {
        past(until, "replicas do not catch up")?;
    }
    Ok(())
}

fn place(id: i32) -> Outcome<usize> {
    Ok(usize::try_from(id - 1)?)
}

fn past(until: Instant, what: &str) -> Outcome<()> {
    if Instant::now() > until {
        return Err(what.into());
    }
    std::thread::sleep(Duration::from_millis(2));
    Ok(())
}
