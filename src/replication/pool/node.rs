//! A broker of the pool: the real role, ISR and follower cores over a model log.

use std::collections::BTreeMap;

use super::log::{ModelLog, Record};
use super::{Message, Rule};
use crate::replication::follower::{Fetched, Follower, Position, Question, Step};
use crate::replication::isr::{Confirmed, Outcome, Proposal};
use crate::replication::role::{FollowerFetch, Role};
use crate::replication::table::LeaderAndIsr;
use crate::types::{BrokerId, LeaderEpoch, Offset};
use crate::wire::error_code::ErrorCode;
use crate::wire::fetch::DivergingEpoch;

pub const LAG_MS: i64 = 1_000;
const BACKOFF_MS: i64 = 100;
const MIN_ISR: i32 = 2;

/// A fetch on its way.
#[derive(Clone, Debug)]
pub struct FetchMessage {
    pub from: BrokerId,
    pub to: BrokerId,
    pub broker_epoch: i64,
    pub life: u32,
    pub position: Position,
}

/// Its answer.
#[derive(Clone, Debug)]
pub struct FetchedMessage {
    pub to: BrokerId,
    pub life: u32,
    pub position: Position,
    pub answer: Fetched,
    pub records: Vec<Record>,
}

#[derive(Debug)]
pub struct Node {
    pub id: BrokerId,
    pub up: bool,
    /// Broker epoch.
    pub epoch: i64,
    /// Counts starts of the process: connections end with it.
    pub life: u32,
    pub log: ModelLog,
    pub role: Role,
    pub follower: Option<(BrokerId, Follower)>,
    controller_epoch: i32,
    alive: BTreeMap<BrokerId, i64>,
    /// The change in flight, with the members' broker epochs, to be sent again until it is answered.
    pub proposed: Option<(Proposal, Vec<(BrokerId, i64)>)>,
    /// Lost records it had, and did not get into the ISR since.
    pub lossy: bool,
    pub truncations: u64,
}

impl Node {
    pub fn new(id: BrokerId) -> Node {
        Node {
            id,
            up: true,
            epoch: i64::from(id.0),
            life: 0,
            log: ModelLog::default(),
            role: Role::unknown(),
            follower: None,
            controller_epoch: 0,
            alive: BTreeMap::new(),
            proposed: None,
            lossy: false,
            truncations: 0,
        }
    }

    /// The process ends; `kept` records are on its disk afterwards.
    pub fn crash(&mut self, kept: usize) {
        self.up = false;
        self.log.crash(kept);
    }

    pub fn start(&mut self, epoch: i64, controller_epoch: i32) {
        self.up = true;
        self.life += 1;
        self.epoch = epoch;
        self.role = Role::unknown();
        self.follower = None;
        self.controller_epoch = controller_epoch;
        self.proposed = None;
    }

    pub fn leads(&self) -> bool {
        self.up && self.role.leading.is_some()
    }

    /// LeaderAndIsr. KAFKA_STORAGE_ERROR for a leader without its log.
    pub fn lead(
        &mut self,
        broker_epoch: i64,
        change: &LeaderAndIsr,
        alive: BTreeMap<BrokerId, i64>,
        now_ms: i64,
        off: Option<Rule>,
    ) -> Result<(), ErrorCode> {
        if broker_epoch < self.epoch && off != Some(Rule::B9) {
            return Err(ErrorCode::StaleBrokerEpoch);
        }
        if change.controller_epoch < self.controller_epoch && off != Some(Rule::B10) {
            return Err(ErrorCode::StaleControllerEpoch);
        }
        self.controller_epoch = self.controller_epoch.max(change.controller_epoch);
        self.alive = alive;
        if change.leader_epoch <= self.role.leader_epoch {
            return Err(ErrorCode::StaleControllerEpoch);
        }
        if self.log.epochs.latest().is_some_and(|latest| latest > change.leader_epoch) {
            return Err(ErrorCode::StaleControllerEpoch);
        }
        let lacks_records = !self.log.is_there || self.log.is_short();
        if change.leader == self.id && change.leader_epoch > LeaderEpoch(0) && lacks_records && off != Some(Rule::B8) {
            return Err(ErrorCode::KafkaStorageError);
        }
        self.log.is_there = true;
        self.proposed = None;
        if change.leader == self.id {
            self.follower = None;
            if self.role.lead(self.id, change, self.log.end(), now_ms) {
                self.log.epochs.assign(change.leader_epoch, self.log.end());
            }
            self.advance(now_ms);
            return Ok(());
        }
        self.role.follow(change);
        self.follower = None;
        if change.leader != BrokerId::NONE {
            let follower = Follower::new(change.leader_epoch);
            let begin = match off {
                Some(Rule::B1) => Step::Truncate(self.log.mark),
                _ => follower.begin(&self.log),
            };
            self.follower = Some((change.leader, follower));
            self.take(begin, Vec::new());
        }
        Ok(())
    }

