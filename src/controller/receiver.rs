//! The broker's end of the control channel: checks who speaks, then changes partitions and metadata.
//!
//! A request for an earlier life of this broker, or from a controller that was replaced, changes nothing. What touches the
//! disk runs on the blocking pool, for each log directory in the order of the requests ([`Lanes`]); the control thread only
//! waits for it, and the next request does not.
//!
//! A controller has one request under way to a broker: an answer that waited for a directory that stands still would hold
//! up what it has to say of all others. What is not done after [`PATIENCE`] is done later and answered with
//! REQUEST_TIMED_OUT, of which controllers, Kafka's as well, draw no conclusion. (Kafka's broker makes the controller
//! wait.) The deletion of a topic's replica, which controllers would take for failed, is promised instead: nobody reads or
//! appends to it any more, nothing brings it back, and it is done when its directory goes on.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::Instant;

use super::lanes::{Lanes, Lost, Queued};
use super::message::{ControlAnswer, ControlBody, ControlRequest, DURING_DELETE, MetadataUpdate, StopReplica};
use crate::cluster::{Cluster, DynamicConfigs, Session, Snapshot, TopicMeta};
use crate::metastore::schema::ConfigEntity;
use crate::replication::promised::Deletion;
use crate::replication::table::{LeaderAndIsr, PartitionTable};
use crate::spawn::Spawner;
use crate::storage::manager::LogManager;
use crate::types::{LeaderEpoch, TopicPartition};
use crate::wire::error_code::ErrorCode;

/// How long an answer waits for log directories: a third of `controller.socket.timeout.ms`, by default, after which the
/// controller asks again.
const PATIENCE: Duration = Duration::from_secs(10);

/// With the directory each is queued for.
type Deletions = HashMap<TopicPartition, (Option<PathBuf>, Weak<Deletion>)>;

/// Called with topics that are being deleted; may block. Their deletion is answered when it is done, or took too long.
pub type TopicsDeleted = Arc<dyn Fn(&[Arc<str>]) + Send + Sync>;

/// Applies control requests to this broker.
pub struct ControlReceiver {
    table: Arc<PartitionTable>,
    cluster: Arc<Cluster>,
    configs: Arc<DynamicConfigs>,
    session: Arc<Session>,
    lanes: Lanes,
    /// Deletions that are not done, and where they are queued: what comes after one is queued behind it, wherever the next
    /// log of that name will lie.
    deletions: parking_lot::Mutex<Deletions>,
    /// Where `deleted` is called: it appends to logs of its own.
    forgetting: Lanes,
    deleted: TopicsDeleted,
    broker_epoch: Arc<AtomicI64>,
    /// Highest seen. Held until a request is in its lanes: those of a controller and of its successor may come at once.
    controller_epoch: Mutex<i32>,
}

impl ControlReceiver {
    pub fn new(
        table: Arc<PartitionTable>,
        cluster: Arc<Cluster>,
        configs: Arc<DynamicConfigs>,
        session: Arc<Session>,
        spawner: Arc<dyn Spawner>,
        deleted: TopicsDeleted,
    ) -> ControlReceiver {
        ControlReceiver {
            table,
            cluster,
            configs,
            session,
            lanes: Lanes::new(spawner.clone()),
            deletions: Default::default(),
            forgetting: Lanes::new(spawner),
            deleted,
            broker_epoch: Arc::new(AtomicI64::new(-1)),
            controller_epoch: Mutex::new(0),
        }
    }

    pub fn broker_epoch(&self) -> i64 {
        self.broker_epoch.load(Ordering::Acquire)
    }

    /// Tells the epoch at the moment, to who must not hold what this holds.
    pub fn epoch_source(&self) -> Box<dyn Fn() -> i64 + Send + Sync> {
        let epoch = Arc::clone(&self.broker_epoch);
        Box::new(move || epoch.load(Ordering::Acquire))
    }

    /// This broker registered (again).
    pub fn registered(&self, broker_epoch: i64) {
        self.broker_epoch.store(broker_epoch, Ordering::Release);
    }

    /// Controllers of epochs before this one are not listened to.
    pub async fn forewarn(&self, controller_epoch: i32) {
        let mut seen = self.controller_epoch.lock().await;
        *seen = controller_epoch.max(*seen);
    }

