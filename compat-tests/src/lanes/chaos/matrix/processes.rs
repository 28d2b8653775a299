//! Processes that end or stand still, sessions that end, wires that are cut.

use std::time::Duration;

use super::super::fault::{CONTROLLER, Deed, FOLLOWER, Fault, LEADER, NOTHING, Node, Server, Trace};
use super::BROKERS;

const ZOOKEEPER: Node = Node::ZooKeeper;

pub const KILL_LEADER: Fault = Fault {
    name: "kill -9 of a leader",
    deeds: &[Deed::Kill(&[LEADER])],
    shown_by: &[Trace::Unreachable(LEADER), Trace::Deposed(LEADER)],
    sessions: &[LEADER],
    ..NOTHING
};

pub const CUT_FROM_ZOOKEEPER: Fault = Fault {
    name: "a leader is cut off from ZooKeeper",
    deeds: &[Deed::Cut(Node::Broker(LEADER), ZOOKEEPER), Deed::Cut(ZOOKEEPER, Node::Broker(LEADER))],
    shown_by: &[Trace::Unregistered(LEADER), Trace::Deposed(LEADER)],
    sessions: &[LEADER],
    ..NOTHING
};

pub const EXPIRY: Fault = Fault {
    name: "a leader's session is closed by another client",
    deeds: &[Deed::Expire(&[LEADER])],
    shown_by: &[Trace::RegisteredAnew(LEADER)],
    // What follows of it is to happen under load.
    lasts: Duration::from_secs(3),
    sessions: &[LEADER],
    ..NOTHING
};

