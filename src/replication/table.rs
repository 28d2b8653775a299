//! All partitions this broker has a replica of, and how the controller's messages change them.
//!
//! Looking a partition up is on every request's path: a shard's read lock, a hash, a clone of an `Arc`, no
//! allocation. A partition's changes are one at a time. None waits for another partition's, which may wait for its disk.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use smallvec::SmallVec;

use super::fetcher::Fetchers;
use super::fitness;
use super::flush::FlushQueue;
use super::isr_changes::IsrChanges;
use super::leader_checks::LeaderChecks;
use super::partition::Partition;
use super::promised::{Deletion, Promised};
use super::waiting_followers::WaitingFollowers;
use crate::clock::Clock;
use crate::cluster::Cluster;
use crate::config::TopicConfig;
use crate::spawn::Spawner;
use crate::storage::manager::{LogManager, ManagerError, MoveError};
use crate::storage::one_at_a_time::OneAtATime;
use crate::types::{BrokerId, LeaderEpoch, TopicId, TopicPartition};
use crate::wire::error_code::ErrorCode;

/// One partition of a LeaderAndIsr request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaderAndIsr {
    pub tp: TopicPartition,
    pub topic_id: TopicId,
    pub controller_epoch: i32,
    pub leader: BrokerId,
    pub leader_epoch: LeaderEpoch,
    pub isr: Vec<BrokerId>,
    pub partition_epoch: i32,
    pub replicas: Vec<BrokerId>,
    /// Of `replicas`, those that a reassignment adds.
    pub adding_replicas: Vec<BrokerId>,
    /// Of `replicas`, those that go when it is done.
    pub removing_replicas: Vec<BrokerId>,
    pub is_new: bool,
    /// The leader was elected from outside the ISR and may not have all that was committed (KIP-704).
    pub recovering: bool,
}

/// Resolves a topic's configuration: its overrides over the broker's defaults.
pub type TopicConfigs = Box<dyn Fn(&str) -> Arc<TopicConfig> + Send + Sync>;

/// What every partition of this broker shares.
pub struct Surroundings {
    pub broker: BrokerId,
    pub clock: Arc<dyn Clock>,
    pub spawner: Arc<dyn Spawner>,
    pub cluster: Arc<Cluster>,
    pub replica_lag_time_max_ms: i64,
    /// By log directory; one is made when its first partition comes.
    pub flush_queues: Mutex<HashMap<PathBuf, Arc<FlushQueue>>>,
    /// Who asks the controller for ISR changes; none are asked for without.
    pub isr_changes: OnceLock<Arc<IsrChanges>>,
    /// Who looks whether what is led here is; nobody does without.
    pub leader_checks: OnceLock<Arc<LeaderChecks>>,
}

impl Surroundings {
    /// Where the fsyncs of a log directory's partitions are queued.
    pub fn flush_queue(&self, dir: &Path) -> Arc<FlushQueue> {
        let mut queues = self.flush_queues.lock();
        match queues.get(dir) {
            Some(queue) => Arc::clone(queue),
            None => Arc::clone(
                queues.entry(dir.to_path_buf()).or_insert_with(|| FlushQueue::new(Arc::clone(&self.spawner))),
            ),
        }
    }

    /// Whether a broker that fetches in `epoch` (-1 unknown) may join an ISR: it lives, and as far as this broker knows in
    /// that epoch. The controller looks again.
    pub fn may_join(&self, broker: BrokerId, epoch: i64) -> bool {
        let snapshot = self.cluster.load();
        snapshot.brokers.get(&broker).is_some_and(|alive| epoch < 0 || alive.epoch < 0 || alive.epoch == epoch)
    }

    /// Whether a broker is in this broker's metadata.
    pub fn is_alive(&self, broker: BrokerId) -> bool {
        self.cluster.load().brokers.contains_key(&broker)
    }
}

impl fmt::Debug for Surroundings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Surroundings").field("broker", &self.broker).finish_non_exhaustive()
    }
}

/// Resolved once for the partitions of a topic that come in one message.
type Configs = HashMap<Arc<str>, Arc<TopicConfig>>;

