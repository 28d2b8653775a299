//! A broker of the pool: the real role, ISR and follower cores over model logs.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::log::{ModelLog, Record};
use super::{AlterMessage, Message, Off, Rule, partition};
use crate::controller::decide::IsrMember;
use crate::controller::message::{ControlAnswer, ControlBody, ControlRequest};
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
    pub partition: i32,
    pub from: BrokerId,
    pub to: BrokerId,
    pub broker_epoch: i64,
    pub life: u32,
    pub position: Position,
}

/// Its answer.
#[derive(Clone, Debug)]
pub struct FetchedMessage {
    pub partition: i32,
    pub to: BrokerId,
    pub life: u32,
    pub position: Position,
    pub answer: Fetched,
    pub records: Vec<Record>,
}

/// A process that is there and not registered yet.
#[derive(Clone, Copy, Debug)]
pub struct Starting {
    /// It waits no longer.
    pub until_ms: i64,
    /// No ISR counted on it when it looked.
    pub is_cleared: bool,
}

#[derive(Debug)]
pub struct Node {
    pub id: BrokerId,
    /// Registered once in this life, and serving.
    pub up: bool,
    pub starting: Option<Starting>,
    /// Broker epoch.
    pub epoch: i64,
    /// Counts starts of the process: connections end with it.
    pub life: u32,
    controller_epoch: i32,
    alive: Arc<BTreeMap<BrokerId, i64>>,
    /// By partition.
    pub replicas: Vec<Replica>,
}

/// A partition's replica on a broker.
#[derive(Debug)]
pub struct Replica {
    pub log: ModelLog,
    pub role: Role,
    pub follower: Option<(BrokerId, Follower)>,
    /// The change in flight, with the members' broker epochs, to be sent again until it is answered.
    pub proposed: Option<(Proposal, Vec<IsrMember>)>,
    /// Lost records it had, and did not get into the ISR since.
    pub lossy: bool,
    pub truncations: u64,
}

/// What a replica sees of its broker and the moment.
pub struct Around {
    id: BrokerId,
    epoch: i64,
    life: u32,
    alive: Arc<BTreeMap<BrokerId, i64>>,
    now_ms: i64,
    off: Off,
}

impl Node {
    pub fn new(id: BrokerId, partitions: usize) -> Node {
        let replica = || Replica {
            log: ModelLog::default(),
            role: Role::unknown(),
            follower: None,
            proposed: None,
            lossy: false,
            truncations: 0,
        };
        Node {
            id,
            up: true,
            starting: None,
            epoch: i64::from(id.0),
            life: 0,
            controller_epoch: 0,
            alive: Arc::default(),
            replicas: std::iter::repeat_with(replica).take(partitions).collect(),
        }
    }

    pub fn at(&mut self, partition: i32) -> &mut Replica {
        &mut self.replicas[partition as usize]
    }

    pub fn around(&self, now_ms: i64, off: Off) -> Around {
        let (id, epoch, life, alive) = (self.id, self.epoch, self.life, self.alive.clone());
        Around { id, epoch, life, alive, now_ms, off }
    }

    /// The process ends. What is left of its logs is the caller's to say.
    pub fn crash(&mut self) {
        self.up = false;
    }

    /// Registered in `epoch`.
    pub fn start(&mut self, epoch: i64, controller_epoch: i32) {
        self.starting = None;
        self.up = true;
        self.life += 1;
        self.epoch = epoch;
        self.controller_epoch = controller_epoch;
        self.alive = Arc::default();
        for replica in &mut self.replicas {
            replica.role = Role::unknown();
            replica.follower = None;
            replica.proposed = None;
        }
    }

    /// What a controller says.
    pub fn control(&mut self, request: &ControlRequest, now_ms: i64, off: Off) -> ControlAnswer {
        let refused = |error| ControlAnswer { error, partitions: Vec::new() };
        if request.broker_epoch < self.epoch && !off.has(Rule::B9) {
            return refused(ErrorCode::StaleBrokerEpoch);
        }
        if request.controller_epoch < self.controller_epoch && !off.has(Rule::B10) {
            return refused(ErrorCode::StaleControllerEpoch);
        }
        self.controller_epoch = self.controller_epoch.max(request.controller_epoch);
        let around = self.around(now_ms, off);
        let mut partitions = Vec::new();
        match &request.body {
            ControlBody::UpdateMetadata(update) => {
                self.alive = Arc::new(update.brokers.iter().map(|broker| (broker.id, broker.epoch)).collect());
            }
            ControlBody::LeaderAndIsr(update) => {
                for change in &update.partitions {
                    let taken = self.at(change.tp.partition).lead(&around, change);
                    partitions.push((change.tp.clone(), taken.err().unwrap_or(ErrorCode::None)));
                }
            }
            ControlBody::StopReplica(stops) => {
                for stop in stops {
                    let replica = self.at(stop.tp.partition);
                    let is_late = stop.leader_epoch.0 >= 0 && stop.leader_epoch < replica.role.leader_epoch;
                    if !is_late {
                        replica.follower = None;
                    }
                }
            }
        }
        ControlAnswer { error: ErrorCode::None, partitions }
    }