    /// Requests take effect in the order they come, each log directory's in its own time.
    pub async fn receive(&self, request: ControlRequest) -> ControlAnswer {
        let queued = {
            let mut seen = self.controller_epoch.lock().await;
            // A higher epoch than ours: the controller saw a registration we do not know of yet.
            if request.broker_epoch >= 0 && request.broker_epoch < self.broker_epoch() {
                return refuse(&request.body, ErrorCode::StaleBrokerEpoch);
            }
            if request.controller_epoch < *seen {
                return refuse(&request.body, ErrorCode::StaleControllerEpoch);
            }
            *seen = request.controller_epoch;
            match request.body {
                ControlBody::LeaderAndIsr(update) => Taken::Applying(self.leader_and_isr(update.partitions).await),
                ControlBody::UpdateMetadata(update) => {
                    self.cluster.update(|snapshot| {
                        snapshot.controller = Some(request.controller);
                        merge(snapshot, &update);
                    });
                    Taken::Forgetting(self.forget_deleted(&update))
                }
                ControlBody::StopReplica(partitions) => Taken::Applying(self.stop_replica(partitions)),
            }
        };
        let deadline = Some(Instant::now() + PATIENCE);
        match queued {
            Taken::Applying(applying) => applying.answer(&self.table, deadline).await,
            Taken::Forgetting(forgetting) => {
                if let Some(forgetting) = forgetting {
                    // What is late, or was lost, is in the logs of groups a while longer, as after a kill.
                    let _ = forgetting.by(deadline).await;
                }
                ControlAnswer { error: ErrorCode::None, partitions: Vec::new() }
            }
        }
    }

    async fn leader_and_isr(&self, changes: Vec<LeaderAndIsr>) -> Applying {
        // A topic's creation announces no configuration change: its log must not be made with the defaults.
        let configs = self.configs.load();
        let unread: BTreeSet<&Arc<str>> = changes
            .iter()
            .filter(|change| change.is_new || !configs.topics.contains_key(&change.tp.topic))
            .map(|change| &change.tp.topic)
            .collect();
        for topic in unread {
            let entity = ConfigEntity::Topic(topic.to_string());
            if let Err(error) = self.configs.refresh(&*self.session.store(), &entity).await {
                tracing::error!(%topic, %error, "configuration not read, using what is known");
            }
        }
        let apply = |table: &PartitionTable, changes: &[LeaderAndIsr]| table.apply_leader_and_isr(changes);
        // Logs that are to be made wait for the directory they will lie in.
        self.apply(changes, |change| (&change.tp, false), LogManager::place, apply)
    }

    fn stop_replica(&self, asked: Vec<StopReplica>) -> Applying {
        let stop = |table: &PartitionTable, asked: &[StopReplica]| {
            asked.iter().map(|one| table.stop_replica(&one.tp, one.leader_epoch, one.delete)).collect()
        };
        let of_topics = asked.iter().map(|one| one.delete && one.leader_epoch <= LeaderEpoch::NONE).collect();
        Applying { of_topics, ..self.apply(asked, |one| (&one.tp, one.delete), LogManager::dir_of, stop) }
    }

    /// Queues `work` on what was asked for, apart for each log directory. `of` tells the partition, and whether it goes.
    fn apply<T: Send + 'static>(
        &self,
        asked: Vec<T>,
        of: impl Fn(&T) -> (&TopicPartition, bool),
        dir_of: impl Fn(&LogManager, &TopicPartition) -> Option<PathBuf>,
        work: impl Fn(&PartitionTable, &[T]) -> Vec<ErrorCode> + Copy + Send + 'static,
    ) -> Applying {
        let partitions: Vec<TopicPartition> = asked.iter().map(|one| of(one).0.clone()).collect();
        let mut deletions = self.deletions.lock();
        deletions.retain(|_, (_, deletion)| deletion.strong_count() > 0);
        let mut by_dir: BTreeMap<Option<PathBuf>, (Vec<usize>, Vec<T>)> = BTreeMap::new();
        for (at, one) in asked.into_iter().enumerate() {
            let tp = of(&one).0;
            let dir = match deletions.get(tp) {
                Some((dir, _)) => dir.clone(),
                None => dir_of(self.table.logs(), tp),
            };
            let (places, of_dir) = by_dir.entry(dir).or_default();
            places.push(at);
            of_dir.push(one);
        }
        let parts = by_dir.into_iter().map(|(dir, (places, asked))| {
            let table = Arc::clone(&self.table);
            let under_way = Arc::new(Deletion::default());
            let promise = Arc::downgrade(&under_way);
            for (tp, goes) in asked.iter().map(&of) {
                if goes {
                    deletions.insert(tp.clone(), (dir.clone(), Weak::clone(&promise)));
                }
            }
            let work = move || {
                let _under_way = under_way;
                work(&table, &asked)
            };
            Part { places, codes: self.lanes.push(dir, work), promise }
        });
        Applying { parts: parts.collect(), partitions, of_topics: Vec::new() }
    }

    /// Requests see the new metadata by now: nothing is added any more to what is taken away here.
    fn forget_deleted(&self, update: &MetadataUpdate) -> Option<Queued<()>> {
        let gone: BTreeSet<&Arc<str>> = update
            .partitions
            .iter()
            .filter(|partition| partition.meta.leader == DURING_DELETE)
            .map(|partition| &partition.tp.topic)
            .collect();
        if gone.is_empty() {
            return None;
        }
        let gone: Vec<Arc<str>> = gone.into_iter().cloned().collect();
        self.configs.update(|configs| {
            for topic in &gone {
                configs.topics.remove(topic);
            }
        });
        let deleted = self.deleted.clone();
        Some(self.forgetting.push(None, move || deleted(&gone)))
    }
}

