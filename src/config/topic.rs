//! A topic's configuration with every default applied: topic override, else broker default, else Kafka's.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use super::def::{BadValue, Value};
use super::keys;
use super::throttled::ThrottledReplicas;

/// `compression.type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompressionType {
    /// Keep what the producer chose.
    Producer,
    Uncompressed,
    Gzip,
    Snappy,
    Lz4,
    Zstd,
}

/// `message.timestamp.type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimestampType {
    CreateTime,
    LogAppendTime,
}

/// All of a 3.9 broker's topic configs that change what the broker does. Names are the keys'.
#[derive(Clone, Debug, PartialEq)]
pub struct TopicConfig {
    pub cleanup_delete: bool,
    pub cleanup_compact: bool,
    pub compression_type: CompressionType,
    pub compression_gzip_level: i32,
    pub compression_lz4_level: i32,
    pub compression_zstd_level: i32,
    pub delete_retention_ms: i64,
    pub file_delete_delay_ms: i64,
    /// Messages between forced flushes; `i64::MAX` = never.
    pub flush_messages: i64,
    pub flush_ms: i64,
    pub follower_throttled: ThrottledReplicas,
    pub index_interval_bytes: i32,
    pub leader_throttled: ThrottledReplicas,
    pub max_compaction_lag_ms: i64,
    pub max_message_bytes: i32,
    pub message_downconversion_enable: bool,
    /// With [`TopicConfig::message_timestamp_difference_max_ms`] already taken into account, as the next one.
    pub message_timestamp_before_max_ms: i64,
    pub message_timestamp_after_max_ms: i64,
    /// The older key for both directions; counts where the newer key of a direction is at its default, `i64::MAX`.
    pub message_timestamp_difference_max_ms: i64,
    pub message_timestamp_type: TimestampType,
    pub min_cleanable_dirty_ratio: f64,
    pub min_compaction_lag_ms: i64,
    pub min_insync_replicas: i32,
    pub preallocate: bool,
    /// Bytes kept per partition; -1 = no limit.
    pub retention_bytes: i64,
    /// -1 = no limit.
    pub retention_ms: i64,
    pub segment_bytes: i32,
    pub segment_index_bytes: i32,
    pub segment_jitter_ms: i64,
    pub segment_ms: i64,
    pub unclean_leader_election_enable: bool,
}

impl Default for TopicConfig {
    fn default() -> TopicConfig {
        TopicConfig {
            cleanup_delete: true,
            cleanup_compact: false,
            compression_type: CompressionType::Producer,
            compression_gzip_level: -1,
            compression_lz4_level: 9,
            compression_zstd_level: 3,
            delete_retention_ms: 86_400_000,
            file_delete_delay_ms: 60_000,
            flush_messages: i64::MAX,
            flush_ms: i64::MAX,
            follower_throttled: ThrottledReplicas::None,
            index_interval_bytes: 4096,
            leader_throttled: ThrottledReplicas::None,
            max_compaction_lag_ms: i64::MAX,
            max_message_bytes: 1_048_588,
            message_downconversion_enable: true,
            message_timestamp_before_max_ms: i64::MAX,
            message_timestamp_after_max_ms: i64::MAX,
            message_timestamp_difference_max_ms: i64::MAX,
            message_timestamp_type: TimestampType::CreateTime,
            min_cleanable_dirty_ratio: 0.5,
            min_compaction_lag_ms: 0,
            min_insync_replicas: 1,
            preallocate: false,
            retention_bytes: -1,
            retention_ms: 604_800_000,
            segment_bytes: 1_073_741_824,
            segment_index_bytes: 10_485_760,
            segment_jitter_ms: 0,
            segment_ms: 604_800_000,
            unclean_leader_election_enable: false,
        }
    }
}

impl TopicConfig {
    /// `defaults` with `overrides` on top, every name and value checked as on topic creation.
    pub fn resolve(
        defaults: &TopicConfig,
        overrides: &BTreeMap<String, String>,
    ) -> Result<TopicConfig, TopicConfigError> {
        let mut config = defaults.clone();
        for name in overrides.keys() {
            keys::topic(name).ok_or_else(|| TopicConfigError::Unknown(name.clone()))?;
        }
        for key in keys::topic_keys() {
            if let Some(text) = overrides.get(key.name) {
                config.set(key.name, &key.parse(text)?);
            }
        }
        config.settle_differences();
        config.check()?;
        let is_true = |key| overrides.get(key).is_some_and(|text: &String| text.trim().eq_ignore_ascii_case("true"));
        if is_true("remote.storage.enable") {
            return Err(TopicConfigError::TieredStorage);
        }
        if is_true("remote.log.delete.on.disable") || is_true("remote.log.copy.disable") {
            return Err(TopicConfigError::TieredStorageEnd);
        }
        Ok(config)
    }

