//! Transactions under a pool of producers, leaders that forget to answer, and coordinators that come and go, from a seed.
//! Producers that share a transactional id fence each other. After each step the invariants hold; at the end everything is
//! decided and nothing is open.

use std::collections::{BTreeMap, BTreeSet};

use super::rules::{Rule, without};
use super::testing::{Bench, ID, TIMEOUT_MS, at};
use super::*;
use crate::coordinator::cores::RequestId;
use crate::coordinator::seeds::{first_violation, schedules};
use crate::random::{Random, SeededRandom};
use crate::types::TopicPartition;

const CLIENTS: u64 = 3;
const PARTITIONS: u64 = 3;
const STEPS: u64 = 120;

type Producer = (i64, i16);
/// A transaction as its client sees it.
type Tag = u64;
type Verdict = Result<(), String>;

fn ensure(holds: bool, what: impl FnOnce() -> String) -> Verdict {
    if holds { Ok(()) } else { Err(what()) }
}

enum Asked {
    Init,
    Add,
    End(bool),
}

#[derive(Default)]
struct Client {
    producer: Option<Producer>,
    asked: Option<(RequestId, Asked)>,
    tag: Tag,
    /// Something may be open.
    begun: bool,
    /// It asks for this end until it is told.
    ending: Option<bool>,
}

/// A leader's partition, as far as transactions go.
#[derive(Default)]
struct Data {
    end: u64,
    /// Producer id → epoch and coordinator epoch it knows.
    epochs: BTreeMap<i64, (i16, i32)>,
    /// Producer id → first offset and whose records are undecided.
    open: BTreeMap<i64, (u64, Vec<Tag>)>,
    stable: u64,
}

impl Data {
    fn last_stable(&self) -> u64 {
        self.open.values().map(|(first, _)| *first).min().unwrap_or(self.end)
    }
}

struct Pool {
    bench: Bench,
    random: SeededRandom,
    clients: Vec<Client>,
    data: BTreeMap<TopicPartition, Data>,
    /// Markers on their way from coordinators that are no more.
    astray: Vec<Marking>,
    /// What a read_committed reader is given, and what it never is.
    outcomes: BTreeMap<Tag, BTreeSet<bool>>,
    /// Transactions whose end was acknowledged.
    promised: BTreeMap<Tag, bool>,
    written: BTreeMap<Tag, BTreeSet<TopicPartition>>,
    committed: BTreeMap<Tag, BTreeSet<TopicPartition>>,
    /// Whoever was given an id and epoch last.
    newest: Option<Producer>,
    next_tag: Tag,
}

impl Pool {
    fn new(seed: u64) -> Pool {
        let place = |n| (at("t", n as i32), Data::default());
        Pool {
            bench: Bench::default(),
            random: SeededRandom::new(seed),
            clients: (0..CLIENTS).map(|_| Client::default()).collect(),
            data: (0..PARTITIONS).map(place).collect(),
            astray: Vec::new(),
            outcomes: BTreeMap::new(),
            promised: BTreeMap::new(),
            written: BTreeMap::new(),
            committed: BTreeMap::new(),
            newest: None,
            next_tag: 0,
        }
    }

    fn run(mut self) -> Verdict {
        for _ in 0..STEPS {
            self.step()?;
            self.look()?;
        }
        self.calm()
    }

    fn step(&mut self) -> Verdict {
        let nth = self.random.below(CLIENTS) as usize;
        match self.random.below(32) {
            0..=2 => self.init(nth),
            3..=9 => self.add(nth),
            10..=15 => return self.write(nth),
            16..=19 => self.end(nth),
            20..=25 => return self.deliver(),
            26 => self.bench.hold = !self.bench.hold,
            27..=28 => self.release(),
            29 => self.time(),
            30 => self.bench.pass(100),
            _ => self.elsewhere(),
        }
        Ok(())
    }

    fn place(&self) -> TopicPartition {
        at("t", self.random.below(PARTITIONS) as i32)
    }

    fn init(&mut self, nth: usize) {
        if self.clients[nth].asked.is_some() || self.clients[nth].producer.is_some() && self.random.below(4) != 0 {
            return;
        }
        let expected = self.clients[nth].producer.filter(|_| self.random.below(2) == 0);
        let request = self.bench.init_as(ID, expected);
        self.clients[nth].asked = Some((request, Asked::Init));
    }

    fn add(&mut self, nth: usize) {
        let place = self.place();
        let client = &mut self.clients[nth];
        let Some(producer) = client.producer.filter(|_| client.asked.is_none() && client.ending.is_none()) else {
            return;
        };
        if !std::mem::replace(&mut client.begun, true) {
            self.next_tag += 1;
            client.tag = self.next_tag;
        }
        let request = self.bench.add_as(ID, producer, &[place]);
        self.clients[nth].asked = Some((request, Asked::Add));
    }

