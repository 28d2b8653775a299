//! Where it listens, what it tells clients, and the limits of connections and requests.

use super::*;

#[rustfmt::skip]
pub(super) const KEYS: &[Key] = &[
    string("advertised.listeners").high().per_broker()
        .implemented("Names and addresses that clients and other brokers are told to connect to. Unset, they are those of \
            listeners; an empty host stands for this machine's canonical name."),
    long("connections.max.idle.ms").default("600000")
        .implemented("Milliseconds without traffic after which a connection is closed."),
    string("control.plane.listener.name").high()
        .implemented("Listener kept for the controller's requests to brokers, apart from data."),
    string("inter.broker.listener.name")
        .implemented("Listener through which brokers reach each other. Unset, the one named as \
            security.inter.broker.protocol."),
    string("listener.security.protocol.map").default("SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT").low().per_broker()
        .implemented("Which protocol each listener name speaks. A name must stand here before it can be used."),
    string("listeners").default("PLAINTEXT://:9092").high().per_broker()
        .implemented("Addresses to bind, each as NAME://host:port; an empty host binds every interface."),
    int("max.connection.creation.rate").default("2147483647").min(0).cluster_wide()
        .implemented("New connections served per second on the whole broker; further ones wait."),
    int("max.connections").default("2147483647").min(0).cluster_wide()
        .implemented("Connections open at once on the whole broker; further ones wait until one closes."),
    int("max.connections.per.ip").default("2147483647").min(0).cluster_wide()
        .implemented("Connections open at once from one address; further ones are closed."),
    string("max.connections.per.ip.overrides").default("").cluster_wide()
        .implemented("Other limits for single addresses or host names, as address:count."),
    int("num.network.threads").default("3").min(1).high().cluster_wide()
        .implemented("Threads that read, serve and answer connections."),
    long("queued.max.request.bytes").default("-1")
        .implemented("Bytes of received requests that may wait for service; reading stops above it. -1 sets no limit."),
    int("queued.max.requests").default("500").min(1).high()
        .no_effect(
            "requests are not queued between threads; a connection with unanswered requests is not read",
            "Requests that may wait for a serving thread.",
        ),
    string("security.inter.broker.protocol").default("PLAINTEXT").one_of(&["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"])
        .implemented("Names the listener that brokers use among themselves when inter.broker.listener.name is unset."),
    long("socket.connection.setup.timeout.max.ms").default("30000")
        .not_yet("Upper bound in milliseconds to which the growing limit for opening a connection to another broker \
            rises."),
    long("socket.connection.setup.timeout.ms").default("10000")
        .implemented("Milliseconds that opening a connection to another broker may take, for each of its addresses."),
    int("socket.listen.backlog.size").default("50").min(1)
        .implemented("Connections the operating system queues before they are accepted."),
    int("socket.receive.buffer.bytes").default("102400").high()
        .implemented("SO_RCVBUF of client connections; -1 leaves the system's value."),
    int("socket.request.max.bytes").default("104857600").min(1).high()
        .implemented("Largest request that is read; a longer one closes its connection."),
    int("socket.send.buffer.bytes").default("102400").high()
        .implemented("SO_SNDBUF of client connections; -1 leaves the system's value."),
];
