//! Administrative changes as writes to the metastore: topics, partitions, configs.
//! They are requests to the controller, which sees the znodes change and acts.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::types::{BrokerId, TopicId};
use crate::wire::error_code::ErrorCode;

/// Refused or failed: what the client is told.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{code}: {message}")]
pub struct AdminError {
    pub code: ErrorCode,
    pub message: String,
}

/// One topic of CreateTopics. -1 counts mean the broker's default.
#[derive(Clone, Debug, Default)]
pub struct NewTopic {
    pub name: String,
    pub num_partitions: i32,
    pub replication_factor: i16,
    /// By partition index; empty = placed by the broker.
    pub assignments: BTreeMap<i32, Vec<BrokerId>>,
    /// `None` values are refused (INVALID_CONFIG).
    pub configs: Vec<(String, Option<String>)>,
}

/// A topic that was (or, with validate_only, would be) created.
#[derive(Clone, Debug)]
pub struct CreatedTopic {
    /// Zero for validate_only.
    pub id: TopicId,
    pub num_partitions: i32,
    pub replication_factor: i16,
    pub overrides: BTreeMap<String, String>,
}

/// Writes administrative changes. Cheap to share.
pub struct Admin {}

impl Admin {
    /// Whether this broker is the active controller.
    pub fn is_controller(&self) -> bool {
        todo!()
    }
    /// Validates in Kafka's order, writes the znodes; does not wait for leaders (see [`Admin::wait_for_leaders`]).
    pub async fn create_topic(&self, _topic: NewTopic, _validate_only: bool) -> Result<CreatedTopic, AdminError> {
        todo!()
    }
    /// Auto-creation by Metadata or FindCoordinator, from any broker, with the broker's defaults.
    pub async fn auto_create_topic(&self, _name: &str) -> Result<(), AdminError> {
        todo!()
    }
    /// Marks the topic for deletion.
    pub async fn delete_topic(&self, _name: &str) -> Result<(), AdminError> {
        todo!()
    }
    /// `assignments`: replicas of the added partitions, in order; `None` = placed by the broker.
    pub async fn create_partitions(
        &self,
        _topic: &str,
        _count: i32,
        _assignments: Option<Vec<Vec<BrokerId>>>,
        _validate_only: bool,
    ) -> Result<(), AdminError> {
        todo!()
    }
    /// Until every partition of `topic` below `count` has a leader in this broker's snapshot, or the topic is gone
    /// when `count` is 0. False when `timeout_ms` ran out.
    pub async fn wait_for_leaders(&self, _topic: &str, _count: i32, _timeout_ms: i32) -> bool {
        todo!()
    }
    /// Replaces a topic's overrides (already validated) and writes the change node.
    pub async fn set_topic_configs(
        &self,
        _topic: &str,
        _overrides: BTreeMap<String, String>,
    ) -> Result<(), AdminError> {
        todo!()
    }
    /// `None` = the cluster-wide default entity.
    pub async fn set_broker_configs(
        &self,
        _broker: Option<BrokerId>,
        _overrides: BTreeMap<String, String>,
    ) -> Result<(), AdminError> {
        todo!()
    }
}

/// Shared by the handlers.
pub type SharedAdmin = Arc<Admin>;
