//! Log directories, segments, retention, flushing and compaction: broker-wide defaults of the topic configs.

use super::*;

#[rustfmt::skip]
pub(super) const KEYS: &[Key] = &[
    int("compression.gzip.level").default("-1").check(Check::MinusOneOr(1, 9)).cluster_wide()
        .implemented("Level used when the broker compresses with gzip; -1 is the codec's own default."),
    int("compression.lz4.level").default("9").between(1, 17).cluster_wide()
        .implemented("Level used when the broker compresses with lz4."),
    string("compression.type").default("producer").one_of(&["uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"]).high().cluster_wide()
        .implemented("Codec in which batches are stored; producer keeps what the client chose."),
    int("compression.zstd.level").default("3").between(-131072, 22).cluster_wide()
        .implemented("Level used when the broker compresses with zstd."),
    long("log.cleaner.backoff.ms").default("15000").min(0).cluster_wide()
        .implemented("Milliseconds the cleaner rests when no log needs cleaning."),
    long("log.cleaner.dedupe.buffer.size").default("134217728").cluster_wide()
        .implemented("Bytes of memory for the cleaner's map of keys, over all its threads."),
    long("log.cleaner.delete.retention.ms").default("86400000").min(0).cluster_wide()
        .implemented("Milliseconds a tombstone stays readable after it was compacted."),
    boolean("log.cleaner.enable").default("true")
        .implemented("Whether compacted topics are cleaned."),
    double("log.cleaner.io.buffer.load.factor").default("0.9").cluster_wide()
        .implemented("How full the cleaner's map of keys may become, as a fraction."),
    int("log.cleaner.io.buffer.size").default("524288").min(0).cluster_wide()
        .implemented("Bytes of the cleaner's read and write buffers, over all its threads."),
    double("log.cleaner.io.max.bytes.per.second").default("1.7976931348623157E308").cluster_wide()
        .implemented("Bytes the cleaner may read and write per second."),
    long("log.cleaner.max.compaction.lag.ms").default("9223372036854775807").min(1).cluster_wide()
        .implemented("Milliseconds after which a record of a compacted topic must become cleanable."),
    double("log.cleaner.min.cleanable.ratio").default("0.5").check(Check::BetweenDoubles(0.0, 1.0)).cluster_wide()
        .implemented("Share of uncleaned bytes from which a compacted log is worth cleaning."),
    long("log.cleaner.min.compaction.lag.ms").default("0").min(0).cluster_wide()
        .implemented("Milliseconds a record of a compacted topic stays untouched."),
    int("log.cleaner.threads").default("1").min(0).cluster_wide()
        .implemented("Threads that clean compacted logs."),
    list("log.cleanup.policy").default("delete").each_of(&["compact", "delete"]).cluster_wide()
        .implemented("What happens to old segments: delete by age and size, compact by key, or both."),
    string("log.dir").default("/tmp/kafka-logs").high()
        .implemented("The directory of the logs, if log.dirs is unset."),
    long("log.dir.failure.timeout.ms").default("30000").min(1).low()
        .no_effect(
            "a ZooKeeper-mode broker reports a failed directory at once",
            "Milliseconds after which a broker stops that could not report a failed directory to the controller.",
        ),
    string("log.dirs").high()
        .implemented("Directories of the logs, separated by commas. Partitions are spread over them."),
    long("log.flush.interval.messages").default("9223372036854775807").min(1).high().cluster_wide()
        .implemented("Records appended to a partition before it is forced to disk."),
    long("log.flush.interval.ms").high().cluster_wide()
        .implemented("Milliseconds a record may stay unforced; unset, log.flush.scheduler.interval.ms counts."),
    int("log.flush.offset.checkpoint.interval.ms").default("60000").min(0).high()
        .implemented("Milliseconds between writes of the recovery points."),
    long("log.flush.scheduler.interval.ms").default("9223372036854775807").high()
        .implemented("What log.flush.interval.ms is when it is unset."),
    int("log.flush.start.offset.checkpoint.interval.ms").default("60000").min(0).high()
        .implemented("Milliseconds between writes of the log start offsets."),
    int("log.index.interval.bytes").default("4096").min(0).cluster_wide()
        .implemented("Bytes of records between two entries of the offset index."),
    int("log.index.size.max.bytes").default("10485760").min(4).cluster_wide()
        .implemented("Largest size of an index file; a full index rolls the segment."),
    long("log.initial.task.delay.ms").default("30000").min(0).low().internal()
        .implemented("Milliseconds after start before retention, flushing and checkpoints first run."),
    long("log.local.retention.bytes").default("-2").min(-2).cluster_wide()
        .not_yet("Bytes kept locally of a partition whose segments are copied to remote storage; -2 means \
            log.retention.bytes."),
    long("log.local.retention.ms").default("-2").min(-2).cluster_wide()
        .not_yet("Milliseconds records stay local once their segment is copied to remote storage; -2 means \
            log.retention.ms."),
    boolean("log.message.downconversion.enable").default("true").low().cluster_wide()
        .implemented("Whether old consumers get records converted to their format; if not, they get UNSUPPORTED_VERSION."),
    string("log.message.format.version").default("3.0-IV1").check(Check::MetadataVersion)
        .no_effect(
            "records are stored in format v2, as 3.9 does for every protocol version since 3.0",
            "Release whose record format is written.",
        ),
    long("log.message.timestamp.after.max.ms").default("9223372036854775807").min(0).cluster_wide()
        .implemented("Milliseconds a record's timestamp may lie ahead of the broker's clock."),
    long("log.message.timestamp.before.max.ms").default("9223372036854775807").min(0).cluster_wide()
        .implemented("Milliseconds a record's timestamp may lie behind the broker's clock."),
    long("log.message.timestamp.difference.max.ms").default("9223372036854775807").min(0).cluster_wide()
        .implemented("Older key for both directions; counts where the newer key of a direction is at its default."),
    string("log.message.timestamp.type").default("CreateTime").one_of(&["CreateTime", "LogAppendTime"]).cluster_wide()
        .implemented("Whether records keep the producer's timestamp or get the time of their arrival."),
    boolean("log.preallocate").default("false").cluster_wide()
        .implemented("Whether a new segment file gets its full size at once."),
    long("log.retention.bytes").default("-1").high().cluster_wide()
        .implemented("Bytes kept per partition before the oldest segments are deleted; -1 keeps all."),
    long("log.retention.check.interval.ms").default("300000").min(1)
        .implemented("Milliseconds between looks for segments to delete."),
    int("log.retention.hours").default("168").high()
        .implemented("Hours a segment is kept; log.retention.minutes and log.retention.ms come before it."),
    int("log.retention.minutes").high()
        .implemented("Minutes a segment is kept; log.retention.ms comes before it."),
    long("log.retention.ms").high().cluster_wide()
        .implemented("Milliseconds a segment is kept after its newest record; -1 keeps it for ever."),
    int("log.roll.hours").default("168").min(1).high()
        .implemented("Hours after which a segment is closed even if it is not full; log.roll.ms comes before it."),
    int("log.roll.jitter.hours").default("0").min(0).high()
        .implemented("Hours by which rolling is randomly brought forward; log.roll.jitter.ms comes before it."),
    long("log.roll.jitter.ms").high().cluster_wide()
        .implemented("Milliseconds by which rolling is randomly brought forward, so that partitions do not roll \
            together."),
    long("log.roll.ms").high().cluster_wide()
        .implemented("Milliseconds after which a segment is closed even if it is not full."),
    int("log.segment.bytes").default("1073741824").min(14).high().cluster_wide()
        .implemented("Bytes at which a segment is closed and a new one begun."),
    long("log.segment.delete.delay.ms").default("60000").min(0).high().cluster_wide()
        .implemented("Milliseconds between taking a segment out of its log and removing the file."),
    int("message.max.bytes").default("1048588").min(0).high().cluster_wide()
        .implemented("Largest record batch accepted, in bytes as sent, compressed or not."),
    int("num.recovery.threads.per.data.dir").default("1").min(1).high().cluster_wide()
        .implemented("Threads per log directory that load and recover logs at start."),
];
