//! The connection to ZooKeeper. Absent `zookeeper.connect` chooses the embedded metastore.

use super::*;

pub(super) const KEYS: &[Key] = &[
    string("zookeeper.clientCnxnSocket").not_yet(""),
    string("zookeeper.connect").high().not_yet(""),
    int("zookeeper.connection.timeout.ms").high().not_yet(""),
    int("zookeeper.max.in.flight.requests").default("10").min(1).high().not_yet(""),
    boolean("zookeeper.metadata.migration.enable").default("false").high().not_yet(""),
    int("zookeeper.metadata.migration.min.batch.size").default("200").min(1).internal().not_yet(""),
    int("zookeeper.session.timeout.ms").default("18000").high().not_yet(""),
    boolean("zookeeper.set.acl")
        .default("false")
        .high()
        .refuses("znodes would be written without the ACLs that were asked for", ""),
    list("zookeeper.ssl.cipher.suites").low().not_yet(""),
    boolean("zookeeper.ssl.client.enable").default("false").not_yet(""),
    boolean("zookeeper.ssl.crl.enable").default("false").low().not_yet(""),
    list("zookeeper.ssl.enabled.protocols").low().not_yet(""),
    string("zookeeper.ssl.endpoint.identification.algorithm").default("HTTPS").low().not_yet(""),
    string("zookeeper.ssl.keystore.location").not_yet(""),
    password("zookeeper.ssl.keystore.password").not_yet(""),
    string("zookeeper.ssl.keystore.type").not_yet(""),
    boolean("zookeeper.ssl.ocsp.enable").default("false").low().not_yet(""),
    string("zookeeper.ssl.protocol").default("TLSv1.2").low().not_yet(""),
    string("zookeeper.ssl.truststore.location").not_yet(""),
    password("zookeeper.ssl.truststore.password").not_yet(""),
    string("zookeeper.ssl.truststore.type").not_yet(""),
];