/// Told when this broker begins or ends to lead a partition. One call at a time for a partition, in the order of its changes;
/// it must not block.
pub trait Leadership: Send + Sync {
    /// Leads since `epoch`; again for each higher one.
    fn leads(&self, partition: &Arc<Partition>, epoch: LeaderEpoch);
    /// Somebody else leads in `epoch`, or (-1 and below) the replica goes away.
    fn resigned(&self, tp: &TopicPartition, epoch: LeaderEpoch);
}

const SHARDS: usize = 16;

/// In order, so that whoever goes through all goes the same way each time.
type Shard = RwLock<BTreeMap<Arc<str>, BTreeMap<i32, Arc<Partition>>>>;

/// Kafka's `ReplicaManager`, minus what lives in [`Partition`].
pub struct PartitionTable {
    around: Arc<Surroundings>,
    logs: Arc<LogManager>,
    topic_configs: TopicConfigs,
    leadership: OnceLock<Vec<Arc<dyn Leadership>>>,
    fetchers: OnceLock<Arc<Fetchers>>,
    shards: [Shard; SHARDS],
    changing: OneAtATime,
    promised: Promised,
    followers: Arc<WaitingFollowers>,
}

impl fmt::Debug for PartitionTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PartitionTable").field("broker", &self.around.broker).finish_non_exhaustive()
    }
}

impl PartitionTable {
    pub fn new(around: Surroundings, logs: Arc<LogManager>, topic_configs: TopicConfigs) -> PartitionTable {
        PartitionTable {
            around: Arc::new(around),
            logs,
            topic_configs,
            leadership: OnceLock::new(),
            fetchers: OnceLock::new(),
            shards: Default::default(),
            changing: OneAtATime::default(),
            promised: Promised::default(),
            followers: Arc::default(),
        }
    }

    /// Who is told of changes of leadership from now on. The first ones stay.
    pub fn tell(&self, leadership: Vec<Arc<dyn Leadership>>) {
        let _ = self.leadership.set(leadership);
    }

    /// Who fetches for partitions that follow from now on. The first one stays.
    pub fn fetch_with(&self, fetchers: Arc<Fetchers>) {
        let _ = self.fetchers.set(fetchers);
    }

    /// Who asks the controller for ISR changes from now on. The first one stays.
    pub fn change_isrs_with(&self, changes: Arc<IsrChanges>) {
        let _ = self.around.isr_changes.set(changes);
    }

    /// Who looks whether what is led here is, from now on. The first one stays.
    pub fn check_leaders_with(&self, checks: Arc<LeaderChecks>) {
        let _ = self.around.leader_checks.set(checks);
    }

    /// A follower's connection has ended.
    pub fn follower_left(&self, follower: BrokerId) {
        if let Some(checks) = self.around.leader_checks.get() {
            checks.doubt(self.all().into_iter().filter(|partition| partition.counts_on(follower)));
        }
    }

    fn fetch_no_longer(&self, tp: &TopicPartition) {
        if let Some(fetchers) = self.fetchers.get() {
            fetchers.leave(tp);
        }
    }

    pub fn get(&self, topic: &str, partition: i32) -> Option<Arc<Partition>> {
        self.shard(topic).read().get(topic)?.get(&partition).cloned()
    }

    pub fn all(&self) -> Vec<Arc<Partition>> {
        self.shards
            .iter()
            .flat_map(|shard| shard.read().values().flat_map(|of_topic| of_topic.values().cloned()).collect::<Vec<_>>())
            .collect()
    }

    pub fn of_topic(&self, topic: &str) -> Vec<Arc<Partition>> {
        self.shard(topic).read().get(topic).map_or_else(Vec::new, |of_topic| of_topic.values().cloned().collect())
    }

    pub fn logs(&self) -> &Arc<LogManager> {
        &self.logs
    }

    /// A topic's configuration changed: its live logs take the new one.
    pub fn topic_config_changed(&self, topic: &str) {
        let config = (self.topic_configs)(topic);
        for partition in self.of_topic(topic) {
            if let Ok(log) = partition.log() {
                log.set_config(Arc::clone(&config));
            }
        }
    }

