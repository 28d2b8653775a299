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
    /// SIGKILL to a ZooKeeper server. Undone by starting it.
    KillZooKeeper(Server),
    /// SIGSTOP to two of three ZooKeeper servers. Undone by SIGCONT.
    LoseQuorum,
    /// What goes to the broker goes at a rate, in words of `tc`.
    Slow(i32, &'static str),
    /// The broker's disk is filled. Undone by making room, and by starting the broker when it has ended.
    Fill(i32),
    /// SIGKILL to one broker after the other, which is started at once: so many times, with a pause after each.
    Storm { times: usize, pause: Duration },
    /// SIGTERM to one broker after the other, which is started and waited for until it is in sync: so many rounds.
    RollingRestart(usize),
    /// Links between brokers and with ZooKeeper are cut one by one in random order, with a pause after each, and mended one
    /// by one in another order.
    Swizzle(Duration),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Server {
    Leader,
    Follower,
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
    /// So many ZooKeeper servers serve.
    Serving(usize),
    /// Its process has ended by itself.
    Ended(i32),
    /// Some partition has another leader, epoch or ISR.
    StateChanged,
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
    /// Whether it needs brokers whose disks are small.
    pub small_disks: bool,
}
