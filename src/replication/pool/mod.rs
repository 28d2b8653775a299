//! Replicas, a controller and the messages between them in a pool: delivered in any order, twice or never, while brokers
//! crash, lose what they had not synced, come back, and controllers replace each other. From a seed; after each step the
//! invariants hold, and once all is calm everything has converged.
//!
//! What is lost: a power cut takes un-synced records, and a swapped disk takes all, of one replica at a time that is not
//! yet back in the ISR, and only while another member that lives has everything. Where that one leaves the ISR meanwhile and
//! the last member has lost its records, they are lost; no rule here can help that, and such schedules are counted.

use std::collections::BTreeMap;

use self::controller::{Controller, Store, change};
use self::node::{FetchMessage, FetchedMessage, LAG_MS, Node};
use super::isr::{Confirmed, IsrState, Proposal};
use super::table::LeaderAndIsr;
use crate::random::{Random, SeededRandom};
use crate::types::{BrokerId, LeaderEpoch, Offset};
use crate::wire::error_code::ErrorCode;

mod controller;
mod log;
mod node;
mod scripts;

/// What keeps a partition whole. Each can be left out, to see that it is missed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// Logs are cut where epochs part, not at the high watermark (KIP-101).
    B1,
    /// The epoch that is answered must be known on both sides (KIP-279).
    B2,
    /// ISRs are changed by compare-and-set (KIP-497).
    B4,
    /// Who joins lives in the broker epoch it fetched in (KIP-841, KIP-903).
    B5,
    /// A leader without its log, or with less than its checkpoint names, leads nothing (KAFKA-14139).
    B8,
    /// Control requests to an earlier life are refused (KIP-380).
    B9,
    /// A controller that was replaced changes nothing.
    B10,
    /// Nobody joins with less than the new leader had (KIP-207).
    B12,
    /// A new controller takes who registered after the last write for failed and started.
    F8,
    /// An answer about the ISR of before a later LeaderAndIsr changes nothing (KAFKA-12686).
    LateAnswers,
}

#[derive(Clone, Debug)]
pub enum Message {
    Lead { to: BrokerId, broker_epoch: i64, change: Box<LeaderAndIsr>, alive: BTreeMap<BrokerId, i64> },
    NoLog { from: BrokerId, leader_epoch: LeaderEpoch },
    Fetch(FetchMessage),
    Fetched(FetchedMessage),
    Alter { from: BrokerId, life: u32, broker_epoch: i64, proposal: Proposal, members: Vec<(BrokerId, i64)> },
    Altered { to: BrokerId, life: u32, proposal: Proposal, answer: Result<Confirmed, ErrorCode> },
}

const STEPS: u64 = 400;
/// Messages under way; the oldest are lost.
const UNDER_WAY: usize = 40;

type Verdict = Result<(), String>;

fn ensure(holds: bool, what: impl FnOnce() -> String) -> Verdict {
    if holds { Ok(()) } else { Err(what()) }
}

/// What happened, to see that something did.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    elections: i64,
    isr_changes: u64,
    truncations: u64,
    committed: u64,
    lossy_crashes: u64,
    /// Schedules in which the last member lost records, where there is nothing to demand any more.
    lost: u64,
}

struct Pool {
    random: SeededRandom,
    off: Option<Rule>,
    now_ms: i64,
    nodes: Vec<Node>,
    store: Store,
    controller: Controller,
    /// Replaced, without knowing it.
    zombie: Option<Controller>,
    messages: Vec<Message>,
    next_value: u64,
    /// What some leader showed to be committed, by offset.
    visible: Vec<log::Record>,
    /// By offset and epoch: the one record there can be.
    written: BTreeMap<(usize, LeaderEpoch), u64>,
    leaders: BTreeMap<LeaderEpoch, BrokerId>,
    /// The mark each leader showed last.
    marks: BTreeMap<(BrokerId, LeaderEpoch), Offset>,
    counts: Counts,
    /// Prints what happens.
    told: bool,
}

impl Pool {
    fn new(seed: u64, off: Option<Rule>) -> Pool {
        let random = SeededRandom::new(seed);
        let replicas = 3 + random.below(3) as i32;
        Pool::of(random, replicas, off)
    }

