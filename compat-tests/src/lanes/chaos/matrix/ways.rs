//! What a proxy does to connections: late, slow, still, reset, half closed, answers lost, requests overtaken.

use std::time::Duration;

use super::super::fault::{CONTROLLER, Deed, FOLLOWER, Fault, Harm, LEADER, Mark, NOTHING, Node, Trace, Way};
use crate::proxy::{Pace, Side, Trickle};

const fn broker(from: i32, to: i32) -> Way {
    (Node::Broker(from), Node::Broker(to))
}

const FOLLOWER_TO_LEADER: Way = broker(FOLLOWER, LEADER);
const FOLLOWER_TO_CONTROLLER: Way = broker(FOLLOWER, CONTROLLER);
const LEADER_TO_ZOOKEEPER: Way = (Node::Broker(LEADER), Node::ZooKeeper);
const BETWEEN_BROKERS: &[Way] = &[
    broker(LEADER, CONTROLLER),
    broker(LEADER, FOLLOWER),
    broker(CONTROLLER, LEADER),
    broker(CONTROLLER, FOLLOWER),
    FOLLOWER_TO_LEADER,
    FOLLOWER_TO_CONTROLLER,
];
const TO_ZOOKEEPER: &[Way] =
    &[LEADER_TO_ZOOKEEPER, (Node::Broker(CONTROLLER), Node::ZooKeeper), (Node::Broker(FOLLOWER), Node::ZooKeeper)];
const OF_CLIENTS: &[Way] = &[
    (Node::Clients, Node::Broker(LEADER)),
    (Node::Clients, Node::Broker(CONTROLLER)),
    (Node::Clients, Node::Broker(FOLLOWER)),
];
const OF_FOLLOWER: &[Way] = &[FOLLOWER_TO_LEADER, FOLLOWER_TO_CONTROLLER];

/// 400 ms there and back again.
const FAR: Pace = Pace { delay: Duration::from_millis(200), ..Pace::CALM };
const STALLED: Pace = Pace { stalled: true, ..Pace::CALM };
/// 100 bytes a second: a ping of ZooKeeper's takes an eighth of a second.
const DROPS: Pace = Pace { trickle: Some(Trickle { bytes: 1, pause: Duration::from_millis(10) }), ..Pace::CALM };
const LOSES: Pace = Pace { loses_one_in: Some(50), ..Pace::CALM };
const PAUSE: Duration = Duration::from_millis(500);

