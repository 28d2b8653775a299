//! kill -9 while members join, leave and commit: afterwards what was acknowledged is committed, nothing is that nobody sent,
//! and the group goes on.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Result, bail, ensure};
use bytes::Bytes;
use kafka_protocol::messages::join_group_request::JoinGroupRequestProtocol;
use kafka_protocol::messages::leave_group_request::MemberIdentity;
use kafka_protocol::messages::offset_commit_request::{OffsetCommitRequestPartition, OffsetCommitRequestTopic};
use kafka_protocol::messages::offset_fetch_request::{OffsetFetchRequestGroup, OffsetFetchRequestTopics};
use kafka_protocol::messages::sync_group_request::SyncGroupRequestAssignment;
use kafka_protocol::messages::*;
use kafka_protocol::protocol::StrBytes;

use super::load;
use crate::broker::Broker;
use crate::lane::Run;
use crate::raw::Connection;
use crate::twin::requests::text;

const TOPIC: &str = "group-kills";
const GROUP: &str = "killed";
const MEMBERS: usize = 3;
/// Commits of a member before it leaves and comes back as another.
const STAY: i64 = 7;

const COORDINATOR_LOAD_IN_PROGRESS: i16 = 14;
const COORDINATOR_NOT_AVAILABLE: i16 = 15;
const NOT_COORDINATOR: i16 = 16;
const ILLEGAL_GENERATION: i16 = 22;
const UNKNOWN_MEMBER_ID: i16 = 25;
const REBALANCE_IN_PROGRESS: i16 = 27;
const MEMBER_ID_REQUIRED: i16 = 79;

/// What a member committed for its own partition. Offsets grow by one.
#[derive(Debug, Default)]
struct Ledger {
    sent: i64,
    acknowledged: i64,
}

pub fn units(run: &mut Run) -> Result<()> {
    let rounds = if run.full() { 50 } else { 8 };
    let mut broker = Broker::start(&run.on, &[("group.initial.rebalance.delay.ms", "0")])?;
    load::create_topic(&broker.address(), TOPIC, MEMBERS as i32)?;
    let mut ledgers: Vec<Ledger> = (0..MEMBERS).map(|_| Ledger::default()).collect();
    for number in 1..=rounds {
        let result = round(&mut broker, &mut ledgers);
        let failed = result.is_err();
        if failed || number == rounds {
            let commits: i64 = ledgers.iter().map(|ledger| ledger.acknowledged).sum();
            let name =
                format!("kill -9 of a group's broker: round {number} of {rounds}, {commits} commits acknowledged");
            run.settled(name, result);
        }
        if failed {
            println!("{}", broker.log_tail(30));
            break;
        }
    }
    Ok(())
}

/// One kill and what is left.
fn round(broker: &mut Broker, ledgers: &mut [Ledger]) -> Result<()> {
    let address = broker.address();
    let (stop, total) = (AtomicBool::new(false), AtomicU64::new(0));
    // The clock's lowest digits are random enough for the point of the kill.
    let moment = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?.subsec_micros() % 100;
    thread::scope(|scope| {
        let members: Vec<_> = (0..)
            .zip(ledgers.iter_mut())
            .map(|(partition, ledger)| {
                let (address, stop, total) = (&address, &stop, &total);
                scope.spawn(move || member(address, partition, ledger, stop, total))
            })
            .collect();
        // The group of the last round is gone on with: nobody is stuck.
        let result = load::await_count(&total, 30, Duration::from_secs(60)).and_then(|()| {
            thread::sleep(Duration::from_millis(moment.into()));
            broker.kill()
        });
        stop.store(true, Ordering::Relaxed);
        for member in members {
            member.join().unwrap_or_else(|_| bail!("a member panicked"))?;
        }
        result
    })?;
    broker.start_again()?;
    verify(&address, ledgers)
}

/// Joins, commits, leaves, again and again until told to stop or until the broker is gone. Any answer that a group does not
/// give in such times is an error.
fn member(address: &str, partition: i32, ledger: &mut Ledger, stop: &AtomicBool, total: &AtomicU64) -> Result<()> {
    let Ok(mut connection) = Connection::open(address) else { return Ok(()) };
    let mut id = StrBytes::default();
    while !stop.load(Ordering::Relaxed) {
        // A broker that was killed does not answer.
        let Ok(joined) = join(&mut connection, &id) else { return Ok(()) };
        match joined.error_code {
            0 => id = joined.member_id.clone(),
            MEMBER_ID_REQUIRED => {
                id = joined.member_id;
                continue;
            }
            UNKNOWN_MEMBER_ID => {
                id = StrBytes::default();
                continue;
            }
            REBALANCE_IN_PROGRESS => continue,
            COORDINATOR_LOAD_IN_PROGRESS | COORDINATOR_NOT_AVAILABLE | NOT_COORDINATOR => {
                find_coordinator(&mut connection).ok();
                continue;
            }
            error => bail!("JoinGroup: error {error}"),
        }
        let Ok(synced) = sync(&mut connection, &joined) else { return Ok(()) };
        match synced {
            0 => {}
            REBALANCE_IN_PROGRESS | ILLEGAL_GENERATION | UNKNOWN_MEMBER_ID => continue,
            error => bail!("SyncGroup: error {error}"),
        }
        for _ in 0..STAY {
            ledger.sent += 1;
            let Ok(error) = commit(&mut connection, &joined, partition, ledger.sent) else { return Ok(()) };
            match error {
                0 => {
                    ledger.acknowledged = ledger.sent;
                    total.fetch_add(1, Ordering::Relaxed);
                }
                REBALANCE_IN_PROGRESS | ILLEGAL_GENERATION | UNKNOWN_MEMBER_ID => break,
                error => bail!("OffsetCommit: error {error}"),
            }
        }
        if ledger.sent % 2 == 0 {
            if leave(&mut connection, &id).is_err() {
                return Ok(());
            }
            id = StrBytes::default();
        }
    }
    // Whoever stays silent is waited for by the others, which are to end as well.
    let _ = leave(&mut connection, &id);
    Ok(())
}

