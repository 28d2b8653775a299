//! Replicas, controllers and the messages between them in a pool: delivered in any order, twice or never, while brokers
//! crash, lose what they had not synced, come back, and controllers replace each other. From a seed; after each step the
//! invariants hold, and once all is calm everything has converged.
//!
//! The cores are the real ones: the controller's `decide`, stopped between any two effects, and the roles, ISRs and
//! followers of several partitions whose leaders are on different brokers, so that one request speaks of many. The
//! metastore, the logs and the network are models.
//!
//! What is lost: a power cut takes un-synced records, and a swapped disk takes all, of one replica at a time that is not
//! yet back in the ISR, and only while another member that lives has everything. Where that one leaves the ISR meanwhile and
//! the last member has lost its records, they are lost; no rule here can help that, and such partitions are counted.

use std::collections::BTreeMap;

use self::controller::{Controller, Done};
use self::node::{FetchMessage, FetchedMessage, LAG_MS, Node, Starting};
use self::store::Store;
use super::decide::IsrMember;
use super::message::{ControlAnswer, ControlBody};
use crate::random::{Random, SeededRandom};
use crate::replication::isr::{Confirmed, Proposal};
use crate::types::{BrokerId, LeaderEpoch, Offset, TopicPartition};
use crate::wire::error_code::ErrorCode;

mod alarms;
mod controller;
mod invariants;
mod log;
mod node;
mod schedules;
mod scripts;
mod store;
mod unseen;

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
    /// For a suspect's sake nobody is elected from outside the ISR.
    F3,
    /// For a suspect's sake no ISR gets smaller than `min.insync.replicas`.
    MinIsr,
    /// Who starts registers when no ISR counts on it any more.
    F7,
    /// A new controller takes who registered after the last write for failed and started.
    F8,
    /// A fetch of an earlier life than the last seen tells a leader nothing.
    F9,
    /// A state is written only while the members of its ISR are registered in the lives its writer knows.
    Lives,
    /// An answer about the ISR of before a later LeaderAndIsr changes nothing (KAFKA-12686).
    LateAnswers,
}

/// The rules that are left out.
#[derive(Clone, Copy, Debug)]
pub struct Off(&'static [Rule]);

impl Off {
    pub fn has(self, rule: Rule) -> bool {
        self.0.contains(&rule)
    }
}

/// AlterPartition: by partition the ISR that is asked for, and the lives of its members.
#[derive(Clone, Debug)]
pub struct AlterMessage {
    pub from: BrokerId,
    pub life: u32,
    pub broker_epoch: i64,
    pub changes: Vec<(i32, Proposal, Vec<IsrMember>)>,
}

#[derive(Clone, Debug)]
pub enum Message {
    /// To the controller of that epoch.
    Answered {
        from: BrokerId,
        controller_epoch: i32,
        request: ControlBody,
        answer: ControlAnswer,
    },
    Fetch(FetchMessage),
    Fetched(FetchedMessage),
    Alter(AlterMessage),
    Altered {
        to: BrokerId,
        life: u32,
        answers: Vec<(i32, Proposal, Result<Confirmed, ErrorCode>)>,
    },
}

const TOPIC: &str = "t";
const STEPS: u64 = 400;
/// Messages under way; the oldest are lost.
const UNDER_WAY: usize = 60;
/// A broker that starts waits so long for the controller.
const SESSION_MS: i64 = 2_000;

fn partition(of: i32) -> TopicPartition {
    TopicPartition::new(TOPIC, of)
}

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
    alarms: u64,
    /// Partitions whose last member lost records, where there is nothing to demand any more.
    lost: u64,
}

/// What is known of a partition from the outside.
#[derive(Debug, Default)]
struct Seen {
    /// What some leader showed to be committed, by offset.
    visible: Vec<log::Record>,
    /// By offset and epoch: the one record there can be.
    written: BTreeMap<(usize, LeaderEpoch), u64>,
    leaders: BTreeMap<LeaderEpoch, BrokerId>,
    /// The mark each leader showed last.
    marks: BTreeMap<(BrokerId, LeaderEpoch), Offset>,
    /// Its last member lost records.
    is_lost: bool,
}

