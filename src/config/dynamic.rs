//! Configuration that changes while the broker runs: which value counts, where it came from, and what may be altered.
//!
//! ```text
//! topic override        1   /config/topics/<topic>            topics only
//! dynamic broker        2   /config/brokers/<id>
//! dynamic default       3   /config/brokers/<default>
//! static broker         4   server.properties, --override
//! default               5   the row in `keys`
//! ```
//!
//! The smallest number that has a value counts. A key with finer or coarser siblings (`log.retention.ms`, `.minutes`,
//! `.hours`) lists theirs too. All of it is as seen on a live 3.9.1, oddities included: synonyms that stand before the
//! first one of the asked name are dropped, so a topic's `retention.ms` does not show `log.retention.hours`.

use std::collections::BTreeMap;

use super::def::{self, Key, Kind, Scope, State};
use super::error::ConfigError;
use super::load::listener_key;
use super::replication::ThrottledRates;
use super::topic::TopicConfig;
use super::values::{Values, default_text};
use super::{BrokerConfig, keys};

mod changes;
pub mod passwords;

type Texts = BTreeMap<String, String>;

/// `config_source` in DescribeConfigs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    Topic = 1,
    DynamicBroker = 2,
    DynamicDefaultBroker = 3,
    StaticBroker = 4,
    Default = 5,
    BrokerLogger = 6,
}

/// One layer's value of a key or of its sibling.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Synonym {
    pub name: String,
    /// As given, not normalised. `None` is hidden.
    pub value: Option<String>,
    pub source: Source,
}

/// What DescribeConfigs says about a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub name: String,
    /// Normalised (`007` is `7`). `None` is null or hidden.
    pub value: Option<String>,
    pub read_only: bool,
    pub source: Source,
    pub sensitive: bool,
    /// Most binding first.
    pub synonyms: Vec<Synonym>,
    /// `None` for keys that are nobody's.
    pub kind: Option<Kind>,
    pub documentation: Option<&'static str>,
}

/// A broker's configuration in its layers.
#[derive(Clone, Copy)]
pub struct Layers<'a> {
    pub fixed: &'a BrokerConfig,
    /// `/config/brokers/<default>`.
    pub default: &'a Texts,
    /// `/config/brokers/<id>`.
    pub own: &'a Texts,
}

impl<'a> Layers<'a> {
    fn embedded(&self) -> bool {
        self.fixed.zookeeper_connect.is_none()
    }

    /// Static properties with those dynamic ones on top that may be dynamic and are well formed.
    fn effective(&self) -> Texts {
        let mut texts = self.fixed.properties.clone();
        for (layer, whole_cluster) in [(self.default, true), (self.own, false)] {
            for (name, text) in layer {
                let counts = match keys::broker(name) {
                    Some(key) => allowed_at(key, whole_cluster) && key.parse(text).is_ok(),
                    None => {
                        let key = listener_key(name).or_else(|| throttled_rate(name));
                        !(whole_cluster && is_of_a_listener(name)) && key.is_none_or(|key| key.parse(text).is_ok())
                    }
                };
                if counts {
                    // Whoever sets milliseconds means them, whatever a layer below says in hours.
                    for sibling in siblings(name).into_iter().filter(|_| keys::broker(name).is_some()) {
                        texts.remove(sibling);
                    }
                    texts.insert(name.clone(), text.clone());
                }
            }
        }
        texts
    }

    /// The configuration in use: the static one, if the dynamic ones together break a rule between keys.
    pub fn resolve(&self) -> Result<BrokerConfig, ConfigError> {
        let (mut config, _) = BrokerConfig::from_properties(self.effective())?;
        let rate = |name: &str| {
            let text = self.own.get(name).or_else(|| self.default.get(name))?;
            text.trim().parse().ok().filter(|rate| *rate >= 0)
        };
        config.throttled_rates = ThrottledRates {
            leader: rate(LEADER_RATE).unwrap_or(i64::MAX),
            follower: rate(FOLLOWER_RATE).unwrap_or(i64::MAX),
            log_dirs: rate(LOG_DIRS_RATE).unwrap_or(i64::MAX),
        };
        config.properties = self.fixed.properties.clone();
        Ok(config)
    }

    /// Every key of the broker, by name: all that have a row and are not internal, and all that are given.
    pub fn broker_entries(&self) -> Vec<Entry> {
        let effective = self.effective();
        let listed = keys::broker_keys().filter(|key| !key.internal).map(|key| key.name);
        let mut names: Vec<&str> = listed.chain(effective.keys().map(String::as_str)).collect();
        names.sort_unstable();
        names.dedup();
        let embedded = self.embedded();
        names
            .into_iter()
            .map(|name| {
                let text = effective.get(name).map(String::as_str).or(default_text(name, embedded));
                self.broker_entry(name, text, true)
            })
            .collect()
    }

    /// What `/config/brokers/<default>` holds.
    pub fn default_entries(&self) -> Vec<Entry> {
        self.default.iter().map(|(name, text)| self.broker_entry(name, Some(text), false)).collect()
    }