    fn of_three(off: Option<Rule>) -> Pool {
        Pool::of(SeededRandom::new(0), 3, off)
    }

    fn of(random: SeededRandom, replicas: i32, off: Option<Rule>) -> Pool {
        let replicas: Vec<BrokerId> = (1..=replicas).map(BrokerId).collect();
        let store = Store::new(&replicas);
        let controller = Controller::new(&store, &replicas);
        let created = controller.tell(&replicas);
        let mut pool = Pool {
            random,
            off,
            now_ms: 100_000,
            nodes: replicas.iter().map(|id| Node::new(*id)).collect(),
            store,
            controller,
            zombie: None,
            messages: Vec::new(),
            next_value: 0,
            visible: Vec::new(),
            written: BTreeMap::new(),
            leaders: BTreeMap::new(),
            marks: BTreeMap::new(),
            counts: Counts::default(),
            told: false,
        };
        // A member of the ISR without a log has lost it: all begin with one.
        created.into_iter().for_each(|message| pool.deliver(message));
        pool
    }

    fn run(mut self) -> Result<Counts, String> {
        for step in 0..STEPS {
            self.step();
            if self.has_lost_its_last_member() {
                self.counts.lost += 1;
                return Ok(self.counts);
            }
            self.look().map_err(|what| format!("step {step}: {what}"))?;
        }
        self.calm()?;
        self.counts.elections = self.store.state.leader_epoch.0.into();
        self.counts.truncations = self.nodes.iter().map(|node| node.truncations).sum();
        self.counts.committed = self.visible.len() as u64;
        Ok(self.counts)
    }

    fn replicas(&self) -> Vec<BrokerId> {
        self.nodes.iter().map(|node| node.id).collect()
    }

    fn any(&self) -> usize {
        self.random.below(self.nodes.len() as u64) as usize
    }

    fn node(&mut self, id: BrokerId) -> &mut Node {
        &mut self.nodes[id.0 as usize - 1]
    }

    fn step(&mut self) {
        self.now_ms += self.random.below(40) as i64;
        let (nth, now_ms) = (self.any(), self.now_ms);
        match self.random.below(100) {
            0..=41 => self.deliver_any(),
            42..=64 => {
                let asked = self.nodes[nth].ask(now_ms);
                self.messages.extend(asked);
            }
            65..=74 => {
                self.next_value += 1;
                let value = self.next_value;
                self.nodes[nth].produce(value, now_ms);
            }
            75..=80 => {
                let altered = self.nodes[nth].alter();
                self.messages.extend(altered);
                if self.off == Some(Rule::B4) {
                    self.nodes[nth].takes_for_granted(now_ms);
                }
            }
            81..=82 => self.nodes[nth].shrink(now_ms),
            83..=85 => {
                let told = self.controller.look(&mut self.store, self.off);
                self.messages.extend(told);
            }
            86 => self.messages.extend(self.controller.tell(&self.replicas())),
            87 => self.replace_controller(),
            88 => {
                if let Some(zombie) = &mut self.zombie {
                    let told = zombie.look(&mut self.store, self.off);
                    self.messages.extend(told);
                }
            }
            89 => self.nodes[nth].log.synced = self.nodes[nth].log.records.len(),
            90 => self.nodes[nth].log.write_checkpoint(),
            91..=93 => self.crash(nth),
            94..=97 => self.start(nth),
            98 => self.expire(nth),
            _ if self.random.below(2) == 0 => self.now_ms += LAG_MS / 2,
            _ => self.prefer_any(),
        }
        if self.messages.len() > UNDER_WAY {
            self.messages.drain(..self.messages.len() - UNDER_WAY);
        }
    }

    fn deliver_any(&mut self) {
        if self.messages.is_empty() {
            return;
        }
        let at = self.random.below(self.messages.len() as u64) as usize;
        match self.random.below(12) {
            0 => drop(self.messages.swap_remove(at)),
            1 => self.deliver(self.messages[at].clone()),
            _ => {
                let message = self.messages.swap_remove(at);
                self.deliver(message);
            }
        }
    }

