//! The faults, one after the other.

use std::time::Duration;

use super::fault::{CONTROLLER, Deed, FOLLOWER, Fault, LEADER, Node, Trace};

const ZOOKEEPER: Node = Node::ZooKeeper;

/// Those of the light form.
pub const LIGHT: &[Fault] = &[KILL_LEADER, CUT_FROM_ZOOKEEPER, EXPIRY];

const KILL_LEADER: Fault = Fault {
    name: "kill -9 of a leader",
    deeds: &[Deed::Kill(&[LEADER])],
    shown_by: &[Trace::Unreachable(LEADER), Trace::Deposed(LEADER)],
    lasts: Duration::ZERO,
    sessions: &[LEADER],
};

const CUT_FROM_ZOOKEEPER: Fault = Fault {
    name: "a leader is cut off from ZooKeeper",
    deeds: &[Deed::Cut(Node::Broker(LEADER), ZOOKEEPER), Deed::Cut(ZOOKEEPER, Node::Broker(LEADER))],
    shown_by: &[Trace::Unregistered(LEADER), Trace::Deposed(LEADER)],
    lasts: Duration::ZERO,
    sessions: &[LEADER],
};

const EXPIRY: Fault = Fault {
    name: "a leader's session is closed by another client",
    deeds: &[Deed::Expire(LEADER)],
    shown_by: &[Trace::RegisteredAnew(LEADER)],
    lasts: Duration::ZERO,
    sessions: &[LEADER],
};

/// All.
pub const FULL: &[Fault] = &[
    KILL_LEADER,
    CUT_FROM_ZOOKEEPER,
    EXPIRY,
    Fault {
        name: "kill -9 of a follower",
        deeds: &[Deed::Kill(&[FOLLOWER])],
        shown_by: &[Trace::LeftIsr(FOLLOWER, LEADER), Trace::LeftIsr(FOLLOWER, CONTROLLER)],
        lasts: Duration::ZERO,
        sessions: &[FOLLOWER],
    },
    Fault {
        name: "kill -9 of the controller, which leads too",
        deeds: &[Deed::Kill(&[CONTROLLER])],
        shown_by: &[Trace::Unreachable(CONTROLLER), Trace::Deposed(CONTROLLER)],
        lasts: Duration::ZERO,
        sessions: &[CONTROLLER],
    },
    Fault {
        name: "kill -9 of all three",
        deeds: &[Deed::Kill(&[LEADER, CONTROLLER, FOLLOWER])],
        shown_by: &[Trace::Unregistered(LEADER), Trace::Unregistered(CONTROLLER), Trace::Unregistered(FOLLOWER)],
        lasts: Duration::ZERO,
        sessions: &[LEADER, CONTROLLER, FOLLOWER],
    },
    Fault {
        name: "SIGSTOP of a leader for half a session",
        deeds: &[Deed::Pause(LEADER)],
        shown_by: &[Trace::LeftIsr(LEADER, CONTROLLER)],
        lasts: Duration::from_secs(2),
        // Half a session is meant; a machine under load may make it a whole one.
        sessions: &[LEADER],
    },
    Fault {
        name: "SIGSTOP of a leader for two sessions",
        deeds: &[Deed::Pause(LEADER)],
        shown_by: &[Trace::Unregistered(LEADER), Trace::Deposed(LEADER)],
        lasts: Duration::from_secs(8),
        sessions: &[LEADER],
    },
    Fault {
        name: "SIGSTOP of a leader for ten sessions",
        deeds: &[Deed::Pause(LEADER)],
        shown_by: &[Trace::Unregistered(LEADER), Trace::Deposed(LEADER)],
        lasts: Duration::from_secs(40),
        sessions: &[LEADER],
    },
    Fault {
        name: "SIGSTOP of a follower",
        deeds: &[Deed::Pause(FOLLOWER)],
        shown_by: &[Trace::LeftIsr(FOLLOWER, LEADER), Trace::LeftIsr(FOLLOWER, CONTROLLER)],
        lasts: Duration::ZERO,
        sessions: &[FOLLOWER],
    },
    Fault {
        name: "a leader and a follower are cut off from each other",
        deeds: &[
            Deed::Cut(Node::Broker(LEADER), Node::Broker(FOLLOWER)),
            Deed::Cut(Node::Broker(FOLLOWER), Node::Broker(LEADER)),
        ],
        shown_by: &[Trace::LeftIsr(FOLLOWER, LEADER)],
        lasts: Duration::from_secs(10),
        sessions: &[],
    },
    Fault {
        name: "a leader hears nobody",
        deeds: &[
            Deed::Cut(ZOOKEEPER, Node::Broker(LEADER)),
            Deed::Cut(Node::Broker(CONTROLLER), Node::Broker(LEADER)),
            Deed::Cut(Node::Broker(FOLLOWER), Node::Broker(LEADER)),
        ],
        shown_by: &[Trace::Unregistered(LEADER), Trace::Deposed(LEADER)],
        lasts: Duration::ZERO,
        sessions: &[LEADER],
    },
    Fault {
        name: "nobody hears a leader",
        deeds: &[
            Deed::Cut(Node::Broker(LEADER), ZOOKEEPER),
            Deed::Cut(Node::Broker(LEADER), Node::Broker(CONTROLLER)),
            Deed::Cut(Node::Broker(LEADER), Node::Broker(FOLLOWER)),
        ],
        shown_by: &[Trace::Unregistered(LEADER), Trace::Deposed(LEADER)],
        lasts: Duration::ZERO,
        sessions: &[LEADER],
    },
    Fault {
        name: "clients are cut off from a leader",
        deeds: &[Deed::Cut(Node::Clients, Node::Broker(LEADER)), Deed::Cut(Node::Broker(LEADER), Node::Clients)],
        shown_by: &[Trace::Unreachable(LEADER)],
        lasts: Duration::from_secs(10),
        sessions: &[],
    },
];
