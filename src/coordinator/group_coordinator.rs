//! The groups this broker coordinates: one [`Groups`] for each partition of `__consumer_offsets` that it leads.

#[cfg(test)]
mod tests;

use std::convert::Infallible;
use std::sync::Arc;

use super::cores::{Core, Now, RequestId};
use super::group::{
    Answer, Commit, Described, Fetched, Groups, Join, JoinAnswer, Leaving, Listed, Loading, Settings, Speaker, Sync,
    SyncAnswer,
};
use super::shard::{Phase, Shard};
use super::shards::{Around, Chore, Shards, Topic};
use crate::clock::Clock;
use crate::cluster::Cluster;
use crate::cluster::internal_topics::GROUP_METADATA;
use crate::config::BrokerConfig;
use crate::replication::partition::Partition;
use crate::replication::table::Leadership;
use crate::spawn::{Shutdown, Spawner};
use crate::types::{Acks, LeaderEpoch, TopicPartition};
use crate::wire::compression::Codec;
use crate::wire::error_code::ErrorCode;

/// What the coordinator runs on.
pub struct Surroundings {
    pub config: Arc<BrokerConfig>,
    pub cluster: Arc<Cluster>,
    pub clock: Arc<dyn Clock>,
    pub spawner: Arc<dyn Spawner>,
    pub shutdown: Shutdown,
}

/// Kafka's `GroupCoordinator` and `GroupMetadataManager`.
pub struct GroupCoordinator {
    shards: Arc<Shards<GroupMetadata>>,
}

/// `__consumer_offsets`.
struct GroupMetadata {
    config: Arc<BrokerConfig>,
    settings: Settings,
    codec: Codec,
}

impl Topic for GroupMetadata {
    type Core = Groups;
    type Loading = Loading;
    const NAME: &'static str = GROUP_METADATA;
    const HOLDS: &'static str = "groups";

    fn partitions(&self) -> i32 {
        self.config.group.offsets_topic_num_partitions
    }

    fn load_buffer(&self) -> i32 {
        self.config.group.offsets_load_buffer_size
    }

    fn codec(&self) -> Codec {
        self.codec
    }

    fn acks(&self) -> Acks {
        if self.config.group.offsets_commit_required_acks == -1 { Acks::All } else { Acks::Leader }
    }

    fn timeout_ms(&self) -> i32 {
        self.config.group.offsets_commit_timeout_ms
    }

    fn chores(&self) -> Vec<Chore<Groups>> {
        vec![(self.config.group.offsets_retention_check_interval_ms, Groups::expire)]
    }

    fn loaded(&self, loading: Loading, now: Now, _epoch: LeaderEpoch) -> Groups {
        loading.finish(now, self.settings.clone())
    }

    fn perform(&self, _shard: &Arc<Shard<Groups>>, task: Infallible) {
        match task {}
    }
}

impl GroupCoordinator {
    pub fn new(around: Surroundings) -> Arc<GroupCoordinator> {
        let Surroundings { config, cluster, clock, spawner, shutdown } = around;
        let group = &config.group;
        let settings = Settings {
            min_session_timeout_ms: group.min_session_timeout_ms,
            max_session_timeout_ms: group.max_session_timeout_ms,
            initial_rebalance_delay_ms: group.initial_rebalance_delay_ms,
            max_size: usize::try_from(group.max_size).unwrap_or(usize::MAX),
            offset_metadata_max: usize::try_from(group.offset_metadata_max_bytes).unwrap_or(0),
            offsets_retention_ms: i64::from(group.offsets_retention_minutes) * 60_000,
        };
        // Checked when the configuration was read.
        let codec = u8::try_from(group.offsets_topic_compression_codec).ok();
        let codec = codec.and_then(|bits| Codec::from_bits(bits).ok()).unwrap_or(Codec::None);
        let topic = GroupMetadata { config, settings, codec };
        Arc::new(GroupCoordinator { shards: Shards::new(Around { cluster, clock, spawner, shutdown }, topic) })
    }

    /// Starts the timer of all groups.
    pub fn start(&self) {
        self.shards.start();
    }

    /// Partitions of `__consumer_offsets`: what it has, or would be created with.
    pub fn partitions(&self) -> i32 {
        self.shards.partitions()
    }

    /// The partition that `group` lives in.
    pub fn partition_of(&self, group: &str) -> i32 {
        self.shards.partition_of(group)
    }

    /// NOT_COORDINATOR or COORDINATOR_LOAD_IN_PROGRESS come in place of an answer.
    pub async fn join(&self, join: Join) -> Result<JoinAnswer, ErrorCode> {
        let group = join.group.clone();
        match self.ask(&group, |groups, now, request| groups.join(now, Join { request, ..join })).await? {
            Answer::Joined(answer) => Ok(answer),
            _ => Err(ErrorCode::UnknownServerError),
        }
    }