    fn deliver(&mut self, message: Message) {
        let (now_ms, off) = (self.now_ms, self.off);
        self.tell(|| format!("{message:?}"));
        match message {
            Message::Lead { to, broker_epoch, change, alive } => {
                let node = self.node(to);
                if node.up && node.lead(broker_epoch, &change, alive, now_ms, off) == Err(ErrorCode::KafkaStorageError)
                {
                    self.messages.push(Message::NoLog { from: to, leader_epoch: change.leader_epoch });
                }
            }
            Message::NoLog { from, leader_epoch } => {
                let told = self.controller.storage_failed(&mut self.store, from, leader_epoch, off);
                self.messages.extend(told);
            }
            Message::Fetch(fetch) => {
                let max = self.random.below(4) as usize;
                let node = self.node(fetch.to);
                if node.up {
                    let answer = node.fetch(&fetch, max, now_ms, off);
                    self.messages.push(Message::Fetched(answer));
                }
            }
            Message::Fetched(answer) => self.node(answer.to).fetched(answer, now_ms, off),
            Message::Alter { from, life, broker_epoch, proposal, members } => {
                let before = self.store.state.isr.clone();
                let answer = self.controller.alter(&mut self.store, from, broker_epoch, &proposal, &members, off);
                if answer.is_ok() {
                    self.counts.isr_changes += 1;
                    for (joined, epoch) in members.iter().filter(|(id, _)| !before.contains(id)) {
                        // One that died since, and may have lost what it had, is in doubt still.
                        let node = self.node(*joined);
                        node.lossy &= off != Some(Rule::B5) && (!node.up || node.epoch != *epoch);
                    }
                }
                self.messages.push(Message::Altered { to: from, life, proposal, answer });
            }
            Message::Altered { to, life, proposal, answer } => {
                self.node(to).altered(life, &proposal, answer, now_ms, off);
            }
        }
    }

    fn tell(&self, what: impl FnOnce() -> String) {
        if self.told {
            println!("{}", what());
        }
    }

    /// A member of the ISR that lives leads, though nobody failed. Not modelled: a write that overtakes the news of a member
    /// that died and came back makes the state newer than its registration, and the next controller does not see it (F8).
    fn prefer_any(&mut self) {
        let isr = self.controller.known_isr();
        let leader = isr[self.random.below(isr.len() as u64) as usize];
        let registered = |id: &BrokerId| self.controller.live.get(id) == self.store.registrations.get(id);
        if self.controller.live.contains_key(&leader) && isr.iter().all(registered) {
            let told = self.controller.prefer(&mut self.store, leader, self.off);
            self.messages.extend(told);
        }
    }

    fn replace_controller(&mut self) {
        let replicas = self.replicas();
        let next = Controller::elect(&mut self.store, &replicas, self.off);
        self.zombie = Some(std::mem::replace(&mut self.controller, next));
        let mut told = self.controller.look(&mut self.store, self.off);
        told.extend(self.controller.tell(&replicas));
        self.messages.extend(told);
        self.tell(|| format!("controller {} takes over: {:?}", self.controller.epoch, self.store.state));
    }

    /// Whether, without broker `nth`, a member of the ISR lives that has everything, that no controller takes for failed and
    /// that nobody has asked to be taken out.
    fn is_safe_without(&self, nth: usize) -> bool {
        if self.messages.iter().any(|message| matches!(message, Message::Alter { .. })) {
            return false;
        }
        let settled = |id: BrokerId| {
            let epoch = self.store.registrations.get(&id);
            epoch.is_some_and(|epoch| *epoch < self.store.state.mzxid) && self.controller.live.get(&id) == epoch
        };
        let isr = &self.store.state.isr;
        let others = self.nodes.iter().enumerate().filter(|(at, _)| *at != nth).map(|(_, node)| node);
        others.into_iter().any(|node| isr.contains(&node.id) && node.up && !node.lossy && settled(node.id))
    }

    fn has_lost_its_last_member(&self) -> bool {
        let isr = &self.store.state.isr;
        self.nodes.iter().filter(|node| isr.contains(&node.id)).all(|node| node.lossy)
    }

    /// Whether a member of the ISR may lack what it had.
    fn is_in_doubt(&self) -> bool {
        self.nodes.iter().any(|node| node.lossy && self.store.state.isr.contains(&node.id))
    }

