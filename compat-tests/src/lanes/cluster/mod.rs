//! Three brokers on a ZooKeeper lose each other, while two producers write and a group reads.
//!
//! ```text
//!  step: act ─ wait until the ISR is what it must be ─ every partition acknowledges again ─ each acknowledged record is
//!        checked
//! ```
//!
//! What was acknowledged by all is there once, at its offset, in its order. What a leader acknowledged alone may be lost
//! with it, from some record to the end of its log; how much was is said.

pub mod admin;
mod alarms;
mod failover;
mod group;
mod load;

use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rustix::process::Signal;

use crate::broker::On;
use crate::cluster::{Cluster, View};
use crate::lane::{Run, skip};
use crate::wait::until;
use crate::znodes::ZooKeeper;
use group::{GROUP, Member};
pub use load::client;
use load::{ALL, Load, ONE, REPLICAS};

const BROKERS: [i32; 3] = [1, 2, 3];
/// The first broker is the controller.
const START: [i32; 3] = [2, 1, 3];
const SETTINGS: &[(&str, &str)] = &[
    ("broker.rack", "dc1"),
    ("zookeeper.session.timeout.ms", "6000"),
    ("auto.create.topics.enable", "false"),
    ("auto.leader.rebalance.enable", "false"),
    ("offsets.topic.num.partitions", "3"),
    ("offsets.topic.replication.factor", "3"),
    ("min.insync.replicas", "2"),
    ("group.initial.rebalance.delay.ms", "0"),
    ("controlled.shutdown.retry.backoff.ms", "200"),
    ("log.retention.ms", "-1"),
    ("log.segment.bytes", "1000000"),
];
/// In ms: a third of a session, which leaves leaders time to see a follower that lags before the controller sees it gone.
const LAG: &str = "2000";
const LOADED: [&str; 2] = [ALL, ONE];

pub fn lane(run: &mut Run) -> Result<()> {
    if matches!(run.on, On::At(_)) {
        return skip("brokers of others cannot be killed");
    }
    let zookeepers = if run.full() { 3 } else { 1 };
    let cluster = Cluster::start(&run.on, &START, zookeepers, SETTINGS)?;
    play(run, cluster, |play| play.all())?;
    match run.on == On::Klamm && run.full() {
        true => play(run, failover::cluster(&run.on)?, |play| play.deaths()),
        false => Ok(()),
    }
}

/// Puts both topics and the load into a cluster, and has it played with.
fn play(run: &mut Run, cluster: Cluster, act: impl FnOnce(&mut Play<'_>) -> Result<()>) -> Result<()> {
    let zookeeper = ZooKeeper::connect(&cluster.zookeeper.connect_string())?;
    admin::create_topic(&cluster, ALL, REPLICAS, &[])?;
    admin::create_topic(&cluster, ONE, REPLICAS, &[("min.insync.replicas", Some("1"))])?;
    cluster.await_isr(&LOADED, &BROKERS)?;
    let load = Load::start(&cluster)?;
    let mut play = Play { run, cluster, zookeeper, load };
    let result = act(&mut play);
    if result.is_err() || play.run.failures() > 0 {
        println!("{}", play.cluster.log_tails(20));
    }
    result
}

struct Play<'a> {
    run: &'a mut Run,
    cluster: Cluster,
    zookeeper: ZooKeeper,
    load: Load,
}

