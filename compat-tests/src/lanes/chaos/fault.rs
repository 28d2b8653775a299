//! A fault as a value: what is done to a cluster, and what must be seen of it.

use std::time::Duration;

/// The broker that leads two of three partitions when a run begins.
pub const LEADER: i32 = 1;
/// The one that controls then, and leads the third.
pub const CONTROLLER: i32 = 2;
/// The one that leads none.
pub const FOLLOWER: i32 = 3;

/// One thing that is done. Each has its undoing, which is the stage's to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Deed {
    /// SIGKILL to these brokers at once. Undone by starting them.
    Kill(&'static [i32]),
    /// SIGSTOP. Undone by SIGCONT.
    Pause(i32),
    /// Nothing that the first sends reaches the second. Undone for this direction alone.
    Cut(Node, Node),
    /// The broker's session is closed by somebody who knows its password.
    Expire(i32),
}

/// An end of the wires that are cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
}

pub struct Fault {
    pub name: &'static str,
    /// Undone in the reverse order.
    pub deeds: &'static [Deed],
    pub shown_by: &'static [Trace],
    /// At least, from the first deed to the first undoing.
    pub lasts: Duration,
    /// Brokers whose sessions may end of it.
    pub sessions: &'static [i32],
}
