//! Keys of the authoriser that comes with Kafka. They are not in the broker's own list, so DescribeConfigs shows them
//! only when given.

use super::*;

const OPEN: &str = "authorisation is not there yet, and the broker would be open to everybody";

#[rustfmt::skip]
pub(super) const KEYS: &[Key] = &[
    string("super.users").default("").low()
        .refuses(OPEN, "Principals that may do everything, separated by semicolons."),
    boolean("allow.everyone.if.no.acl.found").default("false").low()
        .not_yet("Whether a resource without any ACL is open to everybody."),
];
