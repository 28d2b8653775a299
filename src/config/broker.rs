//! The broker's own configuration, typed. Names are the keys' of `server.properties`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::TopicConfig;
use super::cleaner::CleanerConfig;
use super::group::GroupConfig;
use super::inter_broker::InterBrokerProtocol;
use super::listeners::{Listener, SecurityProtocol};
use super::password_encoder::PasswordEncoder;
use super::replication::{ReplicationConfig, ThrottledRates};
use super::transaction::TransactionConfig;

/// Everything `server.properties` and `--override` say, checked.
#[derive(Clone, Debug, PartialEq)]
pub struct BrokerConfig {
    /// -1 = `broker.id` unset (generated, or taken from `meta.properties`).
    pub broker_id: i32,
    /// `broker.id.generation.enable`: whether an unset id is taken from the metastore's sequence.
    pub broker_id_generation_enable: bool,
    /// Generated ids begin above it.
    pub reserved_broker_max_id: i32,
    pub rack: Option<String>,
    pub listeners: Vec<Listener>,
    pub advertised_listeners: Vec<Listener>,
    pub inter_broker_listener_name: String,
    /// Unset: the controller speaks to the inter-broker listener.
    pub control_plane_listener_name: Option<String>,
    /// `inter.broker.protocol.version`.
    pub inter_broker_protocol: InterBrokerProtocol,
    pub log_dirs: Vec<PathBuf>,
    /// `None` chooses the embedded metastore.
    pub zookeeper_connect: Option<String>,
    pub zookeeper_session_timeout_ms: i32,
    /// Unset: the session timeout.
    pub zookeeper_connection_timeout_ms: i32,
    /// `klamm.cluster.id`: what a new cluster is called.
    pub cluster_id: Option<String>,
    /// `klamm.fast.failover.enable`.
    pub fast_failover_enable: bool,

    pub num_partitions: i32,
    pub default_replication_factor: i32,
    pub auto_create_topics_enable: bool,
    pub delete_topic_enable: bool,
    /// 1 without `zookeeper.connect`, unless set; so are the two of the transaction log.
    pub offsets_topic_replication_factor: i16,
    pub transaction_state_log_replication_factor: i16,
    pub transaction_state_log_min_isr: i32,

    pub group: GroupConfig,
    pub transaction: TransactionConfig,
    pub replication: ReplicationConfig,
    pub throttled_rates: ThrottledRates,
    /// `password.encoder.secret`: what passwords among dynamic configs are encrypted with.
    pub password_encoder: Option<PasswordEncoder>,
    /// `password.encoder.old.secret`: what those were encrypted with before the secret changed.
    pub old_password_encoder: Option<PasswordEncoder>,

    pub socket_request_max_bytes: i32,
    pub socket_send_buffer_bytes: i32,
    pub socket_receive_buffer_bytes: i32,
    pub socket_listen_backlog_size: i32,
    /// -1 = no limit.
    pub queued_max_request_bytes: i64,
    pub max_connections: i32,
    pub max_connections_per_ip: i32,
    /// Address or host name to limit.
    pub max_connections_per_ip_overrides: BTreeMap<String, i32>,
    /// New connections per second.
    pub max_connection_creation_rate: i32,
    /// `listener.name.<name>.max.connections`, by upper-case name.
    pub listener_max_connections: BTreeMap<String, i32>,
    /// `listener.name.<name>.max.connection.creation.rate`.
    pub listener_max_connection_creation_rate: BTreeMap<String, i32>,
    pub quota_window_num: i32,
    pub quota_window_size_seconds: i32,
    pub controller_quota_window_num: i32,
    pub controller_quota_window_size_seconds: i32,
    pub connections_max_idle_ms: i64,
    pub num_network_threads: i32,
    pub background_threads: i32,

    pub fetch_max_bytes: i32,
    pub max_incremental_fetch_session_cache_slots: i32,

    pub cleaner: CleanerConfig,
    pub log_retention_check_interval_ms: i64,
    pub log_initial_task_delay_ms: i64,
    pub log_flush_scheduler_interval_ms: i64,
    pub log_flush_offset_checkpoint_interval_ms: i64,
    pub log_flush_start_offset_checkpoint_interval_ms: i64,
    pub replica_high_watermark_checkpoint_interval_ms: i64,
    pub num_recovery_threads_per_data_dir: i32,
    pub log_dir_failure_timeout_ms: i64,
    pub producer_id_expiration_ms: i64,
    pub producer_id_expiration_check_interval_ms: i32,
    pub transaction_partition_verification_enable: bool,
    pub transaction_max_timeout_ms: i32,
    pub request_timeout_ms: i32,