/// A request that took effect as far as it can without a disk.
enum Taken {
    Applying(Applying),
    Forgetting(Option<Queued<()>>),
}

/// A request that is queued.
struct Applying {
    partitions: Vec<TopicPartition>,
    parts: Vec<Part>,
    /// By place, which partitions are deleted with their topics, whatever their epochs; empty when none is.
    of_topics: Vec<bool>,
}

/// What is queued for one directory.
struct Part {
    /// Among the partitions.
    places: Vec<usize>,
    codes: Queued<Vec<ErrorCode>>,
    /// For those that are deleted.
    promise: Weak<Deletion>,
}

impl Applying {
    /// When all of it is done, or at the deadline.
    async fn answer(self, table: &PartitionTable, deadline: Option<Instant>) -> ControlAnswer {
        let mut codes = vec![ErrorCode::None; self.partitions.len()];
        for Part { places, codes: part, promise } in self.parts {
            let part = match part.by(deadline).await {
                Some(Ok(part)) => part,
                Some(Err(Lost)) => {
                    return ControlAnswer { error: ErrorCode::UnknownServerError, partitions: Vec::new() };
                }
                None => {
                    let late = |place: &usize| match (self.partitions.get(*place), self.of_topics.get(*place)) {
                        (Some(tp), Some(true)) => {
                            table.promise_deletion(tp, &promise);
                            ErrorCode::None
                        }
                        _ => ErrorCode::RequestTimedOut,
                    };
                    places.iter().map(late).collect()
                }
            };
            for (place, code) in places.into_iter().zip(part) {
                if let Some(slot) = codes.get_mut(place) {
                    *slot = code;
                }
            }
        }
        ControlAnswer { error: ErrorCode::None, partitions: self.partitions.into_iter().zip(codes).collect() }
    }
}

fn refuse(body: &ControlBody, error: ErrorCode) -> ControlAnswer {
    let partitions = match body {
        ControlBody::LeaderAndIsr(update) => {
            update.partitions.iter().map(|change| (change.tp.clone(), error)).collect()
        }
        _ => Vec::new(),
    };
    ControlAnswer { error, partitions }
}

/// Listed partitions replace, whatever their epochs; leader [`DURING_DELETE`] removes; the brokers replace the set.
fn merge(snapshot: &mut Snapshot, update: &MetadataUpdate) {
    snapshot.brokers = update.brokers.iter().map(|broker| (broker.id, broker.clone())).collect();
    for partition in &update.partitions {
        let topic = &partition.tp.topic;
        if partition.meta.leader == DURING_DELETE {
            let Some(known) = snapshot.topics.get_mut(topic) else { continue };
            let known_now = Arc::make_mut(known);
            known_now.partitions.remove(&partition.tp.partition);
            if known_now.partitions.is_empty() {
                let id = known_now.id;
                snapshot.topics.remove(topic);
                snapshot.topic_names.remove(&id);
            }
            continue;
        }
        let known = snapshot.topics.entry(Arc::clone(topic)).or_insert_with(|| {
            Arc::new(TopicMeta { name: Arc::clone(topic), id: partition.topic_id, partitions: Default::default() })
        });
        let known = Arc::make_mut(known);
        if known.id != partition.topic_id {
            snapshot.topic_names.remove(&known.id);
            known.id = partition.topic_id;
        }
        known.partitions.insert(partition.tp.partition, partition.meta.clone());
        if !partition.topic_id.is_zero() {
            snapshot.topic_names.insert(partition.topic_id, Arc::clone(topic));
        }
    }
}
