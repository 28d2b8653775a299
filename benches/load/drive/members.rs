//! Members of one consumer group: all join at once, settle in a generation that has everyone, commit.

use std::borrow::{Borrow, BorrowMut};
use std::io;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use super::{Outcome, Peer, Rate};
use crate::connection::{Connection, PATIENCE, Poller};
use crate::meter::{Mark, Spent};
use crate::wire::groups::{self, Joined};

const COORDINATOR_LOAD_IN_PROGRESS: i16 = 14;
const NOT_COORDINATOR: i16 = 16;
const ILLEGAL_GENERATION: i16 = 22;
const UNKNOWN_MEMBER_ID: i16 = 25;
const REBALANCE_IN_PROGRESS: i16 = 27;

pub struct Members<'a> {
    pub group: &'a str,
    pub topic: &'a str,
    pub count: usize,
    /// Partitions of each member.
    pub each: i32,
    /// Between two heartbeats of a member.
    pub beat: Duration,
}

/// Commits of a settled group.
pub struct Committed {
    pub spent: Spent,
    pub commits: f64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Asked {
    Join,
    Sync,
    Beat,
    Nothing,
}

struct Member {
    connection: Connection,
    id: String,
    generation: i32,
    asked: Asked,
    /// It synced in this generation.
    settled: Option<i32>,
    beats_at: Instant,
}

impl Borrow<Connection> for Member {
    fn borrow(&self) -> &Connection {
        &self.connection
    }
}

impl BorrowMut<Connection> for Member {
    fn borrow_mut(&mut self) -> &mut Connection {
        &mut self.connection
    }
}

/// A group whose members are all in one generation.
pub struct Settled<'a> {
    plan: &'a Members<'a>,
    members: Vec<Member>,
    poller: Poller,
    /// From the first join to the last sync's answer.
    pub took: Duration,
}

