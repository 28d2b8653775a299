//! TLS.

use super::*;

#[rustfmt::skip]
pub(super) const KEYS: &[Key] = &[
    boolean("ssl.allow.dn.changes").default("false").low()
        .not_yet("Whether a replaced certificate may have another distinguished name."),
    boolean("ssl.allow.san.changes").default("false").low()
        .not_yet("Whether a replaced certificate may have other alternative names."),
    list("ssl.cipher.suites").default("").per_broker()
        .not_yet("Cipher suites offered; empty takes the library's."),
    string("ssl.client.auth").default("none").one_of(&["required", "requested", "none"]).per_broker()
        .not_yet("Whether clients must, may or need not show a certificate."),
    list("ssl.enabled.protocols").default("TLSv1.2,TLSv1.3").per_broker()
        .not_yet("TLS versions offered."),
    string("ssl.endpoint.identification.algorithm").default("https").low().per_broker()
        .not_yet("How a broker's host name is checked against its certificate; empty does not check."),
    class("ssl.engine.factory.class").low().per_broker()
        .not_yet("Java class that makes TLS engines."),
    password("ssl.key.password").per_broker()
        .not_yet("Password of the private key."),
    string("ssl.keymanager.algorithm").default("SunX509").per_broker()
        .not_yet("Java algorithm of the key manager."),
    password("ssl.keystore.certificate.chain").per_broker()
        .not_yet("Certificate chain in PEM, in place of a key store file."),
    password("ssl.keystore.key").per_broker()
        .not_yet("Private key in PEM, in place of a key store file."),
    string("ssl.keystore.location").per_broker()
        .not_yet("File with the broker's key and certificate."),
    password("ssl.keystore.password").per_broker()
        .not_yet("Password of that file."),
    string("ssl.keystore.type").default("JKS").per_broker()
        .not_yet("Format of that file."),
    string("ssl.principal.mapping.rules").default("DEFAULT").low()
        .not_yet("Rules that shorten a certificate's distinguished name to a user name; the first that fits is used."),
    string("ssl.protocol").default("TLSv1.3").per_broker()
        .not_yet("TLS version of the context; the versions offered are in ssl.enabled.protocols."),
    string("ssl.provider").per_broker()
        .not_yet("Java security provider for TLS."),
    string("ssl.secure.random.implementation").low().per_broker()
        .not_yet("Java source of randomness for TLS."),
    string("ssl.trustmanager.algorithm").default("PKIX").per_broker()
        .not_yet("Java algorithm of the trust manager."),
    password("ssl.truststore.certificates").per_broker()
        .not_yet("Trusted authorities in PEM, in place of a trust store file."),
    string("ssl.truststore.location").per_broker()
        .not_yet("File with the trusted authorities."),
    password("ssl.truststore.password").per_broker()
        .not_yet("Password of that file."),
    string("ssl.truststore.type").default("JKS").per_broker()
        .not_yet("Format of that file."),
];
