//! Topic creation, deletion and the policies around them.

use super::*;

pub(super) const KEYS: &[Key] = &[
    class("alter.config.policy.class.name").low().not_yet(""),
    boolean("auto.create.topics.enable").default("true").high().not_yet(""),
    class("create.topic.policy.class.name").low().not_yet(""),
    int("default.replication.factor").default("1").not_yet(""),
    boolean("delete.topic.enable").default("true").high().not_yet(""),
    int("max.request.partition.size.limit").default("2000").min(1).not_yet(""),
    int("min.insync.replicas").default("1").min(1).high().cluster_wide().not_yet(""),
    int("num.partitions").default("1").min(1).not_yet(""),
];