    /// Produce: the coordinator is asked unless the transaction is open there, then the log looks at the epoch.
    fn write(&mut self, nth: usize) -> Verdict {
        let place = self.place();
        let client = &self.clients[nth];
        let Some((id, epoch)) = client.producer.filter(|_| client.begun && client.ending.is_none()) else {
            return Ok(());
        };
        let Some(data) = self.data.get_mut(&place) else { return Ok(()) };
        let known = data.epochs.get(&id).map_or(-1, |(epoch, _)| *epoch);
        let verified = data.open.contains_key(&id) && known == epoch
            || self.bench.transactions.verify(ID, id, epoch, std::slice::from_ref(&place)) == Ok(vec![ErrorCode::None]);
        if !verified || epoch < known {
            return Ok(());
        }
        ensure(self.newest == client.producer, || {
            format!("{:?} writes to {place} after {:?} was given", (id, epoch), self.newest)
        })?;
        let coordinator = data.epochs.get(&id).map_or(-1, |(_, coordinator)| *coordinator);
        data.epochs.insert(id, (epoch, coordinator));
        data.open.entry(id).or_insert((data.end, Vec::new())).1.push(client.tag);
        data.end += 1;
        self.written.entry(client.tag).or_default().insert(place);
        Ok(())
    }

    fn end(&mut self, nth: usize) {
        let commit = self.random.below(3) != 0;
        let client = &mut self.clients[nth];
        let Some(producer) = client.producer.filter(|_| client.asked.is_none() && client.begun) else { return };
        let commit = *client.ending.get_or_insert(commit);
        let request = self.bench.end_as(ID, producer, commit);
        self.clients[nth].asked = Some((request, Asked::End(commit)));
    }

    /// Some marker comes to its leaders, or is lost, or its answer is.
    fn deliver(&mut self) -> Verdict {
        if !self.astray.is_empty() && self.random.below(3) == 0 {
            let nth = self.random.below(self.astray.len() as u64) as usize;
            let marking = self.astray.remove(nth);
            for place in &marking.partitions {
                let _ = self.mark(&marking, place)?;
            }
            return Ok(());
        }
        if self.bench.markings.is_empty() {
            return Ok(());
        }
        let nth = self.random.below(self.bench.markings.len() as u64) as usize;
        let marking = self.bench.markings.remove(nth);
        let mut outcomes = Vec::new();
        for place in &marking.partitions {
            let outcome = match self.random.below(4) {
                0 => Err(ErrorCode::NotLeaderOrFollower),
                1 => self.mark(&marking, place)?.and(Err(ErrorCode::NetworkException)),
                _ => self.mark(&marking, place)?,
            };
            outcomes.push((place.clone(), outcome));
        }
        // Leaders answer one by one.
        for outcome in outcomes {
            self.bench.transactions.marked(self.bench.now, &marking, &[outcome]);
        }
        self.bench.settle();
        Ok(())
    }

    /// A leader writes a marker.
    fn mark(&mut self, marking: &Marking, place: &TopicPartition) -> Result<Result<(), ErrorCode>, String> {
        let Some(data) = self.data.get_mut(place) else { return Ok(Ok(())) };
        let (epoch, coordinator) = data.epochs.get(&marking.producer_id).copied().unwrap_or((-1, -1));
        if marking.producer_epoch < epoch {
            return Ok(Err(ErrorCode::InvalidProducerEpoch));
        }
        if marking.coordinator_epoch < coordinator {
            return Ok(Err(ErrorCode::TransactionCoordinatorFenced));
        }
        data.epochs.insert(marking.producer_id, (marking.producer_epoch, marking.coordinator_epoch));
        data.end += 1;
        if let Some((_, tags)) = data.open.remove(&marking.producer_id) {
            ensure(marking.producer_epoch <= epoch + 1, || {
                format!("a marker of epoch {} ends one of epoch {epoch} in {place}", marking.producer_epoch)
            })?;
            for tag in tags {
                let outcomes = self.outcomes.entry(tag).or_default();
                outcomes.insert(marking.commit);
                ensure(outcomes.len() == 1, || format!("transaction {tag} is committed and aborted"))?;
                if marking.commit {
                    self.committed.entry(tag).or_default().insert(place.clone());
                }
            }
        }
        Ok(Ok(()))
    }

    /// The log answers for the oldest append: it is replicated, or not there, or there and not replicated in time.
    fn release(&mut self) {
        let Some(append) = self.bench.held.first() else { return };
        match self.random.below(4) {
            0 => self.bench.release(Err(ErrorCode::NotEnoughReplicas)),
            1 => {
                self.bench.log.extend(append.records.clone());
                self.bench.release(Err(ErrorCode::RequestTimedOut));
            }
            _ => self.bench.release(Ok(())),
        }
    }

