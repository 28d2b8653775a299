//! Tiered storage (KIP-405).

use super::*;

pub(super) const KEYS: &[Key] = &[
    int("remote.fetch.max.wait.ms").default("500").min(1).cluster_wide().not_yet(""),
    long("remote.log.index.file.cache.total.size.bytes").default("1073741824").min(1).low().cluster_wide().not_yet(""),
    int("remote.log.manager.copier.thread.pool.size")
        .default("-1")
        .check(Check::MinusOneOr(1, i32::MAX as i64))
        .not_yet(""),
    long("remote.log.manager.copy.max.bytes.per.second")
        .default("9223372036854775807")
        .min(1)
        .cluster_wide()
        .not_yet(""),
    int("remote.log.manager.copy.quota.window.num").default("11").min(1).not_yet(""),
    int("remote.log.manager.copy.quota.window.size.seconds").default("1").min(1).not_yet(""),
    int("remote.log.manager.expiration.thread.pool.size")
        .default("-1")
        .check(Check::MinusOneOr(1, i32::MAX as i64))
        .not_yet(""),
    long("remote.log.manager.fetch.max.bytes.per.second")
        .default("9223372036854775807")
        .min(1)
        .cluster_wide()
        .not_yet(""),
    int("remote.log.manager.fetch.quota.window.num").default("11").min(1).not_yet(""),
    int("remote.log.manager.fetch.quota.window.size.seconds").default("1").min(1).not_yet(""),
    long("remote.log.manager.task.interval.ms").default("30000").min(1).low().not_yet(""),
    long("remote.log.manager.task.retry.backoff.max.ms").default("30000").min(1).low().internal().not_yet(""),
    long("remote.log.manager.task.retry.backoff.ms").default("500").min(1).low().internal().not_yet(""),
    double("remote.log.manager.task.retry.jitter")
        .default("0.2")
        .check(Check::BetweenDoubles(0.0, 0.5))
        .low()
        .internal()
        .not_yet(""),
    int("remote.log.manager.thread.pool.size").default("10").min(1).not_yet(""),
    int("remote.log.metadata.custom.metadata.max.bytes").default("128").min(0).low().not_yet(""),
    string("remote.log.metadata.manager.class.name")
        .default("org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager")
        .check(Check::NonEmpty)
        .not_yet(""),
    string("remote.log.metadata.manager.class.path").not_yet(""),
    string("remote.log.metadata.manager.impl.prefix").default("rlmm.config.").check(Check::NonEmpty).not_yet(""),
    string("remote.log.metadata.manager.listener.name").check(Check::NonEmpty).not_yet(""),
    int("remote.log.reader.max.pending.tasks").default("100").min(1).not_yet(""),
    int("remote.log.reader.threads").default("10").min(1).not_yet(""),
    string("remote.log.storage.manager.class.name").check(Check::NonEmpty).not_yet(""),
    string("remote.log.storage.manager.class.path").not_yet(""),
    string("remote.log.storage.manager.impl.prefix").default("rsm.config.").check(Check::NonEmpty).not_yet(""),
    boolean("remote.log.storage.system.enable").default("false").not_yet(""),
];
