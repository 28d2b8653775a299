//! Topic creation, deletion and the policies around them.

use super::*;

#[rustfmt::skip]
pub(super) const KEYS: &[Key] = &[
    class("alter.config.policy.class.name").low()
        .refuses(
            "it names a Java class that decides over config changes, and changes it forbids would go through",
            "Java class that may veto changes of configs.",
        ),
    boolean("auto.create.topics.enable").default("true").high()
        .implemented("Whether asking for the metadata of a missing topic creates it."),
    class("create.topic.policy.class.name").low()
        .refuses(
            "it names a Java class that decides over new topics, and topics it forbids would be created",
            "Java class that may veto new topics.",
        ),
    int("default.replication.factor").default("1")
        .implemented("Replicas of a topic created without a count."),
    boolean("delete.topic.enable").default("true").high()
        .implemented("Whether topics may be deleted at all."),
    int("max.request.partition.size.limit").default("2000").min(1)
        .no_effect(
            "DescribeTopicPartitions is served by KRaft brokers only",
            "Partitions in one answer to DescribeTopicPartitions.",
        ),
    int("min.insync.replicas").default("1").min(1).high().cluster_wide()
        .implemented("In-sync replicas a write with acks=all needs; with fewer it is refused."),
    int("num.partitions").default("1").min(1)
        .implemented("Partitions of a topic created without a count."),
];
