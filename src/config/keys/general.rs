//! Who this broker is and how many threads it has.

use super::*;

const NO_SWEEP: &str = "a waiting request leaves its list as soon as it is answered";

#[rustfmt::skip]
pub(super) const KEYS: &[Key] = &[
    int("background.threads").default("10").min(1).high().cluster_wide()
        .implemented("Threads of the pool that does blocking work: fsync, reads that miss the page cache, recovery, \
            deletion."),
    int("broker.id").default("-1").high()
        .implemented("This broker's number, unique in the cluster. -1 takes the number stored in meta.properties or draws \
            a new one above reserved.broker.max.id."),
    boolean("broker.id.generation.enable").default("true")
        .implemented("Whether a broker without a configured number may draw one from the metastore."),
    string("broker.rack")
        .implemented("The rack or zone of this broker, shown to clients and used to spread replicas."),
    int("delete.records.purgatory.purge.interval.requests").default("1")
        .no_effect(NO_SWEEP, "How many answered DeleteRecords requests may linger before the waiting list is swept."),
    int("fetch.max.bytes").default("57671680").min(1024)
        .implemented("Most bytes of records in one fetch response, whatever the client asks for; the first batch is sent \
            even if it is larger."),
    int("fetch.purgatory.purge.interval.requests").default("1000")
        .no_effect(NO_SWEEP, "How many answered Fetch requests may linger before the waiting list is swept."),
    int("max.incremental.fetch.session.cache.slots").default("1000").min(0)
        .implemented("Incremental fetch sessions kept at once; further consumers fetch without a session."),
    int("node.id").default("-1").high()
        .implemented("The same as broker.id under its KRaft name; given both, they must agree."),
    int("num.io.threads").default("8").min(1).high().cluster_wide()
        .no_effect(
            "a request is served on the thread of its connection, there is no second pool",
            "Threads that would serve requests taken from the request queue.",
        ),
    int("producer.purgatory.purge.interval.requests").default("1000")
        .no_effect(NO_SWEEP, "How many answered Produce requests may linger before the waiting list is swept."),
    int("reserved.broker.max.id").default("1000").min(0)
        .implemented("Highest number that broker.id may be given by hand; drawn numbers begin above it."),
    boolean("unstable.api.versions.enable").default("false").high().internal()
        .no_effect(
            "unreleased versions of APIs are never offered",
            "Whether unreleased versions of APIs are offered.",
        ),
];
