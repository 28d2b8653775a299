//! Deeds done and undone.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rand::seq::SliceRandom;
use rustix::process::Signal;

use super::super::expiry::expire;
use super::super::fault::{CONTROLLER, Deed, FOLLOWER, Harm, LEADER, Node, Server, Way};
use super::super::flood::Flood;
use super::{BROKERS, REPLICAS, Stage, ZOOKEEPERS};
use crate::lanes::bad_disks::Injected;
use crate::lanes::cluster::admin;
use crate::proxy::{Order, Pace, Side};
use crate::wait::until;
use crate::znodes::ZooKeeper;

/// What is cut one by one.
const LINKS: &[Way] = &[
    (Node::Broker(LEADER), Node::Broker(CONTROLLER)),
    (Node::Broker(LEADER), Node::Broker(FOLLOWER)),
    (Node::Broker(CONTROLLER), Node::Broker(FOLLOWER)),
    (Node::Broker(LEADER), Node::ZooKeeper),
    (Node::Broker(CONTROLLER), Node::ZooKeeper),
    (Node::Broker(FOLLOWER), Node::ZooKeeper),
];
/// Until some ZooKeeper server serves again.
const SERVED: Duration = Duration::from_secs(20);
/// For which what is to be overtaken stands still: requests of every kind are on their way then.
const STILL: Duration = Duration::from_millis(300);