    fn broker_entry(&self, name: &str, text: Option<&str>, own: bool) -> Entry {
        let row = keys::broker(name).filter(|key| keys::broker_keys().any(|other| other.name == key.name));
        let key = row.or_else(|| listener_key(name)).or_else(|| throttled_rate(name));
        let sensitive = key.is_none_or(|key| key.is_sensitive());
        let mut synonyms = self.synonyms(name, sensitive);
        if !own {
            synonyms.retain(|synonym| synonym.source == Source::DynamicDefaultBroker);
        }
        Entry {
            name: name.to_owned(),
            value: text.filter(|_| !sensitive).map(|text| normal(key, text)),
            read_only: row.is_none_or(|key| key.scope == Scope::ReadOnly),
            source: synonyms.first().map_or(Source::Default, |synonym| synonym.source),
            sensitive,
            synonyms,
            kind: key.map(|key| key.kind),
            documentation: row.map(|key| key.doc),
        }
    }

    fn synonyms(&self, name: &str, sensitive: bool) -> Vec<Synonym> {
        let names = siblings(name);
        let layers = [
            (Source::DynamicBroker, self.own),
            (Source::DynamicDefaultBroker, self.default),
            (Source::StaticBroker, &self.fixed.properties),
        ];
        let hide = |text: &str| if sensitive { None } else { Some(text.to_owned()) };
        let mut synonyms = Vec::new();
        for (source, layer) in layers {
            for name in &names {
                if let Some(text) = layer.get(*name) {
                    synonyms.push(Synonym { name: (*name).to_owned(), value: hide(text), source });
                }
            }
        }
        for name in &names {
            if let Some(text) = default_text(name, self.embedded()) {
                synonyms.push(Synonym { name: (*name).to_owned(), value: hide(text), source: Source::Default });
            }
        }
        let first = synonyms.iter().position(|synonym| synonym.name == name).unwrap_or(synonyms.len());
        synonyms.split_off(first)
    }

    /// Every config of a topic with these overrides, by name.
    pub fn topic_entries(&self, overrides: &Texts) -> Vec<Entry> {
        let effective = self.effective();
        let values = Values::parse(&effective).ok();
        let mut names: Vec<&str> =
            keys::topic_keys().map(|key| key.name).chain(overrides.keys().map(String::as_str)).collect();
        names.sort_unstable();
        names.dedup();
        names
            .into_iter()
            .map(|name| {
                let key = keys::topic(name);
                let sensitive = key.is_none_or(|key| key.is_sensitive());
                let mut synonyms = match keys::synonyms(name).first() {
                    Some(broker_key) => self.synonyms(broker_key, sensitive),
                    None => Vec::new(),
                };
                let value = match overrides.get(name) {
                    Some(text) => Some(normal(key, text)),
                    None => {
                        values.as_ref().and_then(|values| values.topic_default(name)).map(|value| value.to_string())
                    }
                };
                let value = value.filter(|_| !sensitive);
                if overrides.contains_key(name) {
                    let own = Synonym { name: name.to_owned(), value: value.clone(), source: Source::Topic };
                    synonyms.insert(0, own);
                }
                Entry {
                    name: name.to_owned(),
                    value,
                    read_only: false,
                    source: synonyms.first().map_or(Source::Default, |synonym| synonym.source),
                    sensitive,
                    synonyms,
                    kind: key.map(|key| key.kind),
                    documentation: key.map(|key| key.doc),
                }
            })
            .collect()
    }

    /// The topic defaults in use.
    pub fn topic_defaults(&self) -> TopicConfig {
        if self.default.is_empty() && self.own.is_empty() {
            return self.fixed.topic_defaults.clone();
        }
        self.resolve().map_or_else(|_| self.fixed.topic_defaults.clone(), |config| config.topic_defaults)
    }

    /// Whether `new` may become the overrides of this broker, or of all brokers.
    pub fn check(&self, new: &Texts, whole_cluster: bool) -> Result<(), AlterError> {
        let names = |wrong: &dyn Fn(&Key) -> bool| -> Vec<String> {
            let wrong = |name: &&String| keys::broker(name).is_some_and(wrong);
            new.keys().filter(wrong).cloned().collect()
        };
        let fixed = names(&|key| key.scope == Scope::ReadOnly);
        if !fixed.is_empty() {
            return Err(AlterError::NotDynamic(fixed.join(", ")));
        }
        let secret = names(&|key| is_of_one_listener(key.name));
        if !secret.is_empty() {
            return Err(AlterError::OnlyPerListener(secret.join(", ")));
        }
        for (name, text) in new {
            if let Some(key) = keys::broker(name).or_else(|| listener_key(name)).or_else(|| throttled_rate(name)) {
                key.parse(text).map_err(|error| AlterError::Value(error.into()))?;
            }
        }
        let is_own = |name: &&String| match keys::broker(name) {
            Some(key) => key.scope == Scope::PerBroker,
            None => is_of_a_listener(name),
        };
        let own: Vec<String> = new.keys().filter(is_own).cloned().collect();
        if whole_cluster && !own.is_empty() {
            return Err(AlterError::NotForAll(own.join(", ")));
        }
        let secret = new.keys().find(|name| passwords::is_secret(name));
        if let (Some(name), None) = (secret, &self.fixed.password_encoder) {
            return Err(AlterError::Secret(name.clone()));
        }
        for (name, text) in new {
            let Some(key) = keys::broker(name).or_else(|| listener_key(name)) else { continue };
            let current = self.own.get(name).or_else(|| self.fixed.properties.get(name));
            let names_listeners = key.name.ends_with("listeners") || key.name == "listener.security.protocol.map";
            if names_listeners && current.map(|text| text.trim()) != Some(text.trim()) {
                return Err(AlterError::Listeners(name.clone()));
            }
            if let State::Refuses(why) = key.state
                && key.default.map(str::trim) != Some(text.trim())
            {
                return Err(AlterError::Refused { key: name.clone(), why });
            }
        }
        let after = if whole_cluster { Layers { default: new, ..*self } } else { Layers { own: new, ..*self } };
        let config = after.resolve().map_err(AlterError::Value)?;
        changes::check(self, &after, &config)
    }
}

