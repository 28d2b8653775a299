//! Tiered storage (KIP-405).

use super::*;

#[rustfmt::skip]
pub(super) const KEYS: &[Key] = &[
    int("remote.fetch.max.wait.ms").default("500").min(1).cluster_wide()
        .not_yet("Milliseconds a fetch waits for remote storage."),
    long("remote.log.index.file.cache.total.size.bytes").default("1073741824").min(1).low().cluster_wide()
        .not_yet("Bytes of remote index files kept on the local disk."),
    int("remote.log.manager.copier.thread.pool.size").default("-1").check(Check::MinusOneOr(1, i32::MAX as i64))
        .not_yet("Threads that copy segments to remote storage; -1 takes remote.log.manager.thread.pool.size."),
    long("remote.log.manager.copy.max.bytes.per.second").default("9223372036854775807").min(1).cluster_wide()
        .not_yet("Bytes copied to remote storage per second."),
    int("remote.log.manager.copy.quota.window.num").default("11").min(1)
        .not_yet("Windows remembered when copying to remote storage is throttled."),
    int("remote.log.manager.copy.quota.window.size.seconds").default("1").min(1)
        .not_yet("Seconds of one such window."),
    int("remote.log.manager.expiration.thread.pool.size").default("-1").check(Check::MinusOneOr(1, i32::MAX as i64))
        .not_yet("Threads that delete expired remote segments; -1 takes remote.log.manager.thread.pool.size."),
    long("remote.log.manager.fetch.max.bytes.per.second").default("9223372036854775807").min(1).cluster_wide()
        .not_yet("Bytes fetched from remote storage per second."),
    int("remote.log.manager.fetch.quota.window.num").default("11").min(1)
        .not_yet("Windows remembered when fetching from remote storage is throttled."),
    int("remote.log.manager.fetch.quota.window.size.seconds").default("1").min(1)
        .not_yet("Seconds of one such window."),
    long("remote.log.manager.task.interval.ms").default("30000").min(1).low()
        .not_yet("Milliseconds between runs of the remote storage tasks."),
    long("remote.log.manager.task.retry.backoff.max.ms").default("30000").min(1).low().internal()
        .not_yet("Longest pause in milliseconds before a failed remote storage task runs again."),
    long("remote.log.manager.task.retry.backoff.ms").default("500").min(1).low().internal()
        .not_yet("First pause in milliseconds before a failed remote storage task runs again."),
    double("remote.log.manager.task.retry.jitter").default("0.2").check(Check::BetweenDoubles(0.0, 0.5)).low().internal()
        .not_yet("Random share by which that pause varies."),
    int("remote.log.manager.thread.pool.size").default("10").min(1)
        .not_yet("Threads of the remote storage tasks."),
    int("remote.log.metadata.custom.metadata.max.bytes").default("128").min(0).low()
        .not_yet("Bytes of its own a storage plugin may keep per segment."),
    string("remote.log.metadata.manager.class.name").default("org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager").check(Check::NonEmpty)
        .not_yet("Java class that keeps track of remote segments."),
    string("remote.log.metadata.manager.class.path")
        .not_yet("Class path of that class."),
    string("remote.log.metadata.manager.impl.prefix").default("rlmm.config.").check(Check::NonEmpty)
        .not_yet("Prefix of the keys passed to that class."),
    string("remote.log.metadata.manager.listener.name").check(Check::NonEmpty)
        .not_yet("Listener through which that class reaches the cluster."),
    int("remote.log.reader.max.pending.tasks").default("100").min(1)
        .not_yet("Remote reads that may wait for a thread; further ones fail."),
    int("remote.log.reader.threads").default("10").min(1)
        .not_yet("Threads that read from remote storage."),
    string("remote.log.storage.manager.class.name").check(Check::NonEmpty)
        .not_yet("Java class that stores remote segments."),
    string("remote.log.storage.manager.class.path")
        .not_yet("Class path of that class."),
    string("remote.log.storage.manager.impl.prefix").default("rsm.config.").check(Check::NonEmpty)
        .not_yet("Prefix of the keys passed to that class."),
    boolean("remote.log.storage.system.enable").default("false")
        .refuses(
            "tiered storage is not there yet, and segments would be deleted without having been copied",
            "Whether topics may keep old segments in remote storage.",
        ),
];
