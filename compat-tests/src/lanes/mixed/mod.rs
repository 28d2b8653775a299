//! Klamm and a real Kafka 3.9.1 in one cluster: each follows a leader of the other kind, under a controller of either.
//!
//! ```text
//!  brokers: 1 Klamm, 3 Kafka: controllers      2 Klamm, 4 Kafka: replicas of one topic that 2 leads and one that 4 leads
//!  step: act ─ acks=all to both topics ─ ISR whole ─ every acknowledged record read at the leader ─ same bytes on both
//! ```

mod strangers;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use super::cluster::admin;
use super::load::{self, Ledger};
use crate::broker::On;
use crate::cluster::Cluster;
use crate::lane::{Run, skip};
use crate::wait::until;
use crate::znodes::ZooKeeper;

const SETTINGS: &[(&str, &str)] = &[
    ("auto.create.topics.enable", "false"),
    ("auto.leader.rebalance.enable", "false"),
    ("min.insync.replicas", "1"),
    ("controlled.shutdown.retry.backoff.ms", "200"),
    ("log.retention.ms", "-1"),
    ("log.segment.bytes", "200000"),
];
const REPLICAS: [i32; 2] = [2, 4];
/// Batches that are acknowledged in each step.
const BATCHES: u64 = 40;
const PATIENCE: Duration = Duration::from_secs(60);

/// A kind of broker: what it is called, the one that is to be the controller, and the other one's.
const KINDS: [(&str, i32, i32); 2] = [("Kafka", 3, 1), ("Klamm", 1, 3)];

pub fn lane(run: &mut Run) -> Result<()> {
    if run.on != On::Klamm {
        return skip("the lane has brokers of both kinds");
    }
    // The light form kills nobody, and no stall of a loaded machine is to end a session.
    let session = if run.full() { "6000" } else { "40000" };
    let settings = [&[("zookeeper.session.timeout.ms", session)], SETTINGS].concat();
    let (klamm, kafka) = (On::Klamm, On::Kafka);
    let kinds = [(3, &kafka), (4, &kafka), (1, &klamm), (2, &klamm)];
    let cluster = Cluster::start_of(&kinds, 1, &settings)?;
    let zookeeper = ZooKeeper::connect(&cluster.zookeeper.connect_string())?;
    let mut play = Play { run, cluster, zookeeper, written: BTreeMap::new() };
    let result = play.all();
    if result.is_err() || play.run.failures() > 0 {
        println!("{}", play.cluster.log_tails(30));
    }
    result
}

struct Play<'a> {
    run: &'a mut Run,
    cluster: Cluster,
    zookeeper: ZooKeeper,
    /// By topic.
    written: BTreeMap<String, Vec<Vec<(i32, Ledger)>>>,
}

