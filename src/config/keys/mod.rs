//! Every key a 3.9 broker in ZooKeeper mode knows, with what this broker makes of it, and those of this broker's own.
//!
//! One file per subject, one row per key: name, default (none = null), range, importance (medium unless said), who may
//! change it while the broker runs (nobody unless said), state and meaning. Names, types, defaults and ranges are those
//! of a live 3.9.1 (`tests/fixtures/kafka-3.9.1-broker-configs.tsv` is the record they are tested against).

mod authorizer;
mod general;
mod group;
mod klamm;
mod kraft;
mod listeners;
mod log;
mod metrics;
mod quota;
mod remote;
mod replication;
mod sasl;
mod security;
mod share_group;
mod tls;
mod topic;
mod topics;
mod transaction;
mod zookeeper;

use std::collections::BTreeMap;
use std::sync::LazyLock;

use super::def::*;

/// All broker keys by subject, in reading order.
const BROKER: &[(&str, &[Key])] = &[
    ("general", general::KEYS),
    ("listeners", listeners::KEYS),
    ("topics", topics::KEYS),
    ("log", log::KEYS),
    ("replication", replication::KEYS),
    ("zookeeper", zookeeper::KEYS),
    ("group", group::KEYS),
    ("share group", share_group::KEYS),
    ("transaction", transaction::KEYS),
    ("quota", quota::KEYS),
    ("security", security::KEYS),
    ("sasl", sasl::KEYS),
    ("tls", tls::KEYS),
    ("remote storage", remote::KEYS),
    ("kraft", kraft::KEYS),
    ("metrics", metrics::KEYS),
    ("authorizer", authorizer::KEYS),
    ("klamm", klamm::KEYS),
];

static BROKER_INDEX: LazyLock<BTreeMap<&str, &Key>> =
    LazyLock::new(|| BROKER.iter().flat_map(|(_, keys)| *keys).map(|key| (key.name, key)).collect());

static TOPIC_INDEX: LazyLock<BTreeMap<&str, &Key>> =
    LazyLock::new(|| topic::KEYS.iter().map(|key| (key.name, key)).collect());

/// A key of `server.properties`.
pub fn broker(name: &str) -> Option<&'static Key> {
    BROKER_INDEX.get(name).copied()
}

/// A topic config.
pub fn topic(name: &str) -> Option<&'static Key> {
    TOPIC_INDEX.get(name).copied()
}

/// The broker's keys by subject.
pub fn broker_by_subject() -> impl Iterator<Item = (&'static str, &'static [Key])> {
    BROKER.iter().copied()
}

/// Every broker key that Kafka's own list has (neither the authoriser's keys nor this broker's own are in it), by name.
pub fn broker_keys() -> impl Iterator<Item = &'static Key> {
    let unlisted = || authorizer::KEYS.iter().chain(klamm::KEYS);
    let listed = move |key: &&'static Key| !unlisted().any(|other| other.name == key.name);
    BROKER_INDEX.values().copied().filter(listed)
}

/// Every topic config, by name.
pub fn topic_keys() -> impl Iterator<Item = &'static Key> {
    TOPIC_INDEX.values().copied()
}

/// The broker keys that give a topic config its default, most binding first.
pub fn synonyms(topic_key: &str) -> &'static [&'static str] {
    SYNONYMS.iter().find(|(name, _)| *name == topic_key).map(|(_, keys)| *keys).unwrap_or_default()
}

/// Topic config → broker keys; a topic config that is not here has the default of its own row.
const SYNONYMS: &[(&str, &[&str])] = &[
    ("cleanup.policy", &["log.cleanup.policy"]),
    ("compression.gzip.level", &["compression.gzip.level"]),
    ("compression.lz4.level", &["compression.lz4.level"]),
    ("compression.type", &["compression.type"]),
    ("compression.zstd.level", &["compression.zstd.level"]),
    ("delete.retention.ms", &["log.cleaner.delete.retention.ms"]),
    ("file.delete.delay.ms", &["log.segment.delete.delay.ms"]),
    ("flush.messages", &["log.flush.interval.messages"]),
    ("flush.ms", &["log.flush.interval.ms", "log.flush.scheduler.interval.ms"]),
    ("index.interval.bytes", &["log.index.interval.bytes"]),
    ("local.retention.bytes", &["log.local.retention.bytes"]),
    ("local.retention.ms", &["log.local.retention.ms"]),
    ("max.compaction.lag.ms", &["log.cleaner.max.compaction.lag.ms"]),
    ("max.message.bytes", &["message.max.bytes"]),
    ("message.downconversion.enable", &["log.message.downconversion.enable"]),
    ("message.format.version", &["log.message.format.version"]),
    ("message.timestamp.after.max.ms", &["log.message.timestamp.after.max.ms"]),
    ("message.timestamp.before.max.ms", &["log.message.timestamp.before.max.ms"]),
    ("message.timestamp.difference.max.ms", &["log.message.timestamp.difference.max.ms"]),
    ("message.timestamp.type", &["log.message.timestamp.type"]),
    ("min.cleanable.dirty.ratio", &["log.cleaner.min.cleanable.ratio"]),
    ("min.compaction.lag.ms", &["log.cleaner.min.compaction.lag.ms"]),
    ("min.insync.replicas", &["min.insync.replicas"]),
    ("preallocate", &["log.preallocate"]),
    ("retention.bytes", &["log.retention.bytes"]),
    ("retention.ms", &["log.retention.ms", "log.retention.minutes", "log.retention.hours"]),
    ("segment.bytes", &["log.segment.bytes"]),
    ("segment.index.bytes", &["log.index.size.max.bytes"]),
    ("segment.jitter.ms", &["log.roll.jitter.ms", "log.roll.jitter.hours"]),
    ("segment.ms", &["log.roll.ms", "log.roll.hours"]),
    ("unclean.leader.election.enable", &["unclean.leader.election.enable"]),
];

#[cfg(test)]
mod tests;
