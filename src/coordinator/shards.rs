//! The partitions of an internal topic that this broker leads, each with the core that lives in it.
//!
//! ```text
//! becomes leader ─ load (blocking pool) ─► active: request ─ lock ─ core ─ append (page cache) ─ unlock
//!                                                             ▲                     │ not replicated yet
//!                        one timer for all partitions ─ tick ─┘◄── outcome ── pump ─┘ in the order of the log
//! loses it ─ everyone who waits is told, the core is dropped
//! ```
//! The lock of a partition is held while its records are appended, so that steps are in the log in the order in which they
//! were taken, and never while anybody waits.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::FutureExt;
use parking_lot::RwLock;
use tokio::sync::{Notify, oneshot};

use super::cores::{Append, Core, Effect, Now, RequestId};
use super::loader::{self, Replay};
use super::placement::partition_of;
use super::shard::{Awaited, Phase, Replicating, Shard, Shardful};
use crate::clock::Clock;
use crate::cluster::Cluster;
use crate::replication::partition::Partition;
use crate::spawn::{Shutdown, Spawner};
use crate::storage::log::{AppendParams, Origin};
use crate::types::{Acks, LeaderEpoch, TopicPartition};
use crate::wire::batch::{BatchBuilder, BatchOptions};
use crate::wire::compression::{Codec, DECOMPRESSED_MAX};
use crate::wire::error_code::ErrorCode;

/// What is done in every partition from time to time: the ms in between, and what.
pub(super) type Chore<C> = (i64, fn(&mut C, Now));

/// What one internal topic has of its own.
pub(super) trait Topic: Send + Sync + 'static {
    type Core: Core;
    type Loading: Replay;
    const NAME: &'static str;
    /// What lives in it, for the log.
    const HOLDS: &'static str;

    /// Partitions it would be created with.
    fn partitions(&self) -> i32;
    /// Bytes read at once when it is loaded.
    fn load_buffer(&self) -> i32;
    fn codec(&self) -> Codec;
    /// Of appends that are to be replicated.
    fn acks(&self) -> Acks;
    /// How long in-sync replicas are waited for, ms.
    fn timeout_ms(&self) -> i32;
    fn chores(&self) -> Vec<Chore<Self::Core>>;
    fn loaded(&self, loading: Self::Loading, now: Now, epoch: LeaderEpoch) -> Self::Core;
    /// Under the partition's lock: it must not enter it.
    fn perform(&self, shard: &Arc<Shard<Self::Core>>, task: <Self::Core as Core>::Task);
}

/// What they run on.
pub(super) struct Around {
    pub cluster: Arc<Cluster>,
    pub clock: Arc<dyn Clock>,
    pub spawner: Arc<dyn Spawner>,
    pub shutdown: Shutdown,
}

pub(super) struct Shards<T: Topic> {
    me: Weak<Shards<T>>,
    pub around: Around,
    pub topic: T,
    shards: RwLock<BTreeMap<i32, Arc<Shard<T::Core>>>>,
    next_request: AtomicU64,
    timer: Timer,
}

/// When the one timer task next looks.
struct Timer {
    armed_ms: AtomicI64,
    earlier: Notify,
}

impl<T: Topic> Shards<T> {
    pub fn new(around: Around, topic: T) -> Arc<Shards<T>> {
        Arc::new_cyclic(|me| Shards {
            me: me.clone(),
            around,
            topic,
            shards: RwLock::default(),
            next_request: AtomicU64::new(0),
            timer: Timer { armed_ms: AtomicI64::new(i64::MAX), earlier: Notify::new() },
        })
    }

    /// Starts the timer of all partitions.
    pub fn start(self: &Arc<Self>) {
        let me = self.clone();
        self.around.spawner.data(Box::pin(async move { me.run_timers().await }));
    }

    /// Partitions: what the topic has, or would be created with.
    pub fn partitions(&self) -> i32 {
        let snapshot = self.around.cluster.load();
        let existing = snapshot.topic(T::NAME).map(|topic| topic.partitions.len());
        match existing.and_then(|count| i32::try_from(count).ok()) {
            Some(count) if count > 0 => count,
            _ => self.topic.partitions(),
        }
    }

    /// The partition that `key` lives in.
    pub fn partition_of(&self, key: &str) -> i32 {
        partition_of(key, self.partitions())
    }