impl Play<'_> {
    fn all(&mut self) -> Result<()> {
        let mut refused = Vec::new();
        for (kind, controller, other) in KINDS {
            self.step(&format!("{kind}'s controller takes over"), |play| play.controlled_by(controller))?;
            self.under(kind, controller)?;
            refused.push(strangers::ask(&self.cluster.address(other)?, other)?);
        }
        if let [klamm, kafka] = &refused[..] {
            for (api, answer) in kafka {
                let same = klamm.get(api).is_some_and(|other| other == answer);
                let both = || format!("Kafka answers\n{answer}\nKlamm\n{}", klamm.get(api).map_or("", String::as_str));
                let result = if same { Ok(()) } else { Err(anyhow::anyhow!(both())) };
                self.run.settled(format!("not the controller: {api}"), result);
            }
        }
        Ok(())
    }

    /// Counts a unit; what follows a failed one is not played.
    fn step(&mut self, name: &str, act: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        let since = Instant::now();
        let result = act(self);
        self.run.must(name, result, since.elapsed())
    }

    /// All stop, and it comes back first; in the light form the others are deposed until it is its turn.
    fn controlled_by(&mut self, controller: i32) -> Result<()> {
        if self.cluster.controller()? == controller {
            return Ok(());
        }
        if !self.run.full() {
            return self.cluster.make_controller(&self.zookeeper, controller);
        }
        let mut running = self.cluster.running();
        // The replicas before the others, so that somebody lets them go in order.
        running.sort_by_key(|id| !REPLICAS.contains(id));
        running.iter().try_for_each(|&id| self.cluster.stop(id))?;
        running.sort_by_key(|&id| id != controller);
        self.cluster.start_in_order(&running)
    }

    fn under(&mut self, kind: &str, controller: i32) -> Result<()> {
        let kind = kind.to_lowercase();
        let topics = [(format!("led-by-klamm-under-{kind}"), [2, 4]), (format!("led-by-kafka-under-{kind}"), [4, 2])];
        self.step(&format!("under {kind}: topics are created and written to"), |play| {
            for (topic, replicas) in &topics {
                admin::create_topic(&play.cluster, topic, &[replicas], &[])?;
                play.written.insert(topic.clone(), vec![vec![(0, Ledger::default())]]);
            }
            play.whole()?;
            play.write()
        })?;
        // In the light form only those restart that the controller is not of.
        let full = self.run.full();
        let restarted = |broker: &i32| full || (*broker == 2) == (controller == 3);
        for broker in REPLICAS.into_iter().filter(restarted) {
            let other = if broker == 2 { 4 } else { 2 };
            let name = if broker == 2 { "Klamm" } else { "Kafka" };
            self.step(&format!("under {kind}: {name} restarts"), |play| {
                play.cluster.stop(broker)?;
                play.alone(other)?;
                play.back(broker)
            })?;
            if full {
                self.step(&format!("under {kind}: {name} is killed"), |play| {
                    play.cluster.kill(&[broker])?;
                    play.alone(other)?;
                    play.back(broker)
                })?;
            }
        }
        self.step(&format!("under {kind}: replicas are the same, byte for byte"), |play| {
            let controls = play.cluster.controller()?;
            ensure!(controls == controller, "the controller is {controls}");
            until("replicas that are equal", PATIENCE, || {
                play.written.keys().try_for_each(|topic| play.cluster.same_bytes(&format!("{topic}-0"), &REPLICAS))
            })
        })
    }

    /// One of the two leads both topics, with nobody else in the ISR, and takes records.
    fn alone(&mut self, broker: i32) -> Result<()> {
        let topics: Vec<&str> = self.written.keys().map(String::as_str).collect();
        self.cluster.await_isr(&topics, &[broker])?;
        self.write()
    }

    /// It catches up, and each topic is led again by the first of its replicas.
    fn back(&mut self, broker: i32) -> Result<()> {
        self.cluster.start_again(&[broker])?;
        self.whole()?;
        self.verify()?;
        for topic in self.written.keys() {
            admin::elect_preferred(&self.cluster, topic, &[0])?;
        }
        let topics: Vec<&str> = self.written.keys().map(String::as_str).collect();
        self.cluster.await_view("the preferred leaders", |view| {
            for (at, partition) in view.of_topics(&topics)? {
                ensure!(partition.replicas.first() == Some(&partition.leader), "{at:?} is {partition:?}");
            }
            Ok(())
        })?;
        self.write()
    }

    fn whole(&self) -> Result<()> {
        let topics: Vec<&str> = self.written.keys().map(String::as_str).collect();
        self.cluster.await_isr(&topics, &REPLICAS)
    }

    /// To every topic, acknowledged by all, and read again.
    fn write(&mut self) -> Result<()> {
        for (topic, writers) in &mut self.written {
            let address = self.cluster.address(self.cluster.leader(topic, 0)?)?;
            load::run(&address, topic, -1, writers, |total| load::await_count(total, BATCHES, PATIENCE))?;
        }
        self.verify()
    }

    fn verify(&self) -> Result<()> {
        for (topic, writers) in &self.written {
            let address = self.cluster.address(self.cluster.leader(topic, 0)?)?;
            for (partition, ledger) in writers.iter().flatten() {
                load::verify(&address, topic, *partition, ledger)?;
            }
        }
        Ok(())
    }
}
