//! Followers, ISR, leader balance, controlled shutdown.

use super::*;

#[rustfmt::skip]
pub(super) const KEYS: &[Key] = &[
    boolean("auto.leader.rebalance.enable").default("true").high()
        .implemented("Whether the controller moves leadership back to preferred replicas by itself."),
    boolean("controlled.shutdown.enable").default("true")
        .implemented("Whether a stopping broker first has its leaderships moved away."),
    int("controlled.shutdown.max.retries").default("3")
        .implemented("Attempts at moving leaderships away before the broker stops anyway."),
    long("controlled.shutdown.retry.backoff.ms").default("5000")
        .implemented("Milliseconds between such attempts."),
    int("controller.socket.timeout.ms").default("30000")
        .implemented("Milliseconds the controller waits for a broker's answer, and a broker for the controller's."),
    string("inter.broker.protocol.version").default("3.9-IV0").check(Check::MetadataVersion)
        .implemented("Release whose protocol brokers use among themselves, from 2.8 on."),
    long("leader.imbalance.check.interval.seconds").default("300").min(1).high()
        .implemented("Seconds between the controller's looks at the balance of leaders."),
    int("leader.imbalance.per.broker.percentage").default("10").high()
        .implemented("Percentage of a broker's partitions led elsewhere than preferred from which leadership is moved \
            back."),
    int("num.replica.alter.log.dirs.threads").high()
        .not_yet("Threads that copy replicas from one log directory to another; unset, one per directory."),
    int("num.replica.fetchers").default("1").high().cluster_wide()
        .implemented("Connections on which replicas are fetched from each other broker."),
    int("replica.fetch.backoff.ms").default("1000").min(0)
        .implemented("Milliseconds a follower rests after a failed fetch of a partition."),
    int("replica.fetch.max.bytes").default("1048576").min(0)
        .implemented("Bytes a follower asks for per partition."),
    int("replica.fetch.min.bytes").default("1").high()
        .implemented("Bytes a leader should have before it answers a follower."),
    int("replica.fetch.response.max.bytes").default("10485760").min(0)
        .implemented("Bytes a follower takes in one response."),
    int("replica.fetch.wait.max.ms").default("500").high()
        .implemented("Milliseconds a leader may keep a follower waiting for new records."),
    long("replica.high.watermark.checkpoint.interval.ms").default("5000").high()
        .implemented("Milliseconds between writes of the high watermarks to disk."),
    long("replica.lag.time.max.ms").default("30000").high()
        .implemented("Milliseconds a follower may stay behind the log end before it leaves the ISR."),
    string("replica.selector.class")
        .implemented("Kafka's class that chooses which replica a consumer reads from: RackAwareReplicaSelector sends it to \
            one in its client.rack, LeaderSelector and unset keep it at the leader."),
    int("replica.socket.receive.buffer.bytes").default("65536").high()
        .not_yet("SO_RCVBUF of connections on which replicas are fetched."),
    int("replica.socket.timeout.ms").default("30000").high()
        .implemented("Milliseconds a follower waits for the answer to a fetch."),
    int("request.timeout.ms").default("30000").high()
        .implemented("Milliseconds the marker that ends a transaction waits for the in-sync replicas."),
    boolean("unclean.leader.election.enable").default("false").high().cluster_wide()
        .implemented("Whether a replica outside the ISR may become leader, losing records, when nothing else is left."),
];
