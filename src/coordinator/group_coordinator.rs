//! The groups this broker coordinates: one [`Groups`] for each partition of `__consumer_offsets` that it leads.
//!
//! ```text
//! becomes leader ─ load (blocking pool) ─► active: request ─ lock ─ core ─ append (page cache) ─ unlock
//!                                                             ▲                     │ not replicated yet
//!                        one timer for all partitions ─ tick ─┘◄── outcome ── pump ─┘ in the order of the log
//! loses it ─ everyone who waits is told, the groups are dropped
//! ```
//! The lock of a partition is held while its records are appended, so that commits are in the log in the order in which
//! they were accepted, and never while anybody waits.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::FutureExt;
use parking_lot::RwLock;
use tokio::sync::{Notify, oneshot};

use super::group::{
    Append, Commit, Described, Effect, Fetched, Groups, Join, JoinAnswer, Leaving, Listed, Now, RequestId, Settings,
    Speaker, Sync, SyncAnswer,
};
use super::loader;
use super::placement::partition_of;
use super::shard::{Awaited, Phase, Replicating, Shard, Shardful, Waiter};
use crate::clock::Clock;
use crate::cluster::Cluster;
use crate::cluster::internal_topics::GROUP_METADATA;
use crate::config::BrokerConfig;
use crate::replication::partition::Partition;
use crate::replication::table::Leadership;
use crate::spawn::{Shutdown, Spawner};
use crate::storage::log::{AppendParams, Origin};
use crate::types::{Acks, LeaderEpoch, TopicPartition};
use crate::wire::batch::{BatchBuilder, BatchOptions};
use crate::wire::compression::{Codec, DECOMPRESSED_MAX};
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
    me: Weak<GroupCoordinator>,
    around: Surroundings,
    settings: Settings,
    codec: Codec,
    shards: RwLock<BTreeMap<i32, Arc<Shard>>>,
    next_request: AtomicU64,
    timer: Timer,
}

/// When the one timer task next looks.
struct Timer {
    armed_ms: AtomicI64,
    earlier: Notify,
}

impl GroupCoordinator {
    pub fn new(around: Surroundings) -> Arc<GroupCoordinator> {
        let group = &around.config.group;
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
        Arc::new_cyclic(|me| GroupCoordinator {
            me: me.clone(),
            around,
            settings,
            codec,
            shards: RwLock::default(),
            next_request: AtomicU64::new(0),
            timer: Timer { armed_ms: AtomicI64::new(i64::MAX), earlier: Notify::new() },
        })
    }

    /// Starts the timer of all groups.
    pub fn start(self: &Arc<Self>) {
        let me = self.clone();
        self.around.spawner.data(Box::pin(async move { me.run_timers().await }));
    }

    /// Partitions of `__consumer_offsets`: what it has, or would be created with.
    pub fn partitions(&self) -> i32 {
        let snapshot = self.around.cluster.load();
        let existing = snapshot.topic(GROUP_METADATA).map(|topic| topic.partitions.len());
        match existing.and_then(|count| i32::try_from(count).ok()) {
            Some(count) if count > 0 => count,
            _ => self.around.config.group.offsets_topic_num_partitions,
        }
    }

    /// The partition that `group` lives in.
    pub fn partition_of(&self, group: &str) -> i32 {
        partition_of(group, self.partitions())
    }

    /// NOT_COORDINATOR or COORDINATOR_LOAD_IN_PROGRESS come in place of an answer.
    pub async fn join(&self, join: Join) -> Result<JoinAnswer, ErrorCode> {
        let group = join.group.clone();
        let step = |groups: &mut Groups, now, request| groups.join(now, Join { request, ..join });
        self.ask(&group, Waiter::Join, step).await
    }

    /// As [`GroupCoordinator::join`].
    pub async fn sync(&self, sync: Sync) -> Result<SyncAnswer, ErrorCode> {
        let group = sync.group.clone();
        let step = |groups: &mut Groups, now, request| groups.sync(now, Sync { request, ..sync });
        self.ask(&group, Waiter::Sync, step).await
    }

