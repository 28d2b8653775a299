//! Quota windows.

use super::*;

pub(super) const KEYS: &[Key] = &[
    int("alter.log.dirs.replication.quota.window.num").default("11").min(1).low().not_yet(""),
    int("alter.log.dirs.replication.quota.window.size.seconds").default("1").min(1).low().not_yet(""),
    class("client.quota.callback.class").low().not_yet(""),
    int("controller.quota.window.num").default("11").min(1).low().not_yet(""),
    int("controller.quota.window.size.seconds").default("1").min(1).low().not_yet(""),
    int("quota.window.num").default("11").min(1).low().not_yet(""),
    int("quota.window.size.seconds").default("1").min(1).low().not_yet(""),
    int("replication.quota.window.num").default("11").min(1).low().not_yet(""),
    int("replication.quota.window.size.seconds").default("1").min(1).low().not_yet(""),
];
