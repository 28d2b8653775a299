//! TLS.

use super::*;

pub(super) const KEYS: &[Key] = &[
    boolean("ssl.allow.dn.changes").default("false").low().not_yet(""),
    boolean("ssl.allow.san.changes").default("false").low().not_yet(""),
    list("ssl.cipher.suites").default("").per_broker().not_yet(""),
    string("ssl.client.auth").default("none").one_of(&["required", "requested", "none"]).per_broker().not_yet(""),
    list("ssl.enabled.protocols").default("TLSv1.2,TLSv1.3").per_broker().not_yet(""),
    string("ssl.endpoint.identification.algorithm").default("https").low().per_broker().not_yet(""),
    class("ssl.engine.factory.class").low().per_broker().not_yet(""),
    password("ssl.key.password").per_broker().not_yet(""),
    string("ssl.keymanager.algorithm").default("SunX509").per_broker().not_yet(""),
    password("ssl.keystore.certificate.chain").per_broker().not_yet(""),
    password("ssl.keystore.key").per_broker().not_yet(""),
    string("ssl.keystore.location").per_broker().not_yet(""),
    password("ssl.keystore.password").per_broker().not_yet(""),
    string("ssl.keystore.type").default("JKS").per_broker().not_yet(""),
    string("ssl.principal.mapping.rules").default("DEFAULT").low().not_yet(""),
    string("ssl.protocol").default("TLSv1.3").per_broker().not_yet(""),
    string("ssl.provider").per_broker().not_yet(""),
    string("ssl.secure.random.implementation").low().per_broker().not_yet(""),
    string("ssl.trustmanager.algorithm").default("PKIX").per_broker().not_yet(""),
    password("ssl.truststore.certificates").per_broker().not_yet(""),
    string("ssl.truststore.location").per_broker().not_yet(""),
    password("ssl.truststore.password").per_broker().not_yet(""),
    string("ssl.truststore.type").default("JKS").per_broker().not_yet(""),
];