/// Why broker configs cannot be altered: INVALID_REQUEST (42) with this text, but INVALID_CONFIG (40) for
/// [`AlterError::Secret`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AlterError {
    #[error("{0} cannot be altered while the broker runs")]
    NotDynamic(String),
    #[error("{0}: can be altered only for one listener, with the prefix listener.name.<listener>.")]
    OnlyPerListener(String),
    #[error("{0}: can be altered only for one broker, not for all")]
    NotForAll(String),
    #[error("{0} cannot be stored: password.encoder.secret is not set")]
    Secret(String),
    #[error("{0}: listeners cannot be changed while the broker runs; change server.properties and restart it")]
    Listeners(String),
    #[error("{key} is refused: {why}")]
    Refused { key: String, why: &'static str },
    #[error("{key}={new}: a pool of {current} threads can be altered to {} up to {} in one step", (current / 2).max(1), current * 2)]
    Threads { key: String, new: i64, current: i64 },
    #[error("{key}: there is no class {class}")]
    Class { key: &'static str, class: String },
    #[error("{key}={value} would leave a listener without connections")]
    NoConnections { key: String, value: i64 },
    #[error("{local}={value} should not be more than {all}={limit}")]
    Local { local: &'static str, value: i64, all: &'static str, limit: i64 },
    #[error(transparent)]
    Value(ConfigError),
}

const FOLLOWER_RATE: &str = "follower.replication.throttled.rate";
const LEADER_RATE: &str = "leader.replication.throttled.rate";
const LOG_DIRS_RATE: &str = "replica.alter.log.dirs.io.max.bytes.per.second";

/// Configs that brokers have only while they run: how fast replicas may be copied, bytes per second.
const THROTTLED_RATES: &[Key] =
    &[def::long(FOLLOWER_RATE).min(0), def::long(LEADER_RATE).min(0), def::long(LOG_DIRS_RATE).min(0)];

fn throttled_rate(name: &str) -> Option<&'static Key> {
    THROTTLED_RATES.iter().find(|key| key.name == name)
}

/// A listener's key that cannot be given to the listeners of that name of all brokers.
fn is_of_a_listener(name: &str) -> bool {
    let rest = name.strip_prefix("listener.name.").and_then(|rest| rest.split_once('.'));
    rest.is_some_and(|(_, key)| !changes::OF_LISTENERS.contains(&key))
}

/// Keys and certificates: what a running Kafka reads again for one listener at a time. The rest of `ssl.` and `sasl.` is
/// taken for the broker as a whole, too.
fn is_of_one_listener(name: &str) -> bool {
    name == "ssl.key.password" || name.starts_with("ssl.keystore.") || name.starts_with("ssl.truststore.")
}

fn allowed_at(key: &Key, whole_cluster: bool) -> bool {
    match key.scope {
        Scope::ReadOnly => false,
        Scope::PerBroker => !whole_cluster,
        Scope::ClusterWide => true,
    }
}

/// The text of a value as Kafka shows it; unknown keys and values as they are.
fn normal(key: Option<&Key>, text: &str) -> String {
    key.and_then(|key| key.parse(text).ok()).map_or_else(|| text.to_owned(), |value| value.to_string())
}

/// A key and those that say the same in other units, finest first; for a listener's key, the general one after it.
fn siblings(name: &str) -> Vec<&str> {
    const GROUPS: &[&[&str]] = &[
        &["log.roll.ms", "log.roll.hours"],
        &["log.roll.jitter.ms", "log.roll.jitter.hours"],
        &["log.retention.ms", "log.retention.minutes", "log.retention.hours"],
    ];
    if let Some(group) = GROUPS.iter().find(|group| group.contains(&name)) {
        return group.to_vec();
    }
    if name == "log.flush.interval.ms" {
        return vec![name, "log.flush.scheduler.interval.ms"];
    }
    match listener_key(name) {
        Some(key) => vec![name, key.name],
        None => vec![name],
    }
}

#[cfg(test)]
mod tests;