    /// An error for each partition, in order; else as [`GroupCoordinator::join`].
    pub async fn commit(&self, commit: Commit) -> Result<Vec<ErrorCode>, ErrorCode> {
        let group = commit.group.clone();
        let step = |groups: &mut Groups, now, request| groups.commit(now, Commit { request, ..commit });
        self.ask(&group, Waiter::Commit, step).await
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
        for shard in self.active_shards() {
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
        for shard in self.active_shards() {
            // A shard that is loading keeps them until they expire, as when the broker was away.
            let _ = self.enter(&shard, |groups, now| topics.iter().for_each(|topic| groups.forget_topic(now, topic)));
        }
    }

    /// The marker that ends a producer's transaction is in a partition of `__consumer_offsets` and replicated: what it
    /// committed there counts now, or never. Ended twice is ended once.
    pub fn transaction_ended(&self, partition: i32, producer_id: i64, commit: bool) {
        let Some(shard) = self.shards.read().get(&partition).cloned() else { return };
        let mut state = shard.state.lock();
        match &mut state.phase {
            Phase::Loading => state.ended.push((producer_id, commit)),
            Phase::Active(groups) => groups.end_transaction(producer_id, commit),
            Phase::Gone(_) => {}
        }
    }

    fn active_shards(&self) -> Vec<Arc<Shard>> {
        self.shards.read().values().cloned().collect()
    }

    fn shard(&self, group: &str) -> Result<Arc<Shard>, ErrorCode> {
        let partition = self.partition_of(group);
        self.shards.read().get(&partition).cloned().ok_or(ErrorCode::NotCoordinator)
    }

    fn with<T>(&self, group: &str, step: impl FnOnce(&mut Groups, Now) -> T) -> Result<T, ErrorCode> {
        self.enter(&*self.shard(group)?, step)
    }

    /// Runs one step of the core, and what it asks for.
    fn enter<T>(&self, shard: &Shard, step: impl FnOnce(&mut Groups, Now) -> T) -> Result<T, ErrorCode> {
        let mut state = shard.state.lock();
        let outcome = step(state.active()?, self.now());
        self.settle(shard, &mut state);
        Ok(outcome)
    }

    /// Runs one step of the core and waits for its answer.
    async fn ask<T>(
        &self,
        group: &str,
        waiter: impl FnOnce(oneshot::Sender<T>) -> Waiter,
        step: impl FnOnce(&mut Groups, Now, RequestId),
    ) -> Result<T, ErrorCode> {
        let receiver = {
            let shard = self.shard(group)?;
            let mut state = shard.state.lock();
            let (sender, receiver) = oneshot::channel();
            let request = RequestId(self.next_request.fetch_add(1, Ordering::Relaxed));
            let now = self.now();
            step(state.active()?, now, request);
            state.waiting.insert(request, waiter(sender));
            self.settle(&shard, &mut state);
            receiver
        };
        receiver.await.map_err(|_| ErrorCode::NotCoordinator)
    }

    fn now(&self) -> Now {
        Now { monotonic_ms: self.around.clock.monotonic_ms(), wall_ms: self.around.clock.wall_ms() }
    }

    /// Answers, appends, and brings back the outcome of appends that need no waiting, until the core asks for nothing more.
    fn settle(&self, shard: &Shard, state: &mut Shardful) {
        loop {
            let Phase::Active(groups) = &mut state.phase else { return };
            let effects = groups.take_effects();
            if effects.is_empty() {
                let due_ms = groups.next_due_ms();
                return self.timer.look_by(due_ms);
            }
            for effect in effects {
                match effect {
                    Effect::Append(append) => self.append(shard, state, append),
                    answer => state.answer(answer),
                }
            }
        }
    }

    fn append(&self, shard: &Shard, state: &mut Shardful, append: Append) {
        let (id, now) = (append.id, self.now());
        let group = &self.around.config.group;
        let acks = match append.replicated {
            false => Acks::None,
            true if group.offsets_commit_required_acks == -1 => Acks::All,
            true => Acks::Leader,
        };
        let appended = self.batch(&append, now.wall_ms).and_then(|mut batch| {
            let params = AppendParams {
                origin: Origin::Coordinator,
                leader_epoch: LeaderEpoch::NONE,
                now_ms: now.wall_ms,
                decompressed_max: DECOMPRESSED_MAX,
            };
            shard.partition.append_to_leader(&mut batch, acks, params).map_err(|error| error.code())
        });
        let outcome = match appended {
            Err(code) => Err(code),
            Ok(appended) => match Awaited::of(&appended) {
                None => Ok(appended.info.first_offset),
                Some(awaited) => {
                    let deadline_ms = now.monotonic_ms + i64::from(group.offsets_commit_timeout_ms);
                    let first = appended.info.first_offset;
                    state.replicating.push_back(Replicating { id, first, awaited, deadline_ms });
                    shard.pump.notify_one();
                    return;
                }
            },
        };
        if let Phase::Active(groups) = &mut state.phase {
            groups.appended(now, id, outcome);
        }
    }

    fn batch(&self, append: &Append, now_ms: i64) -> Result<Vec<u8>, ErrorCode> {
        let (producer_id, producer_epoch) = append.producer.unwrap_or((-1, -1));
        let options = BatchOptions {
            codec: self.codec,
            producer_id,
            producer_epoch,
            base_sequence: append.base_sequence,
            transactional: append.producer.is_some(),
            ..BatchOptions::default()
        };
        let build = || {
            let mut batch = BatchBuilder::new(options)?;
            for (key, value) in &append.records {
                batch.append(now_ms, Some(key), value.as_deref(), &[])?;
            }
            batch.finish()
        };
        build().map_err(|error| {
            tracing::error!(%error, "a batch for {GROUP_METADATA} cannot be made");
            ErrorCode::RecordListTooLarge
        })
    }

    async fn run_timers(&self) {
        let check_ms = self.around.config.group.offsets_retention_check_interval_ms;
        let mut expire_at_ms = self.around.clock.monotonic_ms().saturating_add(check_ms);
        loop {
            // Every shard says below when it is next due; what is armed meanwhile rings.
            self.timer.armed_ms.store(i64::MAX, Ordering::Release);
            let now = self.now();
            let expire = now.monotonic_ms >= expire_at_ms;
            if expire {
                expire_at_ms = now.monotonic_ms.saturating_add(check_ms);
            }
            for shard in self.active_shards() {
                // A shard that is loading or gone has no timers.
                let _ = self.enter(&shard, |groups, now| {
                    groups.tick(now);
                    if expire {
                        groups.expire(now);
                    }
                });
            }
            // What rang until here, this look included, is in `armed_ms`.
            let _ = self.timer.earlier.notified().now_or_never();
            let due_ms = self.timer.armed_ms.load(Ordering::Acquire).min(expire_at_ms);
            let wait_ms = due_ms.saturating_sub(self.around.clock.monotonic_ms()).max(0);
            tokio::select! {
                biased;
                () = self.around.shutdown.requested() => break,
                () = self.timer.earlier.notified() => {}
                () = tokio::time::sleep(Duration::from_millis(wait_ms as u64)) => {}
            }
        }
        // A join may wait for minutes; the broker's stop does not.
        self.active_shards().iter().for_each(|shard| shard.resign());
    }
}

impl Timer {
    fn look_by(&self, due_ms: Option<i64>) {
        let Some(due_ms) = due_ms else { return };
        if self.armed_ms.fetch_min(due_ms, Ordering::AcqRel) > due_ms {
            self.earlier.notify_one();
        }
    }
}

impl Leadership for GroupCoordinator {
    fn leads(&self, partition: &Arc<Partition>, epoch: LeaderEpoch) {
        let tp = partition.topic_partition();
        if &*tp.topic != GROUP_METADATA {
            return;
        }
        let shard = Arc::new(Shard::new(partition.clone(), epoch));
        let before = {
            let mut shards = self.shards.write();
            if shards.get(&tp.partition).is_some_and(|shard| shard.epoch >= epoch) {
                return;
            }
            shards.insert(tp.partition, shard.clone())
        };
        if let Some(before) = before {
            before.resign();
        }
        let Some(me) = self.me.upgrade() else { return };
        self.around.spawner.blocking(Box::new(move || me.load(shard)));
    }

