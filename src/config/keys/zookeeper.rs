//! The connection to ZooKeeper. Absent `zookeeper.connect` chooses the embedded metastore.

use super::*;

const CLEAR_TEXT: &str = "ZooKeeper over TLS is not there yet, and the connection would be in clear text";

#[rustfmt::skip]
pub(super) const KEYS: &[Key] = &[
    string("zookeeper.clientCnxnSocket")
        .no_effect(
            "it names a Java class",
            "Java class for the connection to ZooKeeper.",
        ),
    string("zookeeper.connect").high()
        .implemented("ZooKeeper servers as host:port,host:port, with an optional path behind the last. Unset, the broker \
            keeps its metadata in itself, as a single node."),
    int("zookeeper.connection.timeout.ms").high()
        .implemented("Milliseconds the first connection to ZooKeeper may take; unset, the session timeout."),
    int("zookeeper.max.in.flight.requests").default("10").min(1).high()
        .implemented("Requests sent to ZooKeeper before the first is answered."),
    boolean("zookeeper.metadata.migration.enable").default("false").high()
        .refuses(
            "migration to KRaft is not there, and the cluster's state would be handed to controllers that never \
            take it",
            "Whether the cluster is being migrated to KRaft.",
        ),
    int("zookeeper.metadata.migration.min.batch.size").default("200").min(1).internal()
        .no_effect(
            "migration to KRaft is not there",
            "Records per batch when metadata is migrated.",
        ),
    int("zookeeper.session.timeout.ms").default("18000").high()
        .implemented("Milliseconds without contact after which ZooKeeper ends this broker's session."),
    boolean("zookeeper.set.acl").default("false").high()
        .refuses(
            "znodes would be written without the ACLs that were asked for",
            "Whether znodes are created so that only brokers may change them.",
        ),
    list("zookeeper.ssl.cipher.suites").low()
        .refuses(CLEAR_TEXT, "Cipher suites towards ZooKeeper."),
    boolean("zookeeper.ssl.client.enable").default("false")
        .refuses(CLEAR_TEXT, "Whether ZooKeeper is reached over TLS."),
    boolean("zookeeper.ssl.crl.enable").default("false").low()
        .refuses(CLEAR_TEXT, "Whether ZooKeeper's certificate is looked up in revocation lists."),
    list("zookeeper.ssl.enabled.protocols").low()
        .refuses(CLEAR_TEXT, "TLS versions allowed towards ZooKeeper."),
    string("zookeeper.ssl.endpoint.identification.algorithm").default("HTTPS").low()
        .refuses(CLEAR_TEXT, "How ZooKeeper's host name is checked against its certificate; empty does not check."),
    string("zookeeper.ssl.keystore.location")
        .refuses(CLEAR_TEXT, "File with the certificate this broker shows to ZooKeeper."),
    password("zookeeper.ssl.keystore.password")
        .refuses(CLEAR_TEXT, "Password of that file."),
    string("zookeeper.ssl.keystore.type")
        .refuses(CLEAR_TEXT, "Format of that file."),
    boolean("zookeeper.ssl.ocsp.enable").default("false").low()
        .refuses(CLEAR_TEXT, "Whether ZooKeeper's certificate is checked by OCSP."),
    string("zookeeper.ssl.protocol").default("TLSv1.2").low()
        .refuses(CLEAR_TEXT, "TLS version towards ZooKeeper."),
    string("zookeeper.ssl.truststore.location")
        .refuses(CLEAR_TEXT, "File with the authorities trusted for ZooKeeper's certificate."),
    password("zookeeper.ssl.truststore.password")
        .refuses(CLEAR_TEXT, "Password of that file."),
    string("zookeeper.ssl.truststore.type")
        .refuses(CLEAR_TEXT, "Format of that file."),
];
