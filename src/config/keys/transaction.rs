//! Transactions and idempotent producers.

use super::*;

pub(super) const KEYS: &[Key] = &[
    int("producer.id.expiration.check.interval.ms").default("600000").min(1).low().internal().not_yet(""),
    int("producer.id.expiration.ms").default("86400000").min(1).low().cluster_wide().not_yet(""),
    int("transaction.abort.timed.out.transaction.cleanup.interval.ms").default("10000").min(1).low().not_yet(""),
    int("transaction.max.timeout.ms").default("900000").min(1).high().not_yet(""),
    boolean("transaction.partition.verification.enable").default("true").low().cluster_wide().not_yet(""),
    int("transaction.remove.expired.transaction.cleanup.interval.ms").default("3600000").min(1).low().not_yet(""),
    int("transaction.state.log.load.buffer.size").default("5242880").min(1).high().not_yet(""),
    int("transaction.state.log.min.isr").default("2").min(1).high().not_yet(""),
    int("transaction.state.log.num.partitions").default("50").min(1).high().not_yet(""),
    short("transaction.state.log.replication.factor").default("3").min(1).high().not_yet(""),
    int("transaction.state.log.segment.bytes").default("104857600").min(1).high().not_yet(""),
    int("transactional.id.expiration.ms").default("604800000").min(1).high().not_yet(""),
];
