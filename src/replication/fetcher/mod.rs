//! Fetchers: each follows, over one connection, some of the partitions that one other broker leads.
//!
//! ```text
//! table: follow, leave ──► Fetchers ──commands──► task: Book ──Fetch──► leader
//!                          (leader, hash mod num.replica.fetchers)  ◄── records ──► Partition::follow ──► log
//! ```
//! A fetcher runs where connections do, for appends go to the page cache in line, as those of produce do. Where there are
//! several log directories each has fetchers of its own, on a thread of its own: one that stands still takes the partitions
//! in it out of ISRs, and no other's. (Kafka's fetchers write to all of them.) A fetcher has one
//! request under way and sleeps while the leader parks it. It never decides about roles: a partition refuses what comes
//! in an epoch it no longer follows in.
//!
//! Source: Kafka's `AbstractFetcherManager` and `ReplicaFetcherThread`.

mod book;
mod session;
mod task;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::mpsc;

use self::task::{Command, Fetcher};
use super::partition::Partition;
use crate::clock::Clock;
use crate::cluster::Cluster;
use crate::cluster::peer::Connector;
use crate::quota::ReplicationQuota;
use crate::spawn::Spawner;
use crate::types::{BrokerId, LeaderEpoch, TopicPartition};

/// What a fetcher goes by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FetchConfig {
    /// `num.replica.fetchers` at first, at least 1.
    pub fetchers: i32,
    pub backoff_ms: i64,
    /// Each log directory has fetchers of its own.
    pub by_directory: bool,
    /// Of one partition, bytes.
    pub max_bytes: i32,
    /// Of one answer, bytes.
    pub response_max_bytes: i32,
    pub min_bytes: i32,
    pub max_wait_ms: i32,
    /// How long an answer may take, ms.
    pub socket_timeout_ms: i64,
    /// Of Fetch, where all topics have ids; else at most 12.
    pub fetch_version: i16,
    /// Of ListOffsets.
    pub list_offsets_version: i16,
}

/// What all fetchers share.
pub struct Surroundings {
    pub broker: BrokerId,
    /// This broker's, at the moment.
    pub broker_epoch: Box<dyn Fn() -> i64 + Send + Sync>,
    /// Name of the listener at which leaders are reached.
    pub listener: String,
    pub connector: Arc<dyn Connector>,
    pub cluster: Arc<Cluster>,
    pub clock: Arc<dyn Clock>,
    pub spawner: Arc<dyn Spawner>,
    /// `follower.replication.throttled.rate`.
    pub quota: Arc<ReplicationQuota>,
    pub config: FetchConfig,
}

/// Which fetcher.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Line {
    leader: BrokerId,
    index: i32,
    /// What it writes to, where that matters: the directory the log was in when it was begun to be followed.
    dir: Option<PathBuf>,
}

struct Running {
    commands: mpsc::UnboundedSender<Command>,
    partitions: usize,
}

struct Followed {
    line: Line,
    partition: Arc<Partition>,
    epoch: LeaderEpoch,
}

struct State {
    /// `num.replica.fetchers`.
    fetchers: i32,
    running: BTreeMap<Line, Running>,
    of: BTreeMap<TopicPartition, Followed>,
    stopped: bool,
}

/// Kafka's `ReplicaFetcherManager`.
pub struct Fetchers {
    around: Arc<Surroundings>,
    state: Mutex<State>,
}

impl Fetchers {
    pub fn new(around: Surroundings) -> Fetchers {
        let state =
            State { fetchers: around.config.fetchers, running: BTreeMap::new(), of: BTreeMap::new(), stopped: false };
        Fetchers { around: Arc::new(around), state: Mutex::new(state) }
    }

    /// Follows `partition` from `leader` in `epoch`, wherever it was followed before.
    pub fn follow(&self, partition: &Arc<Partition>, leader: BrokerId, epoch: LeaderEpoch) {
        self.follow_by(&mut self.state.lock(), partition, leader, epoch);
    }

    /// `num.replica.fetchers` changed: who belongs to another fetcher by now goes there.
    pub fn resize(&self, fetchers: i32) {
        let mut state = self.state.lock();
        if state.fetchers == fetchers.max(1) {
            return;
        }
        state.fetchers = fetchers.max(1);
        let all: Vec<_> =
            state.of.values().map(|it| (Arc::clone(&it.partition), it.line.leader, it.line.index, it.epoch)).collect();
        for (partition, leader, index, epoch) in all {
            if index != index_of(partition.topic_partition(), state.fetchers) {
                self.follow_by(&mut state, &partition, leader, epoch);
            }
        }
    }

    fn follow_by(&self, state: &mut State, partition: &Arc<Partition>, leader: BrokerId, epoch: LeaderEpoch) {
        let tp = partition.topic_partition();
        let log = if self.around.config.by_directory { partition.log().ok() } else { None };
        let line = Line { leader, index: index_of(tp, state.fetchers), dir: log.map(|log| log.dir()) };
        if state.of.get(tp).is_some_and(|before| before.line != line) {
            state.leave(tp);
        }
        if state.stopped {
            return;
        }
        let running = state.running.entry(line.clone()).or_insert_with(|| {
            let (commands, receiver) = mpsc::unbounded_channel();
            let fetcher = Box::pin(Fetcher::new(Arc::clone(&self.around), line.leader, line.index, receiver).run());
            match &line.dir {
                Some(dir) => self.around.spawner.following(dir, fetcher),
                None => self.around.spawner.data(fetcher),
            }
            Running { commands, partitions: 0 }
        });
        // Its task ends after its sender alone.
        let _ = running.commands.send(Command::Add(Arc::clone(partition), epoch));
        let followed = Followed { line, partition: Arc::clone(partition), epoch };
        let is_new = state.of.insert(tp.clone(), followed).is_none();
        running.partitions += usize::from(is_new);
    }

    /// Follows a partition no longer.
    pub fn leave(&self, tp: &TopicPartition) {
        self.state.lock().leave(tp);
    }

    /// Ends all fetchers; none begins any more.
    pub fn stop(&self) {
        let mut state = self.state.lock();
        state.running.clear();
        state.of.clear();
        state.stopped = true;
    }

    /// Partitions followed.
    pub fn len(&self) -> usize {
        self.state.lock().of.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl State {
    fn leave(&mut self, tp: &TopicPartition) {
        let Some(Followed { line, .. }) = self.of.remove(tp) else { return };
        let Some(running) = self.running.get_mut(&line) else { return };
        running.partitions -= 1;
        if running.partitions == 0 {
            // An idle fetcher ends.
            self.running.remove(&line);
        } else {
            let _ = running.commands.send(Command::Remove(tp.clone()));
        }
    }
}

/// Kafka's choice: Java's hash of the topic.
fn index_of(tp: &TopicPartition, fetchers: i32) -> i32 {
    let unit = |hash: i32, unit: u16| hash.wrapping_mul(31).wrapping_add(i32::from(unit));
    let topic = tp.topic.encode_utf16().fold(0, unit);
    let hash = topic.wrapping_mul(31).wrapping_add(tp.partition);
    hash.checked_abs().unwrap_or(0).checked_rem(fetchers).unwrap_or(0)
}

#[cfg(test)]
mod tests;
