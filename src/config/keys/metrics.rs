//! Metrics and reporters.

use super::*;

const NO_WINDOWS: &str = "metrics are counters and histograms without windows";
const REPORTERS: &str = "metrics reporters are Java classes";

#[rustfmt::skip]
pub(super) const KEYS: &[Key] = &[
    boolean("auto.include.jmx.reporter").default("true").low()
        .no_effect(REPORTERS, "Whether the JMX reporter is added to metric.reporters unasked."),
    int("kafka.metrics.polling.interval.secs").default("10").min(1).low()
        .no_effect(REPORTERS, "Seconds between polls of the older reporters."),
    list("kafka.metrics.reporters").default("").low()
        .no_effect(REPORTERS, "Older kind of metrics reporter, as Java classes."),
    list("metric.reporters").default("").low().cluster_wide()
        .no_effect(REPORTERS, "Metrics reporters, as Java classes."),
    int("metrics.num.samples").default("2").min(1).low()
        .no_effect(NO_WINDOWS, "Samples a metric is computed from."),
    string("metrics.recording.level").default("INFO").low()
        .no_effect(
            "every metric is cheap enough to be always on",
            "Which metrics are recorded.",
        ),
    long("metrics.sample.window.ms").default("30000").min(1).low()
        .no_effect(NO_WINDOWS, "Milliseconds of one sample."),
    int("telemetry.max.bytes").default("1048576").min(1).low()
        .no_effect(
            "client telemetry needs a Java metrics reporter to receive it",
            "Bytes of metrics a client may push at once.",
        ),
];
