//! All faults on one cluster, one after the other in an order that a seed gives, and everything healed between. Load goes on
//! meanwhile, and every few minutes the history is judged and a new one begun.
//!
//! `KLAMM_CHAOS_SEED` plays an order again: it is what the first line of a run names.

use std::fs;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use history::event::{Event, Fault as Happened};
use history::verdict::Verdict;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};

use super::chronicle::Chronicle;
use super::fault::Fault;
use super::ground::Needs;
use super::stage::{PARTITIONS, Stage};
use super::{AFTERMATH, Load, dump, histories, matrix, strike};
use crate::lane::Run;

pub const CHOICE: &str = "mix";
const MINUTES: &str = "KLAMM_CHAOS_MINUTES";
const SEED: &str = "KLAMM_CHAOS_SEED";
const HOUR: u64 = 60;
/// A history is as long as this, and as its last fault is.
const PERIOD: Duration = Duration::from_secs(5 * 60);
/// What the faults ask of topics, all together.
const TOPICS: &[(&str, &str)] = &[("flush.messages", "1"), ("message.timestamp.type", "LogAppendTime")];

/// The faults in the order of a seed: each once, then each again in another order.
struct Deck {
    random: StdRng,
    left: Vec<&'static Fault>,
}

impl Deck {
    fn of(seed: u64) -> Deck {
        Deck { random: StdRng::seed_from_u64(seed), left: Vec::new() }
    }

    fn next(&mut self) -> Result<&'static Fault> {
        if self.left.is_empty() {
            self.left = all().collect();
            self.left.shuffle(&mut self.random);
        }
        self.left.pop().context("there are no faults")
    }
}

fn all() -> impl Iterator<Item = &'static Fault> {
    matrix::full().filter(|fault| !fault.needs.fast_failover)
}

fn number(name: &str, default: u64) -> Result<u64> {
    std::env::var(name).map_or(Ok(default), |text| text.parse().with_context(|| format!("{name}={text}")))
}

pub fn play(run: &mut Run) -> Result<()> {
    let minutes = number(MINUTES, HOUR)?;
    let seed = number(SEED, rand::rng().random())?;
    println!("      {SEED}={seed} {MINUTES}={minutes}");
    let end = Instant::now() + Duration::from_secs(60 * minutes);
    let mut deck = Deck::of(seed);
    let mut stage = None;
    for period in 1.. {
        if Instant::now() > end {
            break;
        }
        let started = Instant::now();
        let built = match stage.take() {
            Some(built) => built,
            None => Stage::build(&run.on, Needs::EVERYTHING)?,
        };
        let mut part = Part { stage: built, told: Vec::new() };
        let result = part.play(&mut deck, period, end.min(started + PERIOD));
        let name = format!("part {period} of a mix: {}", part.told.join("; "));
        // After a failure nobody knows what the brokers are in.
        if result.is_ok() {
            stage = Some(part.stage);
        } else {
            println!("{}", part.stage.cluster.log_tails(20));
        }
        run.took(name, result, started.elapsed());
    }
    Ok(())
}

struct Part {
    stage: Stage,
    /// Of each fault what there was to see.
    told: Vec<String>,
}

impl Part {
    fn play(&mut self, deck: &mut Deck, period: usize, end: Instant) -> Result<()> {
        let path = histories()?.join(format!("mix-{period}.jsonl"));
        let chronicle = Arc::new(Chronicle::create(&path)?);
        self.load(&chronicle, deck, period, end).with_context(|| format!("its history is {}", path.display()))?;
        match chronicle.judge()? {
            Verdict::Sound => Ok(fs::remove_file(&path)?),
            other => bail!("{} says\n{other}", path.display()),
        }
    }

    fn load(&mut self, chronicle: &Arc<Chronicle>, deck: &mut Deck, period: usize, end: Instant) -> Result<()> {
        let (all, one) = (format!("all-mix-{period}"), format!("one-mix-{period}"));
        self.stage.set(&all, &one, TOPICS)?;
        let load = Load::start(&self.stage, chronicle, &all, &one)?;
        loop {
            let fault = deck.next()?;
            self.fault(chronicle, fault).with_context(|| fault.name)?;
            load.await_flow().with_context(|| format!("after {}", fault.name))?;
            if Instant::now() > end {
                break;
            }
            self.stage.seat_all()?;
        }
        chronicle.write(&Event::Healed { at_us: chronicle.now_us() });
        thread::sleep(AFTERMATH);
        let acknowledged = load.finish(&self.stage)?;
        self.told.push(format!("{acknowledged} records acknowledged"));
        [&all, &one].into_iter().try_for_each(|topic| dump::put_down(chronicle, &self.stage, topic, PARTITIONS))
    }

    fn fault(&mut self, chronicle: &Chronicle, fault: &Fault) -> Result<()> {
        self.stage.divert(fault.through)?;
        let before = self.stage.before(fault.through)?;
        let at_us = chronicle.now_us();
        let shown = strike(&mut self.stage, fault, &before)?;
        self.stage.straighten(fault.through)?;
        self.stage.await_whole()?;
        self.stage.check_brokers()?;
        match shown {
            Ok(seen) => {
                println!("      {}: {seen}", fault.name);
                self.told.push(fault.name.to_owned());
                let happened = Happened { name: fault.name.to_owned(), at_us, shown_by: Some(seen) };
                chronicle.write(&Event::Fault(happened));
            }
            // The others of this part prove what they prove.
            Err(error) => {
                println!("      nothing shows: {}: {error:#}", fault.name);
                self.told.push(format!("({} left no trace)", fault.name));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deck_is_all_faults_in_an_order_that_its_seed_gives() {
        let drawn = |seed| -> Vec<&str> {
            let mut deck = Deck::of(seed);
            (0..all().count()).map(|_| deck.next().expect("a fault").name).collect()
        };
        let (first, again, other) = (drawn(1), drawn(1), drawn(2));
        assert_eq!(first, again);
        assert_ne!(first, other);
        let sorted = |mut names: Vec<&'static str>| {
            names.sort_unstable();
            names
        };
        assert_eq!(sorted(first), sorted(all().map(|fault| fault.name).collect()));
    }
}
