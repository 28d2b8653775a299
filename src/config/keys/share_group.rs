//! Share groups (KIP-932).

use super::*;

#[rustfmt::skip]
pub(super) const KEYS: &[Key] = &[
    int("group.share.delivery.count.limit").default("5").between(2, 10)
        .not_yet("Times a record is handed out before it counts as undeliverable."),
    boolean("group.share.enable").default("false").internal()
        .not_yet("Whether share groups are served."),
    int("group.share.heartbeat.interval.ms").default("5000").min(1)
        .not_yet("Milliseconds between heartbeats of a share group's member."),
    short("group.share.max.groups").default("10").between(1, 100)
        .not_yet("Share groups there may be."),
    int("group.share.max.heartbeat.interval.ms").default("15000").min(1)
        .not_yet("Largest heartbeat interval a share group may be given."),
    int("group.share.max.record.lock.duration.ms").default("60000").between(30000, 3600000)
        .not_yet("Longest lock on a handed-out record a share group may be given."),
    int("group.share.max.session.timeout.ms").default("60000").min(1)
        .not_yet("Largest session timeout a share group may be given."),
    short("group.share.max.size").default("200").between(10, 1000)
        .not_yet("Members a share group may have."),
    int("group.share.min.heartbeat.interval.ms").default("5000").min(1)
        .not_yet("Smallest heartbeat interval a share group may be given."),
    int("group.share.min.record.lock.duration.ms").default("15000").between(1000, 30000)
        .not_yet("Shortest lock on a handed-out record a share group may be given."),
    int("group.share.min.session.timeout.ms").default("45000").min(1)
        .not_yet("Smallest session timeout a share group may be given."),
    int("group.share.partition.max.record.locks").default("200").between(100, 10000)
        .not_yet("Records of one partition that may be handed out at once."),
    int("group.share.record.lock.duration.ms").default("30000").between(1000, 60000)
        .not_yet("Milliseconds a handed-out record stays locked for its consumer."),
    int("group.share.session.timeout.ms").default("45000").min(1)
        .not_yet("Milliseconds without heartbeat after which a share group's member is removed."),
];
