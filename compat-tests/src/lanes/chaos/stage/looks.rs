//! What there is to see of a fault.

use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail, ensure};

use super::super::fault::{Mark, Trace};
use super::{Before, Stage};
use crate::cluster;
use crate::lanes::bad_disks::offline;
use crate::proxy::Counts;
use crate::raw::Connection;
use crate::records;

/// For a look whether a broker answers.
const LOOK: Duration = Duration::from_secs(1);

impl Stage {
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
            Trace::Registered(broker) => {
                let now = self.witness.registration(broker)?;
                ensure!(now == before.registration(broker), "broker {broker} is no longer registered as before");
                Ok(format!("broker {broker}'s session lasts"))
            }
            Trace::Succeeded(broker) => {
                let (now, was) = (self.witness.controller()?, before.controller);
                let next = now.holder != i64::from(broker) && now.epoch == was.epoch + 1;
                ensure!(next && was.holder == i64::from(broker), "{was:?} has become {now:?}");
                Ok(format!("broker {} controls in epoch {}, after {broker} in {}", now.holder, now.epoch, was.epoch))
            }
            Trace::Undisturbed => {
                let (now, was) = (self.witness.controller()?, before.controller);
                ensure!(now == was, "{was:?} has become {now:?}");
                for ((topic, partition), was) in &before.states {
                    let now = self.witness.state(topic, *partition)?;
                    ensure!(now.leader == was.leader, "{topic}-{partition} went from {was} to {now}");
                }
                Ok("whoever led and controlled still does".to_owned())
            }
            Trace::DirectoryOffline(broker) => self.directory_offline(broker, before),
            Trace::BytesLost(broker) => {
                let lost = self.done.powerless.get(&broker).copied().unwrap_or_default();
                ensure!(lost > 0, "broker {broker} has lost nothing");
                Ok(format!("{lost} bytes of broker {broker} are lost"))
            }
            Trace::PowerCut(broker) => {
                ensure!(self.done.powerless.contains_key(&broker), "broker {broker} has power");
                Ok(format!("broker {broker}'s file system was shut down"))
            }
            Trace::ClockOff(broker, seconds) => self.clock_off(broker, seconds, before),
            Trace::Flooded(wanted) => {
                let (open, answered) = self.done.flood.as_ref().context("there is no flood")?.seen()?;
                ensure!(open == wanted && answered > 1000, "{open} of {wanted} are connected, {answered} answers");
                Ok(format!("{open} are connected, and were given {answered} answers"))
            }
            Trace::TailForgotten => {
                ensure!(self.done.forgotten > 0, "no ZooKeeper server has forgotten anything");
                Ok(format!("{} bytes of a ZooKeeper server's log are cut away", self.done.forgotten))
            }
            Trace::Met(ways, mark, least) => {
                let mut met = 0;
                for (from, to) in self.pairs_of(ways) {
                    let was = before.counts.get(&(from.clone(), to.clone())).copied().unwrap_or_default();
                    met += marked(&self.network.counts(&from, &to)?, mark).saturating_sub(marked(&was, mark));
                }
                ensure!(met >= least, "{mark:?}: {met} of {least}");
                Ok(format!("{met} {}", words(mark)))
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

    fn directory_offline(&self, broker: i32, before: &Before) -> Result<String> {
        let offline = offline(&self.cluster.address(broker)?)?;
        let [dir] = offline.as_slice() else { bail!("offline directories: {offline:?}") };
        let (mut moved, mut kept) = (0, 0);
        for ((topic, partition), _) in before.led_by(broker) {
            let now = self.witness.state(topic, *partition)?;
            let leads = now.leader == i64::from(broker);
            let lies_there = Path::new(dir).join(format!("{topic}-{partition}")).is_dir();
            ensure!(leads != lies_there && now.leader >= 0, "{topic}-{partition} is {now}, offline is {dir}");
            *(if leads { &mut kept } else { &mut moved }) += 1;
        }
        ensure!(moved > 0 && kept > 0, "it leads {kept} partitions, others {moved}");
        Ok(format!("a directory of broker {broker} is offline, others lead {moved} that lie there, it leads {kept}"))
    }

    fn clock_off(&self, broker: i32, seconds: i64, before: &Before) -> Result<String> {
        let led = before.led_by(broker);
        let ((topic, partition), _) = led.first().with_context(|| format!("broker {broker} led nothing"))?;
        let log = cluster::log(&self.replica(broker, &format!("{topic}-{partition}"))?)?;
        let stored = records::batches(&log).last().map(|batch| records::read(batch)).context("the log is empty")??;
        let stamped = stored.last().context("the log is empty")?.max_timestamp;
        let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis() as i64;
        let off = stamped - now - seconds * 1000;
        ensure!(off.abs() < 60_000, "broker {broker} stamps what it appends {} ms off", stamped - now);
        Ok(format!("broker {broker}'s clock is {} s off", (stamped - now) / 1000))
    }
}

fn marked(counts: &Counts, mark: Mark) -> u64 {
    match mark {
        Mark::Hindered => counts.hindered,
        Mark::Held => counts.held,
        Mark::Resets => counts.resets,
        Mark::HalfClosed => counts.half_closed,
        Mark::Lost => counts.lost,
        Mark::Overtaken => counts.overtaken,
    }
}

fn words(mark: Mark) -> &'static str {
    match mark {
        Mark::Hindered => "bytes came late",
        Mark::Held => "bytes stood still",
        Mark::Resets => "connections were reset",
        Mark::HalfClosed => "connections were closed by halves",
        Mark::Lost => "answers were lost",
        Mark::Overtaken => "bytes came after newer ones",
    }
}