pub const FAULTS: &[Fault] = &[
    Fault {
        name: "a follower is 400 ms away from its leaders",
        deeds: &[
            Deed::Hinder(FOLLOWER_TO_LEADER, Side::Server, FAR),
            Deed::Hinder(FOLLOWER_TO_LEADER, Side::Client, FAR),
            Deed::Hinder(FOLLOWER_TO_CONTROLLER, Side::Server, FAR),
            Deed::Hinder(FOLLOWER_TO_CONTROLLER, Side::Client, FAR),
        ],
        shown_by: &[Trace::Met(OF_FOLLOWER, Mark::Hindered, 10_000)],
        lasts: Duration::from_secs(20),
        through: OF_FOLLOWER,
        ..NOTHING
    },
    Fault {
        name: "what a follower asks its leader stands still",
        deeds: &[Deed::Hinder(FOLLOWER_TO_LEADER, Side::Server, STALLED)],
        shown_by: &[Trace::Met(&[FOLLOWER_TO_LEADER], Mark::Held, 1), Trace::LeftIsr(FOLLOWER, LEADER)],
        lasts: Duration::from_secs(10),
        through: &[FOLLOWER_TO_LEADER],
        ..NOTHING
    },
    Fault {
        name: "what a leader answers its follower stands still",
        deeds: &[Deed::Hinder(FOLLOWER_TO_LEADER, Side::Client, STALLED)],
        shown_by: &[Trace::Met(&[FOLLOWER_TO_LEADER], Mark::Held, 1), Trace::LeftIsr(FOLLOWER, LEADER)],
        lasts: Duration::from_secs(10),
        through: &[FOLLOWER_TO_LEADER],
        ..NOTHING
    },
    Fault {
        name: "connections between brokers are reset every half second",
        deeds: &[Deed::Again { times: 20, pause: PAUSE, ways: BETWEEN_BROKERS, harm: Harm::Reset }],
        shown_by: &[Trace::Met(BETWEEN_BROKERS, Mark::Resets, 20)],
        through: BETWEEN_BROKERS,
        ..NOTHING
    },
    Fault {
        name: "connections of clients are reset every half second",
        deeds: &[Deed::Again { times: 20, pause: PAUSE, ways: OF_CLIENTS, harm: Harm::Reset }],
        shown_by: &[Trace::Met(OF_CLIENTS, Mark::Resets, 20)],
        through: OF_CLIENTS,
        ..NOTHING
    },
    Fault {
        name: "connections with ZooKeeper are reset every half second",
        deeds: &[Deed::Again { times: 20, pause: PAUSE, ways: TO_ZOOKEEPER, harm: Harm::Reset }],
        shown_by: &[Trace::Met(TO_ZOOKEEPER, Mark::Resets, 20)],
        through: TO_ZOOKEEPER,
        // Somebody who finds each new connection reset before it has said who it is.
        sessions: &super::BROKERS,
        ..NOTHING
    },
    Fault {
        name: "connections between brokers are closed for who serves, and seem open to who asks",
        deeds: &[Deed::Again { times: 4, pause: PAUSE, ways: BETWEEN_BROKERS, harm: Harm::HalfClose(Side::Server) }],
        shown_by: &[Trace::Met(BETWEEN_BROKERS, Mark::HalfClosed, 4)],
        lasts: Duration::from_secs(10),
        through: BETWEEN_BROKERS,
        ..NOTHING
    },
    Fault {
        name: "connections between brokers are closed for who asks, and seem open to who serves",
        deeds: &[Deed::Again { times: 4, pause: PAUSE, ways: BETWEEN_BROKERS, harm: Harm::HalfClose(Side::Client) }],
        shown_by: &[Trace::Met(BETWEEN_BROKERS, Mark::HalfClosed, 4)],
        lasts: Duration::from_secs(10),
        through: BETWEEN_BROKERS,
        ..NOTHING
    },
    Fault {
        name: "connections of clients are closed for the brokers, and seem open to the clients",
        deeds: &[Deed::Again { times: 4, pause: PAUSE, ways: OF_CLIENTS, harm: Harm::HalfClose(Side::Server) }],
        shown_by: &[Trace::Met(OF_CLIENTS, Mark::HalfClosed, 4)],
        lasts: Duration::from_secs(10),
        through: OF_CLIENTS,
        ..NOTHING
    },
    Fault {
        name: "a leader and ZooKeeper hear each other byte by byte",
        deeds: &[
            Deed::Hinder(LEADER_TO_ZOOKEEPER, Side::Server, DROPS),
            Deed::Hinder(LEADER_TO_ZOOKEEPER, Side::Client, DROPS),
        ],
        shown_by: &[Trace::Met(&[LEADER_TO_ZOOKEEPER], Mark::Hindered, 500)],
        lasts: Duration::from_secs(20),
        through: &[LEADER_TO_ZOOKEEPER],
        sessions: &[LEADER],
        ..NOTHING
    },
    Fault {
        name: "answers to clients are lost, and the connections with them",
        deeds: &[
            Deed::Hinder(OF_CLIENTS[0], Side::Client, LOSES),
            Deed::Hinder(OF_CLIENTS[1], Side::Client, LOSES),
            Deed::Hinder(OF_CLIENTS[2], Side::Client, LOSES),
        ],
        shown_by: &[Trace::Met(OF_CLIENTS, Mark::Lost, 20)],
        lasts: Duration::from_secs(15),
        through: OF_CLIENTS,
        ..NOTHING
    },
    Fault {
        name: "answers between brokers are lost, and the connections with them",
        deeds: &[
            Deed::Hinder(BETWEEN_BROKERS[0], Side::Client, LOSES),
            Deed::Hinder(BETWEEN_BROKERS[1], Side::Client, LOSES),
            Deed::Hinder(BETWEEN_BROKERS[2], Side::Client, LOSES),
            Deed::Hinder(BETWEEN_BROKERS[3], Side::Client, LOSES),
            Deed::Hinder(BETWEEN_BROKERS[4], Side::Client, LOSES),
            Deed::Hinder(BETWEEN_BROKERS[5], Side::Client, LOSES),
        ],
        shown_by: &[Trace::Met(BETWEEN_BROKERS, Mark::Lost, 20)],
        lasts: Duration::from_secs(15),
        through: BETWEEN_BROKERS,
        ..NOTHING
    },
    Fault {
        name: "what clients said on old connections comes after what they say on new ones",
        deeds: &[Deed::Again { times: 10, pause: PAUSE, ways: OF_CLIENTS, harm: Harm::Overtake }],
        shown_by: &[Trace::Met(OF_CLIENTS, Mark::Overtaken, 1_000)],
        lasts: Duration::from_secs(10),
        through: OF_CLIENTS,
        ..NOTHING
    },
    Fault {
        name: "what brokers said on old connections comes after what they say on new ones",
        deeds: &[Deed::Again { times: 10, pause: PAUSE, ways: BETWEEN_BROKERS, harm: Harm::Overtake }],
        shown_by: &[Trace::Met(BETWEEN_BROKERS, Mark::Overtaken, 500)],
        lasts: Duration::from_secs(10),
        through: BETWEEN_BROKERS,
        ..NOTHING
    },
];
