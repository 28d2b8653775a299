//! Consumer groups and committed offsets.

use super::*;

pub(super) const KEYS: &[Key] = &[
    list("group.consumer.assignors").default("org.apache.kafka.coordinator.group.assignor.UniformAssignor,org.apache.kafka.coordinator.group.assignor.RangeAssignor").not_yet(""),
    int("group.consumer.heartbeat.interval.ms").default("5000").min(1).not_yet(""),
    int("group.consumer.max.heartbeat.interval.ms").default("15000").min(1).not_yet(""),
    int("group.consumer.max.session.timeout.ms").default("60000").min(1).not_yet(""),
    int("group.consumer.max.size").default("2147483647").min(1).not_yet(""),
    string("group.consumer.migration.policy").default("disabled").check(Check::OneOfAnyCase(&["DISABLED", "DOWNGRADE", "UPGRADE", "BIDIRECTIONAL"])).internal().not_yet(""),
    int("group.consumer.min.heartbeat.interval.ms").default("5000").min(1).not_yet(""),
    int("group.consumer.min.session.timeout.ms").default("45000").min(1).not_yet(""),
    int("group.consumer.session.timeout.ms").default("45000").min(1).not_yet(""),
    int("group.coordinator.append.linger.ms").default("10").min(0).not_yet(""),
    boolean("group.coordinator.new.enable").default("false").internal().not_yet(""),
    list("group.coordinator.rebalance.protocols").default("classic").each_of(&["consumer", "classic", "share", "unknown"]).not_yet(""),
    int("group.coordinator.threads").default("1").min(1).not_yet(""),
    int("group.initial.rebalance.delay.ms").default("3000").not_yet(""),
    int("group.max.session.timeout.ms").default("1800000").not_yet(""),
    int("group.max.size").default("2147483647").min(1).not_yet(""),
    int("group.min.session.timeout.ms").default("6000").not_yet(""),
    int("offset.metadata.max.bytes").default("4096").high().not_yet(""),
    short("offsets.commit.required.acks").default("-1").high().not_yet(""),
    int("offsets.commit.timeout.ms").default("5000").min(1).high().not_yet(""),
    int("offsets.load.buffer.size").default("5242880").min(1).high().not_yet(""),
    long("offsets.retention.check.interval.ms").default("600000").min(1).high().not_yet(""),
    int("offsets.retention.minutes").default("10080").min(1).high().not_yet(""),
    int("offsets.topic.compression.codec").default("0").high().not_yet(""),
    int("offsets.topic.num.partitions").default("50").min(1).high().not_yet(""),
    short("offsets.topic.replication.factor").default("3").min(1).high().not_yet(""),
    int("offsets.topic.segment.bytes").default("104857600").min(1).high().not_yet(""),
];