    fn crash(&mut self, nth: usize) {
        if !self.nodes[nth].up || self.is_in_doubt() && !self.is_safe_without(nth) {
            return;
        }
        let held = self.nodes[nth].log.records.len();
        let others_lossy = self.nodes.iter().enumerate().any(|(at, node)| at != nth && node.lossy);
        let is_member = self.store.state.isr.contains(&self.nodes[nth].id);
        let may_lose = !others_lossy && (!is_member || self.is_safe_without(nth));
        let synced = self.nodes[nth].log.synced;
        match self.random.below(8) {
            0..=2 if may_lose => {
                self.nodes[nth].crash(synced);
                self.nodes[nth].lossy |= synced < held;
                self.counts.lossy_crashes += 1;
            }
            3 if may_lose => {
                // An older disk.
                let kept = self.random.below(held as u64 + 1) as usize;
                self.nodes[nth].crash(kept);
                let end = self.nodes[nth].log.end();
                self.nodes[nth].log.checkpoint = self.nodes[nth].log.checkpoint.min(end);
                self.nodes[nth].lossy |= kept < held;
                self.counts.lossy_crashes += 1;
            }
            4 if may_lose => {
                self.nodes[nth].crash(0);
                self.nodes[nth].log.wipe();
                self.nodes[nth].lossy = true;
                self.counts.lossy_crashes += 1;
            }
            _ => self.nodes[nth].crash(held),
        }
        let node = &self.nodes[nth];
        self.tell(|| format!("{} crashes with {} of {held} left, {:?}", node.id, node.log.end(), self.store.state));
    }

    fn start(&mut self, nth: usize) {
        if self.nodes[nth].up {
            return;
        }
        let epoch = self.store.register(self.nodes[nth].id);
        self.nodes[nth].start(epoch, self.store.controller_epoch);
        self.tell(|| format!("{} starts in {epoch}", self.nodes[nth].id));
    }

    /// The session is over; a broker that lives serves on, and registers anew at once or after a while.
    fn expire(&mut self, nth: usize) {
        let id = self.nodes[nth].id;
        if !self.nodes[nth].up {
            self.store.registrations.remove(&id);
        } else if !self.store.registrations.contains_key(&id) {
            self.register_anew(nth);
        } else if (!self.is_in_doubt() || self.is_safe_without(nth)) && self.random.below(3) == 0 {
            self.store.registrations.remove(&id);
            self.tell(|| format!("{id} has no session"));
        } else if !self.is_in_doubt() || self.is_safe_without(nth) {
            self.register_anew(nth);
        }
    }

    fn register_anew(&mut self, nth: usize) {
        let id = self.nodes[nth].id;
        self.nodes[nth].epoch = self.store.register(id);
        self.tell(|| format!("{id} registers anew in {}", self.nodes[nth].epoch));
    }

    fn look(&mut self) -> Verdict {
        let state = &self.store.state;
        for node in &self.nodes {
            let id = node.id;
            for (offset, (epoch, value)) in node.log.records.iter().enumerate() {
                let first = *self.written.entry((offset, *epoch)).or_insert(*value);
                let noted = node.log.epochs.epoch_for(Offset(offset as i64));
                ensure(noted == Some(*epoch), || format!("{offset} on {id} is of {epoch}, noted is {noted:?}"))?;
                ensure(first == *value, || format!("offset {offset} of epoch {epoch}: {first}, and {value} on {id}"))?;
            }
            ensure(node.log.records.is_sorted_by_key(|record| record.0), || format!("epochs go back on {id}"))?;
            ensure(node.log.mark <= node.log.end(), || format!("the mark lies behind the log end on {id}"))?;
            let Some(leading) = node.role.leading.as_ref().filter(|_| node.up) else { continue };
            let epoch = node.role.leader_epoch;
            let first = *self.leaders.entry(epoch).or_insert(id);
            ensure(first == id, || format!("{first} and {id} lead in epoch {epoch}"))?;
            let before = self.marks.insert((id, epoch), node.log.mark).unwrap_or(Offset::ZERO);
            ensure(before <= node.log.mark, || format!("the mark of {id} falls from {before} in epoch {epoch}"))?;
            let membership = leading.membership();
            if let IsrState::Committed(isr) = &membership.isr {
                let written = self.store.history.get(&membership.partition_epoch);
                ensure(written == Some(&(epoch, isr.clone())), || {
                    format!("{id} takes {isr:?} for the ISR of {}, which is {written:?}", membership.partition_epoch)
                })?;
            }
            let shown = &node.log.records[..node.log.mark.0 as usize];
            let known = shown.len().min(self.visible.len());
            ensure(shown[..known] == self.visible[..known], || format!("committed records changed on leader {id}"))?;
            self.visible.extend(&shown[known..]);
            if state.leader == id && state.leader_epoch == epoch {
                ensure(node.log.records.len() >= self.visible.len(), || {
                    format!(
                        "leader {id} of epoch {epoch} lacks committed records: {} of {}",
                        node.log.records.len(),
                        self.visible.len()
                    )
                })?;
                let held = &node.log.records[..self.visible.len()];
                ensure(held == self.visible, || format!("leader {id} of epoch {epoch} has other records"))?;
            }
        }
        Ok(())
    }