struct Pool {
    random: SeededRandom,
    off: Off,
    now_ms: i64,
    nodes: Vec<Node>,
    assignments: Vec<Vec<BrokerId>>,
    store: Store,
    controller: Controller,
    /// Replaced, without knowing it.
    zombie: Option<Controller>,
    messages: Vec<Message>,
    next_value: u64,
    /// By partition.
    seen: Vec<Seen>,
    counts: Counts,
    /// Brokers are suspected, too.
    has_alarms: bool,
    /// Prints what happens.
    told: bool,
}

impl Pool {
    fn new(seed: u64, off: Off) -> Pool {
        let random = SeededRandom::new(seed);
        let replicas = [3, 3, 4, 5][random.below(4) as usize];
        let partitions = [1, 1, 2, 3][random.below(4) as usize];
        Pool::of(random, replicas, partitions, off)
    }

    fn of_three(off: Off) -> Pool {
        Pool::of(SeededRandom::new(0), 3, 1, off)
    }

    /// Every broker has a replica of every partition; another one leads each.
    fn of(random: SeededRandom, replicas: i32, partitions: i32, off: Off) -> Pool {
        let assigned = |of: i32| (0..replicas).map(|nth| BrokerId(1 + (of + nth) % replicas)).collect();
        let assignments: Vec<Vec<BrokerId>> = (0..partitions).map(assigned).collect();
        let store = Store::new(&assignments);
        let controller = Controller::new(&store, &assignments);
        let mut pool = Pool {
            random,
            off,
            now_ms: 100_000,
            nodes: (1..=replicas).map(|id| Node::new(BrokerId(id), assignments.len())).collect(),
            seen: std::iter::repeat_with(Seen::default).take(assignments.len()).collect(),
            assignments,
            store,
            controller,
            zombie: None,
            messages: Vec::new(),
            next_value: 0,
            counts: Counts::default(),
            has_alarms: false,
            told: false,
        };
        // A member of the ISR without a log has lost it: all begin with one.
        pool.work(usize::MAX);
        pool.deliver_all_control();
        pool.messages.clear();
        pool
    }

    fn run(mut self) -> Result<Counts, String> {
        for step in 0..STEPS {
            self.step();
            self.note_losses();
            self.look().map_err(|what| format!("step {step}: {what}"))?;
        }
        self.calm()?;
        self.counts.elections = self.store.states.iter().map(|stored| i64::from(stored.state.leader_epoch.0)).sum();
        let replicas = self.nodes.iter().flat_map(|node| &node.replicas);
        self.counts.truncations = replicas.map(|replica| replica.truncations).sum();
        self.counts.committed = self.seen.iter().map(|seen| seen.visible.len() as u64).sum();
        self.counts.lost = self.seen.iter().filter(|seen| seen.is_lost).count() as u64;
        Ok(self.counts)
    }

    fn any(&self) -> usize {
        self.random.below(self.nodes.len() as u64) as usize
    }

    fn any_partition(&self) -> i32 {
        self.random.below(self.assignments.len() as u64) as i32
    }

    fn node(&mut self, id: BrokerId) -> &mut Node {
        &mut self.nodes[id.0 as usize - 1]
    }

