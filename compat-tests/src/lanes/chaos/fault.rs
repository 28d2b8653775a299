//! A fault as a value: what is done to a cluster, and what must be seen of it.

use std::time::Duration;

use super::ground::Needs;
use crate::proxy::{Pace, Side};

/// The broker that leads two of three partitions when a run begins.
pub const LEADER: i32 = 1;
/// The one that controls then, and leads the third.
pub const CONTROLLER: i32 = 2;
/// The one that leads none.
pub const FOLLOWER: i32 = 3;

/// One thing that is done. Each has its undoing, which is the stage's to know.
#[derive(Clone, Debug, PartialEq)]
pub enum Deed {
    /// SIGKILL to these brokers at once. Undone by starting them.
    Kill(&'static [i32]),
    /// SIGSTOP. Undone by SIGCONT.
    Pause(i32),
    /// Nothing that the first sends reaches the second. Undone for this direction alone.
    Cut(Node, Node),
    /// The sessions of these brokers are closed by somebody who knows their passwords.
    Expire(&'static [i32]),
    /// SIGKILL to a ZooKeeper server. Undone by starting it.
    KillZooKeeper(Server),
    /// SIGSTOP to two of three ZooKeeper servers. Undone by SIGCONT.
    LoseQuorum,
    /// A ZooKeeper server that follows is killed, and half of what it has written of transactions is cut away. Undone by
    /// starting it.
    ForgetTail,
    /// The disks of so many ZooKeeper servers are filled. Undone by making room, and by starting those that have ended.
    FillZooKeepers(usize),
    /// What goes to the broker goes at a rate, in words of `tc`.
    Slow(i32, &'static str),
    /// The broker's disk is filled. Undone by making room, and by starting the broker when it has ended.
    Fill(i32),
    /// A system call of these brokers fails with EIO, once in a thread, on the file of a partition that the first leads.
    /// Undone by starting the broker anew.
    FailOnce(i32, &'static str),
    /// What these brokers have not synced is gone, and they are killed. Undone by starting them.
    CutPower(&'static [i32]),
    /// The broker's clock jumps, in seconds. Undone by jumping back.
    JumpClock(i32, i64),
    /// SIGKILL to one broker after the other, which is started at once: so many times, with a pause after each.
    Storm { times: usize, pause: Duration },
    /// SIGTERM to one broker after the other, which is started and waited for until it is in sync: so many rounds.
    RollingRestart(usize),
    /// Links between brokers and with ZooKeeper are cut one by one in random order, with a pause after each, and mended one
    /// by one in another order.
    Swizzle(Duration),
    /// Clients that write as fast as they can, and others that say nothing.
    Flood { writers: usize, idle: usize },
    /// The broker is killed, and its address is nobody's. Undone.
    Vanish(i32),
    /// Who connects by these ways is refused, who is connected is reset. Undone.
    Refuse(&'static [Way]),
    /// SIGTERM to the broker, once it is told of those who run and of nobody else; it is started, and waited for until it is
    /// told of the same.
    Bounce(i32),
    /// What goes to one side of a way goes like this. Undone.
    Hinder(Way, Side, Pace),
    /// Something is done to all connections of these ways, so many times with a pause after each.
    Again { times: usize, pause: Duration, ways: &'static [Way], harm: Harm },
}

/// What happens once to the connections of a way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Harm {
    Reset,
    /// One side is told that the other has said everything; the other is told nothing.
    HalfClose(Side),
    /// What is on its way to the server comes after what the next connection says.
    Overtake,
}

/// Who connects, and to whom.
pub type Way = (Node, Node);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Server {
    Leader,
    Follower,
}

/// An end of the wires that are cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Node {
    Broker(i32),
    /// All its servers.
    ZooKeeper,
    Clients,
}

/// What shows that the fault has happened, by comparison with how everything was before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trace {
    /// Others lead what it led, in higher epochs.
    Deposed(i32),
    /// The first is in the ISR of no partition that the second leads.
    LeftIsr(i32, i32),
    /// Its registration is gone, or is another one.
    Unregistered(i32),
    /// It is registered, and by another session.
    RegisteredAnew(i32),
    /// No connection to it comes about.
    Unreachable(i32),
    /// So many ZooKeeper servers serve.
    Serving(usize),
    /// Its process has ended by itself.
    Ended(i32),
    /// Some partition has another leader, epoch or ISR.
    StateChanged,
    /// Its registration is as it was: whatever else has happened, no session is over.
    Registered(i32),
    /// Another one controls, in the very next epoch.
    Succeeded(i32),
    /// The controller and its epoch are as they were, and so is every partition's leader.
    Undisturbed,
    /// It says that a log directory of its is offline, others lead what it led there, and it leads what lies in the other.
    DirectoryOffline(i32),
    /// Bytes that it had written are not on its disk.
    BytesLost(i32),
    /// Its file system takes nothing any more.
    PowerCut(i32),
    /// What it appends is stamped by a clock that is off by so many seconds, give or take a minute.
    ClockOff(i32, i64),
    /// So many connections of the flood are open, and its writers were answered.
    Flooded(usize),
    /// A ZooKeeper server's log of transactions was cut.
    TailForgotten,
    /// So many bytes or connections of these ways, together, have met this.
    Met(&'static [Way], Mark, u64),
}

/// What a proxy counts of a way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// Bytes that came late or in drops.
    Hindered,
    /// Bytes that stand still now.
    Held,
    Resets,
    HalfClosed,
    /// Answers that were thrown away, and their connections.
    Lost,
    /// Bytes of an old connection that came after some of a newer one.
    Overtaken,
}

#[derive(Debug)]
pub struct Fault {
    pub name: &'static str,
    /// Undone in the reverse order.
    pub deeds: &'static [Deed],
    pub shown_by: &'static [Trace],
    /// At least, from the first deed to the first undoing.
    pub lasts: Duration,
    /// Brokers whose sessions may end of it.
    pub sessions: &'static [i32],
    /// Whether what has shown is to be there still when it has lasted.
    pub stays: bool,
    pub needs: Needs,
    /// Ways that lead through a proxy meanwhile.
    pub through: &'static [Way],
    /// Of the topics that are written to.
    pub topics: &'static [(&'static str, &'static str)],
}

/// Of which others are made.
pub const NOTHING: Fault = Fault {
    name: "",
    deeds: &[],
    shown_by: &[],
    lasts: Duration::ZERO,
    sessions: &[],
    stays: false,
    needs: Needs::NOTHING,
    through: &[],
    topics: &[],
};