    /// What the follower asks next.
    pub fn ask(&mut self, now_ms: i64) -> Option<Message> {
        let (leader, follower) = self.follower.as_mut().filter(|_| self.up)?;
        match follower.question(now_ms, &self.log)? {
            Question::Fetch(position) => Some(Message::Fetch(FetchMessage {
                from: self.id,
                to: *leader,
                broker_epoch: self.epoch,
                life: self.life,
                position,
            })),
            // A log that starts at 0 and has the epochs of its records is never out of range.
            question => panic!("broker {} is out of range: {question:?}", self.id),
        }
    }

    pub fn fetch(&mut self, fetch: &FetchMessage, max: usize, now_ms: i64, off: Option<Rule>) -> FetchedMessage {
        let (answer, records) = match self.read(fetch, max, now_ms, off) {
            Ok((diverging, records)) => (Ok(diverging), records),
            Err(error) => (Err(error), Vec::new()),
        };
        // As of before the fetch was noted.
        let answer = Fetched {
            error: answer.err().unwrap_or(ErrorCode::None),
            high_watermark: self.log.mark,
            log_start: Offset::ZERO,
            diverging: answer.ok().flatten(),
        };
        if !answer.error.is_error() && answer.diverging.is_none() {
            self.advance(now_ms);
            self.join(fetch.from, off);
        }
        FetchedMessage { to: fetch.from, life: fetch.life, position: fetch.position, answer, records }
    }

    fn read(
        &self,
        fetch: &FetchMessage,
        max: usize,
        now_ms: i64,
        off: Option<Rule>,
    ) -> Result<(Option<DivergingEpoch>, Vec<Record>), ErrorCode> {
        let position = &fetch.position;
        self.role.check(position.leader_epoch, true)?;
        let leading = self.role.leading.as_ref().ok_or(ErrorCode::NotLeaderOrFollower)?;
        if position.last_fetched_epoch != LeaderEpoch::NONE {
            let asked = position.last_fetched_epoch;
            let (epoch, end) = match off {
                // Where the first later epoch begins, whatever ended there.
                Some(Rule::B2) => {
                    let later = self.log.epochs.entries().iter().find(|(epoch, _)| *epoch > asked);
                    (asked, later.map_or(self.log.end(), |(_, start)| *start))
                }
                _ => self.log.epochs.end_offset_for(asked, self.log.end()).ok_or(ErrorCode::OffsetOutOfRange)?,
            };
            if epoch < asked || end < position.offset {
                return Ok((Some(DivergingEpoch { epoch, end_offset: end }), Vec::new()));
            }
        }
        let from = usize::try_from(position.offset.0).unwrap_or(usize::MAX);
        let records = self.log.records.get(from..).ok_or(ErrorCode::OffsetOutOfRange)?;
        leading.record(&FollowerFetch {
            id: fetch.from,
            broker_epoch: fetch.broker_epoch,
            offset: position.offset,
            log_start: position.log_start,
            leader_end: self.log.end(),
            now_ms,
        })?;
        Ok((None, records.iter().copied().take(max).collect()))
    }

    pub fn fetched(&mut self, message: FetchedMessage, now_ms: i64, off: Option<Rule>) {
        let Some((_, follower)) = &mut self.follower else { return };
        if !self.up || message.life != self.life {
            return;
        }
        let mut step = follower.fetched(&message.position, &message.answer, &self.log, now_ms, BACKOFF_MS);
        if let (Step::Truncate(_), Some(diverging), Some(Rule::B2)) = (step, message.answer.diverging, off) {
            step = Step::Truncate(diverging.end_offset.min(self.log.end()));
        }
        self.take(step, message.records);
    }

