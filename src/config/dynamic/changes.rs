//! Rules for a change from one configuration to the next, as those parts of a 3.9 broker have them that are told of it.

use super::{AlterError, Layers, Texts, keys};
use crate::config::BrokerConfig;
use crate::config::values::Values;

/// Keys that a listener may have its own value of, on all brokers.
pub const OF_LISTENERS: &[&str] = &["max.connections", "max.connection.creation.rate", NETWORK_THREADS];

const NETWORK_THREADS: &str = "num.network.threads";

const REPORTERS: &str = "metric.reporters";
/// What a broker has without anything else on its class path.
const JMX_REPORTER: &str = "org.apache.kafka.common.metrics.JmxReporter";

/// Sizes of pools. One may at most double or halve in one step.
const POOLS: &[&str] = &[
    "background.threads",
    "log.cleaner.threads",
    "num.io.threads",
    NETWORK_THREADS,
    "num.recovery.threads.per.data.dir",
    "num.replica.fetchers",
];

/// Whether a broker can go from `before` to `after`, of which `config` is made. What does not change is not looked at.
pub fn check(before: &Layers<'_>, after: &Layers<'_>, config: &BrokerConfig) -> Result<(), AlterError> {
    let [before, after] = [before.effective(), after.effective()];
    for key in POOLS {
        let [current, new] = [&before, &after].map(|texts| number(texts, key, key));
        check_pool(key.to_string(), current, new)?;
    }
    for listener in &config.listeners {
        let of_listener = |key: &str| format!("listener.name.{}.{key}", listener.name.to_lowercase());
        for key in OF_LISTENERS {
            let own = of_listener(key);
            let [current, new] = [&before, &after].map(|texts| number(texts, &own, key));
            if *key == NETWORK_THREADS {
                check_pool(own, current, new)?;
            } else if let Some(value) = new.filter(|new| *new <= 0 && current != Some(*new)) {
                return Err(AlterError::NoConnections { key: own, value });
            }
        }
    }
    check_reporters(&before, &after)?;
    check_local_retention(&before, &after)
}

/// Java classes, which a broker makes objects of as soon as it is told of them.
fn check_reporters(before: &Texts, after: &Texts) -> Result<(), AlterError> {
    let Some(names) = after.get(REPORTERS).filter(|names| before.get(REPORTERS) != Some(names)) else { return Ok(()) };
    let unknown = names.split(',').map(str::trim).find(|name| !name.is_empty() && *name != JMX_REPORTER);
    unknown.map_or(Ok(()), |class| Err(AlterError::Class { key: REPORTERS, class: class.to_owned() }))
}

/// The value of `own`, else of `key`, else its default.
fn number(texts: &Texts, own: &str, key: &str) -> Option<i64> {
    let text = texts.get(own).or_else(|| texts.get(key)).map(String::as_str);
    text.or_else(|| keys::broker(key)?.default)?.trim().parse().ok()
}

fn check_pool(key: String, current: Option<i64>, new: Option<i64>) -> Result<(), AlterError> {
    let (Some(current), Some(new)) = (current, new) else { return Ok(()) };
    if new != current && (new < 1 || new > current * 2 || new < current / 2) {
        return Err(AlterError::Threads { key, new, current });
    }
    Ok(())
}

/// What is kept here is part of what is kept at all; -2 is as much as that.
fn check_local_retention(before: &Texts, after: &Texts) -> Result<(), AlterError> {
    const PAIRS: &[(&str, &str, &str)] = &[
        ("log.local.retention.ms", "log.retention.ms", "retention.ms"),
        ("log.local.retention.bytes", "log.retention.bytes", "retention.bytes"),
    ];
    if before == after {
        return Ok(());
    }
    let Ok(values) = Values::parse(after) else { return Ok(()) };
    for (local, all, topic_key) in PAIRS {
        let limit = values.topic_default(topic_key).and_then(|value| value.to_string().parse::<i64>().ok());
        let (Some(value), Some(limit)) = (values.long(local), limit) else { continue };
        if value != -2 && limit >= 0 && (value == -1 || value > limit) {
            return Err(AlterError::Local { local, value, all, limit });
        }
    }
    Ok(())
}
