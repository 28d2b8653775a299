//! What `server.properties` says of groups and their offsets. Names are the keys'.

use super::values::Values;

/// Keys that begin with `group.`, `offset.` and `offsets.`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupConfig {
    pub min_session_timeout_ms: i32,
    pub max_session_timeout_ms: i32,
    pub initial_rebalance_delay_ms: i32,
    /// Members.
    pub max_size: i32,
    /// UTF-16 units.
    pub offset_metadata_max_bytes: i32,
    /// -1 = every in-sync replica.
    pub offsets_commit_required_acks: i16,
    pub offsets_commit_timeout_ms: i32,
    pub offsets_load_buffer_size: i32,
    pub offsets_retention_minutes: i32,
    pub offsets_retention_check_interval_ms: i64,
    pub offsets_topic_num_partitions: i32,
    pub offsets_topic_segment_bytes: i32,
    /// The number of a codec, as in a batch's attributes.
    pub offsets_topic_compression_codec: i32,
}

impl GroupConfig {
    pub(super) fn build(values: &Values) -> GroupConfig {
        GroupConfig {
            min_session_timeout_ms: values.number("group.min.session.timeout.ms"),
            max_session_timeout_ms: values.number("group.max.session.timeout.ms"),
            initial_rebalance_delay_ms: values.number("group.initial.rebalance.delay.ms"),
            max_size: values.number("group.max.size"),
            offset_metadata_max_bytes: values.number("offset.metadata.max.bytes"),
            offsets_commit_required_acks: values.number("offsets.commit.required.acks"),
            offsets_commit_timeout_ms: values.number("offsets.commit.timeout.ms"),
            offsets_load_buffer_size: values.number("offsets.load.buffer.size"),
            offsets_retention_minutes: values.number("offsets.retention.minutes"),
            offsets_retention_check_interval_ms: values.number("offsets.retention.check.interval.ms"),
            offsets_topic_num_partitions: values.number("offsets.topic.num.partitions"),
            offsets_topic_segment_bytes: values.number("offsets.topic.segment.bytes"),
            offsets_topic_compression_codec: values.number("offsets.topic.compression.codec"),
        }
    }
}

impl Default for GroupConfig {
    fn default() -> GroupConfig {
        GroupConfig {
            min_session_timeout_ms: 6_000,
            max_session_timeout_ms: 1_800_000,
            initial_rebalance_delay_ms: 3_000,
            max_size: i32::MAX,
            offset_metadata_max_bytes: 4_096,
            offsets_commit_required_acks: -1,
            offsets_commit_timeout_ms: 5_000,
            offsets_load_buffer_size: 5_242_880,
            offsets_retention_minutes: 10_080,
            offsets_retention_check_interval_ms: 600_000,
            offsets_topic_num_partitions: 50,
            offsets_topic_segment_bytes: 104_857_600,
            offsets_topic_compression_codec: 0,
        }
    }
}
