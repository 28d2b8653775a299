//! Who this broker is and how many threads it has.

use super::*;

pub(super) const KEYS: &[Key] = &[
    int("background.threads").default("10").min(1).high().cluster_wide().not_yet(""),
    int("broker.id").default("-1").high().not_yet(""),
    boolean("broker.id.generation.enable").default("true").not_yet(""),
    string("broker.rack").not_yet(""),
    int("delete.records.purgatory.purge.interval.requests").default("1").not_yet(""),
    int("fetch.max.bytes").default("57671680").min(1024).not_yet(""),
    int("fetch.purgatory.purge.interval.requests").default("1000").not_yet(""),
    int("max.incremental.fetch.session.cache.slots").default("1000").min(0).not_yet(""),
    int("node.id").default("-1").high().not_yet(""),
    int("num.io.threads").default("8").min(1).high().cluster_wide().not_yet(""),
    int("producer.purgatory.purge.interval.requests").default("1000").not_yet(""),
    int("reserved.broker.max.id").default("1000").min(0).not_yet(""),
    boolean("unstable.api.versions.enable").default("false").high().internal().not_yet(""),
];
