//! Keys of the authoriser that comes with Kafka. They are not in the broker's own list, so DescribeConfigs shows them only when given.

use super::*;

pub(super) const KEYS: &[Key] = &[
    string("super.users")
        .default("")
        .low()
        .refuses("authorisation is not there yet, and the broker would be open to everybody", ""),
    boolean("allow.everyone.if.no.acl.found").default("false").low().not_yet(""),
];
