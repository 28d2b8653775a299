//! Consumer groups and committed offsets.

use super::*;

#[rustfmt::skip]
pub(super) const KEYS: &[Key] = &[
    list("group.consumer.assignors").default("org.apache.kafka.coordinator.group.assignor.UniformAssignor,org.apache.kafka.coordinator.group.assignor.RangeAssignor")
        .not_yet("Assignors the broker offers to groups of the consumer protocol; the first is the default."),
    int("group.consumer.heartbeat.interval.ms").default("5000").min(1)
        .not_yet("Milliseconds between heartbeats of a member of a consumer-protocol group."),
    int("group.consumer.max.heartbeat.interval.ms").default("15000").min(1)
        .not_yet("Largest heartbeat interval a group may be given."),
    int("group.consumer.max.session.timeout.ms").default("60000").min(1)
        .not_yet("Largest session timeout a group may be given."),
    int("group.consumer.max.size").default("2147483647").min(1)
        .not_yet("Members a consumer-protocol group may have."),
    string("group.consumer.migration.policy").default("disabled").check(Check::OneOfAnyCase(&["DISABLED", "DOWNGRADE", "UPGRADE", "BIDIRECTIONAL"])).internal()
        .not_yet("Whether a group may change between the classic and the consumer protocol while it has members."),
    int("group.consumer.min.heartbeat.interval.ms").default("5000").min(1)
        .not_yet("Smallest heartbeat interval a group may be given."),
    int("group.consumer.min.session.timeout.ms").default("45000").min(1)
        .not_yet("Smallest session timeout a group may be given."),
    int("group.consumer.session.timeout.ms").default("45000").min(1)
        .not_yet("Milliseconds without heartbeat after which a member of a consumer-protocol group is removed."),
    int("group.coordinator.append.linger.ms").default("10").min(0)
        .not_yet("Milliseconds the coordinator gathers records before it appends them."),
    boolean("group.coordinator.new.enable").default("false").internal()
        .not_yet("Whether the newer coordinator, which serves the consumer protocol, is used."),
    list("group.coordinator.rebalance.protocols").default("classic").each_of(&["consumer", "classic", "share", "unknown"])
        .not_yet("Group protocols that are served."),
    int("group.coordinator.threads").default("1").min(1)
        .not_yet("Threads of the group coordinator."),
    int("group.initial.rebalance.delay.ms").default("3000")
        .implemented("Milliseconds an empty group waits for more members before its first rebalance."),
    int("group.max.session.timeout.ms").default("1800000")
        .implemented("Largest session timeout a member of a classic group may ask for."),
    int("group.max.size").default("2147483647").min(1)
        .implemented("Members a classic group may have."),
    int("group.min.session.timeout.ms").default("6000")
        .implemented("Smallest session timeout a member of a classic group may ask for."),
    int("offset.metadata.max.bytes").default("4096").high()
        .implemented("Bytes of the text that may be committed beside an offset."),
    short("offsets.commit.required.acks").default("-1").high()
        .implemented("Acknowledgements a commit needs before it is answered; -1 is every in-sync replica."),
    int("offsets.commit.timeout.ms").default("5000").min(1).high()
        .implemented("Milliseconds a commit waits for its acknowledgements."),
    int("offsets.load.buffer.size").default("5242880").min(1).high()
        .implemented("Bytes read at once when offsets are loaded from their topic."),
    long("offsets.retention.check.interval.ms").default("600000").min(1).high()
        .implemented("Milliseconds between looks for expired offsets."),
    int("offsets.retention.minutes").default("10080").min(1).high()
        .implemented("Minutes offsets are kept once their group is empty or no longer subscribes the topic."),
    int("offsets.topic.compression.codec").default("0").high()
        .implemented("Number of the codec in which commits are written; 0 is none."),
    int("offsets.topic.num.partitions").default("50").min(1).high()
        .implemented("Partitions of __consumer_offsets when it is created."),
    short("offsets.topic.replication.factor").default("3").min(1).high()
        .implemented("Replicas of __consumer_offsets when it is created; 1 by default when the broker keeps its metadata \
            in itself."),
    int("offsets.topic.segment.bytes").default("104857600").min(1).high()
        .implemented("Segment size of __consumer_offsets."),
];