impl Members<'_> {
    /// Waits until somebody coordinates the group.
    fn find_coordinator(&self, peer: &Peer) -> Outcome<()> {
        let (until, frame) = (Instant::now() + PATIENCE, groups::find_coordinator(self.group));
        let mut connection = Connection::open(&peer.addr)?;
        let beat = groups::heartbeat(self.group, 0, "nobody");
        loop {
            let found = groups::find_coordinator_result(connection.call(&frame)?)?;
            // A heartbeat of nobody is told so once the groups are loaded.
            if found == 0 && groups::error(connection.call(&beat)?)? == UNKNOWN_MEMBER_ID {
                return Ok(());
            }
            if Instant::now() > until {
                return Err(format!("no coordinator, error {found}").into());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    pub fn settle(&self, peer: &Peer) -> Outcome<Settled<'_>> {
        self.find_coordinator(peer)?;
        let (mut poller, mut members) = (Poller::new()?, Vec::new());
        for i in 0..self.count {
            let connection = Connection::open(&peer.addr)?;
            poller.add(&connection, i)?;
            let (asked, beats_at) = (Asked::Nothing, Instant::now());
            members.push(Member { connection, id: String::new(), generation: -1, asked, settled: None, beats_at });
        }
        let begin = Instant::now();
        for member in &mut members {
            self.join(member)?;
        }
        let (mut full, mut heard) = (None, Vec::new());
        while full.is_none() || members.iter().any(|member| member.settled != full) {
            if begin.elapsed() > PATIENCE {
                return Err(format!("not settled after {} s", PATIENCE.as_secs()).into());
            }
            heard.clear();
            heard.extend(poller.wait(self.beat.min(Duration::from_millis(1)))?);
            for i in &heard {
                let member = &mut members[*i];
                member.connection.fill()?;
                while let Some(frame) = member.connection.pop().map(<[u8]>::to_vec) {
                    if let Some(generation) = self.heard(member, &frame)? {
                        full = Some(generation);
                    }
                }
            }
            let now = Instant::now();
            for member in members.iter_mut().filter(|m| m.asked == Asked::Nothing && m.beats_at <= now) {
                member.connection.send(&groups::heartbeat(self.group, member.generation, &member.id), &[])?;
                member.asked = Asked::Beat;
            }
        }
        let took = begin.elapsed();
        // Answers to heartbeats that are still on their way.
        for member in members.iter_mut().filter(|member| member.asked == Asked::Beat) {
            groups::error(member.connection.receive()?)?;
            member.asked = Asked::Nothing;
        }
        Ok(Settled { plan: self, members, poller, took })
    }

    fn join(&self, member: &mut Member) -> Outcome<()> {
        member.asked = Asked::Join;
        member.settled = None;
        Ok(member.connection.send(&groups::join(self.group, &member.id, self.topic), &[])?)
    }

    /// The generation, when this is the answer to a leader that has everyone.
    fn heard(&self, member: &mut Member, frame: &[u8]) -> Outcome<Option<i32>> {
        let asked = std::mem::replace(&mut member.asked, Asked::Nothing);
        match asked {
            Asked::Join => {
                let Joined { error, generation, member: id, members } = groups::join_result(frame)?;
                match error {
                    0 => {}
                    REBALANCE_IN_PROGRESS | COORDINATOR_LOAD_IN_PROGRESS | NOT_COORDINATOR => {
                        return self.join(member).map(|()| None);
                    }
                    UNKNOWN_MEMBER_ID => {
                        member.id.clear();
                        return self.join(member).map(|()| None);
                    }
                    error => return Err(format!("JoinGroup answered error {error}").into()),
                }
                (member.generation, member.id) = (generation, id.clone());
                let full = members.len() == self.count;
                let joined = Joined { error, generation, member: id, members };
                member.connection.send(&groups::sync(self.group, &joined, self.topic, self.each), &[])?;
                member.asked = Asked::Sync;
                Ok(full.then_some(generation))
            }
            Asked::Sync | Asked::Beat => {
                match groups::error(frame)? {
                    0 if asked == Asked::Sync => member.settled = Some(member.generation),
                    0 => {}
                    REBALANCE_IN_PROGRESS | ILLEGAL_GENERATION => return self.join(member).map(|()| None),
                    UNKNOWN_MEMBER_ID => {
                        member.id.clear();
                        return self.join(member).map(|()| None);
                    }
                    error => return Err(format!("a member was answered error {error}").into()),
                }
                member.beats_at = Instant::now() + self.beat;
                Ok(None)
            }
            Asked::Nothing => Err("an answer too many".into()),
        }
    }

    /// The first one of a member.
    fn partition(&self, member: usize) -> i32 {
        member as i32 * self.each
    }

    fn commit(&self, i: usize, member: &mut Member, offset: i64) -> io::Result<()> {
        let at = [(self.partition(i), offset)];
        let frame = groups::commit(self.group, member.generation, &member.id, self.topic, &at);
        member.connection.send(&frame, &[])
    }
}

/// An answer without an error.
fn committed(frame: &[u8]) -> Outcome<()> {
    match groups::commit_result(frame)? {
        0 => Ok(()),
        error => Err(format!("OffsetCommit answered error {error}").into()),
    }
}

impl Settled<'_> {
    /// Each member commits an offset of its first partition, one after the other, for `secs`.
    pub fn commit(&mut self, peer: &Peer, secs: f64) -> Outcome<Committed> {
        let mut last = vec![0i64; self.members.len()];
        for (i, member) in self.members.iter_mut().enumerate() {
            self.plan.commit(i, member, 1)?;
        }
        let (mark, begin) = (Mark::now(&peer.paying), Instant::now());
        let (mut commits, mut heard) = (0u64, Vec::new());
        let mut open = self.members.len();
        let mut spent = None;
        while open > 0 {
            heard.clear();
            heard.extend(self.poller.wait(Duration::from_secs(1))?);
            for i in &heard {
                let member = &mut self.members[*i];
                member.connection.fill()?;
                while let Some(frame) = member.connection.pop() {
                    committed(frame)?;
                    last[*i] += 1;
                    if spent.is_some() {
                        open -= 1;
                        continue;
                    }
                    commits += 1;
                    self.plan.commit(*i, member, last[*i] + 1)?;
                }
            }
            if spent.is_none() && begin.elapsed().as_secs_f64() >= secs {
                spent = Some(mark.spent());
            }
        }
        self.check(&last)?;
        Ok(Committed { spent: spent.ok_or("not measured")?, commits: commits as f64 })
    }

    /// The members commit in turn, open loop. From when a commit was due to its answer, ns.
    pub fn commit_at(&mut self, rate: Rate) -> Outcome<Histogram<u64>> {
        let mut last = vec![0i64; self.members.len()];
        let send = |i: usize, member: &mut Member| {
            last[i] += 1;
            self.plan.commit(i, member, last[i])
        };
        let times = rate.in_turn(&mut self.members, send, committed)?;
        self.check(&last)?;
        Ok(times)
    }

    /// What was acknowledged last is what is fetched.
    fn check(&mut self, last: &[i64]) -> Outcome<()> {
        for (i, offset) in last.iter().enumerate() {
            let partition = self.plan.partition(i);
            let frame = groups::fetch_offsets(self.plan.group, self.plan.topic, partition..partition + 1);
            let fetched = groups::fetch_offsets_result(self.members[i].connection.call(&frame)?)?;
            if fetched != Ok(vec![(partition, *offset)]) {
                return Err(format!("{fetched:?} is committed for partition {partition}, {offset} was").into());
            }
        }
        Ok(())
    }

    pub fn leave(mut self) -> Outcome<()> {
        for member in &mut self.members {
            match groups::error(member.connection.call(&groups::leave(self.plan.group, &member.id))?)? {
                0 => {}
                error => return Err(format!("LeaveGroup answered error {error}").into()),
            }
        }
        Ok(())
    }
}