    fn step(&mut self) {
        self.now_ms += self.random.below(40) as i64;
        let (nth, of) = (self.any(), self.any_partition());
        let (now_ms, off) = (self.now_ms, self.off);
        if self.has_alarms && self.random.below(16) == 0 {
            return self.alarm(nth);
        }
        match self.random.below(100) {
            0..=33 => self.deliver_any(),
            34..=44 => self.deliver_control(),
            45..=64 if self.nodes[nth].up => {
                let around = self.nodes[nth].around(now_ms, off);
                for (of, replica) in (0..).zip(&mut self.nodes[nth].replicas) {
                    self.messages.extend(replica.ask(&around, of));
                }
            }
            65..=74 if self.nodes[nth].up => {
                let around = self.nodes[nth].around(now_ms, off);
                for replica in &mut self.nodes[nth].replicas {
                    self.next_value += 1;
                    replica.produce(&around, self.next_value);
                }
            }
            75..=80 => {
                let altered = self.nodes[nth].alter();
                self.messages.extend(altered);
                if off.has(Rule::B4) && self.nodes[nth].up {
                    let around = self.nodes[nth].around(now_ms, off);
                    self.nodes[nth].replicas.iter_mut().for_each(|replica| replica.takes_for_granted(&around));
                }
            }
            81..=82 if self.nodes[nth].up => {
                let around = self.nodes[nth].around(now_ms, off);
                self.nodes[nth].replicas.iter_mut().for_each(|replica| replica.shrink(&around));
            }
            83..=85 => {
                self.controller.look();
                self.work_on();
            }
            86 => self.work_on(),
            87 => self.replace_controller(),
            88 => {
                if let Some(zombie) = &mut self.zombie {
                    zombie.look();
                    let budget = 1 + self.random.below(12) as usize;
                    let done = zombie.work(&mut self.store, budget, off);
                    self.take(done);
                }
            }
            89 => self.nodes[nth].replicas.iter_mut().for_each(|it| it.log.synced = it.log.records.len()),
            90 => self.nodes[nth].replicas.iter_mut().for_each(|it| it.log.write_checkpoint()),
            91..=93 => self.crash(nth),
            94..=97 => {
                // Each goes one step on its way.
                (0..self.nodes.len()).for_each(|nth| self.start(nth));
            }
            98 => self.expire(nth),
            99 if self.random.below(2) == 0 => self.now_ms += LAG_MS / 2,
            99 => self.hand_over(of),
            _ => {}
        }
        if self.messages.len() > UNDER_WAY {
            self.messages.drain(..self.messages.len() - UNDER_WAY);
        }
    }

    /// The controller goes on: mostly until nothing is left to do.
    fn work_on(&mut self) {
        let budget = if self.random.below(4) == 0 { 1 + self.random.below(6) as usize } else { usize::MAX };
        self.work(budget);
    }

    fn work(&mut self, budget: usize) {
        let done = self.controller.work(&mut self.store, budget, self.off);
        self.take(done);
    }

    fn take(&mut self, done: Done) {
        self.counts.isr_changes += done.isr_changes;
        self.messages.extend(done.messages);
        let off = self.off;
        for (of, IsrMember { broker, broker_epoch }) in done.joined {
            // One that died since, and may have lost what it had, is in doubt still.
            let node = self.node(broker);
            let is_in_doubt = !off.has(Rule::B5) && (!node.up || node.epoch != broker_epoch);
            node.at(of).lossy &= is_in_doubt;
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
            Message::Answered { from, controller_epoch, request, answer } => {
                self.controller.answered(from, controller_epoch, request, answer);
                self.work_on();
            }
            Message::Fetch(fetch) => {
                let max = self.random.below(4) as usize;
                let node = self.node(fetch.to);
                if node.up {
                    let around = node.around(now_ms, off);
                    let answer = node.at(fetch.partition).fetch(&around, &fetch, max);
                    self.messages.push(Message::Fetched(answer));
                }
            }
            Message::Fetched(answer) => {
                let node = self.node(answer.to);
                if node.up && node.life == answer.life {
                    let around = node.around(now_ms, off);
                    node.at(answer.partition).fetched(&around, answer);
                }
            }
            Message::Alter(message) if off.has(Rule::B4) => {
                let mut done = Done::default();
                self.controller.overwrite(&mut self.store, &message, &mut done);
                self.take(done);
            }
            Message::Alter(message) => {
                self.controller.alter(message);
                self.work_on();
            }
            Message::Altered { to, life, answers } => {
                let node = self.node(to);
                if node.up && node.life == life {
                    let around = node.around(now_ms, off);
                    for (of, proposal, answer) in answers {
                        node.at(of).altered(&around, &proposal, answer);
                    }
                }
            }
        }
    }

    /// The next request of some channel arrives; its answer may not, and then it is sent again.
    fn deliver_control(&mut self) {
        let is_zombies = self.random.below(6) == 0;
        let channels = match (&self.zombie, is_zombies) {
            (Some(zombie), true) => &zombie.channels,
            _ => &self.controller.channels,
        };
        let waiting: Vec<(BrokerId, i64)> =
            channels.iter().filter(|(_, queue)| !queue.is_empty()).map(|(to, _)| *to).collect();
        if waiting.is_empty() {
            return;
        }
        let to = waiting[self.random.below(waiting.len() as u64) as usize];
        for _ in 0..=self.random.below(8) {
            let is_answered = self.random.below(8) != 0;
            self.deliver_next(to, is_zombies && self.zombie.is_some(), is_answered);
        }
    }