    /// A broker-wide default changed: every live log takes its topic's configuration anew.
    pub fn all_topic_configs_changed(&self) {
        let topics: Vec<Arc<str>> =
            self.shards.iter().flat_map(|shard| shard.read().keys().cloned().collect::<Vec<_>>()).collect();
        for topic in topics {
            self.topic_config_changed(&topic);
        }
    }

    /// A log directory failed: its partitions answer KAFKA_STORAGE_ERROR from now on, also to whom waits. Returns how many
    /// they are.
    pub fn directory_failed(&self, dir: &Path) -> usize {
        let lost: Vec<_> = self.all().into_iter().filter(|partition| partition.lies_in(dir)).collect();
        for partition in &lost {
            self.fetch_no_longer(partition.topic_partition());
            partition.go_offline();
        }
        lost.len()
    }

    /// Applies one controller message; one answer per partition, in order. Creates logs: blocks on the disk.
    pub fn apply_leader_and_isr(&self, changes: &[LeaderAndIsr]) -> Vec<ErrorCode> {
        let mut configs = HashMap::new();
        let mut apply = |change: &LeaderAndIsr| {
            let _one_at_a_time = self.changing.hold(&change.tp);
            self.apply(change, &mut configs).err().unwrap_or(ErrorCode::None)
        };
        let answers = changes.iter().map(&mut apply).collect();
        let led = changes.iter().filter(|change| change.leader == self.around.broker);
        let mut told: SmallVec<[BrokerId; 8]> = led.flat_map(|change| change.replicas.iter().copied()).collect();
        told.sort_unstable();
        told.dedup();
        if told.iter().any(|replica| *replica != self.around.broker) {
            self.followers.release(|follower| told.binary_search(&follower).is_ok());
        }
        self.logs.give_places_up(changes.iter().map(|change| &change.tp));
        // Copies that the last life of this broker began.
        self.start_moves();
        answers
    }

    /// Fetches of followers that wait for what is led here.
    pub fn followers(&self) -> &Arc<WaitingFollowers> {
        &self.followers
    }

    /// AlterReplicaLogDirs: moves a partition's log to the log directory `to`, which is done when this returns with no
    /// error or will be done later. Creates the copy: blocks on the disk.
    ///
    /// INVALID_TOPIC_EXCEPTION when the topic's name leaves no room for the copy's → LOG_DIR_NOT_FOUND → KAFKA_STORAGE_ERROR
    /// when `to` or where the partition lies is offline → REPLICA_NOT_AVAILABLE (UNKNOWN_TOPIC_OR_PARTITION when nobody has
    /// it) without a replica here; one that is made later is made in `to` → KAFKA_STORAGE_ERROR when any directory is
    /// offline and a copy would have to be made.
    pub fn move_log(&self, tp: &TopicPartition, to: &Path) -> Result<(), ErrorCode> {
        let _one_at_a_time = self.changing.hold(tp);
        let moved = self.logs.move_log(tp, to);
        if let (Err(MoveError::NoLog), Some(_)) = (&moved, self.get(&tp.topic, tp.partition)) {
            return Err(ErrorCode::KafkaStorageError);
        }
        match moved {
            Ok(begun) => {
                if begun {
                    self.start_moves();
                }
                Ok(())
            }
            Err(MoveError::NameTooLong) => Err(ErrorCode::InvalidTopicException),
            Err(MoveError::NoSuchDirectory(_)) => Err(ErrorCode::LogDirNotFound),
            Err(MoveError::NoLog) => Err(match self.around.cluster.load().partition(&tp.topic, tp.partition) {
                Some(_) => ErrorCode::ReplicaNotAvailable,
                None => ErrorCode::UnknownTopicOrPartition,
            }),
            Err(error @ (MoveError::Offline(_) | MoveError::AnyOffline | MoveError::Disk(_))) => {
                tracing::warn!(partition = %tp, %error, "not moved between log directories");
                Err(ErrorCode::KafkaStorageError)
            }
        }
    }

    fn start_moves(&self) {
        if self.logs.begin_moves() {
            work_on_moves(Arc::clone(&self.logs), Arc::clone(&self.around.spawner));
        }
    }

