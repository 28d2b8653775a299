//! Keys that Kafka does not have. DescribeConfigs shows them only when given.

use super::*;

#[rustfmt::skip]
pub(super) const KEYS: &[Key] = &[
    string("klamm.cluster.id").low()
        .implemented("The id a new cluster is given; unset, one is chosen. A cluster that has one keeps it, and with \
            zookeeper.connect it says nothing."),
    boolean("klamm.fast.failover.enable").default("false").low()
        .implemented("Whether a broker whose process is certainly dead (its connections closed by itself, all its \
            addresses refusing) is done without before its ZooKeeper session ends. Nothing that was committed is lost \
            by it. Without zookeeper.connect it says nothing."),
];
