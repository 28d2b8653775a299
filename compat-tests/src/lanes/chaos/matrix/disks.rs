//! Disks that are full, answer with an error or lose power, and clocks that jump.

use std::time::Duration;

use super::super::fault::{CONTROLLER, Deed, FOLLOWER, Fault, LEADER, NOTHING, Trace};
use super::super::ground::{Disks, Needs};
use super::BROKERS;

const SMALL_DISKS: Needs = Needs { disks: Disks::Small, ..Needs::NOTHING };
const TWO_DIRECTORIES: Needs = Needs { two_directories: true, ..Needs::NOTHING };
const DEVICES: Needs = Needs { disks: Disks::Devices, ..Needs::NOTHING };
const CLOCKS: Needs = Needs { clocks: true, ..Needs::NOTHING };
const SMALL_TREES: Needs = Needs { small_trees: true, ..Needs::NOTHING };
/// As brokers do by default, whatever is said for all topics.
const NEVER_SYNCED: (&str, &str) = ("flush.messages", "9223372036854775807");
const SYNCED: (&str, &str) = ("flush.messages", "1");
/// What is appended tells the broker's time.
const BROKERS_TIME: (&str, &str) = ("message.timestamp.type", "LogAppendTime");
const HOUR: i64 = 3600;

pub const FAULTS: &[Fault] = &[
    Fault {
        name: "the disk of a leader is full",
        deeds: &[Deed::Fill(LEADER)],
        shown_by: &[Trace::Ended(LEADER), Trace::Deposed(LEADER)],
        sessions: &[LEADER],
        needs: SMALL_DISKS,
        ..NOTHING
    },
    Fault {
        name: "the disk of a follower is full",
        deeds: &[Deed::Fill(FOLLOWER)],
        shown_by: &[Trace::Ended(FOLLOWER), Trace::LeftIsr(FOLLOWER, LEADER), Trace::LeftIsr(FOLLOWER, CONTROLLER)],
        sessions: &[FOLLOWER],
        needs: SMALL_DISKS,
        ..NOTHING
    },
    Fault {
        name: "a write of a leader fails once",
        deeds: &[Deed::FailOnce(LEADER, "pwrite64")],
        shown_by: &[Trace::DirectoryOffline(LEADER)],
        sessions: &[LEADER],
        needs: TWO_DIRECTORIES,
        ..NOTHING
    },
    Fault {
        name: "a sync of a leader fails once",
        deeds: &[Deed::FailOnce(LEADER, "fdatasync")],
        shown_by: &[Trace::DirectoryOffline(LEADER)],
        sessions: &[LEADER],
        needs: TWO_DIRECTORIES,
        topics: &[SYNCED],
        ..NOTHING
    },
    Fault {
        name: "a leader loses power, and what it has not synced",
        deeds: &[Deed::CutPower(&[LEADER])],
        shown_by: &[Trace::BytesLost(LEADER), Trace::Deposed(LEADER)],
        sessions: &[LEADER],
        needs: DEVICES,
        topics: &[NEVER_SYNCED],
        ..NOTHING
    },
    Fault {
        name: "a follower loses power, and what it has not synced",
        deeds: &[Deed::CutPower(&[FOLLOWER])],
        shown_by: &[Trace::BytesLost(FOLLOWER), Trace::LeftIsr(FOLLOWER, LEADER), Trace::LeftIsr(FOLLOWER, CONTROLLER)],
        sessions: &[FOLLOWER],
        needs: DEVICES,
        topics: &[NEVER_SYNCED],
        ..NOTHING
    },
    Fault {
        name: "all three lose power, each record synced before",
        deeds: &[Deed::CutPower(&BROKERS)],
        shown_by: &[Trace::PowerCut(LEADER), Trace::PowerCut(CONTROLLER), Trace::PowerCut(FOLLOWER)],
        sessions: &BROKERS,
        needs: DEVICES,
        topics: &[SYNCED],
        ..NOTHING
    },
    Fault {
        name: "clocks jump: a leader's an hour ahead, the controller's an hour back",
        deeds: &[Deed::JumpClock(LEADER, HOUR), Deed::JumpClock(CONTROLLER, -HOUR)],
        shown_by: &[Trace::ClockOff(LEADER, HOUR), Trace::ClockOff(CONTROLLER, -HOUR)],
        lasts: Duration::from_secs(15),
        needs: CLOCKS,
        topics: &[BROKERS_TIME],
        ..NOTHING
    },
    Fault {
        name: "the disk of a ZooKeeper server is full",
        deeds: &[Deed::FillZooKeepers(1), Deed::Kill(&[FOLLOWER])],
        shown_by: &[Trace::Serving(2), Trace::Unregistered(FOLLOWER)],
        lasts: Duration::from_secs(10),
        sessions: &BROKERS,
        needs: SMALL_TREES,
        ..NOTHING
    },
    Fault {
        name: "the disks of all ZooKeeper servers are full",
        deeds: &[Deed::FillZooKeepers(3), Deed::Kill(&[FOLLOWER])],
        shown_by: &[Trace::Serving(0)],
        lasts: Duration::from_secs(15),
        sessions: &BROKERS,
        needs: SMALL_TREES,
        ..NOTHING
    },
    Fault {
        name: "a ZooKeeper server comes back without the end of its log",
        deeds: &[Deed::ForgetTail],
        shown_by: &[Trace::TailForgotten],
        lasts: Duration::from_secs(5),
        needs: SMALL_TREES,
        ..NOTHING
    },
];