    /// As [`TopicConfig::resolve`] for what the metastore holds, which somebody else may have written: what is wrong
    /// there is left out and returned, so that one bad key does not take a topic away.
    pub fn resolve_stored(
        defaults: &TopicConfig,
        overrides: &BTreeMap<String, String>,
    ) -> (TopicConfig, Vec<TopicConfigError>) {
        let mut kept = BTreeMap::new();
        let mut errors = Vec::new();
        for (name, text) in overrides {
            kept.insert(name.clone(), text.clone());
            if let Err(error) = TopicConfig::resolve(defaults, &kept) {
                kept.remove(name);
                errors.push(error);
            }
        }
        (TopicConfig::resolve(defaults, &kept).unwrap_or_else(|_| defaults.clone()), errors)
    }

    /// Puts one parsed value in its field. Keys without a field change nothing this broker does.
    pub(super) fn set(&mut self, key: &str, value: &Value) {
        match (key, value) {
            ("cleanup.policy", Value::List(policies)) => {
                self.cleanup_delete = policies.iter().any(|p| p == "delete");
                self.cleanup_compact = policies.iter().any(|p| p == "compact");
            }
            ("follower.replication.throttled.replicas", Value::List(list)) => {
                self.follower_throttled = ThrottledReplicas::of(list);
            }
            ("leader.replication.throttled.replicas", Value::List(list)) => {
                self.leader_throttled = ThrottledReplicas::of(list);
            }
            ("compression.type", Value::Text(text)) => {
                if let Ok(kind) = text.parse() {
                    self.compression_type = kind;
                }
            }
            ("message.timestamp.type", Value::Text(text)) => {
                self.message_timestamp_type =
                    if text == "LogAppendTime" { TimestampType::LogAppendTime } else { TimestampType::CreateTime };
            }
            ("min.cleanable.dirty.ratio", Value::Double(ratio)) => self.min_cleanable_dirty_ratio = *ratio,
            ("message.downconversion.enable", Value::Boolean(on)) => self.message_downconversion_enable = *on,
            ("preallocate", Value::Boolean(on)) => self.preallocate = *on,
            ("unclean.leader.election.enable", Value::Boolean(on)) => self.unclean_leader_election_enable = *on,
            (key, Value::Integer(value)) => self.set_integer(key, *value),
            _ => {}
        }
    }

    fn set_integer(&mut self, key: &str, value: i64) {
        // The row of an INT key admits nothing wider, so nothing is cut here.
        let int = i32::try_from(value).unwrap_or(i32::MAX);
        match key {
            "compression.gzip.level" => self.compression_gzip_level = int,
            "compression.lz4.level" => self.compression_lz4_level = int,
            "compression.zstd.level" => self.compression_zstd_level = int,
            "delete.retention.ms" => self.delete_retention_ms = value,
            "file.delete.delay.ms" => self.file_delete_delay_ms = value,
            "flush.messages" => self.flush_messages = value,
            "flush.ms" => self.flush_ms = value,
            "index.interval.bytes" => self.index_interval_bytes = int,
            "max.compaction.lag.ms" => self.max_compaction_lag_ms = value,
            "max.message.bytes" => self.max_message_bytes = int,
            "message.timestamp.before.max.ms" => self.message_timestamp_before_max_ms = value,
            "message.timestamp.after.max.ms" => self.message_timestamp_after_max_ms = value,
            "message.timestamp.difference.max.ms" => self.message_timestamp_difference_max_ms = value,
            "min.compaction.lag.ms" => self.min_compaction_lag_ms = value,
            "min.insync.replicas" => self.min_insync_replicas = int,
            "retention.bytes" => self.retention_bytes = value,
            "retention.ms" => self.retention_ms = value,
            "segment.bytes" => self.segment_bytes = int,
            "segment.index.bytes" => self.segment_index_bytes = int,
            "segment.jitter.ms" => self.segment_jitter_ms = value,
            "segment.ms" => self.segment_ms = value,
            _ => {}
        }
    }

    /// As `LogConfig` of 3.9 does it: a newer key that somebody sets, here or for the broker, hides the older one.
    fn settle_differences(&mut self) {
        let older = self.message_timestamp_difference_max_ms;
        for newer in [&mut self.message_timestamp_before_max_ms, &mut self.message_timestamp_after_max_ms] {
            if *newer == i64::MAX {
                *newer = older;
            }
        }
    }

