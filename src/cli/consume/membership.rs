//! Membership of a consumer group, as the Java console consumer holds it: classic protocol, eager, range assignor.
//!
//! A thread of its own joins, sends heartbeats and commits what has been written out. Before it joins anew it has the main
//! thread stop reading, so that no record of a partition is written after another member was given it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::mpsc::{self, SyncSender};
use std::thread;
use std::time::Duration;

use anyhow::anyhow;
use kafka_protocol::messages::consumer_protocol_assignment::TopicPartition as AssignedTopic;
use kafka_protocol::messages::join_group_request::JoinGroupRequestProtocol;
use kafka_protocol::messages::join_group_response::JoinGroupResponseMember;
use kafka_protocol::messages::leave_group_request::MemberIdentity;
use kafka_protocol::messages::offset_commit_request::{OffsetCommitRequestPartition, OffsetCommitRequestTopic};
use kafka_protocol::messages::sync_group_request::SyncGroupRequestAssignment;
use kafka_protocol::messages::{
    ConsumerProtocolAssignment, ConsumerProtocolSubscription, HeartbeatRequest, JoinGroupRequest, JoinGroupResponse,
    LeaveGroupRequest, OffsetCommitRequest, SyncGroupRequest,
};
use kafka_protocol::protocol::StrBytes;
use parking_lot::{Condvar, Mutex};

use super::assignor::{self, Subscriber};
use super::fetcher::Event;
use super::options::{GroupSettings, Settings, Start};
use crate::cli::admin::{Admin, first_error, group_id, topic_name};
use crate::cli::client::{Caller, Connection};
use crate::cli::consumer_protocol::{assigned, prefixed};
use crate::clock::{Clock, SystemClock};
use crate::coordinator::subscription::{self, CONSUMER};
use crate::types::TopicPartition;
use crate::wire::error_code::ErrorCode;

/// Between two tries.
const RETRY: Duration = Duration::from_millis(100);
/// For one look for the coordinator; then what is wrong is told, and the next begins.
const PATIENCE: Duration = Duration::from_secs(5);
/// What a join may take beyond the time other members have for it.
const JOIN_GRACE: Duration = Duration::from_secs(5);

/// The main thread's hold on the member.
pub struct Membership {
    shared: Arc<Shared>,
}

struct Shared {
    settings: Settings,
    group: GroupSettings,
    caller: Caller,
    state: Mutex<State>,
    /// The state's `leaving` was set.
    left: Condvar,
}

#[derive(Default)]
struct State {
    /// Given by the coordinator; empty before.
    member_id: StrBytes,
    generation: i32,
    /// Next offset of each partition that is read, all before it being written out.
    positions: BTreeMap<i32, i64>,
    committed: BTreeMap<i32, i64>,
    leaving: bool,
}

/// Why a stay in the group ended.
enum End {
    /// Somebody comes or goes: what was read can still be committed.
    Rebalance,
    /// The group has gone on without this member: whatever it read belongs to others.
    Lost,
    Leaving,
}

impl Membership {
    /// Joins on a thread of its own; `events` hears of assignments.
    pub fn begin(
        settings: &Settings,
        group: &GroupSettings,
        bootstrap: &str,
        caller: Caller,
        events: SyncSender<Event>,
    ) -> anyhow::Result<Membership> {
        let mut admin = Admin::connect(bootstrap, caller.clone())?;
        admin.set_patience(PATIENCE);
        let shared = Arc::new(Shared {
            settings: settings.clone(),
            group: group.clone(),
            caller,
            state: Mutex::default(),
            left: Condvar::new(),
        });
        let member = Member { shared: shared.clone(), admin, events, clock: SystemClock::default() };
        thread::Builder::new().name("member".to_owned()).spawn(move || member.run())?;
        Ok(Membership { shared })
    }

    /// All records of these partitions before these offsets are written out.
    pub fn reached(&self, positions: impl IntoIterator<Item = (i32, i64)>) {
        self.shared.state.lock().positions.extend(positions);
    }

