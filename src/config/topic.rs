//! A topic's configuration with every default applied: topic override, else broker default, else Kafka's.

use std::str::FromStr;

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
    pub index_interval_bytes: i32,
    pub max_compaction_lag_ms: i64,
    pub max_message_bytes: i32,
    pub message_downconversion_enable: bool,
    pub message_timestamp_before_max_ms: i64,
    pub message_timestamp_after_max_ms: i64,
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
            index_interval_bytes: 4096,
            max_compaction_lag_ms: i64::MAX,
            max_message_bytes: 1_048_588,
            message_downconversion_enable: true,
            message_timestamp_before_max_ms: i64::MAX,
            message_timestamp_after_max_ms: i64::MAX,
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