    pub fn all(&self) -> Vec<Arc<Shard<T::Core>>> {
        self.shards.read().values().cloned().collect()
    }

    pub fn shard_at(&self, partition: i32) -> Option<Arc<Shard<T::Core>>> {
        self.shards.read().get(&partition).cloned()
    }

    /// NOT_COORDINATOR when it is led elsewhere.
    pub fn shard(&self, key: &str) -> Result<Arc<Shard<T::Core>>, ErrorCode> {
        self.shard_at(self.partition_of(key)).ok_or(ErrorCode::NotCoordinator)
    }

    /// Runs one step of the core that `key` lives in. NOT_COORDINATOR or COORDINATOR_LOAD_IN_PROGRESS come in its place.
    pub fn with<R>(&self, key: &str, step: impl FnOnce(&mut T::Core, Now) -> R) -> Result<R, ErrorCode> {
        self.enter(&self.shard(key)?, step)
    }

    /// Runs one step of the core, and what it asks for.
    pub fn enter<R>(
        &self,
        shard: &Arc<Shard<T::Core>>,
        step: impl FnOnce(&mut T::Core, Now) -> R,
    ) -> Result<R, ErrorCode> {
        let mut state = shard.state.lock();
        let outcome = step(state.active()?, self.now());
        self.settle(shard, &mut state);
        Ok(outcome)
    }

    /// Runs one step of the core and waits for its answer.
    pub async fn ask(
        &self,
        key: &str,
        step: impl FnOnce(&mut T::Core, Now, RequestId),
    ) -> Result<<T::Core as Core>::Answer, ErrorCode> {
        let receiver = {
            let shard = self.shard(key)?;
            let mut state = shard.state.lock();
            let (sender, receiver) = oneshot::channel();
            let request = RequestId(self.next_request.fetch_add(1, Ordering::Relaxed));
            let now = self.now();
            step(state.active()?, now, request);
            state.waiting.insert(request, sender);
            self.settle(&shard, &mut state);
            receiver
        };
        receiver.await.map_err(|_| ErrorCode::NotCoordinator)
    }

    pub fn now(&self) -> Now {
        Now { monotonic_ms: self.around.clock.monotonic_ms(), wall_ms: self.around.clock.wall_ms() }
    }

    /// Answers, appends, and brings back the outcome of appends that need no waiting, until the core asks for nothing more.
    fn settle(&self, shard: &Arc<Shard<T::Core>>, state: &mut Shardful<T::Core>) {
        loop {
            let Phase::Active(core) = &mut state.phase else { return };
            let effects = core.take_effects();
            if effects.is_empty() {
                let due_ms = core.next_due_ms();
                return self.timer.look_by(due_ms);
            }
            for effect in effects {
                match effect {
                    Effect::Append(append) => self.append(shard, state, append),
                    Effect::Answer(request, answer) => state.answer(request, answer),
                    Effect::Task(task) => self.topic.perform(shard, task),
                }
            }
        }
    }

    fn append(&self, shard: &Shard<T::Core>, state: &mut Shardful<T::Core>, append: Append) {
        let (id, now) = (append.id, self.now());
        let acks = if append.replicated { self.topic.acks() } else { Acks::None };
        let appended = self.batch(&append, now.wall_ms).and_then(|mut batch| {
            let params = AppendParams {
                origin: Origin::Coordinator,
                verification: append.verification,
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
                    let timeout_ms = append.timeout_ms.unwrap_or_else(|| self.topic.timeout_ms());
                    let deadline_ms = now.monotonic_ms + i64::from(timeout_ms);
                    let first = appended.info.first_offset;
                    state.replicating.push_back(Replicating { id, first, awaited, deadline_ms });
                    shard.pump.notify_one();
                    return;
                }
            },
        };
        if let Phase::Active(core) = &mut state.phase {
            core.appended(now, id, outcome);
        }
    }

