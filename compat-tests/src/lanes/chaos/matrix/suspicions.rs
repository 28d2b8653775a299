//! Brokers that die, or seem to, where nobody waits for sessions: who is dead is replaced at once, and nobody else is.

use std::time::Duration;

use super::super::fault::{CONTROLLER, Deed, FOLLOWER, Fault, Harm, LEADER, NOTHING, Node, Trace, Way};
use super::super::ground::Needs;

const FAST: Needs = Needs { fast_failover: true, ..Needs::NOTHING };

const fn broker(from: i32, to: i32) -> Way {
    (Node::Broker(from), Node::Broker(to))
}

const FROM_CONTROLLER: &[Way] = &[broker(CONTROLLER, LEADER), broker(CONTROLLER, FOLLOWER)];
const AROUND_CONTROLLER: &[Way] = &[
    broker(CONTROLLER, LEADER),
    broker(CONTROLLER, FOLLOWER),
    broker(LEADER, CONTROLLER),
    broker(FOLLOWER, CONTROLLER),
];
const FROM_FOLLOWER: &[Way] = &[broker(FOLLOWER, LEADER), broker(FOLLOWER, CONTROLLER)];

pub const FAULTS: &[Fault] = &[
    Fault {
        name: "suspicion: kill -9 of a leader",
        deeds: &[Deed::Kill(&[LEADER])],
        shown_by: &[Trace::Deposed(LEADER), Trace::Registered(LEADER)],
        sessions: &[LEADER],
        needs: FAST,
        ..NOTHING
    },
    Fault {
        name: "suspicion: kill -9 of the controller, which leads too",
        deeds: &[Deed::Kill(&[CONTROLLER])],
        shown_by: &[Trace::Succeeded(CONTROLLER), Trace::Deposed(CONTROLLER), Trace::Registered(CONTROLLER)],
        sessions: &[CONTROLLER],
        needs: FAST,
        ..NOTHING
    },
    Fault {
        name: "suspicion: a leader is killed, and its address is nobody's",
        deeds: &[Deed::Vanish(LEADER)],
        shown_by: &[Trace::Deposed(LEADER), Trace::Registered(LEADER)],
        sessions: &[LEADER],
        needs: FAST,
        ..NOTHING
    },
    Fault {
        name: "suspicion: the controller lives, all its connections with brokers are reset, and new ones refused",
        deeds: &[
            Deed::Refuse(AROUND_CONTROLLER),
            Deed::Again { times: 1, pause: Duration::ZERO, ways: AROUND_CONTROLLER, harm: Harm::Reset },
        ],
        shown_by: &[Trace::Succeeded(CONTROLLER), Trace::Deposed(CONTROLLER), Trace::Registered(CONTROLLER)],
        lasts: Duration::from_secs(20),
        stays: true,
        needs: FAST,
        through: AROUND_CONTROLLER,
        ..NOTHING
    },
    Fault {
        name: "suspicion: the controller lives, and is refused and refuses, but who served a connection hears of no end",
        deeds: &[Deed::Refuse(AROUND_CONTROLLER)],
        // A connection that nobody has closed is no sign of death: the session decides, and it lasts.
        shown_by: &[
            Trace::LeftIsr(LEADER, CONTROLLER),
            Trace::LeftIsr(FOLLOWER, CONTROLLER),
            Trace::Undisturbed,
            Trace::Registered(CONTROLLER),
        ],
        lasts: Duration::from_secs(15),
        stays: true,
        needs: FAST,
        ..NOTHING
    },
    Fault {
        name: "suspicion: the controller finds that everybody refuses",
        deeds: &[Deed::Refuse(FROM_CONTROLLER)],
        // It follows nobody any more, and nobody is deposed for that.
        shown_by: &[Trace::LeftIsr(CONTROLLER, LEADER), Trace::Undisturbed],
        lasts: Duration::from_secs(15),
        stays: true,
        needs: FAST,
        ..NOTHING
    },
    Fault {
        name: "suspicion: a follower finds that everybody refuses",
        deeds: &[Deed::Refuse(FROM_FOLLOWER)],
        shown_by: &[Trace::LeftIsr(FOLLOWER, LEADER), Trace::Undisturbed],
        lasts: Duration::from_secs(15),
        stays: true,
        needs: FAST,
        ..NOTHING
    },
    Fault {
        name: "suspicion: a broker joins while another is suspect",
        deeds: &[Deed::Kill(&[FOLLOWER]), Deed::Bounce(LEADER)],
        shown_by: &[
            Trace::LeftIsr(FOLLOWER, LEADER),
            Trace::LeftIsr(FOLLOWER, CONTROLLER),
            Trace::Registered(FOLLOWER),
        ],
        sessions: &[FOLLOWER, LEADER],
        needs: FAST,
        ..NOTHING
    },
];