    /// What no single key can decide.
    pub(super) fn check(&self) -> Result<(), TopicConfigError> {
        let (min, max) = (self.min_compaction_lag_ms, self.max_compaction_lag_ms);
        if min > max {
            return Err(TopicConfigError::CompactionLags { min, max });
        }
        Ok(())
    }
}

/// Why a topic cannot have these configs: INVALID_CONFIG (40), with this text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TopicConfigError {
    #[error("Unknown topic config name: {0}")]
    Unknown(String),
    #[error(transparent)]
    BadValue(#[from] BadValue),
    #[error("conflict topic config setting min.compaction.lag.ms ({min}) > max.compaction.lag.ms ({max})")]
    CompactionLags { min: i64, max: i64 },
    #[error("remote.storage.enable cannot be set: the broker has no tiered storage")]
    TieredStorage,
    #[error("remote.log.delete.on.disable and remote.log.copy.disable cannot be set in a cluster with ZooKeeper")]
    TieredStorageEnd,
}

impl FromStr for CompressionType {
    type Err = ();
    fn from_str(text: &str) -> Result<CompressionType, ()> {
        Ok(match text {
            "producer" => CompressionType::Producer,
            "uncompressed" => CompressionType::Uncompressed,
            "gzip" => CompressionType::Gzip,
            "snappy" => CompressionType::Snappy,
            "lz4" => CompressionType::Lz4,
            "zstd" => CompressionType::Zstd,
            _ => return Err(()),
        })
    }
}

impl fmt::Display for CompressionType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            CompressionType::Producer => "producer",
            CompressionType::Uncompressed => "uncompressed",
            CompressionType::Gzip => "gzip",
            CompressionType::Snappy => "snappy",
            CompressionType::Lz4 => "lz4",
            CompressionType::Zstd => "zstd",
        })
    }
}

impl fmt::Display for TimestampType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TimestampType::CreateTime => "CreateTime",
            TimestampType::LogAppendTime => "LogAppendTime",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolve(pairs: &[(&str, &str)]) -> Result<TopicConfig, String> {
        let overrides = pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        TopicConfig::resolve(&TopicConfig::default(), &overrides).map_err(|error| error.to_string())
    }

    #[test]
    fn overrides_lie_on_the_defaults() {
        let config = resolve(&[
            ("cleanup.policy", "compact, delete"),
            ("compression.type", "zstd"),
            ("retention.ms", "-1"),
            ("message.timestamp.type", "LogAppendTime"),
            ("min.cleanable.dirty.ratio", "0.1"),
            ("message.timestamp.difference.max.ms", "10"),
            ("message.timestamp.after.max.ms", "20"),
        ])
        .unwrap();
        let expected = TopicConfig {
            cleanup_compact: true,
            compression_type: CompressionType::Zstd,
            retention_ms: -1,
            message_timestamp_type: TimestampType::LogAppendTime,
            min_cleanable_dirty_ratio: 0.1,
            message_timestamp_difference_max_ms: 10,
            message_timestamp_before_max_ms: 10,
            message_timestamp_after_max_ms: 20,
            ..TopicConfig::default()
        };
        assert_eq!(config, expected);
        assert_eq!(resolve(&[]).unwrap(), TopicConfig::default());
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (key, value, error) in [
            ("nope", "1", "Unknown topic config name: nope"),
            (
                "cleanup.policy",
                "compactt",
                "Invalid value compactt for configuration cleanup.policy: String must be one of: compact, delete",
            ),
            ("segment.ms", "0", "Invalid value 0 for configuration segment.ms: Value must be at least 1"),
            ("segment.bytes", "a", "Invalid value a for configuration segment.bytes: Not a number of type INT"),
            (
                "compression.type",
                "SNAPPY",
                "Invalid value SNAPPY for configuration compression.type: String must be one of: uncompressed, zstd, \
                 lz4, snappy, gzip, producer",
            ),
        ] {
            assert_eq!(resolve(&[(key, value)]).unwrap_err(), error);
        }
        let error = resolve(&[("min.compaction.lag.ms", "9"), ("max.compaction.lag.ms", "8")]).unwrap_err();
        assert_eq!(error, "conflict topic config setting min.compaction.lag.ms (9) > max.compaction.lag.ms (8)");
    }

    #[test]
    fn a_stored_bad_key_costs_only_itself() {
        let overrides = [("retention.ms", "5"), ("segment.ms", "0")].map(|(k, v)| (k.to_owned(), v.to_owned())).into();
        let (config, errors) = TopicConfig::resolve_stored(&TopicConfig::default(), &overrides);
        assert_eq!(config, TopicConfig { retention_ms: 5, ..TopicConfig::default() });
        assert_eq!(errors.len(), 1);
    }
}
