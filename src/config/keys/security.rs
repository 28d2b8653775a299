//! Authorisation, principals, delegation tokens and the encoding of stored passwords.

use super::*;

pub(super) const KEYS: &[Key] = &[
    string("authorizer.class.name")
        .default("")
        .low()
        .refuses("authorisation is not there yet, and the broker would be open to everybody", ""),
    int("connection.failed.authentication.delay.ms").default("100").min(0).low().not_yet(""),
    long("connections.max.reauth.ms").default("0").not_yet(""),
    long("delegation.token.expiry.check.interval.ms").default("3600000").min(1).low().not_yet(""),
    long("delegation.token.expiry.time.ms").default("86400000").min(1).not_yet(""),
    password("delegation.token.master.key").not_yet(""),
    long("delegation.token.max.lifetime.ms").default("604800000").min(1).not_yet(""),
    password("delegation.token.secret.key").not_yet(""),
    string("password.encoder.cipher.algorithm").default("AES/CBC/PKCS5Padding").low().not_yet(""),
    int("password.encoder.iterations").default("4096").min(1024).low().not_yet(""),
    int("password.encoder.key.length").default("128").min(8).low().not_yet(""),
    string("password.encoder.keyfactory.algorithm").low().not_yet(""),
    password("password.encoder.old.secret").not_yet(""),
    password("password.encoder.secret").not_yet(""),
    class("principal.builder.class")
        .default("org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder")
        .per_broker()
        .not_yet(""),
    string("security.providers").low().not_yet(""),
];
