//! Faults of machines, processes and wires under load, each judged by the history of what clients were told.
//!
//! ```text
//!  matrix ─ faults ─► stage (brokers, ZooKeepers, network)         witness: what ZooKeeper says meanwhile
//!                       ▲
//!  writers, readers, member of a group ─► chronicle ◄─ dump of all replicas
//!                                             └─► judged: sound, violated, or invalid
//! ```
//!
//! A run whose fault left no trace, or in which a session ended that nobody meant to end, proves nothing: it is played
//! again. What is violated fails, and its history is kept. How long writes stood still is told and no verdict.
//! `KLAMM_CHAOS=TEXT` plays only the faults whose names have that text, `KLAMM_CHAOS=mix` all of them on one cluster, one
//! after the other and again, for an hour or as many minutes as `KLAMM_CHAOS_MINUTES` says ([`mix`]).

mod chronicle;
mod dump;
mod expiry;
mod fault;
mod flood;
mod ground;
mod matrix;
mod member;
mod mix;
mod readers;
mod score;
mod stage;
mod witness;
mod writers;

use std::fmt;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use history::event::{Acks, Event, Fault as Happened, Partition};
use history::verdict::Verdict;

use crate::broker::On;
use crate::cache;
use crate::lane::{Run, Violation, skip};
use crate::wait::until;
use chronicle::Chronicle;
use fault::Fault;
use member::Member;
use readers::Reader;
use stage::{PARTITIONS, Stage};
use writers::Writer;

const CHOICE: &str = "KLAMM_CHAOS";
/// Until a fault shows: long enough for a loaded machine.
const PATIENCE: Duration = Duration::from_secs(60);
/// A run that proves nothing is played again, so often in all.
const TRIES: usize = 3;
/// In the full form readers go on for as long after everything is whole, so that what they are not given counts.
const AFTERMATH: Duration = Duration::from_secs(6);

pub fn lane(run: &mut Run) -> Result<()> {
    if matches!(run.on, On::At(_)) {
        return skip("brokers of others cannot be killed");
    }
    let faults: Vec<&Fault> = if run.full() { matrix::full().collect() } else { matrix::LIGHT.iter().collect() };
    let chosen = std::env::var(CHOICE).ok();
    if chosen.as_deref() == Some(mix::CHOICE) {
        return mix::play(run);
    }
    let mut rows = Vec::new();
    let mut stage: Option<Stage> = None;
    for (number, fault) in faults.into_iter().enumerate() {
        if chosen.as_ref().is_some_and(|part| !fault.name.contains(part)) {
            continue;
        }
        let started = Instant::now();
        let built = match stage.take().filter(|built| built.stands_on(fault.needs)) {
            Some(built) => built,
            None => match Stage::build(&run.on, fault.needs) {
                Ok(built) => built,
                Err(error) => {
                    run.took(fault.name, Err(error), started.elapsed());
                    continue;
                }
            },
        };
        let mut play = Play { stage: built, fault, full: run.full() };
        let result = play.until_valid(number);
        rows.push(score::Row::of(fault.name, &result));
        let name = match &result {
            Ok(told) => format!("{}: {told}", fault.name),
            Err(_) => fault.name.to_owned(),
        };
        // After a failure nobody knows what the brokers are in.
        if result.is_ok() {
            stage = Some(play.stage);
        } else {
            println!("{}", play.stage.cluster.log_tails(20));
        }
        run.took(name, result.map(|_| ()), started.elapsed());
    }
    if run.full() && chosen.is_none() { score::write(&rows, &run.on) } else { Ok(()) }
}

struct Play<'a> {
    stage: Stage,
    fault: &'a Fault,
    full: bool,
}

/// What there is to say of a run that is sound.
#[derive(Debug)]
struct Told {
    shown_by: String,
    /// For how long no record was acknowledged in some partition, with acks=all and with acks=1.
    stood_still: [Duration; 2],
    acknowledged: usize,
}

impl fmt::Display for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [all, one] = self.stood_still.map(|still| still.as_secs_f32());
        write!(f, "{}; stood still {all:.1} s with acks=all, {one:.1} s with acks=1; ", self.shown_by)?;
        write!(f, "{} records acknowledged", self.acknowledged)
    }
}

/// Who writes and reads during one run.
struct Load {
    all: Writer,
    one: Writer,
    readers: Vec<(Partition, Reader)>,
    member: Member,
}