    fn batch(&self, append: &Append, now_ms: i64) -> Result<Vec<u8>, ErrorCode> {
        let (producer_id, producer_epoch) = append.producer.unwrap_or((-1, -1));
        let options = BatchOptions {
            codec: self.topic.codec(),
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
            tracing::error!(%error, "a batch for {} cannot be made", T::NAME);
            ErrorCode::RecordListTooLarge
        })
    }

    async fn run_timers(&self) {
        let now_ms = self.around.clock.monotonic_ms();
        let mut chores: Vec<(i64, Chore<T::Core>)> =
            self.topic.chores().into_iter().map(|chore| (now_ms.saturating_add(chore.0), chore)).collect();
        loop {
            // Every shard says below when it is next due; what is armed meanwhile rings.
            self.timer.armed_ms.store(i64::MAX, Ordering::Release);
            let now = self.now();
            let mut due = Vec::new();
            for (at_ms, (every_ms, chore)) in &mut chores {
                if now.monotonic_ms >= *at_ms {
                    *at_ms = now.monotonic_ms.saturating_add(*every_ms);
                    due.push(*chore);
                }
            }
            for shard in self.all() {
                // A shard that is loading or gone has no timers.
                let _ = self.enter(&shard, |core, now| {
                    core.tick(now);
                    due.iter().for_each(|chore| chore(core, now));
                });
            }
            // What rang until here, this look included, is in `armed_ms`.
            let _ = self.timer.earlier.notified().now_or_never();
            let first_chore_ms = chores.iter().map(|(at_ms, _)| *at_ms).min().unwrap_or(i64::MAX);
            let due_ms = self.timer.armed_ms.load(Ordering::Acquire).min(first_chore_ms);
            let wait_ms = due_ms.saturating_sub(self.around.clock.monotonic_ms()).max(0);
            tokio::select! {
                biased;
                () = self.around.shutdown.requested() => break,
                () = self.timer.earlier.notified() => {}
                () = tokio::time::sleep(Duration::from_millis(wait_ms as u64)) => {}
            }
        }
        // A join may wait for minutes; the broker's stop does not.
        self.all().iter().for_each(|shard| shard.resign());
    }

    /// This broker leads since `epoch`.
    pub fn leads(&self, partition: &Arc<Partition>, epoch: LeaderEpoch) {
        let tp = partition.topic_partition();
        if &*tp.topic != T::NAME {
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

    /// Somebody else leads in `epoch`, or (-1 and below) the replica goes away.
    pub fn resigned(&self, tp: &TopicPartition, epoch: LeaderEpoch) {
        if &*tp.topic != T::NAME {
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

    /// A marker of this producer is in the partition and replicated.
    pub fn transaction_ended(&self, partition: i32, producer_id: i64, commit: bool) {
        let Some(shard) = self.shard_at(partition) else { return };
        let mut state = shard.state.lock();
        match &mut state.phase {
            Phase::Loading => state.ended.push((producer_id, commit)),
            Phase::Active(core) => core.end_transaction(producer_id, commit),
            Phase::Gone(_) => {}
        }
    }

    /// Reads what lives in a partition and begins to serve it. Blocks on the disk.
    fn load(self: Arc<Self>, shard: Arc<Shard<T::Core>>) {
        let begun_ms = self.around.clock.monotonic_ms();
        let tp = shard.partition.topic_partition();
        let buffer = usize::try_from(self.topic.load_buffer()).unwrap_or(1);
        let loaded = match shard.partition.log() {
            Ok(log) => loader::load::<T::Loading>(&log, buffer).map_err(|error| error.to_string()),
            Err(code) => Err(code.to_string()),
        };
        let mut state = shard.state.lock();
        if !matches!(state.phase, Phase::Loading) {
            return;
        }
        match loaded {
            Ok(loaded) => {
                let mut core = self.topic.loaded(loaded.loading, self.now(), shard.epoch);
                // Their markers may stand behind what was read.
                for (producer_id, commit) in std::mem::take(&mut state.ended) {
                    core.end_transaction(producer_id, commit);
                }
                state.phase = Phase::Active(Box::new(core));
                let took_ms = self.around.clock.monotonic_ms() - begun_ms;
                if loaded.records > 0 || !loaded.skipped.is_empty() {
                    let (records, skipped) = (loaded.records, loaded.skipped.len());
                    tracing::info!(partition = %tp, records, skipped, "{} loaded in {took_ms} ms", T::HOLDS);
                }
            }
            Err(error) => {
                tracing::error!(partition = %tp, error, "{} cannot be loaded: they have no coordinator", T::HOLDS);
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
    async fn pump(&self, shard: &Arc<Shard<T::Core>>) {
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
                let Ok(core) = state.active() else { return };
                core.appended(now, next.id, outcome);
                self.settle(shard, &mut state);
            }
        }
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
