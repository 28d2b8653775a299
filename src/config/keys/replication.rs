//! Followers, ISR, leader balance, controlled shutdown.

use super::*;

pub(super) const KEYS: &[Key] = &[
    boolean("auto.leader.rebalance.enable").default("true").high().not_yet(""),
    boolean("controlled.shutdown.enable").default("true").not_yet(""),
    int("controlled.shutdown.max.retries").default("3").not_yet(""),
    long("controlled.shutdown.retry.backoff.ms").default("5000").not_yet(""),
    int("controller.socket.timeout.ms").default("30000").not_yet(""),
    string("inter.broker.protocol.version").default("3.9-IV0").check(Check::MetadataVersion).not_yet(""),
    long("leader.imbalance.check.interval.seconds").default("300").min(1).high().not_yet(""),
    int("leader.imbalance.per.broker.percentage").default("10").high().not_yet(""),
    int("num.replica.alter.log.dirs.threads").high().not_yet(""),
    int("num.replica.fetchers").default("1").high().cluster_wide().not_yet(""),
    int("replica.fetch.backoff.ms").default("1000").min(0).not_yet(""),
    int("replica.fetch.max.bytes").default("1048576").min(0).not_yet(""),
    int("replica.fetch.min.bytes").default("1").high().not_yet(""),
    int("replica.fetch.response.max.bytes").default("10485760").min(0).not_yet(""),
    int("replica.fetch.wait.max.ms").default("500").high().not_yet(""),
    long("replica.high.watermark.checkpoint.interval.ms").default("5000").high().not_yet(""),
    long("replica.lag.time.max.ms").default("30000").high().not_yet(""),
    string("replica.selector.class").not_yet(""),
    int("replica.socket.receive.buffer.bytes").default("65536").high().not_yet(""),
    int("replica.socket.timeout.ms").default("30000").high().not_yet(""),
    int("request.timeout.ms").default("30000").high().not_yet(""),
    boolean("unclean.leader.election.enable").default("false").high().cluster_wide().not_yet(""),
];