    /// Commits a last time and leaves the group. A static member only commits: it is expected back. The member's own
    /// connection may be waiting for a rebalance: `admin` asks.
    pub fn leave(&self, admin: &mut Admin) -> anyhow::Result<()> {
        let shared = &self.shared;
        let member_id = {
            let mut state = shared.state.lock();
            state.leaving = true;
            shared.left.notify_all();
            state.member_id.clone()
        };
        if member_id.is_empty() {
            return Ok(());
        }
        if shared.group.auto_commit {
            shared.commit(|request| Ok(admin.of_group(&shared.group.id, request, first_error)?.map(drop)))?;
        }
        if shared.group.instance_id.is_some() {
            return Ok(());
        }
        let reason = Some(StrBytes::from_static_str("the consumer is being closed"));
        let identity = MemberIdentity::default().with_member_id(member_id).with_reason(reason);
        let request = LeaveGroupRequest::default().with_group_id(group_id(&shared.group.id));
        // Whoever is no member any more has left.
        let _left =
            admin.of_group(&shared.group.id, &request.with_members(vec![identity]), |answer| answer.error_code)?;
        Ok(())
    }
}

impl Shared {
    fn instance_id(&self) -> Option<StrBytes> {
        self.group.instance_id.clone().map(StrBytes::from_string)
    }

    fn commit_on(&self, connection: &mut Connection) -> anyhow::Result<()> {
        self.commit(|request| Ok(ErrorCode::check(first_error(&connection.send(request)?))))
    }

    /// Commits what has changed. What the coordinator does not take is told and tried again the next time.
    fn commit(
        &self,
        send: impl FnOnce(&OffsetCommitRequest) -> anyhow::Result<Result<(), ErrorCode>>,
    ) -> anyhow::Result<()> {
        let (request, positions) = {
            let state = self.state.lock();
            if state.positions == state.committed {
                return Ok(());
            }
            let partitions = state.positions.iter().map(|(partition, offset)| {
                OffsetCommitRequestPartition::default().with_partition_index(*partition).with_committed_offset(*offset)
            });
            let topic = OffsetCommitRequestTopic::default()
                .with_name(topic_name(&self.settings.topic))
                .with_partitions(partitions.collect());
            let request = OffsetCommitRequest::default()
                .with_group_id(group_id(&self.group.id))
                .with_generation_id_or_member_epoch(state.generation)
                .with_member_id(state.member_id.clone())
                .with_group_instance_id(self.instance_id())
                .with_topics(vec![topic]);
            (request, state.positions.clone())
        };
        match send(&request)? {
            Ok(()) => self.state.lock().committed = positions,
            Err(code) => eprintln!("group {}: offsets are not committed: {code}", self.group.id),
        }
        Ok(())
    }
}

struct Member {
    shared: Arc<Shared>,
    admin: Admin,
    events: SyncSender<Event>,
    clock: SystemClock,
}

impl Member {
    fn run(mut self) {
        let mut told = String::new();
        loop {
            match self.stay() {
                Ok(End::Leaving) => return,
                Ok(End::Rebalance | End::Lost) => told.clear(),
                Err(Trouble::Fatal(error)) => {
                    // Nobody listens any more at the end of the program.
                    let _ = self.events.send(Event::Failed(error));
                    return;
                }
                Err(Trouble::Passing(error)) => {
                    let why = format!("{error:#}");
                    if why != told {
                        eprintln!("group {}: {why}", self.shared.group.id);
                        told = why;
                    }
                    if self.wait(RETRY) {
                        return;
                    }
                }
            }
        }
    }

    /// One time in the group, from joining to the end of the assignment.
    fn stay(&mut self) -> Result<End, Trouble> {
        let shared = self.shared.clone();
        let coordinator = self.admin.coordinator(&shared.group.id)?;
        let patience = Duration::from_millis(shared.group.max_poll_interval_ms.unsigned_abs().into()) + JOIN_GRACE;
        let caller = Caller { timeout: patience, ..shared.caller.clone() };
        let mut connection = Connection::open_as(&caller, &format!("{}:{}", coordinator.host, coordinator.port))?;
        let Some(joined) = self.join(&mut connection)? else { return Ok(End::Lost) };
        let leads = joined.leader == joined.member_id && !joined.skip_assignment;
        let assignments = if leads { assign(&joined, &mut self.admin)? } else { Vec::new() };
        let Some(partitions) = self.sync(&mut connection, &joined, assignments)? else { return Ok(End::Lost) };
        let committed = self.admin.committed(&shared.group.id)?;
        let mut positions = Vec::with_capacity(partitions.len());
        for of in partitions {
            let start = match (committed.get(&of), shared.settings.reset) {
                (Some(offset), _) => Start::At(*offset),
                (None, Some(reset)) => reset,
                (None, None) => {
                    let error =
                        anyhow!("group {} has no offset of {of}, and auto.offset.reset is none", shared.group.id);
                    return Err(Trouble::Fatal(error));
                }
            };
            positions.push((of.partition, start));
        }
        self.tell(Event::Assigned(positions))?;
        let end = self.beat(&mut connection);
        // Whatever ended it: nothing is read any more before the next assignment.
        let (acknowledge, acknowledged) = mpsc::sync_channel(1);
        self.tell(Event::Revoked(acknowledge))?;
        acknowledged.recv().map_err(|_| Trouble::Fatal(anyhow!("nobody reads any more")))?;
        if matches!(end, Ok(End::Rebalance)) && shared.group.auto_commit {
            shared.commit_on(&mut connection)?;
        }
        let mut state = shared.state.lock();
        state.positions.clear();
        state.committed.clear();
        drop(state);
        end
    }