    pub replica_lag_time_max_ms: i64,
    pub controlled_shutdown_enable: bool,
    pub controlled_shutdown_max_retries: i32,
    pub controlled_shutdown_retry_backoff_ms: i64,
    pub auto_leader_rebalance_enable: bool,
    pub leader_imbalance_check_interval_seconds: i64,
    pub leader_imbalance_per_broker_percentage: i32,

    /// The topic configs a topic gets that overrides nothing.
    pub topic_defaults: TopicConfig,
    /// Every key given, as given, for DescribeConfigs; of `broker.id` and `node.id` each where the other is given.
    pub properties: BTreeMap<String, String>,
}

impl BrokerConfig {
    /// Where the controller reaches brokers.
    pub fn controller_listener_name(&self) -> &str {
        self.control_plane_listener_name.as_deref().unwrap_or(&self.inter_broker_listener_name)
    }
}

impl Default for BrokerConfig {
    fn default() -> BrokerConfig {
        let listener = Listener {
            name: "PLAINTEXT".into(),
            protocol: SecurityProtocol::Plaintext,
            host: String::new(),
            port: 9092,
        };
        BrokerConfig {
            broker_id: -1,
            broker_id_generation_enable: true,
            reserved_broker_max_id: 1000,
            rack: None,
            listeners: vec![listener.clone()],
            advertised_listeners: vec![listener],
            inter_broker_listener_name: "PLAINTEXT".into(),
            control_plane_listener_name: None,
            inter_broker_protocol: InterBrokerProtocol::default(),
            log_dirs: vec![PathBuf::from("/tmp/kafka-logs")],
            zookeeper_connect: None,
            zookeeper_session_timeout_ms: 18_000,
            zookeeper_connection_timeout_ms: 18_000,
            cluster_id: None,
            fast_failover_enable: false,
            num_partitions: 1,
            default_replication_factor: 1,
            auto_create_topics_enable: true,
            delete_topic_enable: true,
            offsets_topic_replication_factor: 1,
            transaction_state_log_replication_factor: 1,
            transaction_state_log_min_isr: 1,
            group: GroupConfig::default(),
            transaction: TransactionConfig::default(),
            replication: ReplicationConfig::default(),
            throttled_rates: ThrottledRates::NONE,
            password_encoder: None,
            old_password_encoder: None,
            socket_request_max_bytes: 104_857_600,
            socket_send_buffer_bytes: 102_400,
            socket_receive_buffer_bytes: 102_400,
            socket_listen_backlog_size: 50,
            queued_max_request_bytes: -1,
            max_connections: i32::MAX,
            max_connections_per_ip: i32::MAX,
            max_connections_per_ip_overrides: BTreeMap::new(),
            max_connection_creation_rate: i32::MAX,
            listener_max_connections: BTreeMap::new(),
            listener_max_connection_creation_rate: BTreeMap::new(),
            quota_window_num: 11,
            quota_window_size_seconds: 1,
            controller_quota_window_num: 11,
            controller_quota_window_size_seconds: 1,
            connections_max_idle_ms: 600_000,
            num_network_threads: 3,
            background_threads: 10,
            fetch_max_bytes: 57_671_680,
            max_incremental_fetch_session_cache_slots: 1000,
            cleaner: CleanerConfig::default(),
            log_retention_check_interval_ms: 300_000,
            log_initial_task_delay_ms: 30_000,
            log_flush_scheduler_interval_ms: i64::MAX,
            log_flush_offset_checkpoint_interval_ms: 60_000,
            log_flush_start_offset_checkpoint_interval_ms: 60_000,
            replica_high_watermark_checkpoint_interval_ms: 5_000,
            num_recovery_threads_per_data_dir: 1,
            log_dir_failure_timeout_ms: 30_000,
            producer_id_expiration_ms: 86_400_000,
            producer_id_expiration_check_interval_ms: 600_000,
            transaction_partition_verification_enable: true,
            transaction_max_timeout_ms: 900_000,
            request_timeout_ms: 30_000,
            replica_lag_time_max_ms: 30_000,
            controlled_shutdown_enable: true,
            controlled_shutdown_max_retries: 3,
            controlled_shutdown_retry_backoff_ms: 5_000,
            auto_leader_rebalance_enable: true,
            leader_imbalance_check_interval_seconds: 300,
            leader_imbalance_per_broker_percentage: 10,
            topic_defaults: TopicConfig::default(),
            properties: BTreeMap::new(),
        }
    }
}
