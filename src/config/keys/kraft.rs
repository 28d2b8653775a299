//! Keys that only a KRaft node reads.

use super::*;

const KRAFT: &str = "only a KRaft node reads it";

#[rustfmt::skip]
pub(super) const KEYS: &[Key] = &[
    int("broker.heartbeat.interval.ms").default("2000")
        .no_effect(KRAFT, "Milliseconds between heartbeats to the KRaft controller."),
    int("broker.session.timeout.ms").default("9000")
        .no_effect(KRAFT, "Milliseconds without heartbeat after which a KRaft broker's lease ends."),
    string("controller.listener.names").high()
        .no_effect(KRAFT, "Listeners of the KRaft controllers."),
    int("controller.quorum.append.linger.ms").default("25")
        .no_effect(KRAFT, "Milliseconds the quorum leader gathers records before it writes them."),
    list("controller.quorum.bootstrap.servers").default("").high()
        .no_effect(KRAFT, "Addresses at which the controller quorum is found."),
    int("controller.quorum.election.backoff.max.ms").default("1000").high()
        .no_effect(KRAFT, "Longest pause in milliseconds before a lost election is tried again."),
    int("controller.quorum.election.timeout.ms").default("1000").high()
        .no_effect(KRAFT, "Milliseconds a candidate waits for a majority."),
    int("controller.quorum.fetch.timeout.ms").default("2000").high()
        .no_effect(KRAFT, "Milliseconds without a successful fetch after which a voter starts an election."),
    int("controller.quorum.request.timeout.ms").default("2000")
        .no_effect(KRAFT, "Milliseconds a node of the quorum waits for an answer."),
    int("controller.quorum.retry.backoff.ms").default("20").low()
        .no_effect(KRAFT, "Milliseconds before a failed request to the quorum is sent again."),
    list("controller.quorum.voters").default("").high()
        .no_effect(KRAFT, "Voters of the controller quorum, as id@host:port."),
    string("early.start.listeners").high()
        .no_effect(KRAFT, "Listeners opened before authorisation has been initialised."),
    boolean("eligible.leader.replicas.enable").default("false").high()
        .no_effect(KRAFT, "Whether replicas that left the ISR in time stay eligible as leaders."),
    int("initial.broker.registration.timeout.ms").default("60000")
        .no_effect(KRAFT, "Milliseconds a starting KRaft broker tries to register."),
    string("metadata.log.dir").high()
        .no_effect(KRAFT, "Directory of the KRaft metadata log."),
    long("metadata.log.max.record.bytes.between.snapshots").default("20971520").min(1).high()
        .no_effect(KRAFT, "Bytes of metadata records after which a snapshot is made."),
    long("metadata.log.max.snapshot.interval.ms").default("3600000").min(0).high()
        .no_effect(KRAFT, "Milliseconds between snapshots of the metadata log."),
    int("metadata.log.segment.bytes").default("1073741824").min(12).high()
        .no_effect(KRAFT, "Segment size of the metadata log."),
    int("metadata.log.segment.min.bytes").default("8388608").min(12).high().internal()
        .no_effect(KRAFT, "Smallest segment size the metadata log may be given."),
    long("metadata.log.segment.ms").default("604800000").high()
        .no_effect(KRAFT, "Milliseconds after which a segment of the metadata log is closed."),
    int("metadata.max.idle.interval.ms").default("500").min(0).low()
        .no_effect(KRAFT, "Milliseconds between empty records of an idle controller."),
    long("metadata.max.retention.bytes").default("104857600").high()
        .no_effect(KRAFT, "Bytes of metadata log and snapshots that are kept."),
    long("metadata.max.retention.ms").default("604800000").high()
        .no_effect(KRAFT, "Milliseconds metadata log and snapshots are kept."),
    list("process.roles").default("").each_of(&["broker", "controller"]).high()
        .refuses(
            "files for KRaft nodes are not understood yet, and this broker would start empty beside the cluster \
            they describe",
            "Roles of a KRaft node: broker, controller or both. Unset for a broker with ZooKeeper or on its own.",
        ),
    long("server.max.startup.time.ms").default("9223372036854775807").min(0).internal()
        .no_effect(KRAFT, "Milliseconds a KRaft node may take to start."),
    long("unclean.leader.election.interval.ms").default("300000").min(1).internal()
        .no_effect(
            "only a KRaft controller reads it",
            "Milliseconds between a controller's looks for partitions to elect uncleanly.",
        ),
    boolean("unstable.feature.versions.enable").default("false").high().internal()
        .no_effect(KRAFT, "Whether unreleased versions of features can be used."),
];