impl Stage {
    pub fn act(&mut self, deed: &Deed) -> Result<()> {
        match deed {
            Deed::Kill(brokers) => self.cluster.kill(brokers),
            Deed::Pause(broker) => self.cluster.broker(*broker)?.pause(),
            Deed::Cut(from, to) => self.cut(*from, *to),
            Deed::Expire(brokers) => {
                let registered = self.witness.registrations(brokers)?;
                let servers = self.cluster.zookeeper.connect_string();
                for (broker, registration) in registered {
                    let session = registration.with_context(|| format!("broker {broker} is not registered"))?.session;
                    // A server that has just lost its leader closes every connection.
                    let mut turn = servers.split(',').cycle();
                    until("a server that closes the session", SERVED, || {
                        expire(turn.next().unwrap_or_default(), session)
                    })?;
                }
                Ok(())
            }
            Deed::KillZooKeeper(Server::Leader) => {
                let leader = self.cluster.zookeeper.leader()?;
                self.cluster.zookeeper.kill(leader)
            }
            Deed::KillZooKeeper(Server::Follower) => {
                let follower = self.following_zookeeper()?;
                self.cluster.zookeeper.kill(follower)
            }
            Deed::ForgetTail => {
                let follower = self.following_zookeeper()?;
                self.cluster.zookeeper.kill(follower)?;
                self.done.forgotten = forget_half(&self.cluster.zookeeper.log_of(follower)?)?;
                Ok(())
            }
            Deed::FillZooKeepers(count) => {
                let first = self.following_zookeeper()?;
                (0..*count).try_for_each(|nth| self.ground.fill_tree((first - 1 + nth) % ZOOKEEPERS + 1))?;
                // The last page of a log takes what is small: this is not. It may never be answered.
                let servers = self.cluster.zookeeper.connect_string();
                thread::spawn(move || {
                    let written = ZooKeeper::connect(&servers)
                        .map(|client| (0..4).try_for_each(|_| client.put("/large", &"x".repeat(4096))));
                    drop(written);
                });
                Ok(())
            }
            Deed::LoseQuorum => self.signal_two(Signal::STOP),
            Deed::Slow(broker, rate) => {
                let machine = self.machines(Node::Broker(*broker)).remove(0);
                self.network.slow(&machine, rate)
            }
            Deed::Fill(broker) => self.ground.fill(*broker),
            Deed::FailOnce(broker, call) => {
                let topic = self.topics.first().context("there is no topic")?;
                // What it leads by itself from the beginning.
                let log = self.replica(*broker, &format!("{topic}-0"))?.join("00000000000000000000.log");
                let pid = self.cluster.broker(*broker)?.pid()?;
                self.done.injected = Some(Injected::new(pid, &log, call, ":when=1")?);
                Ok(())
            }
            Deed::CutPower(brokers) => self.cut_power(brokers),
            Deed::JumpClock(broker, seconds) => self.ground.set_clock(*broker, *seconds),
            Deed::Flood { writers, idle } => self.flood(*writers, *idle),
            Deed::Vanish(broker) => {
                // What its end says to others is heard before nobody is reached there.
                self.cluster.kill(&[*broker])?;
                let machine = self.machines(Node::Broker(*broker)).remove(0);
                self.network.vanish(&machine)
            }
            Deed::Refuse(ways) => {
                self.prepare_detour()?;
                self.pairs_of(ways).iter().try_for_each(|(from, to)| self.network.refuse(from, to))
            }
            Deed::Bounce(broker) => {
                self.cluster.await_whole().context("those who run are known, and nobody else")?;
                self.cluster.stop(*broker)?;
                self.cluster.start_again(&[*broker])
            }
            Deed::Hinder((from, to), side, pace) => self.order(&[(*from, *to)], |order| order.set_pace(*side, *pace)),
            Deed::Again { times, pause, ways, harm } => {
                for _ in 0..*times {
                    self.harm(ways, *harm)?;
                    thread::sleep(*pause);
                }
                Ok(())
            }
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
        links: &[Way],
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

    /// The number of a ZooKeeper server that follows.
    fn following_zookeeper(&self) -> Result<usize> {
        Ok(self.cluster.zookeeper.leader()? % ZOOKEEPERS + 1)
    }

    fn cut_power(&mut self, brokers: &[i32]) -> Result<()> {
        self.done.powerless.clear();
        let mut before = BTreeMap::new();
        for &broker in brokers {
            before.insert(broker, self.log_bytes(broker)?);
            self.ground.cut_power(broker)?;
        }
        self.cluster.kill(brokers)?;
        for (broker, bytes) in before {
            self.ground.restore_power(broker)?;
            let lost = bytes.saturating_sub(self.log_bytes(broker)?);
            self.done.powerless.insert(broker, lost);
        }
        Ok(())
    }

    fn flood(&mut self, writers: usize, idle: usize) -> Result<()> {
        self.done.floods += 1;
        let topic = format!("flood-{}", self.done.floods);
        admin::create_topic(&self.cluster, &topic, REPLICAS, &[])?;
        self.cluster.await_isr(&[&topic], &BROKERS)?;
        let leaders: Vec<String> =
            REPLICAS.iter().map(|replicas| self.cluster.address(replicas[0])).collect::<Result<_>>()?;
        self.done.flood = Some(Flood::start(&topic, &leaders, writers, idle)?);
        Ok(())
    }

    fn order(&self, ways: &[Way], mut change: impl FnMut(&mut Order)) -> Result<()> {
        self.pairs_of(ways).iter().try_for_each(|(from, to)| self.network.order(from, to, &mut change))
    }

    fn harm(&self, ways: &[Way], harm: Harm) -> Result<()> {
        match harm {
            Harm::Reset => self.order(ways, |order| order.resets += 1),
            Harm::HalfClose(Side::Server) => self.order(ways, |order| order.servers_closed += 1),
            Harm::HalfClose(Side::Client) => self.order(ways, |order| order.clients_closed += 1),
            Harm::Overtake => {
                self.order(ways, |order| order.to_server.stalled = true)?;
                // Where nobody says anything, nothing can be overtaken.
                let _ = until("something stands still", STILL, || {
                    let held = self.pairs_of(ways).into_iter().map(|(from, to)| self.network.counts(&from, &to));
                    let held: u64 = held.map(|counts| counts.map(|counts| counts.held)).sum::<Result<u64>>()?;
                    ensure!(held > 0, "nothing stands still");
                    Ok(())
                });
                thread::sleep(STILL);
                self.order(ways, |order| {
                    order.to_server.stalled = false;
                    order.partings += 1;
                })
            }
        }
    }

    /// What is not done is undone as well: a deed may have failed half way.
    pub fn undo(&mut self, deed: &Deed) -> Result<()> {
        match deed {
            Deed::Kill(brokers) => self.spawn_dead(brokers),
            Deed::Storm { .. } | Deed::RollingRestart(_) => self.spawn_dead(&BROKERS),
            Deed::Pause(broker) => self.cluster.broker(*broker)?.resume(),
            Deed::Cut(from, to) => self.mend(*from, *to),
            Deed::Expire(_) | Deed::Again { .. } => Ok(()),
            Deed::Vanish(broker) => {
                let machine = self.machines(Node::Broker(*broker)).remove(0);
                self.network.appear(&machine)?;
                self.spawn_dead(&[*broker])
            }
            Deed::Refuse(ways) => self.pairs_of(ways).iter().try_for_each(|(from, to)| self.network.admit(from, to)),
            Deed::Bounce(broker) => self.spawn_dead(&[*broker]),
            Deed::KillZooKeeper(_) | Deed::ForgetTail => self.cluster.zookeeper.start_dead(),
            Deed::FillZooKeepers(_) => {
                self.ground.make_room_in_trees()?;
                self.cluster.zookeeper.start_dead()
            }
            Deed::LoseQuorum => self.signal_two(Signal::CONT),
            Deed::Slow(broker, _) => {
                let machine = self.machines(Node::Broker(*broker)).remove(0);
                self.network.swift(&machine)
            }
            Deed::CutPower(brokers) => self.spawn_dead(brokers),
            Deed::JumpClock(broker, _) => self.ground.set_clock(*broker, 0),
            Deed::FailOnce(broker, _) => {
                self.done.injected = None;
                self.cluster.kill(&[*broker])?;
                self.spawn_dead(&[*broker])
            }
            Deed::Flood { .. } => match self.done.flood.take() {
                Some(flood) => {
                    let topic = flood.topic().to_owned();
                    flood.end()?;
                    admin::delete_topic(&self.cluster, &topic)
                }
                None => Ok(()),
            },
            Deed::Hinder((from, to), side, _) => self.order(&[(*from, *to)], |order| order.set_pace(*side, Pace::CALM)),
            Deed::Fill(broker) => {
                self.ground.make_room(*broker)?;
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
}

/// Cuts away half of what a ZooKeeper server has written to the last file of its log. How many bytes those were.
fn forget_half(log: &Path) -> Result<u64> {
    let mut files: Vec<_> = fs::read_dir(log)?.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
    files.retain(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("log.")));
    files.sort_by_key(|path| fs::metadata(path).and_then(|metadata| metadata.modified()).ok());
    let last = files.last().context("no log of transactions")?;
    // Files are made long in advance: what was written ends where the zeros begin.
    let bytes = fs::read(last)?;
    let written = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    let kept = written / 2;
    fs::File::options().write(true).open(last)?.set_len(kept as u64)?;
    Ok((written - kept) as u64)
}
