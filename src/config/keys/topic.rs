//! Topic configs: what `/config/topics/<topic>` may hold. The default is that of the broker key beside it in
//! [`super::SYNONYMS`].

use super::*;

#[rustfmt::skip]
pub(super) const KEYS: &[Key] = &[
    list("cleanup.policy").default("delete").each_of(&["compact", "delete"])
        .implemented("What happens to old segments: delete by age and size, compact by key, or both."),
    int("compression.gzip.level").default("-1").check(Check::MinusOneOr(1, 9))
        .implemented("Level used when the broker compresses this topic with gzip; -1 is the codec's own default."),
    int("compression.lz4.level").default("9").between(1, 17)
        .implemented("Level used when the broker compresses this topic with lz4."),
    string("compression.type").default("producer").one_of(&["uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"])
        .implemented("Codec in which batches are stored; producer keeps what the client chose."),
    int("compression.zstd.level").default("3").between(-131072, 22)
        .implemented("Level used when the broker compresses this topic with zstd."),
    long("delete.retention.ms").default("86400000").min(0)
        .implemented("Milliseconds a tombstone stays readable after it was compacted."),
    long("file.delete.delay.ms").default("60000").min(0)
        .implemented("Milliseconds between taking a segment out of its log and removing the file."),
    long("flush.messages").default("9223372036854775807").min(1)
        .implemented("Records appended to a partition before it is forced to disk; 1 forces each append."),
    long("flush.ms").default("9223372036854775807").min(0)
        .implemented("Milliseconds a record may stay unforced."),
    list("follower.replication.throttled.replicas").default("").check(Check::ThrottledReplicas)
        .implemented("Replicas whose fetching is throttled, as partition:broker, or * for all."),
    int("index.interval.bytes").default("4096").min(0)
        .implemented("Bytes of records between two entries of the offset index."),
    list("leader.replication.throttled.replicas").default("").check(Check::ThrottledReplicas)
        .implemented("Replicas whose leaders throttle what followers fetch, as partition:broker, or * for all."),
    long("local.retention.bytes").default("-2").min(-2)
        .not_yet("Bytes kept locally once segments are copied to remote storage; -2 means retention.bytes."),
    long("local.retention.ms").default("-2").min(-2)
        .not_yet("Milliseconds records stay local once their segment is copied to remote storage; -2 means \
            retention.ms."),
    long("max.compaction.lag.ms").default("9223372036854775807").min(1)
        .implemented("Milliseconds after which a record must become cleanable."),
    int("max.message.bytes").default("1048588").min(0)
        .implemented("Largest record batch accepted, in bytes as sent, compressed or not."),
    boolean("message.downconversion.enable").default("true").low()
        .implemented("Whether old consumers get records converted to their format; if not, they get UNSUPPORTED_VERSION."),
    string("message.format.version").default("3.0-IV1").check(Check::MetadataVersion)
        .no_effect(
            "records are stored in format v2, as 3.9 does for every protocol version since 3.0",
            "Release whose record format is written.",
        ),
    long("message.timestamp.after.max.ms").default("9223372036854775807").min(0)
        .implemented("Milliseconds a record's timestamp may lie ahead of the broker's clock."),
    long("message.timestamp.before.max.ms").default("9223372036854775807").min(0)
        .implemented("Milliseconds a record's timestamp may lie behind the broker's clock."),
    long("message.timestamp.difference.max.ms").default("9223372036854775807").min(0)
        .implemented("Older key for both directions; counts where the newer key of a direction is at its default."),
    string("message.timestamp.type").default("CreateTime").one_of(&["CreateTime", "LogAppendTime"])
        .implemented("Whether records keep the producer's timestamp or get the time of their arrival."),
    double("min.cleanable.dirty.ratio").default("0.5").check(Check::BetweenDoubles(0.0, 1.0))
        .implemented("Share of uncleaned bytes from which the log is worth cleaning."),
    long("min.compaction.lag.ms").default("0").min(0)
        .implemented("Milliseconds a record stays untouched by compaction."),
    int("min.insync.replicas").default("1").min(1)
        .implemented("In-sync replicas a write with acks=all needs; with fewer it is refused."),
    boolean("preallocate").default("false")
        .implemented("Whether a new segment file gets its full size at once."),
    boolean("remote.log.copy.disable").default("false")
        .not_yet("Whether copying to remote storage has ended while what is there stays readable."),
    boolean("remote.log.delete.on.disable").default("false")
        .not_yet("Whether remote segments are deleted when remote storage is turned off."),
    boolean("remote.storage.enable").default("false")
        .refuses(
            "tiered storage is not there yet",
            "Whether old segments are kept in remote storage.",
        ),
    long("retention.bytes").default("-1")
        .implemented("Bytes kept per partition before the oldest segments are deleted; -1 keeps all."),
    long("retention.ms").default("604800000").min(-1)
        .implemented("Milliseconds a segment is kept after its newest record; -1 keeps it for ever."),
    int("segment.bytes").default("1073741824").min(14)
        .implemented("Bytes at which a segment is closed and a new one begun."),
    int("segment.index.bytes").default("10485760").min(4)
        .implemented("Largest size of an index file; a full index rolls the segment."),
    long("segment.jitter.ms").default("0").min(0)
        .implemented("Milliseconds by which rolling is randomly brought forward, so that partitions do not roll \
            together."),
    long("segment.ms").default("604800000").min(1)
        .implemented("Milliseconds after which a segment is closed even if it is not full."),
    boolean("unclean.leader.election.enable").default("false")
        .implemented("Whether a replica outside the ISR may become leader, losing records, when nothing else is left."),
];
