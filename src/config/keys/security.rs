//! Authorisation, principals, delegation tokens and the encoding of stored passwords.

use super::*;

const OPEN: &str = "authorisation is not there yet, and the broker would be open to everybody";

#[rustfmt::skip]
pub(super) const KEYS: &[Key] = &[
    string("authorizer.class.name").default("").low()
        .refuses(OPEN, "Java class that decides who may do what; empty allows everything."),
    int("connection.failed.authentication.delay.ms").default("100").min(0).low()
        .not_yet("Milliseconds by which the close after a failed authentication is held back."),
    long("connections.max.reauth.ms").default("0")
        .not_yet("Milliseconds after which a SASL client must authenticate again."),
    long("delegation.token.expiry.check.interval.ms").default("3600000").min(1).low()
        .not_yet("Milliseconds between looks for expired delegation tokens."),
    long("delegation.token.expiry.time.ms").default("86400000").min(1)
        .not_yet("Milliseconds a delegation token is valid unless renewed."),
    password("delegation.token.master.key")
        .not_yet("Older name of delegation.token.secret.key."),
    long("delegation.token.max.lifetime.ms").default("604800000").min(1)
        .not_yet("Milliseconds beyond which a delegation token cannot be renewed."),
    password("delegation.token.secret.key")
        .not_yet("Secret from which delegation tokens are made; the same on every broker."),
    string("password.encoder.cipher.algorithm").default("AES/CBC/PKCS5Padding").low()
        .implemented("Cipher for passwords stored in the metastore."),
    int("password.encoder.iterations").default("4096").min(1024).low()
        .implemented("Rounds of key derivation for that cipher."),
    int("password.encoder.key.length").default("128").min(8).low()
        .implemented("Key length of that cipher in bits: 128, 192 or 256."),
    string("password.encoder.keyfactory.algorithm").low()
        .implemented("How the cipher's key is derived from the secret."),
    password("password.encoder.old.secret")
        .implemented("The secret before the last change; stored passwords are read with it and written with the new one."),
    password("password.encoder.secret")
        .implemented("Secret with which passwords in the metastore are encrypted."),
    class("principal.builder.class").default("org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder").per_broker()
        .refuses(
            "it names a Java class that decides who a client is, and another identity would be used",
            "Java class that derives a client's principal from its connection.",
        ),
    string("security.providers").low()
        .refuses(
            "it names Java security providers, which cannot be loaded, so their algorithms would not be used",
            "Java security providers to install.",
        ),
];