    /// First that holds:
    /// - directory offline: KAFKA_STORAGE_ERROR, whatever the epoch: that is how a controller asks what is lost;
    /// - another topic id stored: INCONSISTENT_TOPIC_ID;
    /// - leader epoch lower than or equal to the known one: STALE_CONTROLLER_EPOCH (normal after a failover);
    /// - not one of the replicas, or its deletion was promised: UNKNOWN_TOPIC_OR_PARTITION;
    /// - leader epoch lower than the latest one of the log: STALE_CONTROLLER_EPOCH;
    /// - named leader without what was committed: KAFKA_STORAGE_ERROR, see [`fitness`].
    fn apply(&self, change: &LeaderAndIsr, configs: &mut Configs) -> Result<(), ErrorCode> {
        let me = self.around.broker;
        let known = self.get(&change.tp.topic, change.tp.partition);
        if let Some(known) = &known {
            known.log()?;
            if !change.topic_id.is_zero() && !known.topic_id().is_zero() && known.topic_id() != change.topic_id {
                return Err(ErrorCode::InconsistentTopicId);
            }
            if change.leader_epoch <= known.leader_epoch() {
                return Err(ErrorCode::StaleControllerEpoch);
            }
        }
        if !change.replicas.contains(&me) || self.promised.holds(&change.tp) {
            return Err(ErrorCode::UnknownTopicOrPartition);
        }
        let partition = match known {
            Some(partition) => partition,
            None => self.host(change, configs)?,
        };
        let log = partition.log()?;
        if fitness::is_of_later_epoch(&log, change) {
            return Err(ErrorCode::StaleControllerEpoch);
        }
        if fitness::is_too_short(&log, change, me) {
            return Err(ErrorCode::KafkaStorageError);
        }
        if change.recovering || change.leader == me {
            log.give_up_what_is_missing();
        }
        let told = self.leadership.get().into_iter().flatten();
        if change.leader == me {
            self.fetch_no_longer(&change.tp);
            partition.make_leader(change)?;
            for told in told {
                told.leads(&partition, change.leader_epoch);
            }
        } else {
            partition.make_follower(change);
            match self.fetchers.get() {
                Some(fetchers) if change.leader.0 >= 0 => {
                    fetchers.follow(&partition, change.leader, change.leader_epoch);
                }
                _ => self.fetch_no_longer(&change.tp),
            }
            for told in told {
                told.resigned(&change.tp, change.leader_epoch);
            }
        }
        Ok(())
    }

    /// Finds or makes the log of a partition not seen since start.
    ///
    /// A member of the ISR whose log is lost gets none, and no partition, until another leads: it may follow later.
    fn host(&self, change: &LeaderAndIsr, configs: &mut Configs) -> Result<Arc<Partition>, ErrorCode> {
        let topic = &change.tp.topic;
        let mut config = || {
            let resolved = configs.entry(Arc::clone(topic)).or_insert_with(|| (self.topic_configs)(topic));
            Arc::clone(resolved)
        };
        let log = match self.logs.get(&change.tp) {
            Some(log)
                if log.topic_id() != change.topic_id && !change.topic_id.is_zero() && !log.topic_id().is_zero() =>
            {
                return Err(ErrorCode::InconsistentTopicId);
            }
            Some(log) => Ok(log),
            // Its log may lie in a directory that is offline: another must not be begun beside it.
            None if !change.is_new && self.logs.any_offline() => Err(ErrorCode::KafkaStorageError),
            None if fitness::must_have_its_log(change, self.around.broker) => {
                tracing::error!(
                    partition = %change.tp,
                    epoch = %change.leader_epoch,
                    "in the ISR of a partition that was written before and that no other broker leads, but its log is not \
                     here: nothing is created"
                );
                return Err(ErrorCode::KafkaStorageError);
            }
            None => self.logs.get_or_create(&change.tp, change.topic_id, config()).map_err(|error: ManagerError| {
                tracing::error!(partition = %change.tp, %error, "log not created");
                ErrorCode::KafkaStorageError
            }),
        };
        let failed = log.as_ref().err().copied();
        let partition = Partition::new(change.tp.clone(), change.topic_id, Arc::clone(&self.around), log.ok());
        self.shard(&change.tp.topic)
            .write()
            .entry(Arc::clone(&change.tp.topic))
            .or_default()
            .insert(change.tp.partition, Arc::clone(&partition));
        // A promise looks into the table after it holds: this one or that finds the other.
        if self.promised.holds(&change.tp) {
            self.remove(&change.tp);
            return Err(ErrorCode::UnknownTopicOrPartition);
        }
        failed.map_or(Ok(partition), Err)
    }