    /// `None` when it has to be tried anew.
    fn join(&self, connection: &mut Connection) -> Result<Option<JoinGroupResponse>, Trouble> {
        let shared = &self.shared;
        let topics = vec![StrBytes::from_string(shared.settings.topic.clone())];
        let metadata = prefixed(&ConsumerProtocolSubscription::default().with_topics(topics))?;
        let protocol = JoinGroupRequestProtocol::default()
            .with_name(StrBytes::from_static_str(assignor::NAME))
            .with_metadata(metadata);
        let request = JoinGroupRequest::default()
            .with_group_id(group_id(&shared.group.id))
            .with_session_timeout_ms(shared.group.session_timeout_ms)
            .with_rebalance_timeout_ms(shared.group.max_poll_interval_ms)
            .with_group_instance_id(shared.instance_id())
            .with_protocol_type(StrBytes::from_static_str(CONSUMER))
            .with_protocols(vec![protocol]);
        let member_id = shared.state.lock().member_id.clone();
        let answer = connection.send(&request.with_member_id(member_id))?;
        let mut state = shared.state.lock();
        match ErrorCode::answered(answer.error_code) {
            ErrorCode::None => {
                state.member_id = answer.member_id.clone();
                state.generation = answer.generation_id;
                Ok(Some(answer))
            }
            ErrorCode::MemberIdRequired => {
                state.member_id = answer.member_id;
                Ok(None)
            }
            ErrorCode::UnknownMemberId => {
                state.member_id = StrBytes::default();
                Ok(None)
            }
            ErrorCode::RebalanceInProgress => Ok(None),
            code => Err(trouble(&shared.group.id, code)),
        }
    }

    /// What this member is assigned of its topic; `None` when the group is rebalancing again.
    fn sync(
        &self,
        connection: &mut Connection,
        joined: &JoinGroupResponse,
        assignments: Vec<SyncGroupRequestAssignment>,
    ) -> Result<Option<Vec<TopicPartition>>, Trouble> {
        let shared = &self.shared;
        let request = SyncGroupRequest::default()
            .with_group_id(group_id(&shared.group.id))
            .with_generation_id(joined.generation_id)
            .with_member_id(joined.member_id.clone())
            .with_group_instance_id(shared.instance_id())
            .with_protocol_type(Some(StrBytes::from_static_str(CONSUMER)))
            .with_protocol_name(Some(StrBytes::from_static_str(assignor::NAME)))
            .with_assignments(assignments);
        let answer = connection.send(&request)?;
        match ErrorCode::answered(answer.error_code) {
            ErrorCode::None => {
                let mut partitions = assigned(answer.assignment)?;
                partitions.retain(|of| *of.topic == shared.settings.topic);
                Ok(Some(partitions))
            }
            ErrorCode::UnknownMemberId => {
                shared.state.lock().member_id = StrBytes::default();
                Ok(None)
            }
            ErrorCode::RebalanceInProgress | ErrorCode::IllegalGeneration => Ok(None),
            code => Err(trouble(&shared.group.id, code)),
        }
    }