    fn deliver_next(&mut self, to: (BrokerId, i64), is_zombies: bool, is_answered: bool) {
        let (now_ms, off) = (self.now_ms, self.off);
        if !self.node(to.0).up {
            return;
        }
        let controller = match &mut self.zombie {
            Some(zombie) if is_zombies => zombie,
            _ => &mut self.controller,
        };
        let Some(queue) = controller.channels.get_mut(&to) else { return };
        let Some(request) = queue.front().cloned() else { return };
        if is_answered {
            queue.pop_front();
        }
        self.tell(|| format!("to {} in {}: {request:?}", to.0, to.1));
        let answer = self.node(to.0).control(&request, now_ms, off);
        let says_something = |error: &ErrorCode| *error != ErrorCode::StaleControllerEpoch;
        if is_answered && answer.partitions.iter().any(|(_, error)| says_something(error)) {
            let (from, controller_epoch) = (to.0, request.controller_epoch);
            self.messages.push(Message::Answered { from, controller_epoch, request: request.body, answer });
        }
    }

    /// All that the controller has said so far arrives.
    fn deliver_all_control(&mut self) {
        let waiting: Vec<((BrokerId, i64), usize)> =
            self.controller.channels.iter().map(|(to, queue)| (*to, queue.len())).collect();
        for (to, waiting) in waiting {
            (0..waiting).for_each(|_| self.deliver_next(to, false, true));
        }
    }

    fn tell(&self, what: impl FnOnce() -> String) {
        if self.told {
            println!("{}", what());
        }
    }

    /// A member of the ISR that lives leads, though nobody failed.
    fn hand_over(&mut self, of: i32) {
        let isr = &self.store.at(of).state.isr;
        let leader = isr[self.random.below(isr.len() as u64) as usize];
        self.controller.hand_over(of, leader);
        self.work_on();
    }

    fn replace_controller(&mut self) {
        let next = Controller::elect(&mut self.store, &self.assignments);
        self.zombie = Some(std::mem::replace(&mut self.controller, next));
        self.work_on();
        self.tell(|| format!("controller {} takes over: {:?}", self.controller.state.epoch, self.store.states));
    }

    /// Whether, without broker `nth`, a member of each ISR that is in doubt lives that has everything, that no controller
    /// takes for failed and that nobody has asked to be taken out.
    fn is_safe_without(&self, nth: usize, of: i32) -> bool {
        if !self.controller.is_idle() || self.messages.iter().any(|message| matches!(message, Message::Alter(_))) {
            return false;
        }
        let stored = self.store.at(of);
        let settled = |id: BrokerId| {
            let epoch = self.store.registrations.get(&id).copied();
            epoch.is_some_and(|epoch| epoch < stored.mzxid) && self.controller.counts_on(id, of) == epoch
        };
        let has_all = |node: &Node| node.up && !node.replicas[of as usize].lossy && settled(node.id);
        let mut others = self.nodes.iter().enumerate().filter(|(at, _)| *at != nth).map(|(_, node)| node);
        others.any(|node| stored.state.isr.contains(&node.id) && has_all(node))
    }

    /// Whether a member of the ISR may lack what it had.
    fn is_in_doubt(&self, of: i32) -> bool {
        let isr = &self.store.at(of).state.isr;
        self.nodes.iter().any(|node| node.replicas[of as usize].lossy && isr.contains(&node.id))
    }

    fn partitions(&self) -> std::ops::Range<i32> {
        0..self.assignments.len() as i32
    }

    /// Whether the ISRs get over it when broker `nth` is not there.
    fn can_spare(&self, nth: usize) -> bool {
        self.partitions()
            .all(|of| self.seen[of as usize].is_lost || !self.is_in_doubt(of) || self.is_safe_without(nth, of))
    }

    fn note_losses(&mut self) {
        for of in self.partitions() {
            let isr = &self.store.at(of).state.isr;
            let mut members = self.nodes.iter().filter(|node| isr.contains(&node.id));
            self.seen[of as usize].is_lost |= members.all(|node| node.replicas[of as usize].lossy);
        }
    }

