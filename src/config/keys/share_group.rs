//! Share groups (KIP-932).

use super::*;

pub(super) const KEYS: &[Key] = &[
    int("group.share.delivery.count.limit").default("5").between(2, 10).not_yet(""),
    boolean("group.share.enable").default("false").internal().not_yet(""),
    int("group.share.heartbeat.interval.ms").default("5000").min(1).not_yet(""),
    short("group.share.max.groups").default("10").between(1, 100).not_yet(""),
    int("group.share.max.heartbeat.interval.ms").default("15000").min(1).not_yet(""),
    int("group.share.max.record.lock.duration.ms").default("60000").between(30000, 3600000).not_yet(""),
    int("group.share.max.session.timeout.ms").default("60000").min(1).not_yet(""),
    short("group.share.max.size").default("200").between(10, 1000).not_yet(""),
    int("group.share.min.heartbeat.interval.ms").default("5000").min(1).not_yet(""),
    int("group.share.min.record.lock.duration.ms").default("15000").between(1000, 30000).not_yet(""),
    int("group.share.min.session.timeout.ms").default("45000").min(1).not_yet(""),
    int("group.share.partition.max.record.locks").default("200").between(100, 10000).not_yet(""),
    int("group.share.record.lock.duration.ms").default("30000").between(1000, 60000).not_yet(""),
    int("group.share.session.timeout.ms").default("45000").min(1).not_yet(""),
];