    /// StopReplica; with `delete` the directory goes as well. FENCED_LEADER_EPOCH for an epoch below the known one;
    /// -1 and -2 (topic deletion) always pass. A partition that is not here is NONE; with `delete` its files go.
    pub fn stop_replica(&self, tp: &TopicPartition, leader_epoch: LeaderEpoch, delete: bool) -> ErrorCode {
        let _one_at_a_time = self.changing.hold(tp);
        let promised = if delete { self.promised.take(tp) } else { Vec::new() };
        for partition in &promised {
            // What was under way when it was promised may have begun to follow since.
            self.fetch_no_longer(tp);
            self.end(partition);
        }
        if let Some(partition) = self.get(&tp.topic, tp.partition) {
            if leader_epoch.0 >= 0 && leader_epoch < partition.leader_epoch() {
                return ErrorCode::FencedLeaderEpoch;
            }
            self.fetch_no_longer(tp);
            if !delete {
                // Stops fetching alone; a leader goes on serving (seen on a live 3.9.1).
                return ErrorCode::None;
            }
            if partition.log().is_err() {
                return ErrorCode::KafkaStorageError;
            }
            self.remove(tp);
            self.end(&partition);
        }
        if !delete || self.logs.get(tp).is_none() {
            return ErrorCode::None;
        }
        match self.logs.delete(tp) {
            Ok(()) => ErrorCode::None,
            Err(error) => {
                tracing::error!(partition = %tp, %error, "log not deleted");
                ErrorCode::KafkaStorageError
            }
        }
    }

    /// It is in the table no longer.
    fn end(&self, partition: &Partition) {
        partition.stop();
        for told in self.leadership.get().into_iter().flatten() {
            told.resigned(partition.topic_partition(), LeaderEpoch::NONE);
        }
    }

    /// Answers for `deletion`, a [`PartitionTable::stop_replica`] with `delete` whatever the epoch, before it is done: the
    /// replica is out of the table when this returns, and what was queued before it brings it back no more. Waits for no
    /// disk. A broker that ends before the deletion is done leaves a directory that no topic claims: it stays, as in Kafka with
    /// ZooKeeper, and is moved aside where a topic of that name is made.
    pub fn promise_deletion(&self, tp: &TopicPartition, deletion: &Weak<Deletion>) {
        if self.promised.promise(tp, deletion, || self.remove(tp)) {
            self.fetch_no_longer(tp);
            tracing::warn!(partition = %tp, "its log directory stands still: it will be deleted when that goes on");
        }
    }

    fn remove(&self, tp: &TopicPartition) -> Option<Arc<Partition>> {
        let mut shard = self.shard(&tp.topic).write();
        let of_topic = shard.get_mut(&tp.topic)?;
        let removed = of_topic.remove(&tp.partition);
        if of_topic.is_empty() {
            shard.remove(&tp.topic);
        }
        removed
    }

    fn shard(&self, topic: &str) -> &Shard {
        // No secret: names chosen to share a shard would share a lock that is nearly always read.
        let spread = match topic.as_bytes() {
            [.., last_but_one, last] => topic.len() + 31 * usize::from(*last_but_one) + usize::from(*last),
            _ => 0,
        };
        &self.shards[spread % SHARDS]
    }
}

/// On the blocking pool. A move that is throttled holds none of its threads.
fn work_on_moves(logs: Arc<LogManager>, spawner: Arc<dyn Spawner>) {
    let around = Arc::clone(&spawner);
    spawner.blocking(Box::new(move || {
        let Some(wait_ms) = logs.work_on_moves() else { return };
        let later = Arc::clone(&around);
        around.control(Box::pin(async move {
            tokio::time::sleep(Duration::from_millis(wait_ms)).await;
            work_on_moves(logs, later);
        }));
    }));
}

