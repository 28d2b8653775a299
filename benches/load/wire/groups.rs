//! Group APIs: JoinGroup v2, SyncGroup v1, Heartbeat v1, LeaveGroup v1, OffsetCommit v3, OffsetFetch v3, FindCoordinator v1.

use std::io;

use super::fields::{Reader, Writer};

const OFFSET_COMMIT: i16 = 8;
const OFFSET_FETCH: i16 = 9;
const FIND_COORDINATOR: i16 = 10;
const JOIN_GROUP: i16 = 11;
const HEARTBEAT: i16 = 12;
const LEAVE_GROUP: i16 = 13;
const SYNC_GROUP: i16 = 14;
/// Session and rebalance timeout.
const TIMEOUT_MS: i32 = 30_000;

pub fn find_coordinator(group: &str) -> Vec<u8> {
    let mut w = Writer::request(FIND_COORDINATOR, 1);
    w.str(group).i8(0);
    w.done(0)
}

/// The error of a FindCoordinator response.
pub fn find_coordinator_result(frame: &[u8]) -> io::Result<i16> {
    let mut r = Reader::body(frame)?;
    r.i32()?;
    r.i16()
}

/// A consumer that subscribes to `topic`. An empty member id: it has none yet.
pub fn join(group: &str, member: &str, topic: &str) -> Vec<u8> {
    let mut subscription = Writer::bare();
    subscription.i16(0).i32(1).str(topic).i32(-1);
    let subscription = subscription.raw();
    let mut w = Writer::request(JOIN_GROUP, 2);
    w.str(group).i32(TIMEOUT_MS).i32(TIMEOUT_MS).str(member).str("consumer").i32(1).str("range");
    w.i32(subscription.len() as i32).bytes(&subscription);
    w.done(0)
}

/// What a member is told that joined.
pub struct Joined {
    pub error: i16,
    pub generation: i32,
    pub member: String,
    /// All members, for the leader alone.
    pub members: Vec<String>,
}

pub fn join_result(frame: &[u8]) -> io::Result<Joined> {
    let mut r = Reader::body(frame)?;
    r.i32()?;
    let (error, generation) = (r.i16()?, r.i32()?);
    r.skip_str()?;
    r.skip_str()?;
    let member = r.str()?.to_owned();
    let mut members = Vec::new();
    for _ in 0..r.count()? {
        members.push(r.str()?.to_owned());
        let n = r.count()?;
        r.take(n)?;
    }
    Ok(Joined { error, generation, member, members })
}

/// The leader's sync gives each of `members` a run of `each` partitions, the others' gives none.
pub fn sync(group: &str, joined: &Joined, topic: &str, each: i32) -> Vec<u8> {
    let mut w = Writer::request(SYNC_GROUP, 1);
    w.str(group).i32(joined.generation).str(&joined.member).i32(joined.members.len() as i32);
    for (member, first) in joined.members.iter().zip((0..).step_by(each.max(1) as usize)) {
        let mut assignment = Writer::bare();
        assignment.i16(0).i32(1).str(topic).i32(each);
        for partition in first..first + each {
            assignment.i32(partition);
        }
        assignment.i32(-1);
        let assignment = assignment.raw();
        w.str(member).i32(assignment.len() as i32).bytes(&assignment);
    }
    w.done(0)
}

pub fn heartbeat(group: &str, generation: i32, member: &str) -> Vec<u8> {
    let mut w = Writer::request(HEARTBEAT, 1);
    w.str(group).i32(generation).str(member);
    w.done(0)
}

pub fn leave(group: &str, member: &str) -> Vec<u8> {
    let mut w = Writer::request(LEAVE_GROUP, 1);
    w.str(group).str(member);
    w.done(0)
}

/// The error of a SyncGroup, Heartbeat or LeaveGroup response.
pub fn error(frame: &[u8]) -> io::Result<i16> {
    let mut r = Reader::body(frame)?;
    r.i32()?;
    r.i16()
}

/// Commits (partition, offset) pairs of one topic. Generation -1 and no member: a client that is in no group.
pub fn commit(group: &str, generation: i32, member: &str, topic: &str, offsets: &[(i32, i64)]) -> Vec<u8> {
    let mut w = Writer::request(OFFSET_COMMIT, 3);
    w.str(group).i32(generation).str(member).i64(-1).i32(1).str(topic).i32(offsets.len() as i32);
    for (partition, offset) in offsets {
        w.i32(*partition).i64(*offset).str("");
    }
    w.done(0)
}

/// The first error of an OffsetCommit response, else 0.
pub fn commit_result(frame: &[u8]) -> io::Result<i16> {
    let mut r = Reader::body(frame)?;
    r.i32()?;
    for _ in 0..r.count()? {
        r.skip_str()?;
        for _ in 0..r.count()? {
            r.i32()?;
            match r.i16()? {
                0 => {}
                error => return Ok(error),
            }
        }
    }
    Ok(0)
}

pub fn fetch_offsets(group: &str, topic: &str, partitions: std::ops::Range<i32>) -> Vec<u8> {
    let mut w = Writer::request(OFFSET_FETCH, 3);
    w.str(group).i32(1).str(topic).i32(partitions.len() as i32);
    for partition in partitions {
        w.i32(partition);
    }
    w.done(0)
}

/// (partition, offset) pairs of an OffsetFetch response, or its error.
pub fn fetch_offsets_result(frame: &[u8]) -> io::Result<Result<Vec<(i32, i64)>, i16>> {
    let mut r = Reader::body(frame)?;
    r.i32()?;
    let mut offsets = Vec::new();
    for _ in 0..r.count()? {
        r.skip_str()?;
        for _ in 0..r.count()? {
            offsets.push((r.i32()?, r.i64()?));
            r.skip_str()?;
            r.i16()?;
        }
    }
    Ok(match r.i16()? {
        0 => Ok(offsets),
        error => Err(error),
    })
}
