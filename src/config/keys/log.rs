//! Log directories, segments, retention, flushing and compaction: broker-wide defaults of the topic configs.

use super::*;

pub(super) const KEYS: &[Key] = &[
    int("compression.gzip.level").default("-1").check(Check::MinusOneOr(1, 9)).cluster_wide().not_yet(""),
    int("compression.lz4.level").default("9").between(1, 17).cluster_wide().not_yet(""),
    string("compression.type")
        .default("producer")
        .one_of(&["uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"])
        .high()
        .cluster_wide()
        .not_yet(""),
    int("compression.zstd.level").default("3").between(-131072, 22).cluster_wide().not_yet(""),
    long("log.cleaner.backoff.ms").default("15000").min(0).cluster_wide().not_yet(""),
    long("log.cleaner.dedupe.buffer.size").default("134217728").cluster_wide().not_yet(""),
    long("log.cleaner.delete.retention.ms").default("86400000").min(0).cluster_wide().not_yet(""),
    boolean("log.cleaner.enable").default("true").not_yet(""),
    double("log.cleaner.io.buffer.load.factor").default("0.9").cluster_wide().not_yet(""),
    int("log.cleaner.io.buffer.size").default("524288").min(0).cluster_wide().not_yet(""),
    double("log.cleaner.io.max.bytes.per.second").default("1.7976931348623157E308").cluster_wide().not_yet(""),
    long("log.cleaner.max.compaction.lag.ms").default("9223372036854775807").min(1).cluster_wide().not_yet(""),
    double("log.cleaner.min.cleanable.ratio")
        .default("0.5")
        .check(Check::BetweenDoubles(0.0, 1.0))
        .cluster_wide()
        .not_yet(""),
    long("log.cleaner.min.compaction.lag.ms").default("0").min(0).cluster_wide().not_yet(""),
    int("log.cleaner.threads").default("1").min(0).cluster_wide().not_yet(""),
    list("log.cleanup.policy").default("delete").each_of(&["compact", "delete"]).cluster_wide().not_yet(""),
    string("log.dir").default("/tmp/kafka-logs").high().not_yet(""),
    long("log.dir.failure.timeout.ms").default("30000").min(1).low().not_yet(""),
    string("log.dirs").high().not_yet(""),
    long("log.flush.interval.messages").default("9223372036854775807").min(1).high().cluster_wide().not_yet(""),
    long("log.flush.interval.ms").high().cluster_wide().not_yet(""),
    int("log.flush.offset.checkpoint.interval.ms").default("60000").min(0).high().not_yet(""),
    long("log.flush.scheduler.interval.ms").default("9223372036854775807").high().not_yet(""),
    int("log.flush.start.offset.checkpoint.interval.ms").default("60000").min(0).high().not_yet(""),
    int("log.index.interval.bytes").default("4096").min(0).cluster_wide().not_yet(""),
    int("log.index.size.max.bytes").default("10485760").min(4).cluster_wide().not_yet(""),
    long("log.initial.task.delay.ms").default("30000").min(0).low().internal().not_yet(""),
    long("log.local.retention.bytes").default("-2").min(-2).cluster_wide().not_yet(""),
    long("log.local.retention.ms").default("-2").min(-2).cluster_wide().not_yet(""),
    boolean("log.message.downconversion.enable").default("true").low().cluster_wide().not_yet(""),
    string("log.message.format.version").default("3.0-IV1").check(Check::MetadataVersion).not_yet(""),
    long("log.message.timestamp.after.max.ms").default("9223372036854775807").min(0).cluster_wide().not_yet(""),
    long("log.message.timestamp.before.max.ms").default("9223372036854775807").min(0).cluster_wide().not_yet(""),
    long("log.message.timestamp.difference.max.ms").default("9223372036854775807").min(0).cluster_wide().not_yet(""),
    string("log.message.timestamp.type")
        .default("CreateTime")
        .one_of(&["CreateTime", "LogAppendTime"])
        .cluster_wide()
        .not_yet(""),
    boolean("log.preallocate").default("false").cluster_wide().not_yet(""),
    long("log.retention.bytes").default("-1").high().cluster_wide().not_yet(""),
    long("log.retention.check.interval.ms").default("300000").min(1).not_yet(""),
    int("log.retention.hours").default("168").high().not_yet(""),
    int("log.retention.minutes").high().not_yet(""),
    long("log.retention.ms").high().cluster_wide().not_yet(""),
    int("log.roll.hours").default("168").min(1).high().not_yet(""),
    int("log.roll.jitter.hours").default("0").min(0).high().not_yet(""),
    long("log.roll.jitter.ms").high().cluster_wide().not_yet(""),
    long("log.roll.ms").high().cluster_wide().not_yet(""),
    int("log.segment.bytes").default("1073741824").min(14).high().cluster_wide().not_yet(""),
    long("log.segment.delete.delay.ms").default("60000").min(0).high().cluster_wide().not_yet(""),
    int("message.max.bytes").default("1048588").min(0).high().cluster_wide().not_yet(""),
    int("num.recovery.threads.per.data.dir").default("1").min(1).high().cluster_wide().not_yet(""),
];
