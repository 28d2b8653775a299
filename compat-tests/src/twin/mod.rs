//! The twin lane: the same request bytes to a real Kafka 3.9.1 and to Klamm, answers compared field by field.
//!
//! ```text
//!  cases/*  --same bytes-->  Kafka   --decode, normal form-->  tree --+
//!                            Klamm   --decode, normal form-->  tree --+--> differences --> twin-differences.toml
//! ```
//!
//! Every API and version that Klamm advertises must have a case. A difference that stays is an entry of
//! `twin-differences.toml`; an entry that no difference needs any more fails the lane too. `KLAMM_TWIN_CASES=a,b` tries
//! these cases alone.

mod allowed;
mod cases;
mod normal;
pub mod requests;
mod script;
mod tree;

use std::collections::BTreeMap;
use std::time::Instant;

use anyhow::{Result, bail};
use kafka_protocol::messages::ApiKey;

use crate::broker::{Broker, On};
use crate::lane::Run;
use allowed::Allowed;
use script::{Difference, Script, Served, Side};

/// Both brokers have these, and the same broker id.
const SETTINGS: &[(&str, &str)] = &[
    ("num.partitions", "2"),
    ("offsets.topic.replication.factor", "1"),
    ("transaction.state.log.replication.factor", "1"),
    ("transaction.state.log.min.isr", "1"),
    // Markers and batches are held against each other without a coordinator, until the last case.
    ("transaction.partition.verification.enable", "false"),
    // Records are stamped long ago; none may vanish in the middle of a conversation.
    ("log.retention.ms", "-1"),
    // A group's only member is answered at once.
    ("group.initial.rebalance.delay.ms", "0"),
    ("group.max.size", "3"),
];

pub fn lane(run: &mut Run) -> Result<()> {
    let kafka = Broker::start(&On::Kafka, SETTINGS)?;
    let klamm = Broker::start(&run.on, SETTINGS)?;
    let real = Side::new("kafka", &kafka).served()?;
    let mut served = Side::new("klamm", &klamm).served()?;
    if run.on == On::Kafka {
        // Kafka against itself, to try the cases: those that have any.
        served.retain(|key, _| cases::APIS.iter().any(|&api| api as i16 == *key));
    }
    let mut lane = Lane { kafka, klamm, served, covered: BTreeMap::new(), compared: 0, differences: Vec::new() };
    lane.ranges(&real);
    let chosen = std::env::var("KLAMM_TWIN_CASES").ok();
    let is_chosen = |name: &str| chosen.as_ref().is_none_or(|chosen| chosen.split(',').any(|one| one == name));
    let slow = cases::SLOW.iter().filter(|_| run.full() || chosen.is_some());
    let played: Vec<_> = cases::ALL.iter().chain(slow).filter(|(name, _)| is_chosen(name)).collect();
    for (name, case) in &played {
        let started = Instant::now();
        if let Err(error) = lane.script(name, *case) {
            run.settled(format!("{name} to its end"), Err(error));
        }
        println!("      {name}: {:.1} s", started.elapsed().as_secs_f32());
    }
    if chosen.is_none() {
        run.settled("every API and version served has a case", lane.all_covered());
    }
    let allowed = Allowed::read()?;
    let (known, unknown): (Vec<_>, Vec<_>) = lane.differences.iter().partition(|found| allowed.covers(found));
    println!("      {} comparisons, {} known differences, {} others", lane.compared, known.len(), unknown.len());
    for found in &unknown {
        println!(
            "DIFF  {}\n      {} v{} {}\n      kafka: {}\n      klamm: {}",
            found.step,
            found.api,
            found.version,
            found.field,
            short(&found.kafka),
            short(&found.klamm)
        );
    }
    let mut by_case: BTreeMap<&str, usize> = played.iter().map(|(name, _)| (*name, 0)).collect();
    for found in &unknown {
        let case = found.step.split(':').next().unwrap_or_default();
        let case = played.iter().map(|(name, _)| *name).find(|name| *name == case);
        *by_case.entry(case.unwrap_or("ranges")).or_default() += 1;
    }
    for (case, count) in by_case {
        let result = if count == 0 { Ok(()) } else { Err(anyhow::anyhow!("{count} differences (above)")) };
        run.settled(case, result);
    }
    if run.on == On::Klamm && chosen.is_none() {
        run.settled("no entry of twin-differences.toml is stale", allowed.none_stale(&lane.differences));
    }
    run.settled("both brokers live", lane.alive());
    Ok(())
}

fn short(text: &str) -> String {
    let mut short: String = text.chars().take(600).collect();
    if short.len() < text.len() {
        short.push_str("...");
    }
    short
}

struct Lane {
    kafka: Broker,
    klamm: Broker,
    served: Served,
    covered: BTreeMap<(i16, i16), usize>,
    compared: usize,
    differences: Vec<Difference>,
}

impl Lane {
    fn script(&mut self, name: &str, case: fn(&mut Script) -> Result<()>) -> Result<()> {
        let sides = [Side::new("kafka", &self.kafka), Side::new("klamm", &self.klamm)];
        let mut script = Script::new(name, sides, self.served.clone());
        let result = case(&mut script);
        self.compared += script.compared;
        for (at, count) in script.covered {
            *self.covered.entry(at).or_default() += count;
        }
        self.differences.extend(script.differences);
        result
    }

    /// Each range advertised is Kafka's.
    fn ranges(&mut self, real: &Served) {
        for (key, range) in &self.served {
            self.compared += 1;
            if real.get(key) != Some(range) {
                self.differences.push(Difference {
                    step: "ranges: what ApiVersions advertises".into(),
                    api: "ApiVersions".into(),
                    version: 0,
                    field: format!("api_keys[{key}]"),
                    kafka: format!("{:?}", real.get(key)),
                    klamm: format!("{range:?}"),
                });
            }
        }
    }

    fn all_covered(&self) -> Result<()> {
        let mut missing = Vec::new();
        for (&key, &(first, last)) in &self.served {
            for version in (first..=last).filter(|&version| !self.covered.contains_key(&(key, version))) {
                let name = ApiKey::try_from(key).map_or_else(|()| key.to_string(), |api| format!("{api:?}"));
                missing.push(format!("{name} v{version}"));
            }
        }
        if !missing.is_empty() {
            bail!("no case for {}", missing.join(", "));
        }
        Ok(())
    }

    fn alive(&mut self) -> Result<()> {
        for broker in [&mut self.kafka, &mut self.klamm] {
            if let Some(status) = broker.exited()? {
                bail!("{:?} ended with {status}: {}", broker.on(), broker.log_tail(20));
            }
        }
        Ok(())
    }
}