    /// All changes of ISRs in flight, on their way to the controller (again).
    pub fn alter(&self) -> Option<Message> {
        let changes: Vec<_> = (0..)
            .zip(&self.replicas)
            .filter_map(|(of, replica)| replica.proposed.clone().map(|(proposal, members)| (of, proposal, members)))
            .collect();
        let (from, life, broker_epoch) = (self.id, self.life, self.epoch);
        let is_asked = self.up && !changes.is_empty();
        is_asked.then_some(Message::Alter(AlterMessage { from, life, broker_epoch, changes }))
    }
}

impl Replica {
    pub fn leads(&self) -> bool {
        self.role.leading.is_some()
    }

    /// LeaderAndIsr. KAFKA_STORAGE_ERROR for a leader without its log.
    fn lead(&mut self, around: &Around, change: &LeaderAndIsr) -> Result<(), ErrorCode> {
        if change.leader_epoch <= self.role.leader_epoch {
            return Err(ErrorCode::StaleControllerEpoch);
        }
        if self.log.epochs.latest().is_some_and(|latest| latest > change.leader_epoch) {
            return Err(ErrorCode::StaleControllerEpoch);
        }
        let is_named = change.leader == around.id;
        let may_be_named = is_named || change.leader == BrokerId::NONE && change.isr.contains(&around.id);
        if !self.log.is_there && may_be_named && change.leader_epoch > LeaderEpoch(0) && !around.off.has(Rule::B8) {
            return Err(ErrorCode::KafkaStorageError);
        }
        if is_named && change.leader_epoch > LeaderEpoch(0) && self.log.is_short() && !around.off.has(Rule::B8) {
            return Err(ErrorCode::KafkaStorageError);
        }
        self.log.is_there = true;
        self.proposed = None;
        if change.leader == around.id {
            self.follower = None;
            if self.role.lead(around.id, change, self.log.end(), around.now_ms) {
                self.log.epochs.assign(change.leader_epoch, self.log.end());
            }
            self.advance(around);
            return Ok(());
        }
        self.role.follow(change);
        self.follower = None;
        if change.leader != BrokerId::NONE {
            let follower = Follower::new(change.leader_epoch);
            let begin = match around.off.has(Rule::B1) {
                true => Step::Truncate(self.log.mark),
                false => follower.begin(&self.log),
            };
            self.follower = Some((change.leader, follower));
            self.take(begin, Vec::new());
        }
        Ok(())
    }

    /// What the follower of `of` asks next.
    pub fn ask(&mut self, around: &Around, of: i32) -> Option<Message> {
        let (leader, follower) = self.follower.as_mut()?;
        match follower.question(around.now_ms, &self.log)? {
            Question::Fetch(position) => Some(Message::Fetch(FetchMessage {
                partition: of,
                from: around.id,
                to: *leader,
                broker_epoch: around.epoch,
                life: around.life,
                position,
            })),
            // A log that starts at 0 and has the epochs of its records is never out of range.
            question => panic!("{} on broker {} is out of range: {question:?}", partition(of), around.id),
        }
    }

    pub fn fetch(&mut self, around: &Around, fetch: &FetchMessage, max: usize) -> FetchedMessage {
        let (answer, records) = match self.read(around, fetch, max) {
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
            self.advance(around);
            self.join(around, fetch.from);
        }
        let FetchMessage { partition, from, life, position, .. } = *fetch;
        FetchedMessage { partition, to: from, life, position, answer, records }
    }