    /// As [`GroupCoordinator::join`].
    pub async fn sync(&self, sync: Sync) -> Result<SyncAnswer, ErrorCode> {
        let group = sync.group.clone();
        match self.ask(&group, |groups, now, request| groups.sync(now, Sync { request, ..sync })).await? {
            Answer::Synced(answer) => Ok(answer),
            _ => Err(ErrorCode::UnknownServerError),
        }
    }

    /// An error for each partition, in order; else as [`GroupCoordinator::join`].
    pub async fn commit(&self, commit: Commit) -> Result<Vec<ErrorCode>, ErrorCode> {
        let group = commit.group.clone();
        match self.ask(&group, |groups, now, request| groups.commit(now, Commit { request, ..commit })).await? {
            Answer::Committed(errors) => Ok(errors),
            _ => Err(ErrorCode::UnknownServerError),
        }
    }

    /// The partition that `group` lives in, where it is coordinated here.
    pub fn home_of(&self, group: &str) -> Result<Arc<Partition>, ErrorCode> {
        let shard = self.shards.shard(group)?;
        shard.state.lock().active()?;
        Ok(shard.partition.clone())
    }

    pub fn heartbeat(&self, group: &str, speaker: &Speaker) -> Result<ErrorCode, ErrorCode> {
        self.with(group, |groups, now| groups.heartbeat(now, group, speaker))
    }

    pub fn leave(&self, group: &str, leaving: &[Leaving]) -> Result<Vec<ErrorCode>, ErrorCode> {
        self.with(group, |groups, now| groups.leave(now, group, leaving))
    }

    pub fn fetch(
        &self,
        group: &str,
        asked: &[(Arc<str>, i32)],
        require_stable: bool,
    ) -> Result<Vec<Fetched>, ErrorCode> {
        self.with(group, |groups, _| groups.fetch(group, asked, require_stable))
    }

    pub fn fetch_all(&self, group: &str, require_stable: bool) -> Result<Vec<Fetched>, ErrorCode> {
        self.with(group, |groups, _| groups.fetch_all(group, require_stable))
    }

    pub fn describe(&self, group: &str) -> Result<Described, ErrorCode> {
        self.with(group, |groups, _| groups.describe(group))
    }

    pub fn delete(&self, group: &str) -> Result<(), ErrorCode> {
        self.with(group, |groups, now| groups.delete(now, group))?
    }

    pub fn delete_offsets(&self, group: &str, asked: &[(Arc<str>, i32)]) -> Result<Vec<ErrorCode>, ErrorCode> {
        self.with(group, |groups, now| groups.delete_offsets(now, group, asked))?
    }

    /// All groups coordinated here; COORDINATOR_LOAD_IN_PROGRESS beside them when some are still being loaded.
    pub fn list(&self) -> (Vec<Listed>, ErrorCode) {
        let (mut listed, mut error) = (Vec::new(), ErrorCode::None);
        for shard in self.shards.all() {
            match &shard.state.lock().phase {
                Phase::Active(groups) => listed.extend(groups.list()),
                Phase::Loading => error = ErrorCode::CoordinatorLoadInProgress,
                Phase::Gone(_) => {}
            }
        }
        (listed, error)
    }

    /// Topics were deleted: so is what was committed for them.
    pub fn topics_deleted(&self, topics: &[Arc<str>]) {
        for shard in self.shards.all() {
            let forget = |groups: &mut Groups, now| topics.iter().for_each(|topic| groups.forget_topic(now, topic));
            // A shard that is loading keeps them until they expire, as when the broker was away.
            let _ = self.shards.enter(&shard, forget);
        }
    }

    /// The marker that ends a producer's transaction is in a partition of `__consumer_offsets` and replicated: what it
    /// committed there counts now, or never. Ended twice is ended once.
    pub fn transaction_ended(&self, partition: i32, producer_id: i64, commit: bool) {
        self.shards.transaction_ended(partition, producer_id, commit);
    }

    fn with<T>(&self, group: &str, step: impl FnOnce(&mut Groups, Now) -> T) -> Result<T, ErrorCode> {
        self.shards.with(group, step)
    }

    async fn ask(
        &self,
        group: &str,
        step: impl FnOnce(&mut Groups, Now, RequestId),
    ) -> Result<<Groups as Core>::Answer, ErrorCode> {
        self.shards.ask(group, step).await
    }
}

impl Leadership for GroupCoordinator {
    fn leads(&self, partition: &Arc<Partition>, epoch: LeaderEpoch) {
        self.shards.leads(partition, epoch);
    }

    fn resigned(&self, tp: &TopicPartition, epoch: LeaderEpoch) {
        self.shards.resigned(tp, epoch);
    }
}