    /// Heartbeats and commits until the assignment ends.
    fn beat(&self, connection: &mut Connection) -> Result<End, Trouble> {
        let shared = &self.shared;
        let interval = i64::try_from(shared.group.commit_interval.as_millis()).unwrap_or(i64::MAX);
        let mut commit_at = self.clock.monotonic_ms().saturating_add(interval);
        loop {
            let heartbeat = shared.group.heartbeat_interval;
            let pause = if shared.group.auto_commit { heartbeat.min(shared.group.commit_interval) } else { heartbeat };
            if self.wait(pause) {
                return Ok(End::Leaving);
            }
            let (member_id, generation) = {
                let state = shared.state.lock();
                (state.member_id.clone(), state.generation)
            };
            let request = HeartbeatRequest::default()
                .with_group_id(group_id(&shared.group.id))
                .with_generation_id(generation)
                .with_member_id(member_id)
                .with_group_instance_id(shared.instance_id());
            match ErrorCode::answered(connection.send(&request)?.error_code) {
                ErrorCode::None => {}
                ErrorCode::RebalanceInProgress => return Ok(End::Rebalance),
                ErrorCode::IllegalGeneration => return Ok(End::Lost),
                ErrorCode::UnknownMemberId => {
                    shared.state.lock().member_id = StrBytes::default();
                    return Ok(End::Lost);
                }
                code => return Err(trouble(&shared.group.id, code)),
            }
            if shared.group.auto_commit && self.clock.monotonic_ms() >= commit_at {
                shared.commit_on(connection)?;
                commit_at = self.clock.monotonic_ms().saturating_add(interval);
            }
        }
    }

    /// True as soon as the member is to leave.
    fn wait(&self, pause: Duration) -> bool {
        let mut state = self.shared.state.lock();
        if !state.leaving {
            self.shared.left.wait_for(&mut state, pause);
        }
        state.leaving
    }

    fn tell(&self, event: Event) -> Result<(), Trouble> {
        self.events.send(event).map_err(|_| Trouble::Fatal(anyhow!("nobody reads any more")))
    }
}

/// Whether another try can help.
enum Trouble {
    Passing(anyhow::Error),
    Fatal(anyhow::Error),
}

impl From<anyhow::Error> for Trouble {
    fn from(error: anyhow::Error) -> Trouble {
        Trouble::Passing(error)
    }
}

fn trouble(group: &str, code: ErrorCode) -> Trouble {
    let error = anyhow!("group {group}: {code}");
    match code {
        ErrorCode::CoordinatorNotAvailable
        | ErrorCode::CoordinatorLoadInProgress
        | ErrorCode::NotCoordinator
        | ErrorCode::RequestTimedOut
        | ErrorCode::UnknownServerError => Trouble::Passing(error),
        _ => Trouble::Fatal(error),
    }
}

/// What the leader gives every member.
fn assign(joined: &JoinGroupResponse, admin: &mut Admin) -> anyhow::Result<Vec<SyncGroupRequestAssignment>> {
    let subscribers: Vec<Subscriber> = joined.members.iter().map(subscriber).collect::<anyhow::Result<_>>()?;
    let names: BTreeSet<&str> = subscribers.iter().flat_map(|member| &member.topics).map(String::as_str).collect();
    let mut partitions = BTreeMap::new();
    for topic in admin.topics(&names)? {
        if let Some(name) = topic.name.filter(|_| !topic.partitions.is_empty()) {
            partitions.insert(name.to_string(), topic.partitions.len());
        }
    }
    let assigned = assignor::assign(&subscribers, &partitions).into_iter().map(|(member_id, partitions)| {
        let topics = partitions.chunk_by(|a, b| a.topic == b.topic).filter_map(|of_topic| {
            let partitions = of_topic.iter().map(|of| of.partition).collect();
            Some(AssignedTopic::default().with_topic(topic_name(&of_topic.first()?.topic)).with_partitions(partitions))
        });
        let assignment = prefixed(&ConsumerProtocolAssignment::default().with_assigned_partitions(topics.collect()))?;
        let assigned = SyncGroupRequestAssignment::default().with_member_id(StrBytes::from_string(member_id));
        Ok(assigned.with_assignment(assignment))
    });
    assigned.collect()
}

fn subscriber(member: &JoinGroupResponseMember) -> anyhow::Result<Subscriber> {
    let topics = subscription::topics(&member.metadata)?;
    Ok(Subscriber {
        member_id: member.member_id.to_string(),
        instance_id: member.group_instance_id.as_ref().map(|id| id.to_string()),
        topics: topics.iter().map(|topic| topic.to_string()).collect(),
    })
}
