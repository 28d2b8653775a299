//! Quota windows.

use super::*;

#[rustfmt::skip]
pub(super) const KEYS: &[Key] = &[
    int("alter.log.dirs.replication.quota.window.num").default("11").min(1).low()
        .implemented("Windows over which the copying of logs between directories is measured while it is throttled."),
    int("alter.log.dirs.replication.quota.window.size.seconds").default("1").min(1).low()
        .implemented("Seconds of one such window."),
    class("client.quota.callback.class").low()
        .refuses(
            "it names a Java class that sets every client's quotas, and none of them would hold",
            "Java class that computes quotas.",
        ),
    int("controller.quota.window.num").default("11").min(1).low()
        .implemented("Windows over which clients' changes of topics are measured; as many seconds' worth may come at once."),
    int("controller.quota.window.size.seconds").default("1").min(1).low()
        .implemented("Seconds of one such window."),
    int("quota.window.num").default("11").min(1).low()
        .implemented("Windows over which clients' quotas and the rate of new connections are measured."),
    int("quota.window.size.seconds").default("1").min(1).low()
        .implemented("Seconds of one such window."),
    int("replication.quota.window.num").default("11").min(1).low()
        .implemented("Windows over which throttled replication is measured."),
    int("replication.quota.window.size.seconds").default("1").min(1).low()
        .implemented("Seconds of one such window."),
];
