//! Metrics and reporters.

use super::*;

pub(super) const KEYS: &[Key] = &[
    boolean("auto.include.jmx.reporter").default("true").low().not_yet(""),
    int("kafka.metrics.polling.interval.secs").default("10").min(1).low().not_yet(""),
    list("kafka.metrics.reporters").default("").low().not_yet(""),
    list("metric.reporters").default("").low().cluster_wide().not_yet(""),
    int("metrics.num.samples").default("2").min(1).low().not_yet(""),
    string("metrics.recording.level").default("INFO").low().not_yet(""),
    long("metrics.sample.window.ms").default("30000").min(1).low().not_yet(""),
    int("telemetry.max.bytes").default("1048576").min(1).low().not_yet(""),
];