impl Play<'_> {
    fn all(&mut self) -> Result<()> {
        self.a_leader_dies()?;
        if self.run.full() {
            self.a_follower_is_stopped()?;
            self.the_controller_is_deposed()?;
        }
        self.back_at_once()?;
        self.a_leader_is_stopped()?;
        self.coordinator_dies()?;
        if self.run.full() {
            self.more_deaths()?;
        }
        self.all_die()?;
        if self.run.full() {
            self.long_pauses()?;
            self.zookeeper_failures()?;
            self.rolling_restart()?;
            self.a_follower_lags()?;
        }
        self.converged()
    }

    fn a_leader_dies(&mut self) -> Result<()> {
        self.step("kill -9 of a leader", |cluster, _| {
            cluster.kill(&[1])?;
            cluster.await_isr(&LOADED, &[2, 3])
        })?;
        self.step("it comes back", |cluster, _| back(cluster, &[1]))
    }

    fn a_leader_is_stopped(&mut self) -> Result<()> {
        self.step("SIGTERM of a leader", |cluster, _| {
            let leader = cluster.leader(ALL, 0)?;
            cluster.stop(leader)?;
            cluster.await_isr(&LOADED, &others(leader))?;
            back(cluster, &[leader])
        })
    }

    /// Whoever listens first is asked for brokers before the new controller has spoken.
    fn all_die(&mut self) -> Result<()> {
        self.step("kill -9 of all three", |cluster, _| {
            cluster.kill(&BROKERS)?;
            back(cluster, &BROKERS)
        })
    }

    /// Does `act`, waits until all partitions take records again, and counts what that has cost.
    fn step(&mut self, name: &str, act: impl FnOnce(&mut Cluster, &Load) -> Result<()>) -> Result<()> {
        let since = Instant::now();
        let (cluster, load) = (&mut self.cluster, &self.load);
        let result = act(cluster, load).and_then(|()| load.await_flow()).and_then(|()| load.cost(cluster, since));
        let (name, result) = match result {
            Ok(cost) => {
                let still = |topic: &str| cost.stood_still.get(topic).copied().unwrap_or_default().as_secs_f32();
                let mut lost = if cost.lost > 0 { format!(", {} of acks=1 lost", cost.lost) } else { String::new() };
                if cost.let_go > 0 {
                    lost += &format!(", {} so far given up by the client", cost.let_go);
                }
                let told =
                    format!("writes stood still {:.2} s with acks=all, {:.2} s with acks=1", still(ALL), still(ONE));
                (format!("{name}: {told}{lost}"), Ok(()))
            }
            Err(error) => (name.to_owned(), Err(error)),
        };
        self.run.must(name, result, since.elapsed())
    }

    fn a_follower_is_stopped(&mut self) -> Result<()> {
        self.step("the preferred leaders lead again", |cluster, _| {
            LOADED.iter().try_for_each(|topic| admin::elect_preferred(cluster, topic, &[0, 1, 2]))?;
            // What the old leaders acknowledge to the end belongs to this step.
            cluster.await_view("the preferred leaders", |view| {
                for (at, partition) in view.of_topics(&LOADED)? {
                    ensure!(partition.replicas.first() == Some(&partition.leader), "{at:?} is {partition:?}");
                }
                Ok(())
            })
        })?;
        self.step("SIGTERM of a follower", |cluster, _| {
            cluster.stop(3)?;
            cluster.await_isr(&LOADED, &[1, 2])
        })?;
        self.step("it comes back", |cluster, _| back(cluster, &[3]))
    }

    /// As an operator does who wants another controller.
    fn the_controller_is_deposed(&mut self) -> Result<()> {
        let before = self.zookeeper.epoch()?;
        self.zookeeper.delete("/controller")?;
        self.step("/controller was deleted by hand", |cluster, _| cluster.await_whole())?;
        until("another epoch", Duration::from_secs(60), || {
            let epoch = self.zookeeper.epoch()?;
            ensure!(epoch > before, "it is {epoch}");
            Ok(())
        })
    }

    /// A broker that was killed is started at once: it does not wait until its session is over, and others have seen that
    /// it was gone. A Kafka ends in words as long as its session lasts.
    fn back_at_once(&mut self) -> Result<()> {
        if self.run.on == On::Kafka {
            return Ok(());
        }
        self.step("kill -9 of the controller, which is started at once", |cluster, _| {
            let controller = cluster.controller()?;
            let before = cluster.broker(controller)?.log_text().len();
            cluster.kill(&[controller])?;
            back(cluster, &[controller])?;
            let log = cluster.broker(controller)?.log_text();
            let said = log.get(before..).unwrap_or_default();
            ensure!(!said.contains("waiting for its end"), "it waited for its own session: {said}");
            Ok(())
        })
    }

    /// Deaths that leave nothing new in the tree.
    fn more_deaths(&mut self) -> Result<()> {
        self.step("kill -9 of the controller", |cluster, _| {
            let controller = cluster.controller()?;
            cluster.kill(&[controller])?;
            let others = others(controller);
            cluster.await_isr(&LOADED, &others)?;
            cluster.await_whole()?;
            back(cluster, &[controller])
        })?;
        self.step("a broker whose disk is emptied", |cluster, _| {
            cluster.kill(&[3])?;
            cluster.await_isr(&LOADED, &[1, 2])?;
            fs::remove_dir_all(cluster.log_dir(3))?;
            back(cluster, &[3])
        })
    }

    /// With a setting that only a start changes.
    fn rolling_restart(&mut self) -> Result<()> {
        for broker in BROKERS {
            self.step(&format!("rolling restart: broker {broker}"), |cluster, _| {
                cluster.stop(broker)?;
                cluster.broker(broker)?.set("replica.lag.time.max.ms", LAG)?;
                back(cluster, &[broker])
            })?;
        }
        Ok(())
    }

    /// A follower that does not fetch leaves the ISR while its session lasts: by its leaders' doing, not the controller's.
    fn a_follower_lags(&mut self) -> Result<()> {
        self.step("SIGSTOP of a follower for longer than replica.lag.time.max.ms", |cluster, _| {
            let view = cluster.view()?;
            let partitions = view.of_topics(&LOADED)?;
            let idle = |id: &i32| view.controller != *id && partitions.iter().all(|(_, told)| told.leader != *id);
            let follower = BROKERS.into_iter().find(idle).context("every broker leads, or is the controller")?;
            while_paused(cluster, follower, "an ISR without the follower", |view| {
                ensure!(view.brokers.contains(&follower), "its session is over: {:?}", view.brokers);
                for (at, told) in view.of_topics(&LOADED)? {
                    ensure!(!told.isr.contains(&follower), "{at:?} is {told:?}");
                }
                Ok(())
            })?;
            cluster.await_isr(&LOADED, &BROKERS)
        })
    }

    /// The group's coordinator is killed: its only member goes on, and nothing committed is lost.
    fn coordinator_dies(&mut self) -> Result<()> {
        let mut member = Member::join(&self.cluster)?;
        member.advance()?;
        let coordinator = admin::coordinator(&self.cluster, GROUP)?;
        let mut paused = Duration::ZERO;
        self.step("kill -9 of a group's coordinator", |cluster, _| {
            cluster.kill(&[coordinator])?;
            let killed = Instant::now();
            member.advance()?;
            paused = killed.elapsed();
            member.check_committed()?;
            let now = admin::coordinator(cluster, GROUP)?;
            ensure!(now != coordinator, "the dead broker {now} still coordinates");
            back(cluster, &[coordinator])?;
            member.advance()?;
            member.check_committed()
        })?;
        println!("      the group stood still {:.2} s", paused.as_secs_f32());
        Ok(())
    }

    /// Brokers that are gone for longer than their sessions, and do not know it.
    fn long_pauses(&mut self) -> Result<()> {
        for _ in 0..3 {
            self.step("SIGSTOP of a leader for longer than its session", |cluster, _| {
                let leader = cluster.leader(ALL, 0)?;
                while_paused(cluster, leader, "another leader", |view| {
                    for (_, partition) in view.of_topics(&LOADED)? {
                        ensure!(partition.leader != leader && !partition.isr.contains(&leader), "{partition:?}");
                    }
                    Ok(())
                })?;
                cluster.await_isr(&LOADED, &BROKERS)
            })?;
        }
        Ok(())
    }

    /// One ZooKeeper server, then the quorum: who leads goes on.
    fn zookeeper_failures(&mut self) -> Result<()> {
        self.step("kill -9 of the leading ZooKeeper server", |cluster, _| {
            let leader = cluster.zookeeper.leader()?;
            cluster.zookeeper.kill(leader)?;
            cluster.zookeeper.start_again(leader)?;
            cluster.await_isr(&LOADED, &BROKERS)
        })?;
        self.step("ZooKeeper without a quorum", |cluster, load| {
            let servers = [1, 2];
            servers.iter().try_for_each(|&server| cluster.zookeeper.signal(server, Signal::STOP))?;
            let flows = load.await_flow();
            servers.iter().try_for_each(|&server| cluster.zookeeper.signal(server, Signal::CONT))?;
            flows?;
            cluster.await_isr(&LOADED, &BROKERS)
        })
    }

    /// When nobody writes any more, all replicas of a partition hold the same bytes.
    fn converged(&mut self) -> Result<()> {
        let started = Instant::now();
        let acknowledged = self.load.acknowledged();
        let (load, cluster) = (&mut self.load, &self.cluster);
        let result = load.stop().and_then(|()| {
            until("replicas that are equal", Duration::from_secs(30), || {
                for topic in LOADED {
                    for partition in 0..REPLICAS.len() {
                        cluster.same_bytes(&format!("{topic}-{partition}"), &BROKERS)?;
                    }
                }
                Ok(())
            })
        });
        let name = format!("all replicas are the same, byte for byte; {acknowledged} records were acknowledged");
        self.run.must(name, result, started.elapsed())
    }
}

fn others(broker: i32) -> Vec<i32> {
    BROKERS.into_iter().filter(|&id| id != broker).collect()
}

/// Stops a broker until another one's view gives no complaint: it itself answers nobody.
fn while_paused(cluster: &mut Cluster, broker: i32, what: &str, complaint: impl Fn(&View) -> Result<()>) -> Result<()> {
    let another = cluster.address(others(broker)[0])?;
    cluster.broker(broker)?.pause()?;
    let seen = until(what, Duration::from_secs(60), || complaint(&View::of(&another)?));
    cluster.broker(broker)?.resume()?;
    seen
}

/// Starts them and waits until they have caught up.
fn back(cluster: &mut Cluster, brokers: &[i32]) -> Result<()> {
    cluster.start_again(brokers)?;
    cluster.await_isr(&LOADED, &BROKERS)
}
