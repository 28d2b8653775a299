//! Where it listens, what it tells clients, and the limits of connections and requests.

use super::*;

pub(super) const KEYS: &[Key] = &[
    string("advertised.listeners").high().per_broker().not_yet(""),
    long("connections.max.idle.ms").default("600000").not_yet(""),
    string("control.plane.listener.name").high().not_yet(""),
    string("inter.broker.listener.name").not_yet(""),
    string("listener.security.protocol.map")
        .default("SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT")
        .low()
        .per_broker()
        .not_yet(""),
    string("listeners").default("PLAINTEXT://:9092").high().per_broker().not_yet(""),
    int("max.connection.creation.rate").default("2147483647").min(0).cluster_wide().not_yet(""),
    int("max.connections").default("2147483647").min(0).cluster_wide().not_yet(""),
    int("max.connections.per.ip").default("2147483647").min(0).cluster_wide().not_yet(""),
    string("max.connections.per.ip.overrides").default("").cluster_wide().not_yet(""),
    int("num.network.threads").default("3").min(1).high().cluster_wide().not_yet(""),
    long("queued.max.request.bytes").default("-1").not_yet(""),
    int("queued.max.requests").default("500").min(1).high().not_yet(""),
    string("security.inter.broker.protocol")
        .default("PLAINTEXT")
        .one_of(&["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"])
        .not_yet(""),
    long("socket.connection.setup.timeout.max.ms").default("30000").not_yet(""),
    long("socket.connection.setup.timeout.ms").default("10000").not_yet(""),
    int("socket.listen.backlog.size").default("50").min(1).not_yet(""),
    int("socket.receive.buffer.bytes").default("102400").high().not_yet(""),
    int("socket.request.max.bytes").default("104857600").min(1).high().not_yet(""),
    int("socket.send.buffer.bytes").default("102400").high().not_yet(""),
];
