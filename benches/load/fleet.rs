//! The servers of a run. Some serve many rows, some belong to one row over its rounds, some live for one measurement.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use crate::cluster::{BROKERS, Cluster};
use crate::connection::Connection;
use crate::drive::{Amount, Closed, Consume, Ledger, Outcome, Peer};
use crate::machine::server::Mode;
use crate::process::{Program, Server};
use crate::wire::{Batch, Produce};
use crate::{admin, progress};

/// A column of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Who {
    Limit,
    Klamm,
    Kafka,
}

impl Who {
    pub fn name(self) -> &'static str {
        match self {
            Who::Limit => "P",
            Who::Klamm => "Klamm",
            Who::Kafka => "Kafka",
        }
    }
}

pub struct Fleet {
    pub klamm: PathBuf,
    pub kafka_jars: Option<PathBuf>,
    /// How the limit program answers fetches.
    pub sender: Mode,
    /// Where data directories are made.
    pub dir: PathBuf,
    /// Timestamp of all records of the run: equal batches have equal checksums.
    pub timestamp_ms: i64,
    limits: BTreeMap<Mode, Server>,
    resident: BTreeMap<Who, Server>,
    clusters: BTreeMap<Who, Cluster>,
    kept: BTreeMap<(Who, &'static str), Server>,
    topics: BTreeMap<(Who, String), String>,
    counter: u64,
}

impl Fleet {
    pub fn new(klamm: PathBuf, kafka_jars: Option<PathBuf>, sender: Mode, dir: PathBuf) -> Outcome<Fleet> {
        let timestamp_ms = SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis() as i64;
        Ok(Fleet {
            klamm,
            kafka_jars,
            sender,
            dir,
            timestamp_ms,
            limits: BTreeMap::new(),
            resident: BTreeMap::new(),
            clusters: BTreeMap::new(),
            kept: BTreeMap::new(),
            topics: BTreeMap::new(),
            counter: 0,
        })
    }

    fn program(&self, who: Who) -> Outcome<Program> {
        match (who, &self.kafka_jars) {
            (Who::Klamm, _) => Ok(Program::Klamm(self.klamm.clone())),
            (Who::Kafka, Some(jars)) => Ok(Program::Kafka(jars.clone())),
            (Who::Kafka, None) => Err("no --kafka-jars".into()),
            (Who::Limit, _) => Err("the limit program has no such row".into()),
        }
    }

    /// The server that most rows load: the limit program in `mode`, or a broker that has been running for a while.
    pub fn peer(&mut self, who: Who, mode: Mode) -> Outcome<Peer> {
        if who == Who::Limit {
            if !self.limits.get_mut(&mode).is_some_and(Server::alive) {
                let server = Server::start(&Program::Limit(mode), &self.dir)?;
                server.listening()?;
                self.limits.insert(mode, server);
            }
            return Ok(self.limits[&mode].peer());
        }
        if !self.resident.get_mut(&who).is_some_and(Server::alive) {
            let server = self.fresh(who)?;
            server.listening()?;
            if who == Who::Kafka {
                self.warm_up(&server.peer(), 1)?;
            }
            self.topics.retain(|(owner, _), _| *owner != who);
            self.resident.insert(who, server);
        }
        Ok(self.resident[&who].peer())
    }

    /// Three brokers over empty directories.
    pub fn fresh_cluster(&self, who: Who) -> Outcome<Cluster> {
        let jars = self.kafka_jars.as_ref().ok_or("ZooKeeper is taken from --kafka-jars")?;
        Cluster::start(&self.program(who)?, jars, &self.dir)
    }

    /// Has `work` done on three brokers that have been running for a while. Should it fail, the next one gets others.
    pub fn on_cluster<T>(&mut self, who: Who, work: impl FnOnce(&mut Cluster, &str, i64) -> Outcome<T>) -> Outcome<T> {
        let topic = self.fresh_topic();
        let mut cluster = match self.clusters.remove(&who) {
            Some(cluster) => cluster,
            None => {
                let cluster = self.fresh_cluster(who)?;
                if who == Who::Kafka {
                    for _ in 0..BROKERS {
                        self.warm_up(&cluster.any(0)?.peer(), BROKERS as i16)?;
                    }
                }
                cluster
            }
        };
        let done = work(&mut cluster, &topic, self.timestamp_ms)?;
        self.clusters.insert(who, cluster);
        Ok(done)
    }