    /// No more faults: everyone lives and every message arrives.
    fn calm(&mut self) -> Verdict {
        self.messages.clear();
        for nth in 0..self.nodes.len() {
            self.start(nth);
            if !self.store.registrations.contains_key(&self.nodes[nth].id) {
                self.register_anew(nth);
            }
        }
        for _ in 0..200 {
            self.now_ms += 60;
            let now_ms = self.now_ms;
            let told = self.controller.look(&mut self.store, self.off);
            self.messages.extend(told);
            self.messages.extend(self.controller.tell(&self.replicas()));
            for node in &mut self.nodes {
                self.messages.extend(node.ask(now_ms));
                self.messages.extend(node.alter());
            }
            for message in std::mem::take(&mut self.messages) {
                self.deliver(message);
                self.look().map_err(|what| format!("calm: {what}"))?;
            }
            if self.has_converged() {
                return Ok(());
            }
        }
        Err(format!("no calm: {:?}, {:?}", self.store.state, self.nodes))
    }

    fn has_converged(&self) -> bool {
        let mut isr = self.store.state.isr.clone();
        isr.sort();
        let first = &self.nodes[0].log;
        isr == self.replicas()
            && self.nodes.iter().all(|node| {
                node.log.records == first.records && node.log.mark == node.log.end() && node.proposed.is_none()
            })
    }
}

/// More with `KLAMM_SEEDS`; one alone, told step by step, with `KLAMM_SEED`.
fn schedules() -> std::ops::Range<u64> {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    match number("KLAMM_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("KLAMM_SEEDS").unwrap_or(300),
    }
}

#[test]
fn any_order_of_messages_and_crashes_keeps_what_was_committed() {
    let mut sum = Counts::default();
    let all = schedules();
    let alone = all.end - all.start == 1;
    for seed in all.clone() {
        match (Pool { told: alone, ..Pool::new(seed, None) }).run() {
            Err(what) => panic!("seed {seed}: {what}"),
            Ok(counts) => {
                sum.elections += counts.elections;
                sum.isr_changes += counts.isr_changes;
                sum.truncations += counts.truncations;
                sum.committed += counts.committed;
                sum.lossy_crashes += counts.lossy_crashes;
                sum.lost += counts.lost;
            }
        }
    }
    println!("{} schedules: {sum:?}", all.end - all.start);
    let enough = sum.elections > 0 && sum.isr_changes > 0 && sum.truncations > 0 && sum.lossy_crashes > 0;
    assert!(enough && sum.committed > 0, "too quiet: {sum:?}");
    assert!(sum.lost * 50 <= all.end - all.start, "too much is lost to say anything: {sum:?}");
}

#[test]
fn without_one_of_its_rules_a_violation_is_found() {
    for rule in [Rule::B1, Rule::B2, Rule::B4, Rule::B5, Rule::B9, Rule::B10, Rule::B12, Rule::F8] {
        let found = (0..2_000).find_map(|seed| Pool::new(seed, Some(rule)).run().err().map(|what| (seed, what)));
        println!("{rule:?}: {:.300}", format!("{found:?}"));
        assert!(found.is_some(), "{rule:?} is not missed");
    }
}
