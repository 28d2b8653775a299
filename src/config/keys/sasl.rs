//! SASL.

use super::*;

const KRAFT: &str = "only a KRaft node reads it";

#[rustfmt::skip]
pub(super) const KEYS: &[Key] = &[
    class("sasl.client.callback.handler.class")
        .not_yet("Java class that answers SASL questions when this broker connects to others."),
    list("sasl.enabled.mechanisms").default("GSSAPI").per_broker()
        .not_yet("SASL mechanisms clients may use."),
    password("sasl.jaas.config").per_broker()
        .not_yet("Login of a SASL mechanism, in the JAAS format."),
    string("sasl.kerberos.kinit.cmd").default("/usr/bin/kinit").per_broker()
        .not_yet("Path of kinit."),
    long("sasl.kerberos.min.time.before.relogin").default("60000").per_broker()
        .not_yet("Milliseconds between two logins at Kerberos at least."),
    list("sasl.kerberos.principal.to.local.rules").default("DEFAULT").per_broker()
        .not_yet("Rules that shorten a Kerberos principal to a user name; the first that fits is used."),
    string("sasl.kerberos.service.name").per_broker()
        .not_yet("Kerberos principal the brokers run as."),
    double("sasl.kerberos.ticket.renew.jitter").default("0.05").per_broker()
        .not_yet("Random share added to the moment a ticket is renewed."),
    double("sasl.kerberos.ticket.renew.window.factor").default("0.8").per_broker()
        .not_yet("Share of a ticket's lifetime after which it is renewed."),
    class("sasl.login.callback.handler.class")
        .not_yet("Java class that answers questions of the SASL login."),
    class("sasl.login.class")
        .not_yet("Java class that performs the SASL login."),
    int("sasl.login.connect.timeout.ms").low()
        .not_yet("Milliseconds to open a connection to an external authentication provider."),
    int("sasl.login.read.timeout.ms").low()
        .not_yet("Milliseconds to wait for an external authentication provider's answer."),
    short("sasl.login.refresh.buffer.seconds").default("300").per_broker()
        .not_yet("Seconds before a token's end that a refresh should keep clear of."),
    short("sasl.login.refresh.min.period.seconds").default("60").per_broker()
        .not_yet("Seconds a refreshed token is used at least."),
    double("sasl.login.refresh.window.factor").default("0.8").per_broker()
        .not_yet("Share of a token's lifetime after which it is refreshed."),
    double("sasl.login.refresh.window.jitter").default("0.05").per_broker()
        .not_yet("Random share added to that moment."),
    long("sasl.login.retry.backoff.max.ms").default("10000").low()
        .not_yet("Longest pause in milliseconds between two logins at an external provider."),
    long("sasl.login.retry.backoff.ms").default("100").low()
        .not_yet("First pause in milliseconds between two logins at an external provider."),
    string("sasl.mechanism.controller.protocol").default("GSSAPI").high()
        .no_effect(KRAFT, "SASL mechanism towards KRaft controllers."),
    string("sasl.mechanism.inter.broker.protocol").default("GSSAPI").per_broker()
        .not_yet("SASL mechanism brokers use among themselves."),
    int("sasl.oauthbearer.clock.skew.seconds").default("30").low()
        .not_yet("Seconds by which clocks may differ when a token's times are checked."),
    list("sasl.oauthbearer.expected.audience").low()
        .not_yet("Audiences of which a token must name one."),
    string("sasl.oauthbearer.expected.issuer").low()
        .not_yet("Issuer a token must come from."),
    long("sasl.oauthbearer.jwks.endpoint.refresh.ms").default("3600000").low()
        .not_yet("Milliseconds between reads of the provider's key set."),
    long("sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms").default("10000").low()
        .not_yet("Longest pause in milliseconds between two attempts to read the key set."),
    long("sasl.oauthbearer.jwks.endpoint.retry.backoff.ms").default("100").low()
        .not_yet("First pause in milliseconds between two attempts to read the key set."),
    string("sasl.oauthbearer.jwks.endpoint.url")
        .not_yet("Where the provider's key set is read: an http(s) address or a file."),
    string("sasl.oauthbearer.scope.claim.name").default("scope").low()
        .not_yet("Claim of a token that holds its scope."),
    string("sasl.oauthbearer.sub.claim.name").default("sub").low()
        .not_yet("Claim of a token that holds its subject."),
    string("sasl.oauthbearer.token.endpoint.url")
        .not_yet("Where tokens are asked for."),
    class("sasl.server.callback.handler.class")
        .not_yet("Java class that answers SASL questions about clients."),
    int("sasl.server.max.receive.size").default("524288")
        .not_yet("Bytes a client may send in one SASL message before it is authenticated."),
];