fn group() -> GroupId {
    GroupId(text(GROUP))
}

fn find_coordinator(connection: &mut Connection) -> Result<()> {
    let request = FindCoordinatorRequest::default().with_key(text(GROUP));
    connection.ask(ApiKey::FindCoordinator, 3, &RequestKind::FindCoordinator(request)).map(|_| ())
}

fn join(connection: &mut Connection, id: &StrBytes) -> Result<JoinGroupResponse> {
    let protocol = JoinGroupRequestProtocol::default().with_name(text("range")).with_metadata(Bytes::from_static(b"?"));
    let request = JoinGroupRequest::default()
        .with_group_id(group())
        .with_session_timeout_ms(10_000)
        .with_rebalance_timeout_ms(10_000)
        .with_member_id(id.clone())
        .with_protocol_type(text("consumer"))
        .with_protocols(vec![protocol]);
    match connection.ask(ApiKey::JoinGroup, 5, &RequestKind::JoinGroup(request))? {
        ResponseKind::JoinGroup(response) => Ok(response),
        other => bail!("{other:?}"),
    }
}

fn sync(connection: &mut Connection, joined: &JoinGroupResponse) -> Result<i16> {
    let assignments = joined.members.iter().map(|member| {
        let assignment = SyncGroupRequestAssignment::default().with_member_id(member.member_id.clone());
        assignment.with_assignment(Bytes::from_static(b"yours"))
    });
    let request = SyncGroupRequest::default()
        .with_group_id(group())
        .with_generation_id(joined.generation_id)
        .with_member_id(joined.member_id.clone())
        .with_assignments(assignments.collect());
    match connection.ask(ApiKey::SyncGroup, 3, &RequestKind::SyncGroup(request))? {
        ResponseKind::SyncGroup(response) => Ok(response.error_code),
        other => bail!("{other:?}"),
    }
}

fn commit(connection: &mut Connection, joined: &JoinGroupResponse, partition: i32, offset: i64) -> Result<i16> {
    let partition =
        OffsetCommitRequestPartition::default().with_partition_index(partition).with_committed_offset(offset);
    let topic = OffsetCommitRequestTopic::default().with_name(TopicName(text(TOPIC))).with_partitions(vec![partition]);
    let request = OffsetCommitRequest::default()
        .with_group_id(group())
        .with_generation_id_or_member_epoch(joined.generation_id)
        .with_member_id(joined.member_id.clone())
        .with_topics(vec![topic]);
    match connection.ask(ApiKey::OffsetCommit, 7, &RequestKind::OffsetCommit(request))? {
        ResponseKind::OffsetCommit(response) => Ok(response.topics[0].partitions[0].error_code),
        other => bail!("{other:?}"),
    }
}

fn leave(connection: &mut Connection, id: &StrBytes) -> Result<()> {
    let member = MemberIdentity::default().with_member_id(id.clone());
    let request = LeaveGroupRequest::default().with_group_id(group()).with_members(vec![member]);
    connection.ask(ApiKey::LeaveGroup, 3, &RequestKind::LeaveGroup(request)).map(|_| ())
}

fn verify(address: &str, ledgers: &[Ledger]) -> Result<()> {
    let mut connection = Connection::open(address)?;
    let indexes: Vec<i32> = (0..).take(ledgers.len()).collect();
    let topic = OffsetFetchRequestTopics::default().with_name(TopicName(text(TOPIC))).with_partition_indexes(indexes);
    let asked = OffsetFetchRequestGroup::default().with_group_id(group()).with_topics(Some(vec![topic]));
    let request = RequestKind::OffsetFetch(OffsetFetchRequest::default().with_groups(vec![asked]));
    let fetched = loop {
        let ResponseKind::OffsetFetch(fetched) = connection.ask(ApiKey::OffsetFetch, 8, &request)? else {
            bail!("no OffsetFetch response")
        };
        match fetched.groups[0].error_code {
            0 => break fetched,
            COORDINATOR_LOAD_IN_PROGRESS | COORDINATOR_NOT_AVAILABLE | NOT_COORDINATOR => {
                find_coordinator(&mut connection)?;
            }
            error => bail!("OffsetFetch: error {error}"),
        }
    };
    for (at, ledger) in fetched.groups[0].topics[0].partitions.iter().zip(ledgers) {
        let committed = at.committed_offset.max(0);
        let Ledger { sent, acknowledged } = *ledger;
        ensure!(committed >= acknowledged, "partition {}: {committed} is left of {acknowledged}", at.partition_index);
        ensure!(committed <= sent, "partition {}: {committed}, when {sent} was sent", at.partition_index);
    }
    Ok(())
}