    fn resigned(&self, tp: &TopicPartition, epoch: LeaderEpoch) {
        if &*tp.topic != GROUP_METADATA {
            return;
        }
        let gone = {
            let mut shards = self.shards.write();
            match shards.get(&tp.partition) {
                Some(shard) if epoch < LeaderEpoch(0) || shard.epoch <= epoch => shards.remove(&tp.partition),
                _ => None,
            }
        };
        if let Some(gone) = gone {
            gone.resign();
        }
    }
}

impl GroupCoordinator {
    /// Reads the groups of a partition and begins to serve them. Blocks on the disk.
    fn load(self: Arc<Self>, shard: Arc<Shard>) {
        let begun_ms = self.around.clock.monotonic_ms();
        let tp = shard.partition.topic_partition();
        let buffer = usize::try_from(self.around.config.group.offsets_load_buffer_size).unwrap_or(1);
        let loaded = match shard.partition.log() {
            Ok(log) => loader::load(&log, buffer).map_err(|error| error.to_string()),
            Err(code) => Err(code.to_string()),
        };
        let mut state = shard.state.lock();
        if !matches!(state.phase, Phase::Loading) {
            return;
        }
        match loaded {
            Ok(loaded) => {
                let mut groups = loaded.loading.finish(self.now(), self.settings.clone());
                // Their markers may stand behind what was read.
                for (producer_id, commit) in std::mem::take(&mut state.ended) {
                    groups.end_transaction(producer_id, commit);
                }
                state.phase = Phase::Active(Box::new(groups));
                let took_ms = self.around.clock.monotonic_ms() - begun_ms;
                if loaded.records > 0 || !loaded.skipped.is_empty() {
                    let (records, skipped) = (loaded.records, loaded.skipped.len());
                    tracing::info!(partition = %tp, records, skipped, "groups loaded in {took_ms} ms");
                }
            }
            Err(error) => {
                tracing::error!(partition = %tp, error, "groups cannot be loaded: they have no coordinator");
                state.phase = Phase::Gone(ErrorCode::CoordinatorNotAvailable);
                return;
            }
        }
        self.settle(&shard, &mut state);
        drop(state);
        let spawner = self.around.spawner.clone();
        spawner.data(Box::pin(async move { self.pump(&shard).await }));
    }

    /// Brings appends that wait for replicas back to the core, in the order of the log.
    async fn pump(&self, shard: &Shard) {
        loop {
            tokio::select! {
                biased;
                () = self.around.shutdown.requested() => return,
                () = shard.pump.notified() => {}
            }
            loop {
                let next = {
                    let state = shard.state.lock();
                    if !matches!(state.phase, Phase::Active(_)) {
                        return;
                    }
                    state.replicating.front().copied()
                };
                let Some(next) = next else { break };
                let left_ms = next.deadline_ms.saturating_sub(self.around.clock.monotonic_ms()).max(0);
                let wait = next.awaited.on(&shard.partition);
                let outcome = match tokio::time::timeout(Duration::from_millis(left_ms as u64), wait).await {
                    Ok(Ok(())) => Ok(next.first),
                    Ok(Err(why)) => Err(why.code()),
                    Err(_) => Err(ErrorCode::RequestTimedOut),
                };
                let mut state = shard.state.lock();
                state.replicating.pop_front();
                let now = self.now();
                let Ok(groups) = state.active() else { return };
                groups.appended(now, next.id, outcome);
                self.settle(shard, &mut state);
            }
        }
    }
}