    fn read(
        &self,
        around: &Around,
        fetch: &FetchMessage,
        max: usize,
    ) -> Result<(Option<DivergingEpoch>, Vec<Record>), ErrorCode> {
        let position = &fetch.position;
        self.role.check(position.leader_epoch, true)?;
        let leading = self.role.leading.as_ref().ok_or(ErrorCode::NotLeaderOrFollower)?;
        if position.last_fetched_epoch != LeaderEpoch::NONE {
            let asked = position.last_fetched_epoch;
            let (epoch, end) = match around.off.has(Rule::B2) {
                // Where the first later epoch begins, whatever ended there.
                true => {
                    let later = self.log.epochs.entries().iter().find(|(epoch, _)| *epoch > asked);
                    (asked, later.map_or(self.log.end(), |(_, start)| *start))
                }
                false => self.log.epochs.end_offset_for(asked, self.log.end()).ok_or(ErrorCode::OffsetOutOfRange)?,
            };
            if epoch < asked || end < position.offset {
                return Ok((Some(DivergingEpoch { epoch, end_offset: end }), Vec::new()));
            }
        }
        let from = usize::try_from(position.offset.0).unwrap_or(usize::MAX);
        let records = self.log.records.get(from..).ok_or(ErrorCode::OffsetOutOfRange)?;
        let known = leading.progress(fetch.from).map_or(-1, |progress| progress.broker_epoch);
        leading.record(&FollowerFetch {
            id: fetch.from,
            broker_epoch: if around.off.has(Rule::F9) { fetch.broker_epoch.max(known) } else { fetch.broker_epoch },
            offset: position.offset,
            log_start: position.log_start,
            leader_end: self.log.end(),
            now_ms: around.now_ms,
        })?;
        Ok((None, records.iter().copied().take(max).collect()))
    }

    pub fn fetched(&mut self, around: &Around, message: FetchedMessage) {
        let Some((_, follower)) = &mut self.follower else { return };
        let mut step = follower.fetched(&message.position, &message.answer, &self.log, around.now_ms, BACKOFF_MS);
        if let (Step::Truncate(_), Some(diverging), true) = (step, message.answer.diverging, around.off.has(Rule::B2)) {
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
    pub fn produce(&mut self, around: &Around, value: u64) {
        if self.leads() {
            self.log.append((self.role.leader_epoch, value));
            self.advance(around);
        }
    }

    fn advance(&mut self, around: &Around) {
        if let Some(leading) = &self.role.leading {
            let eligible =
                |id: BrokerId, epoch: i64| around.alive.get(&id).is_some_and(|live| epoch < 0 || *live == epoch);
            let (min_isr, end) = (self.role.effective_min_isr(MIN_ISR), self.log.end());
            self.log.mark = leading.high_watermark(self.log.mark, end, min_isr, around.now_ms, LAG_MS, eligible);
        }
    }

    fn join(&mut self, around: &Around, follower: BrokerId) {
        let Some(leading) = &self.role.leading else { return };
        let Some(progress) = leading.progress(follower) else { return };
        let lives = around.alive.get(&follower).is_some_and(|live| *live == progress.broker_epoch);
        if !lives && !around.off.has(Rule::B5) || !leading.may_be_joined_by(follower) {
            return;
        }
        let proposal = match around.off.has(Rule::B12) {
            true => leading.propose_with(follower, self.log.mark),
            false => leading.propose_joining(follower, self.log.mark),
        };
        self.proposed = proposal.map(|proposal| self.with_epochs(around, proposal));
    }

    pub fn shrink(&mut self, around: &Around) {
        let Some(leading) = &self.role.leading else { return };
        if let Some(proposal) = leading.propose_leaving(self.log.end(), around.now_ms, LAG_MS) {
            self.proposed = Some(self.with_epochs(around, proposal));
        }
    }

    fn with_epochs(&self, around: &Around, proposal: Proposal) -> (Proposal, Vec<IsrMember>) {
        let epoch = |id: BrokerId| match id == around.id {
            true => around.epoch,
            false => self.role.leading.as_ref().and_then(|it| it.progress(id)).map_or(-1, |it| it.broker_epoch),
        };
        let member = |id: &BrokerId| IsrMember { broker: *id, broker_epoch: epoch(*id) };
        let members = proposal.isr.iter().map(member).collect();
        (proposal, members)
    }

    /// Goes by what it asked for, as if nobody else could have written.
    pub fn takes_for_granted(&mut self, around: &Around) {
        if let Some((proposal, _)) = self.proposed.take() {
            let granted = Confirmed {
                leader_epoch: proposal.leader_epoch,
                partition_epoch: proposal.partition_epoch,
                isr: proposal.isr.clone(),
            };
            self.altered(around, &proposal, Ok(granted));
        }
    }

    /// The controller's answer.
    pub fn altered(&mut self, around: &Around, proposal: &Proposal, answer: Result<Confirmed, ErrorCode>) {
        if let (Ok(now), true, true) = (&answer, around.off.has(Rule::LateAnswers), self.leads()) {
            let change = LeaderAndIsr {
                leader: around.id,
                leader_epoch: self.role.leader_epoch,
                isr: now.isr.clone(),
                partition_epoch: now.partition_epoch,
                replicas: self.role.replicas.clone(),
                ..crate::replication::testing::change(1, 0, &[1])
            };
            self.role.lead(around.id, &change, self.log.end(), around.now_ms);
            return;
        }
        let Some(leading) = &self.role.leading else { return };
        if leading.answered(proposal, answer) == Outcome::Settled {
            self.proposed = None;
            self.advance(around);
        }
    }
}
