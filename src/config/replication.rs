//! What `server.properties` says of brokers among themselves. Names are the keys'.

use std::time::Duration;

use super::values::Values;

/// Keys that begin with `replica.`, and those of connections to other brokers.
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
    pub socket_timeout_ms: i32,
}

impl ReplicationConfig {
    pub fn controller_socket_timeout(&self) -> Duration {
        Duration::from_millis(self.controller_socket_timeout_ms.unsigned_abs().into())
    }

    pub(super) fn build(values: &Values) -> ReplicationConfig {
        ReplicationConfig {
            controller_socket_timeout_ms: values.number("controller.socket.timeout.ms"),
            socket_connection_setup_timeout_ms: values.number("socket.connection.setup.timeout.ms"),
            num_replica_fetchers: values.number("num.replica.fetchers"),
            fetch_backoff_ms: values.number("replica.fetch.backoff.ms"),
            fetch_max_bytes: values.number("replica.fetch.max.bytes"),
            fetch_min_bytes: values.number("replica.fetch.min.bytes"),
            fetch_response_max_bytes: values.number("replica.fetch.response.max.bytes"),
            fetch_wait_max_ms: values.number("replica.fetch.wait.max.ms"),
            socket_timeout_ms: values.number("replica.socket.timeout.ms"),
        }
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
            socket_timeout_ms: 30_000,
        }
    }
}
