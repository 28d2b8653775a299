//! What `server.properties` says of brokers among themselves. Names are the keys'.

use std::time::Duration;

use super::error::ConfigError;
use super::values::Values;

/// `replica.selector.class`: which replica a consumer reads from (KIP-392).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReplicaSelector {
    #[default]
    Leader,
    RackAware,
}

impl ReplicaSelector {
    /// Another class than Kafka's own cannot be run here: whoever set one wants something that would not happen.
    fn of(class: Option<String>) -> Result<ReplicaSelector, ConfigError> {
        let package = "org.apache.kafka.common.replica.";
        let Some(value) = class else { return Ok(ReplicaSelector::Leader) };
        match value.strip_prefix(package) {
            Some("LeaderSelector") => Ok(ReplicaSelector::Leader),
            Some("RackAwareReplicaSelector") => Ok(ReplicaSelector::RackAware),
            _ => Err(ConfigError::Refused {
                key: "replica.selector.class".to_owned(),
                value,
                why: format!("{package}RackAwareReplicaSelector and {package}LeaderSelector are known"),
            }),
        }
    }
}

/// How fast replicas may be copied, bytes per second; `i64::MAX` without a limit. Brokers have them only while they run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThrottledRates {
    /// `leader.replication.throttled.rate`.
    pub leader: i64,
    /// `follower.replication.throttled.rate`.
    pub follower: i64,
    /// `replica.alter.log.dirs.io.max.bytes.per.second`.
    pub log_dirs: i64,
}

impl ThrottledRates {
    pub const NONE: ThrottledRates = ThrottledRates { leader: i64::MAX, follower: i64::MAX, log_dirs: i64::MAX };
}

/// Keys that begin with `replica.` or `replication.`, and those of connections to other brokers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicationConfig {
    pub controller_socket_timeout_ms: i32,
    pub socket_connection_setup_timeout_ms: i64,
    pub num_replica_fetchers: i32,
    pub fetch_backoff_ms: i32,
    pub fetch_max_bytes: i32,
    pub fetch_min_bytes: i32,
    pub fetch_response_max_bytes: i32,
    pub fetch_wait_max_ms: i32,
    pub quota_window_num: i32,
    pub quota_window_size_seconds: i32,
    /// `alter.log.dirs.replication.quota.window.num`.
    pub log_dirs_quota_window_num: i32,
    /// `alter.log.dirs.replication.quota.window.size.seconds`.
    pub log_dirs_quota_window_size_seconds: i32,
    pub selector: ReplicaSelector,
    pub socket_timeout_ms: i32,
}

impl ReplicationConfig {
    pub fn controller_socket_timeout(&self) -> Duration {
        Duration::from_millis(self.controller_socket_timeout_ms.unsigned_abs().into())
    }

    pub(super) fn build(values: &Values) -> Result<ReplicationConfig, ConfigError> {
        Ok(ReplicationConfig {
            controller_socket_timeout_ms: values.number("controller.socket.timeout.ms"),
            socket_connection_setup_timeout_ms: values.number("socket.connection.setup.timeout.ms"),
            num_replica_fetchers: values.number("num.replica.fetchers"),
            fetch_backoff_ms: values.number("replica.fetch.backoff.ms"),
            fetch_max_bytes: values.number("replica.fetch.max.bytes"),
            fetch_min_bytes: values.number("replica.fetch.min.bytes"),
            fetch_response_max_bytes: values.number("replica.fetch.response.max.bytes"),
            fetch_wait_max_ms: values.number("replica.fetch.wait.max.ms"),
            quota_window_num: values.number("replication.quota.window.num"),
            quota_window_size_seconds: values.number("replication.quota.window.size.seconds"),
            log_dirs_quota_window_num: values.number("alter.log.dirs.replication.quota.window.num"),
            log_dirs_quota_window_size_seconds: values.number("alter.log.dirs.replication.quota.window.size.seconds"),
            selector: ReplicaSelector::of(values.some_text("replica.selector.class"))?,
            socket_timeout_ms: values.number("replica.socket.timeout.ms"),
        })
    }
}

impl Default for ReplicationConfig {
    fn default() -> ReplicationConfig {
        ReplicationConfig {
            controller_socket_timeout_ms: 30_000,
            socket_connection_setup_timeout_ms: 10_000,
            num_replica_fetchers: 1,
            fetch_backoff_ms: 1_000,
            fetch_max_bytes: 1_048_576,
            fetch_min_bytes: 1,
            fetch_response_max_bytes: 10_485_760,
            fetch_wait_max_ms: 500,
            quota_window_num: 11,
            quota_window_size_seconds: 1,
            log_dirs_quota_window_num: 11,
            log_dirs_quota_window_size_seconds: 1,
            selector: ReplicaSelector::Leader,
            socket_timeout_ms: 30_000,
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::config::{BrokerConfig, ReplicaSelector};

    #[test]
    fn a_class_that_is_not_known_stops_the_start() {
        let load = |class: &str| {
            let given = (!class.is_empty()).then(|| format!("replica.selector.class={class}"));
            BrokerConfig::load(b"", &given.into_iter().collect::<Vec<_>>())
                .map(|(config, _)| config.replication.selector)
        };
        assert_eq!(load(""), Ok(ReplicaSelector::Leader));
        let of = |name: &str| load(&format!("org.apache.kafka.common.replica.{name}"));
        assert_eq!(of("LeaderSelector"), Ok(ReplicaSelector::Leader));
        assert_eq!(of("RackAwareReplicaSelector"), Ok(ReplicaSelector::RackAware));
        let told = load("com.example.Nearest").unwrap_err().to_string();
        assert!(told.contains("replica.selector.class") && told.contains("com.example.Nearest"), "{told}");
    }
}
