//! All broker keys with the value in use: what was given, else the default.

use std::collections::BTreeMap;

use super::def::Value;
use super::error::ConfigError;
use super::keys;

/// Keys that keep the single node usable: without `zookeeper.connect` their default is 1.
const ONE_WHEN_EMBEDDED: &[&str] =
    &["offsets.topic.replication.factor", "transaction.state.log.min.isr", "transaction.state.log.replication.factor"];

/// The default of a broker key; it depends on whether the metastore is embedded.
pub fn default_text(key: &str, embedded: bool) -> Option<&'static str> {
    if embedded && ONE_WHEN_EMBEDDED.contains(&key) {
        return Some("1");
    }
    keys::broker(key)?.default
}

/// Parsed values by key. Getters take the names of existing rows only; what is absent or null is `None`.
pub(super) struct Values<'a> {
    given: &'a BTreeMap<String, String>,
    embedded: bool,
    parsed: BTreeMap<&'static str, Value>,
}

impl<'a> Values<'a> {
    pub(super) fn parse(given: &'a BTreeMap<String, String>) -> Result<Values<'a>, ConfigError> {
        let embedded = given.get("zookeeper.connect").is_none_or(|text| text.trim().is_empty());
        let mut parsed = BTreeMap::new();
        for (name, text) in given {
            if let Some(key) = keys::broker(name) {
                parsed.insert(key.name, key.parse(text)?);
            }
        }
        Ok(Values { given, embedded, parsed })
    }

    pub(super) fn embedded(&self) -> bool {
        self.embedded
    }

    pub(super) fn is_given(&self, key: &str) -> bool {
        self.given.contains_key(key)
    }

    /// What is given for `key` of single listeners: their lower-case names and the text.
    pub(super) fn of_listeners(&self, key: &str) -> impl Iterator<Item = (&str, &str)> {
        self.given.iter().filter_map(move |(name, text)| {
            let listener = name.strip_prefix("listener.name.")?.strip_suffix(key)?.strip_suffix('.')?;
            (!listener.contains('.')).then_some((listener, text.as_str()))
        })
    }

    /// As given, for messages.
    pub(super) fn shown(&self, key: &str) -> String {
        self.given.get(key).map(String::as_str).or(default_text(key, self.embedded)).unwrap_or("null").to_owned()
    }

    pub(super) fn value(&self, key: &str) -> Option<Value> {
        if let Some(value) = self.parsed.get(key) {
            return Some(value.clone());
        }
        let default = default_text(key, self.embedded)?;
        keys::broker(key)?.parse(default).ok()
    }

    pub(super) fn text(&self, key: &str) -> Option<String> {
        match self.value(key) {
            Some(Value::Text(text)) => Some(text),
            _ => None,
        }
    }

    /// Text that is not empty.
    pub(super) fn some_text(&self, key: &str) -> Option<String> {
        self.text(key).filter(|text| !text.is_empty())
    }

    pub(super) fn boolean(&self, key: &str) -> bool {
        matches!(self.value(key), Some(Value::Boolean(true)))
    }

    pub(super) fn long(&self, key: &str) -> Option<i64> {
        match self.value(key) {
            Some(Value::Integer(value)) => Some(value),
            _ => None,
        }
    }

    /// For DOUBLE rows with a default.
    pub(super) fn double(&self, key: &str) -> f64 {
        match self.value(key) {
            Some(Value::Double(value)) => value,
            _ => 0.0,
        }
    }

    /// For rows with a default: the value, which the row's kind keeps within the type asked for.
    pub(super) fn number<T: TryFrom<i64> + Default>(&self, key: &'static str) -> T {
        self.long(key).and_then(|value| T::try_from(value).ok()).unwrap_or_default()
    }

    /// The first of several keys that has a value, each with the milliseconds of its unit.
    pub(super) fn first_ms(&self, keys: &[(&'static str, i64)]) -> i64 {
        let found = keys.iter().find_map(|(key, unit)| self.long(key).map(|value| value.saturating_mul(*unit)));
        found.unwrap_or_default()
    }

    /// What a topic config is when the topic does not set it, as the value of its row.
    pub(super) fn topic_default(&self, topic_key: &str) -> Option<Value> {
        const MINUTE: i64 = 60_000;
        const HOUR: i64 = 60 * MINUTE;
        match topic_key {
            "retention.ms" => {
                let ms = self.first_ms(&[
                    ("log.retention.ms", 1),
                    ("log.retention.minutes", MINUTE),
                    ("log.retention.hours", HOUR),
                ]);
                Some(Value::Integer(if ms < 0 { -1 } else { ms }))
            }
            "segment.ms" => Some(Value::Integer(self.first_ms(&[("log.roll.ms", 1), ("log.roll.hours", HOUR)]))),
            "segment.jitter.ms" => {
                Some(Value::Integer(self.first_ms(&[("log.roll.jitter.ms", 1), ("log.roll.jitter.hours", HOUR)])))
            }
            "flush.ms" => Some(Value::Integer(
                self.first_ms(&[("log.flush.interval.ms", 1), ("log.flush.scheduler.interval.ms", 1)]),
            )),
            "message.timestamp.before.max.ms" | "message.timestamp.after.max.ms" => {
                let newer = self.long(&format!("log.{topic_key}")).filter(|value| *value != i64::MAX);
                newer.or(self.long("log.message.timestamp.difference.max.ms")).map(Value::Integer)
            }
            _ => match keys::synonyms(topic_key).first() {
                Some(broker_key) => self.value(broker_key),
                None => keys::topic(topic_key).and_then(|key| key.parse(key.default?).ok()),
            },
        }
    }
}