    fn time(&mut self) {
        self.bench.pass(i64::from(TIMEOUT_MS) / 2);
        self.bench.transactions.abort_timed_out(self.bench.now);
        self.bench.settle();
    }

    /// Some of what was appended is in the log of the next coordinator.
    fn elsewhere(&mut self) {
        let kept = self.random.below(self.bench.held.len() as u64 + 1) as usize;
        for append in self.bench.held.drain(..kept) {
            self.bench.log.extend(append.records);
        }
        self.astray.append(&mut self.bench.markings.clone());
        self.bench.elsewhere();
    }

    /// Clients take their answers; invariants of the leaders hold.
    fn look(&mut self) -> Verdict {
        for client in &mut self.clients {
            let Some((request, _)) = &client.asked else { continue };
            let Some(answer) = self.bench.told.get(&request.0).cloned() else { continue };
            let Some((_, asked)) = client.asked.take() else { continue };
            match (asked, answer) {
                (Asked::Init, Answer::Initialized(Ok(producer))) => {
                    let newer = self.newest.is_none_or(|newest| producer > newest);
                    ensure(newer, || format!("{producer:?} is given after {:?}", self.newest))?;
                    self.newest = Some(producer);
                    *client = Client { producer: Some(producer), ..Client::default() };
                }
                (Asked::End(commit), Answer::Done(ErrorCode::None)) => {
                    self.promised.insert(client.tag, commit);
                    (client.begun, client.ending) = (false, None);
                }
                (_, Answer::Done(code) | Answer::Initialized(Err(code))) => match code {
                    ErrorCode::ProducerFenced | ErrorCode::InvalidProducerIdMapping | ErrorCode::InvalidTxnState => {
                        *client = Client::default()
                    }
                    // It asks again, or somebody else.
                    _ => {}
                },
                _ => {}
            }
        }
        for (place, data) in &mut self.data {
            let stable = data.last_stable();
            ensure(stable >= data.stable, || format!("the last stable offset of {place} goes back"))?;
            data.stable = stable;
        }
        Ok(())
    }

    /// A log that takes everything, leaders that answer, time: everything is decided, everywhere alike.
    fn calm(&mut self) -> Verdict {
        self.bench.hold = false;
        while !self.bench.held.is_empty() {
            self.bench.release(Ok(()));
        }
        for _ in 0..2 {
            self.bench.pass(i64::from(TIMEOUT_MS) + 1);
            self.bench.transactions.abort_timed_out(self.bench.now);
            self.bench.settle();
            for _ in 0..10 {
                for marking in std::mem::take(&mut self.bench.markings) {
                    let mut outcomes = Vec::new();
                    for place in &marking.partitions {
                        outcomes.push((place.clone(), self.mark(&marking, place)?));
                    }
                    self.bench.transactions.marked(self.bench.now, &marking, &outcomes);
                }
                self.bench.settle();
                self.bench.pass(100);
            }
        }
        self.look()?;
        if let Some(described) = self.bench.transactions.describe(ID) {
            ensure(described.state.is_idle(), || format!("it stays {described:?}"))?;
        }
        for (place, data) in &self.data {
            ensure(data.open.is_empty(), || format!("{place} has {:?} open for ever", data.open))?;
            ensure(data.last_stable() == data.end, || format!("{place} is not stable to its end"))?;
        }
        for (tag, commit) in &self.promised {
            let written = self.written.get(tag).cloned().unwrap_or_default();
            let committed = self.committed.get(tag).cloned().unwrap_or_default();
            let expected = if *commit { written } else { BTreeSet::new() };
            ensure(committed == expected, || {
                format!("transaction {tag} was acknowledged (commit {commit}): {committed:?} of {expected:?} is read")
            })?;
        }
        Ok(())
    }
}

fn run(seed: u64) -> Verdict {
    Pool::new(seed).run()
}

/// More with `KLAMM_SEEDS`.
#[test]
fn any_order_of_requests_markers_and_coordinators_keeps_the_invariants() {
    if let Some((seed, what)) = first_violation(schedules(3_000), run) {
        panic!("seed {seed}: {what}");
    }
}

#[test]
fn without_one_of_its_rules_a_violation_is_found() {
    for rule in [
        Rule::EpochIsChecked,
        Rule::FenceRaisesEpoch,
        Rule::MarkersAfterDecision,
        Rule::CompleteWhenMarked,
        Rule::OneAtATime,
        Rule::TakenOverIsEnded,
    ] {
        let found = without(rule, || {
            let search = || first_violation(3_000, run).is_some();
            std::panic::catch_unwind(search).unwrap_or(true)
        });
        assert!(found, "{rule:?} is not missed");
    }
}