    fn crash(&mut self, nth: usize) {
        if !self.nodes[nth].up || !self.can_spare(nth) {
            return;
        }
        let kind = self.random.below(8);
        // A broker loses its power, or one of its disks.
        let only = if self.random.below(2) == 0 { Some(self.any_partition()) } else { None };
        let spared: Vec<bool> = self.partitions().map(|of| only.is_some_and(|it| it != of)).collect();
        let may_lose: Vec<bool> = self.partitions().map(|of| self.may_lose(nth, of)).collect();
        let mut is_lossy = false;
        for of in self.partitions() {
            let dice = self.random.next_u64();
            let replica = self.nodes[nth].at(of);
            let (held, synced) = (replica.log.records.len(), replica.log.synced);
            match kind {
                _ if spared[of as usize] || !may_lose[of as usize] => replica.log.crash(held),
                0..=2 => {
                    replica.log.crash(synced);
                    replica.lossy |= synced < held;
                    is_lossy = true;
                }
                3 => {
                    // An older disk.
                    let kept = (dice % (held as u64 + 1)) as usize;
                    replica.log.crash(kept);
                    replica.log.checkpoint = replica.log.checkpoint.min(replica.log.end());
                    replica.lossy |= kept < held;
                    is_lossy = true;
                }
                4 => {
                    replica.log.crash(0);
                    replica.log.wipe();
                    replica.lossy = true;
                    is_lossy = true;
                }
                _ => replica.log.crash(held),
            }
        }
        self.nodes[nth].crash();
        self.counts.lossy_crashes += u64::from(is_lossy);
        let node = &self.nodes[nth];
        let left: Vec<Offset> = node.replicas.iter().map(|replica| replica.log.end()).collect();
        self.tell(|| format!("{} crashes with {left:?} left, {:?}", node.id, self.store.states));
    }

    fn may_lose(&self, nth: usize, of: i32) -> bool {
        let mut others = self.nodes.iter().enumerate().filter(|(at, _)| *at != nth);
        let is_member = self.store.at(of).state.isr.contains(&self.nodes[nth].id);
        !others.any(|(_, node)| node.replicas[of as usize].lossy) && (!is_member || self.is_safe_without(nth, of))
    }

    /// A process begins, waits until no ISR counts on its last life, and registers.
    fn start(&mut self, nth: usize) {
        let (id, now_ms) = (self.nodes[nth].id, self.now_ms);
        if self.nodes[nth].up {
            return;
        }
        let Some(starting) = self.nodes[nth].starting else {
            // Its lock was free: whoever is registered is dead.
            self.store.registrations.remove(&id);
            let is_cleared = self.off.has(Rule::F7);
            self.nodes[nth].starting = Some(Starting { until_ms: now_ms + SESSION_MS, is_cleared });
            if is_cleared {
                self.start(nth);
            }
            return;
        };
        if !starting.is_cleared {
            let is_alone = self.store.registrations.is_empty();
            let is_cleared = is_alone || !self.store.counts_on(id) || now_ms >= starting.until_ms;
            self.nodes[nth].starting = Some(Starting { is_cleared, ..starting });
            return;
        }
        let epoch = self.store.register(id);
        self.nodes[nth].start(epoch, self.store.controller_epoch);
        self.tell(|| format!("{id} starts in {epoch}"));
    }

    /// The session is over; a broker that lives serves on, and registers anew at once or after a while.
    fn expire(&mut self, nth: usize) {
        let id = self.nodes[nth].id;
        if !self.nodes[nth].up {
            self.store.registrations.remove(&id);
        } else if !self.store.registrations.contains_key(&id) {
            self.register_anew(nth);
        } else if self.can_spare(nth) {
            if self.random.below(3) == 0 {
                self.store.registrations.remove(&id);
                self.tell(|| format!("{id} has no session"));
            } else {
                self.register_anew(nth);
            }
        }
    }

    fn register_anew(&mut self, nth: usize) {
        let id = self.nodes[nth].id;
        self.nodes[nth].epoch = self.store.register(id);
        self.tell(|| format!("{id} registers anew in {}", self.nodes[nth].epoch));
    }
}