#[cfg(test)]
mod tests {
    use super::super::testing::{bench, change};
    use super::super::waiters::Parked;
    use super::*;

    fn apply(table: &PartitionTable, change: LeaderAndIsr) -> ErrorCode {
        table.apply_leader_and_isr(&[change])[0]
    }

    #[test]
    fn only_a_higher_leader_epoch_changes_anything() {
        let bench = bench(TopicConfig::default());
        assert_eq!(apply(&bench.table, change(1, 3, &[2])), ErrorCode::KafkaStorageError, "see the next test");
        let bench = super::super::testing::bench(TopicConfig::default());
        let partition = bench.leader(&[1]);
        assert_eq!(apply(&bench.table, change(2, 0, &[1, 2])), ErrorCode::StaleControllerEpoch);
        assert!(partition.is_leader());
        assert_eq!(apply(&bench.table, change(2, 1, &[1, 2])), ErrorCode::None);
        assert_eq!((partition.is_leader(), partition.leader()), (false, BrokerId(2)));
        assert_eq!(apply(&bench.table, change(1, 0, &[1])), ErrorCode::StaleControllerEpoch);
        let other_topic = LeaderAndIsr { topic_id: TopicId(uuid::Uuid::from_u128(5)), ..change(1, 9, &[1]) };
        assert_eq!(apply(&bench.table, other_topic), ErrorCode::InconsistentTopicId);
        let not_ours = LeaderAndIsr { replicas: vec![BrokerId(2)], ..change(2, 9, &[2]) };
        assert_eq!(apply(&bench.table, not_ours), ErrorCode::UnknownTopicOrPartition);
    }

    #[test]
    fn a_leader_whose_log_is_gone_creates_nothing() {
        let bench = bench(TopicConfig::default());
        assert_eq!(apply(&bench.table, change(1, 3, &[1])), ErrorCode::KafkaStorageError);
        assert!(bench.table.logs().all().is_empty());
        let bench = super::super::testing::bench(TopicConfig::default());
        assert_eq!(apply(&bench.table, change(2, 3, &[2])), ErrorCode::None, "a follower starts from nothing");
    }

    #[test]
    fn a_stopped_replica_serves_on_until_it_is_deleted() {
        let bench = bench(TopicConfig::default());
        let partition = bench.leader(&[1]);
        let tp = partition.topic_partition();
        assert_eq!(apply(&bench.table, change(1, 4, &[1])), ErrorCode::None);
        assert_eq!(bench.table.stop_replica(tp, LeaderEpoch(3), true), ErrorCode::FencedLeaderEpoch);
        assert_eq!(bench.table.stop_replica(tp, LeaderEpoch(4), false), ErrorCode::None);
        assert!(partition.is_leader());
        assert_eq!(bench.table.stop_replica(tp, LeaderEpoch(-2), true), ErrorCode::None);
        assert!(!partition.is_leader());
        assert!(bench.table.get("t", 0).is_none());
        assert!(bench.table.logs().get(tp).is_none());
        assert_eq!(bench.table.stop_replica(tp, LeaderEpoch(-2), true), ErrorCode::None, "nothing is there any more");
    }

    /// A follower that waits for one partition must be able to ask for another at once.
    #[test]
    fn who_leads_more_lets_its_followers_ask_again_and_no_others() {
        let bench = bench(TopicConfig::default());
        bench.leader(&[1, 2]);
        let [follower, other] = [(); 2].map(|()| Parked::new(1));
        bench.table.followers().begin(BrokerId(2)).park(&follower);
        bench.table.followers().begin(BrokerId(3)).park(&other);
        let of = |partition: i32, leader: i32, replicas: &[i32]| LeaderAndIsr {
            tp: TopicPartition::new("t", partition),
            replicas: replicas.iter().copied().map(BrokerId).collect(),
            is_new: true,
            ..change(leader, 0, &[leader])
        };
        for (change, released) in [(of(1, 2, &[2, 1, 3]), false), (of(2, 1, &[1]), false), (of(3, 1, &[1, 2]), true)] {
            assert_eq!(apply(&bench.table, change), ErrorCode::None);
            assert_eq!(follower.is_released(), released);
        }
        assert!(!other.is_released(), "it follows nothing new");
    }
}
