//! Transactions and idempotent producers.

use super::*;

#[rustfmt::skip]
pub(super) const KEYS: &[Key] = &[
    int("producer.id.expiration.check.interval.ms").default("600000").min(1).low().internal()
        .implemented("Milliseconds between looks for producers to forget."),
    int("producer.id.expiration.ms").default("86400000").min(1).low().cluster_wide()
        .implemented("Milliseconds after which a partition forgets a producer that has written nothing."),
    int("transaction.abort.timed.out.transaction.cleanup.interval.ms").default("10000").min(1).low()
        .implemented("Milliseconds between looks for transactions that ran out of time."),
    int("transaction.max.timeout.ms").default("900000").min(1).high()
        .implemented("Longest timeout a producer may ask for its transactions, milliseconds."),
    boolean("transaction.partition.verification.enable").default("true").low().cluster_wide()
        .implemented("Whether the partition leader asks the coordinator if a transaction is open before it appends its \
            records."),
    int("transaction.remove.expired.transaction.cleanup.interval.ms").default("3600000").min(1).low()
        .implemented("Milliseconds between looks for transactional ids to forget."),
    int("transaction.state.log.load.buffer.size").default("5242880").min(1).high()
        .implemented("Bytes read at once when transactions are loaded from their topic."),
    int("transaction.state.log.min.isr").default("2").min(1).high()
        .implemented("min.insync.replicas of __transaction_state; 1 by default when the broker keeps its metadata in \
            itself."),
    int("transaction.state.log.num.partitions").default("50").min(1).high()
        .implemented("Partitions of __transaction_state when it is created."),
    short("transaction.state.log.replication.factor").default("3").min(1).high()
        .implemented("Replicas of __transaction_state when it is created; 1 by default when the broker keeps its metadata \
            in itself."),
    int("transaction.state.log.segment.bytes").default("104857600").min(1).high()
        .implemented("Segment size of __transaction_state."),
    int("transactional.id.expiration.ms").default("604800000").min(1).high()
        .implemented("Milliseconds after which an unused transactional id is forgotten."),
];