    fn take(&mut self, step: Step, records: Vec<Record>) {
        match step {
            Step::Nothing => {}
            Step::Take { high_watermark, .. } => {
                records.into_iter().for_each(|record| self.log.append(record));
                self.log.mark = self.log.mark.max(high_watermark.min(self.log.end()));
            }
            Step::Truncate(to) => {
                self.truncations += u64::from(to < self.log.end());
                self.log.truncate(to);
            }
            Step::RestartAt(_) => panic!("no log here starts behind 0"),
        }
    }

    /// A client's record.
    pub fn produce(&mut self, value: u64, now_ms: i64) {
        if self.leads() {
            self.log.append((self.role.leader_epoch, value));
            self.advance(now_ms);
        }
    }

    fn advance(&mut self, now_ms: i64) {
        if let Some(leading) = &self.role.leading {
            let alive = &self.alive;
            let eligible = |id: BrokerId, epoch: i64| alive.get(&id).is_some_and(|live| epoch < 0 || *live == epoch);
            let min_isr = self.role.effective_min_isr(MIN_ISR);
            self.log.mark = leading.high_watermark(self.log.mark, self.log.end(), min_isr, now_ms, LAG_MS, eligible);
        }
    }

    fn join(&mut self, follower: BrokerId, off: Option<Rule>) {
        let Some(leading) = &self.role.leading else { return };
        let Some(progress) = leading.progress(follower) else { return };
        let lives = self.alive.get(&follower).is_some_and(|live| *live == progress.broker_epoch);
        if !lives && off != Some(Rule::B5) || !leading.may_be_joined_by(follower) {
            return;
        }
        let proposal = match off {
            Some(Rule::B12) => leading.propose_with(follower, self.log.mark),
            _ => leading.propose_joining(follower, self.log.mark),
        };
        self.proposed = proposal.map(|proposal| self.with_epochs(proposal));
    }

    pub fn shrink(&mut self, now_ms: i64) {
        let Some(leading) = self.role.leading.as_ref().filter(|_| self.up) else { return };
        if let Some(proposal) = leading.propose_leaving(self.log.end(), now_ms, LAG_MS) {
            self.proposed = Some(self.with_epochs(proposal));
        }
    }

    fn with_epochs(&self, proposal: Proposal) -> (Proposal, Vec<(BrokerId, i64)>) {
        let epoch = |id: BrokerId| match id == self.id {
            true => self.epoch,
            false => self.role.leading.as_ref().and_then(|it| it.progress(id)).map_or(-1, |it| it.broker_epoch),
        };
        let members = proposal.isr.iter().map(|id| (*id, epoch(*id))).collect();
        (proposal, members)
    }

    /// The change in flight, on its way to the controller (again).
    pub fn alter(&self) -> Option<Message> {
        let (proposal, members) = self.proposed.clone().filter(|_| self.up)?;
        Some(Message::Alter { from: self.id, life: self.life, broker_epoch: self.epoch, proposal, members })
    }

    /// Goes by what it asked for, as if nobody else could have written.
    pub fn takes_for_granted(&mut self, now_ms: i64) {
        if let Some((proposal, _)) = self.proposed.take() {
            let granted = Confirmed {
                leader_epoch: proposal.leader_epoch,
                partition_epoch: proposal.partition_epoch,
                isr: proposal.isr.clone(),
            };
            self.altered(self.life, &proposal, Ok(granted), now_ms, None);
        }
    }

    /// The controller's answer. Whether the ISR changed.
    pub fn altered(
        &mut self,
        life: u32,
        proposal: &Proposal,
        answer: Result<Confirmed, ErrorCode>,
        now_ms: i64,
        off: Option<Rule>,
    ) -> bool {
        if let (Ok(now), Some(Rule::LateAnswers), true) = (&answer, off, self.leads() && life == self.life) {
            let change = LeaderAndIsr {
                leader: self.id,
                leader_epoch: self.role.leader_epoch,
                isr: now.isr.clone(),
                partition_epoch: now.partition_epoch,
                ..super::change(&self.role.replicas)
            };
            self.role.lead(self.id, &change, self.log.end(), now_ms);
            return true;
        }
        let Some(leading) = self.role.leading.as_ref().filter(|_| self.up && life == self.life) else { return false };
        let outcome = leading.answered(proposal, answer);
        if outcome == Outcome::Settled {
            self.proposed = None;
            self.advance(now_ms);
        }
        outcome == Outcome::Settled
    }
}