impl Play<'_> {
    /// What there was to see, once a run has proved something.
    fn until_valid(&mut self, number: usize) -> Result<Told> {
        let mut why = Vec::new();
        for again in 0..TRIES {
            let name = format!("{number}-{again}");
            let path = histories()?.join(format!("{name}.jsonl"));
            let chronicle = Arc::new(Chronicle::create(&path)?);
            let told = self.once(&chronicle, &name).with_context(|| format!("its history is {}", path.display()))?;
            match chronicle.judge()? {
                Verdict::Sound => {
                    fs::remove_file(&path)?;
                    return Ok(told);
                }
                Verdict::Invalid(reasons) => {
                    println!("      played again: {}", reasons.join("; "));
                    why = reasons;
                    fs::remove_file(&path)?;
                }
                violated => {
                    return Err(Violation(format!("{} says\n{violated}", path.display())).into());
                }
            }
        }
        bail!("{TRIES} runs have proved nothing, the last of them because of {why:?}")
    }

    fn once(&mut self, chronicle: &Arc<Chronicle>, name: &str) -> Result<Told> {
        let (all, one) = (format!("all-{name}"), format!("one-{name}"));
        let topics = [all.as_str(), one.as_str()];
        self.stage.set(&all, &one, self.fault.topics)?;
        self.stage.divert(self.fault.through)?;
        let load = Load::start(&self.stage, chronicle, &all, &one)?;
        let before = self.stage.before(self.fault.through)?;
        [&load.all, &load.one].into_iter().for_each(Writer::count_gaps);
        let at_us = chronicle.now_us();
        let shown_by = strike(&mut self.stage, self.fault, &before)?.context("nothing shows the fault")?;
        self.stage.straighten(self.fault.through)?;
        self.stage.await_whole()?;
        load.await_flow()?;
        let stood_still = [load.all.stood_still(), load.one.stood_still()];
        self.stage.check_brokers()?;
        chronicle.write(&Event::Healed { at_us: chronicle.now_us() });
        for broker in self.stage.strangers(&before, self.fault.sessions)? {
            let why = format!("broker {broker}'s session ended, which nobody meant to end");
            chronicle.write(&Event::Spoilt { why });
        }
        let name = self.fault.name.to_owned();
        chronicle.write(&Event::Fault(Happened { name, at_us, shown_by: Some(shown_by.clone()) }));
        if self.full {
            thread::sleep(AFTERMATH);
        }
        let acknowledged = load.finish(&self.stage)?;
        for topic in topics {
            dump::put_down(chronicle, &self.stage, topic, PARTITIONS)?;
        }
        Ok(Told { shown_by, stood_still, acknowledged })
    }
}

/// Does it, waits until it shows, and undoes it. What there was to see, or that there was nothing; an error where it was not
/// done, or could not be undone.
fn strike(stage: &mut Stage, fault: &Fault, before: &stage::Before) -> Result<Result<String>> {
    let begun = Instant::now();
    let done = fault.deeds.iter().try_for_each(|deed| stage.act(deed).with_context(|| format!("{deed:?}")));
    let shown = match &done {
        Ok(()) => show(stage, fault, before),
        Err(_) => Ok(String::new()),
    };
    let mut stayed = Ok(());
    if shown.is_ok() {
        thread::sleep(fault.lasts.saturating_sub(begun.elapsed()));
        if fault.stays {
            stayed = fault.shown_by.iter().try_for_each(|&trace| stage.look(trace, before).map(drop));
        }
    }
    let undone = fault.deeds.iter().rev().map(|deed| stage.undo(deed)).fold(Ok(()), Result::and);
    done?;
    undone.context("undo")?;
    stayed.context("it did not stay so")?;
    Ok(shown)
}

fn show(stage: &mut Stage, fault: &Fault, before: &stage::Before) -> Result<String> {
    let mut seen = Vec::new();
    for &trace in fault.shown_by {
        seen.push(until(&format!("{trace:?}"), PATIENCE, || stage.look(trace, before))?);
    }
    Ok(seen.join(", "))
}

impl Load {
    fn start(stage: &Stage, chronicle: &Arc<Chronicle>, all: &str, one: &str) -> Result<Load> {
        let brokers = stage.addresses()?;
        let reader = |topic: &str, partition| {
            let at = Partition { topic: topic.to_owned(), partition };
            (at.clone(), Reader::start(chronicle, brokers.clone(), at))
        };
        let places = [all, one].into_iter().flat_map(|topic| (0..PARTITIONS).map(move |partition| (topic, partition)));
        let load = Load {
            all: Writer::start(chronicle, stage.client(), all, PARTITIONS, Acks::All)?,
            one: Writer::start(chronicle, stage.client(), one, PARTITIONS, Acks::Leader)?,
            readers: places.map(|(topic, partition)| reader(topic, partition)).collect(),
            member: Member::join(chronicle, stage.client(), all)?,
        };
        load.await_flow()?;
        load.member.await_offsets(&(0..PARTITIONS).map(|partition| (partition, 1)).collect())?;
        Ok(load)
    }

    fn await_flow(&self) -> Result<()> {
        self.all.await_flow(PARTITIONS)?;
        self.one.await_flow(PARTITIONS)
    }

    /// Writers end, then readers when they have been given everything. How many records were acknowledged.
    fn finish(mut self, stage: &Stage) -> Result<usize> {
        self.all.stop()?;
        self.one.stop()?;
        for writer in [&self.all, &self.one] {
            let ends = dump::ends(&stage.cluster, writer.topic(), PARTITIONS)?;
            for (at, reader) in self.readers.iter().filter(|(at, _)| at.topic == writer.topic()) {
                reader.await_offset(ends.get(&at.partition).copied().unwrap_or_default())?;
            }
            if writer.topic() == self.all.topic() {
                self.member.await_offsets(&ends)?;
            }
        }
        for (_, reader) in &mut self.readers {
            reader.stop()?;
        }
        self.member.stop()?;
        Ok(self.all.acknowledged() + self.one.acknowledged())
    }
}

/// Where histories lie until they are found sound.
fn histories() -> Result<PathBuf> {
    let dir = cache::target_dir().join("chaos").join(std::process::id().to_string());
    fs::create_dir_all(&dir).with_context(|| dir.display().to_string())?;
    Ok(dir)
}