    /// A server over an empty directory, just started. It may not listen yet.
    pub fn fresh(&self, who: Who) -> Outcome<Server> {
        Server::start(&self.program(who)?, &self.dir)
    }

    /// Klamm with its instructions counted, over an empty directory.
    pub fn counted(&self) -> Outcome<Server> {
        Server::start(&Program::Counted(self.klamm.clone()), &self.dir)
    }

    /// A bare listener, just started.
    pub fn bare_listener(&self) -> Outcome<Server> {
        Server::start(&Program::Limit(Mode::Pong), &self.dir)
    }

    /// A server that stays for all rounds of a row, prepared once.
    pub fn kept(
        &mut self,
        who: Who,
        key: &'static str,
        prepare: impl FnOnce(&Server) -> Outcome<()>,
    ) -> Outcome<&mut Server> {
        if !self.kept.contains_key(&(who, key)) {
            let server = self.fresh(who)?;
            server.listening()?;
            prepare(&server)?;
            self.kept.insert((who, key), server);
        }
        self.kept.get_mut(&(who, key)).ok_or_else(|| "not kept".into())
    }

    /// A topic of the resident server that stays for all rounds of a row.
    pub fn topic(&mut self, who: Who, key: &str, make: impl FnOnce(&str) -> Outcome<()>) -> Outcome<String> {
        let at = (who, key.to_string());
        if let Some(name) = self.topics.get(&at) {
            return Ok(name.clone());
        }
        let name = self.fresh_topic();
        if who != Who::Limit {
            make(&name)?;
        }
        self.topics.insert(at, name.clone());
        Ok(name)
    }

    pub fn fresh_topic(&mut self) -> String {
        self.counter += 1;
        format!("load-{}-{}", std::process::id(), self.counter)
    }

    /// Forgets what was made for one row's rounds.
    pub fn end_row(&mut self, who: Who) {
        self.kept.retain(|(owner, _), _| *owner != who);
        let (gone, stay): (BTreeMap<_, _>, _) =
            std::mem::take(&mut self.topics).into_iter().partition(|((owner, _), _)| *owner == who);
        self.topics = stay;
        for ((who, _), name) in gone {
            if let Some(server) = self.resident.get(&who) {
                // A server that has died meanwhile is noticed by the next row.
                let _ = admin::delete_topic(&server.addr, &name);
            }
        }
    }

    /// A JVM's first minute is spent compiling: let it do that before anything is measured.
    fn warm_up(&self, entry: &Peer, replicas: i16) -> Outcome<()> {
        progress::say("Kafka warms up");
        let begin = Instant::now();
        let small = Batch::new(1, 100, self.timestamp_ms);
        let medium = Batch::filling(16 << 10, 1024, self.timestamp_ms);
        let large = Batch::filling(512 << 10, 1024, self.timestamp_ms);
        while begin.elapsed().as_secs() < 24 {
            for (batch, connections, window) in [(&small, 16, 4), (&medium, 1, 8), (&large, 1, 4)] {
                let topic = format!("warm-{}", begin.elapsed().as_millis());
                admin::create_replicated(&entry.addr, &topic, 1, replicas, &[])?;
                let peer = Peer { addr: admin::leader_addr(&entry.addr, &topic)?, ..entry.clone() };
                admin::settle(&mut Connection::open(&peer.addr)?, &Produce::one(&topic, 0, -1, batch))?;
                let mut ledger = Ledger::open(&peer, &topic, 1, batch)?;
                let requests = [Produce::one(&topic, 0, -1, batch)];
                let (warm, measured) = (Amount::Secs(0.0), Amount::Secs(2.0));
                Closed { requests: &requests, connections, window, warm, measured }.run(&peer, &mut ledger)?;
                ledger.check()?;
                let end = admin::end_offsets(&peer.addr, &topic, 1)?[0];
                Consume::all(&topic, 0..end, batch, 1, 0.0, 0.7).run(&peer)?;
                admin::delete_topic(&admin::controller_addr(&entry.addr)?, &topic)?;
            }
        }
        Ok(())
    }
}
