//! All logs of a broker over all its log directories: load, create, delete, checkpoints, retention, offline directories.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::disk::{Disk, DiskSpace};
use super::log::Log;
use crate::clock::Clock;
use crate::config::{BrokerConfig, TopicConfig};
use crate::types::{BrokerId, TopicId, TopicPartition};

/// Why the broker cannot start on, or go on with, its directories. Each is one clear sentence.
#[derive(Debug, thiserror::Error)]
pub enum ManagerError {
    #[error("{0}")]
    Refused(String),
    #[error("{path}: {source}")]
    Io { path: PathBuf, source: io::Error },
}

/// One log directory as DescribeLogDirs shows it.
#[derive(Clone, Debug)]
pub struct LogDirInfo {
    pub path: PathBuf,
    pub online: bool,
    pub space: Option<DiskSpace>,
}

/// Owner of every [`Log`].
#[derive(Debug)]
pub struct LogManager {}

impl LogManager {
    /// Locks the directories and reads `meta.properties`; loads nothing yet. The ids are `None` on fresh directories.
    pub fn open(
        _disk: Arc<dyn Disk>,
        _clock: Arc<dyn Clock>,
        _config: Arc<BrokerConfig>,
    ) -> Result<LogManager, ManagerError> {
        todo!()
    }
    /// `broker.id` of `meta.properties`.
    pub fn stored_broker_id(&self) -> Option<BrokerId> {
        todo!()
    }
    /// `cluster.id` of `meta.properties`.
    pub fn stored_cluster_id(&self) -> Option<String> {
        todo!()
    }
    /// Writes `meta.properties` where it is missing; refuses, naming both, where ids differ.
    pub fn claim(&self, _broker: BrokerId, _cluster_id: &str) -> Result<(), ManagerError> {
        todo!()
    }
    /// Loads (and after a crash recovers) the logs of the partitions that `wanted` knows; `wanted` gives topic id and
    /// config by topic name. Directories of other topics are left alone and reported: the broker never invents topics.
    #[allow(clippy::type_complexity)]
    pub fn load(&self, _wanted: &dyn Fn(&str) -> Option<(TopicId, Arc<TopicConfig>)>) -> Result<(), ManagerError> {
        todo!()
    }
    pub fn get(&self, _tp: &TopicPartition) -> Option<Arc<Log>> {
        todo!()
    }
    pub fn all(&self) -> Vec<Arc<Log>> {
        todo!()
    }
    /// The existing log, or a new one in the online directory with the fewest partitions.
    pub fn get_or_create(
        &self,
        _tp: &TopicPartition,
        _id: TopicId,
        _config: Arc<TopicConfig>,
    ) -> Result<Arc<Log>, ManagerError> {
        todo!()
    }
    /// Renames the directory to `-delete`; the files go after `file.delete.delay.ms`.
    pub fn delete(&self, _tp: &TopicPartition) -> Result<(), ManagerError> {
        todo!()
    }
    pub fn dirs(&self) -> Vec<LogDirInfo> {
        todo!()
    }
    pub fn is_offline(&self, _dir: &Path) -> bool {
        todo!()
    }
    /// One pass of retention, of delayed deletion, of checkpoints and of flush.ms: called by the broker's timer.
    /// Returns the milliseconds until something is due again.
    pub fn run_due_tasks(&self) -> i64 {
        todo!()
    }
    /// Orderly: flush and close every log, checkpoints, clean marker, unlock.
    pub fn close(&self) {
        todo!()
    }
}