pub const FAULTS: &[Fault] = &[
    KILL_LEADER,
    CUT_FROM_ZOOKEEPER,
    EXPIRY,
    Fault {
        name: "the sessions of all three are closed at once",
        deeds: &[Deed::Expire(&BROKERS)],
        shown_by: &[Trace::RegisteredAnew(LEADER), Trace::RegisteredAnew(CONTROLLER), Trace::RegisteredAnew(FOLLOWER)],
        lasts: Duration::from_secs(3),
        sessions: &BROKERS,
        ..NOTHING
    },
    Fault {
        name: "kill -9 of a follower",
        deeds: &[Deed::Kill(&[FOLLOWER])],
        shown_by: &[Trace::LeftIsr(FOLLOWER, LEADER), Trace::LeftIsr(FOLLOWER, CONTROLLER)],
        sessions: &[FOLLOWER],
        ..NOTHING
    },
    Fault {
        name: "kill -9 of the controller, which leads too",
        deeds: &[Deed::Kill(&[CONTROLLER])],
        shown_by: &[Trace::Unreachable(CONTROLLER), Trace::Deposed(CONTROLLER)],
        sessions: &[CONTROLLER],
        ..NOTHING
    },
    Fault {
        name: "kill -9 of all three",
        deeds: &[Deed::Kill(&[LEADER, CONTROLLER, FOLLOWER])],
        shown_by: &[Trace::Unregistered(LEADER), Trace::Unregistered(CONTROLLER), Trace::Unregistered(FOLLOWER)],
        sessions: &BROKERS,
        ..NOTHING
    },
    Fault {
        name: "SIGSTOP of a leader for half a session",
        deeds: &[Deed::Pause(LEADER)],
        shown_by: &[Trace::LeftIsr(LEADER, CONTROLLER)],
        lasts: Duration::from_secs(2),
        // Half a session is meant; a machine under load may make it a whole one.
        sessions: &[LEADER],
        ..NOTHING
    },
    Fault {
        name: "SIGSTOP of a leader for two sessions",
        deeds: &[Deed::Pause(LEADER)],
        shown_by: &[Trace::Unregistered(LEADER), Trace::Deposed(LEADER)],
        lasts: Duration::from_secs(8),
        sessions: &[LEADER],
        ..NOTHING
    },
    Fault {
        name: "SIGSTOP of a leader for ten sessions",
        deeds: &[Deed::Pause(LEADER)],
        shown_by: &[Trace::Unregistered(LEADER), Trace::Deposed(LEADER)],
        lasts: Duration::from_secs(40),
        sessions: &[LEADER],
        ..NOTHING
    },
    Fault {
        name: "SIGSTOP of a follower",
        deeds: &[Deed::Pause(FOLLOWER)],
        shown_by: &[Trace::LeftIsr(FOLLOWER, LEADER), Trace::LeftIsr(FOLLOWER, CONTROLLER)],
        sessions: &[FOLLOWER],
        ..NOTHING
    },
    Fault {
        name: "a leader and a follower are cut off from each other",
        deeds: &[
            Deed::Cut(Node::Broker(LEADER), Node::Broker(FOLLOWER)),
            Deed::Cut(Node::Broker(FOLLOWER), Node::Broker(LEADER)),
        ],
        shown_by: &[Trace::LeftIsr(FOLLOWER, LEADER)],
        lasts: Duration::from_secs(10),
        ..NOTHING
    },
    Fault {
        name: "a leader hears nobody",
        deeds: &[
            Deed::Cut(ZOOKEEPER, Node::Broker(LEADER)),
            Deed::Cut(Node::Broker(CONTROLLER), Node::Broker(LEADER)),
            Deed::Cut(Node::Broker(FOLLOWER), Node::Broker(LEADER)),
        ],
        // The controller still hears it: it may be told of an ISR of the leader alone, and nobody else can lead then.
        shown_by: &[Trace::Unregistered(LEADER), Trace::StateChanged],
        sessions: &[LEADER],
        ..NOTHING
    },
    Fault {
        name: "nobody hears a leader",
        deeds: &[
            Deed::Cut(Node::Broker(LEADER), ZOOKEEPER),
            Deed::Cut(Node::Broker(LEADER), Node::Broker(CONTROLLER)),
            Deed::Cut(Node::Broker(LEADER), Node::Broker(FOLLOWER)),
        ],
        shown_by: &[Trace::Unregistered(LEADER), Trace::Deposed(LEADER)],
        sessions: &[LEADER],
        ..NOTHING
    },
    Fault {
        name: "clients are cut off from a leader",
        deeds: &[Deed::Cut(Node::Clients, Node::Broker(LEADER)), Deed::Cut(Node::Broker(LEADER), Node::Clients)],
        shown_by: &[Trace::Unreachable(LEADER)],
        lasts: Duration::from_secs(10),
        ..NOTHING
    },
    Fault {
        name: "kill -9 of a ZooKeeper server that follows",
        deeds: &[Deed::KillZooKeeper(Server::Follower)],
        shown_by: &[Trace::Serving(2)],
        lasts: Duration::from_secs(10),
        ..NOTHING
    },
    Fault {
        name: "kill -9 of the ZooKeeper server that leads",
        deeds: &[Deed::KillZooKeeper(Server::Leader)],
        shown_by: &[Trace::Serving(2)],
        lasts: Duration::from_secs(10),
        ..NOTHING
    },
    Fault {
        name: "ZooKeeper without a quorum for 60 s",
        deeds: &[Deed::LoseQuorum],
        shown_by: &[Trace::Serving(0)],
        lasts: Duration::from_secs(60),
        // Servers that come back count a session from then on; a client that is slow to find them is too late.
        sessions: &BROKERS,
        ..NOTHING
    },
    Fault {
        name: "a follower whose link is slower than the load",
        deeds: &[Deed::Slow(FOLLOWER, "64kbit")],
        shown_by: &[Trace::LeftIsr(FOLLOWER, LEADER)],
        lasts: Duration::from_secs(20),
        sessions: &[FOLLOWER],
        ..NOTHING
    },
    Fault {
        name: "kill -9 of one broker after the other, every 3 s for 2 min",
        deeds: &[Deed::Storm { times: 40, pause: Duration::from_secs(3) }],
        shown_by: &[Trace::RegisteredAnew(LEADER), Trace::RegisteredAnew(CONTROLLER), Trace::RegisteredAnew(FOLLOWER)],
        sessions: &BROKERS,
        ..NOTHING
    },
    Fault {
        name: "rolling restart, ten times",
        deeds: &[Deed::RollingRestart(10)],
        shown_by: &[Trace::RegisteredAnew(LEADER), Trace::RegisteredAnew(CONTROLLER), Trace::RegisteredAnew(FOLLOWER)],
        sessions: &BROKERS,
        ..NOTHING
    },
    Fault {
        name: "links are cut one by one and mended in another order",
        deeds: &[Deed::Swizzle(Duration::from_secs(2))],
        shown_by: &[Trace::StateChanged],
        sessions: &BROKERS,
        ..NOTHING
    },
    Fault {
        name: "64 clients write as fast as they can, and 4000 are silent",
        deeds: &[Deed::Flood { writers: 64, idle: 4000 }],
        shown_by: &[Trace::Flooded(4064)],
        lasts: Duration::from_secs(20),
        // Two cores are busy with nothing else.
        sessions: &BROKERS,
        ..NOTHING
    },
];
