//! Topic configs: what `/config/topics/<topic>` may hold. The default is that of the broker key beside it in [`super::SYNONYMS`].

use super::*;

pub(super) const KEYS: &[Key] = &[
    list("cleanup.policy").default("delete").each_of(&["compact", "delete"]).not_yet(""),
    int("compression.gzip.level").default("-1").check(Check::MinusOneOr(1, 9)).not_yet(""),
    int("compression.lz4.level").default("9").between(1, 17).not_yet(""),
    string("compression.type")
        .default("producer")
        .one_of(&["uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"])
        .not_yet(""),
    int("compression.zstd.level").default("3").between(-131072, 22).not_yet(""),
    long("delete.retention.ms").default("86400000").min(0).not_yet(""),
    long("file.delete.delay.ms").default("60000").min(0).not_yet(""),
    long("flush.messages").default("9223372036854775807").min(1).not_yet(""),
    long("flush.ms").default("9223372036854775807").min(0).not_yet(""),
    list("follower.replication.throttled.replicas").default("").check(Check::ThrottledReplicas).not_yet(""),
    int("index.interval.bytes").default("4096").min(0).not_yet(""),
    list("leader.replication.throttled.replicas").default("").check(Check::ThrottledReplicas).not_yet(""),
    long("local.retention.bytes").default("-2").min(-2).not_yet(""),
    long("local.retention.ms").default("-2").min(-2).not_yet(""),
    long("max.compaction.lag.ms").default("9223372036854775807").min(1).not_yet(""),
    int("max.message.bytes").default("1048588").min(0).not_yet(""),
    boolean("message.downconversion.enable").default("true").low().not_yet(""),
    string("message.format.version").default("3.0-IV1").check(Check::MetadataVersion).not_yet(""),
    long("message.timestamp.after.max.ms").default("9223372036854775807").min(0).not_yet(""),
    long("message.timestamp.before.max.ms").default("9223372036854775807").min(0).not_yet(""),
    long("message.timestamp.difference.max.ms").default("9223372036854775807").min(0).not_yet(""),
    string("message.timestamp.type").default("CreateTime").one_of(&["CreateTime", "LogAppendTime"]).not_yet(""),
    double("min.cleanable.dirty.ratio").default("0.5").check(Check::BetweenDoubles(0.0, 1.0)).not_yet(""),
    long("min.compaction.lag.ms").default("0").min(0).not_yet(""),
    int("min.insync.replicas").default("1").min(1).not_yet(""),
    boolean("preallocate").default("false").not_yet(""),
    boolean("remote.log.copy.disable").default("false").not_yet(""),
    boolean("remote.log.delete.on.disable").default("false").not_yet(""),
    boolean("remote.storage.enable").default("false").not_yet(""),
    long("retention.bytes").default("-1").not_yet(""),
    long("retention.ms").default("604800000").min(-1).not_yet(""),
    int("segment.bytes").default("1073741824").min(14).not_yet(""),
    int("segment.index.bytes").default("10485760").min(4).not_yet(""),
    long("segment.jitter.ms").default("0").min(0).not_yet(""),
    long("segment.ms").default("604800000").min(1).not_yet(""),
    boolean("unclean.leader.election.enable").default("false").not_yet(""),
];
