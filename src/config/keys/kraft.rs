//! Keys that only a KRaft node reads.

use super::*;

pub(super) const KEYS: &[Key] = &[
    int("broker.heartbeat.interval.ms").default("2000").not_yet(""),
    int("broker.session.timeout.ms").default("9000").not_yet(""),
    string("controller.listener.names").high().not_yet(""),
    int("controller.quorum.append.linger.ms").default("25").not_yet(""),
    list("controller.quorum.bootstrap.servers").default("").high().not_yet(""),
    int("controller.quorum.election.backoff.max.ms").default("1000").high().not_yet(""),
    int("controller.quorum.election.timeout.ms").default("1000").high().not_yet(""),
    int("controller.quorum.fetch.timeout.ms").default("2000").high().not_yet(""),
    int("controller.quorum.request.timeout.ms").default("2000").not_yet(""),
    int("controller.quorum.retry.backoff.ms").default("20").low().not_yet(""),
    list("controller.quorum.voters").default("").high().not_yet(""),
    string("early.start.listeners").high().not_yet(""),
    boolean("eligible.leader.replicas.enable").default("false").high().not_yet(""),
    int("initial.broker.registration.timeout.ms").default("60000").not_yet(""),
    string("metadata.log.dir").high().not_yet(""),
    long("metadata.log.max.record.bytes.between.snapshots").default("20971520").min(1).high().not_yet(""),
    long("metadata.log.max.snapshot.interval.ms").default("3600000").min(0).high().not_yet(""),
    int("metadata.log.segment.bytes").default("1073741824").min(12).high().not_yet(""),
    int("metadata.log.segment.min.bytes").default("8388608").min(12).high().internal().not_yet(""),
    long("metadata.log.segment.ms").default("604800000").high().not_yet(""),
    int("metadata.max.idle.interval.ms").default("500").min(0).low().not_yet(""),
    long("metadata.max.retention.bytes").default("104857600").high().not_yet(""),
    long("metadata.max.retention.ms").default("604800000").high().not_yet(""),
    list("process.roles").default("").each_of(&["broker", "controller"]).high().not_yet(""),
    long("server.max.startup.time.ms").default("9223372036854775807").min(0).internal().not_yet(""),
    long("unclean.leader.election.interval.ms").default("300000").min(1).internal().not_yet(""),
    boolean("unstable.feature.versions.enable").default("false").high().internal().not_yet(""),
];
