//! What follows and leads replicas on this broker: its fetchers, and its way to have ISRs changed.

use std::sync::Arc;

use crate::clock::Clock;
use crate::cluster::peer::{Connector, ToController};
use crate::cluster::{Cluster, Session};
use crate::config::BrokerConfig;
use crate::controller::receiver::ControlReceiver;
use crate::controller::stored_epochs::StateNodes;
use crate::quota::Quotas;
use crate::replication::fetcher::{self, FetchConfig, Fetchers};
use crate::replication::isr_changes::{self, IsrChanges};
use crate::replication::leader_checks::LeaderChecks;
use crate::replication::table::PartitionTable;
use crate::spawn::{Shutdown, Spawner};
use crate::types::BrokerId;

/// What replication needs of the broker.
pub struct Around<'a> {
    pub broker: BrokerId,
    pub config: &'a BrokerConfig,
    pub receiver: &'a ControlReceiver,
    pub cluster: &'a Arc<Cluster>,
    pub session: &'a Arc<Session>,
    pub connector: &'a Arc<dyn Connector>,
    pub to_controller: &'a Arc<dyn ToController>,
    pub clock: &'a Arc<dyn Clock>,
    pub spawner: &'a Arc<dyn Spawner>,
    pub shutdown: &'a Shutdown,
    pub quotas: &'a Quotas,
    /// What is led here is doubted when followers give reason to.
    pub checks_leaders: bool,
}

/// From now on partitions follow their leaders, and leaders keep their ISRs. To be called before the broker registers:
/// what the controller says after that is acted on.
pub fn begin(around: &Around<'_>, table: &Arc<PartitionTable>) -> Arc<Fetchers> {
    let fetchers = Arc::new(Fetchers::new(fetcher::Surroundings {
        broker: around.broker,
        broker_epoch: around.receiver.epoch_source(),
        listener: around.config.inter_broker_listener_name.clone(),
        connector: Arc::clone(around.connector),
        cluster: Arc::clone(around.cluster),
        clock: Arc::clone(around.clock),
        spawner: Arc::clone(around.spawner),
        quota: Arc::clone(&around.quotas.replication.follower),
        config: fetch_config(around.config),
    }));
    table.fetch_with(Arc::clone(&fetchers));
    let changes = IsrChanges::new(isr_changes::Surroundings {
        broker: around.broker,
        broker_epoch: around.receiver.epoch_source(),
        controller: Arc::clone(around.to_controller),
        spawner: Arc::clone(around.spawner),
        shutdown: around.shutdown.clone(),
    });
    changes.watch_lag(table, around.config.replica_lag_time_max_ms);
    table.change_isrs_with(changes);
    if around.checks_leaders {
        let stored = Box::new(StateNodes(Arc::clone(around.session)));
        let checks = LeaderChecks::new(stored, Arc::clone(around.spawner), around.shutdown.clone());
        checks.watch_silence(table);
        table.check_leaders_with(checks);
    }
    fetchers
}

fn fetch_config(config: &BrokerConfig) -> FetchConfig {
    let it = &config.replication;
    FetchConfig {
        fetchers: it.num_replica_fetchers.max(1),
        backoff_ms: i64::from(it.fetch_backoff_ms),
        by_directory: config.log_dirs.len() > 1,
        max_bytes: it.fetch_max_bytes,
        response_max_bytes: it.fetch_response_max_bytes,
        min_bytes: it.fetch_min_bytes,
        max_wait_ms: it.fetch_wait_max_ms,
        socket_timeout_ms: i64::from(it.socket_timeout_ms),
        fetch_version: config.inter_broker_protocol.fetch,
        list_offsets_version: config.inter_broker_protocol.list_offsets,
    }
}
