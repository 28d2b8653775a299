//! Whether this broker leads still what it leads as far as it was told: the state nodes say so.
//!
//! ```text
//! a follower in the ISR left, is silent, or knows a later epoch ──► doubted ──► read together ──► Partition::superseded
//! ```
//! Who was replaced without hearing of it goes on acknowledging writes with acks=1 that the next leader makes undone. Its
//! followers know first: they no longer fetch from it. Kafka's leaders wait for the controller's word. What followers say is
//! no proof, since anybody may say it; the node is.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use tokio::time::{Instant, sleep};

use super::partition::Partition;
use super::table::PartitionTable;
use crate::spawn::{Shutdown, Spawner};
use crate::types::{LeaderEpoch, TopicPartition};

/// A follower that has not fetched for so long is silent, ms: twice `replica.fetch.wait.max.ms`, by default.
const SILENCE_MS: i64 = 1_000;
/// Between two looks for silent followers.
const EVERY: Duration = Duration::from_millis(500);
/// The metastore has this many times as long to itself as a read took.
const REST: u32 = 4;

/// The state nodes.
#[async_trait]
pub trait StoredEpochs: Send + Sync {
    /// The leader epoch that is stored for each, in their order; `None` for those that could not be read.
    async fn leader_epochs(&self, of: &[TopicPartition]) -> Vec<Option<LeaderEpoch>>;
}

#[derive(Default)]
struct State {
    doubted: BTreeMap<TopicPartition, Arc<Partition>>,
    /// A task reads what is doubted.
    reading: bool,
}

/// Partitions that are doubted.
pub struct LeaderChecks {
    me: Weak<LeaderChecks>,
    stored: Box<dyn StoredEpochs>,
    spawner: Arc<dyn Spawner>,
    shutdown: Shutdown,
    state: Mutex<State>,
}

impl LeaderChecks {
    pub fn new(stored: Box<dyn StoredEpochs>, spawner: Arc<dyn Spawner>, shutdown: Shutdown) -> Arc<LeaderChecks> {
        Arc::new_cyclic(|me| LeaderChecks { me: me.clone(), stored, spawner, shutdown, state: Mutex::default() })
    }

    /// Has its node read, with those of all that are doubted meanwhile.
    pub fn doubt(&self, partitions: impl IntoIterator<Item = Arc<Partition>>) {
        let begin = {
            let mut state = self.state.lock();
            state.doubted.extend(partitions.into_iter().map(|it| (it.topic_partition().clone(), it)));
            !state.doubted.is_empty() && !std::mem::replace(&mut state.reading, true)
        };
        if begin && let Some(me) = self.me.upgrade() {
            self.spawner.control(Box::pin(async move { me.read().await }));
        }
    }

    /// Doubts what has a silent follower in its ISR, again and again while it is silent.
    pub fn watch_silence(self: &Arc<LeaderChecks>, table: &Arc<PartitionTable>) {
        let (me, table, shutdown) = (Arc::clone(self), Arc::clone(table), self.shutdown.clone());
        self.spawner.control(Box::pin(async move {
            loop {
                tokio::select! {
                    biased;
                    () = shutdown.requested() => return,
                    () = sleep(EVERY) => {}
                }
                let (checks, table) = (Arc::clone(&me), Arc::clone(&table));
                me.spawner.blocking(Box::new(move || {
                    checks.doubt(table.all().into_iter().filter(|partition| partition.is_left_silent(SILENCE_MS)));
                }));
            }
        }));
    }

    /// Until nothing is doubted.
    async fn read(&self) {
        loop {
            let doubted = {
                let mut state = self.state.lock();
                if state.doubted.is_empty() || self.shutdown.is_requested() {
                    state.reading = false;
                    return;
                }
                std::mem::take(&mut state.doubted)
            };
            let (of, partitions): (Vec<_>, Vec<_>) = doubted.into_iter().unzip();
            let begun = Instant::now();
            let stored = self.stored.leader_epochs(&of).await;
            for (partition, epoch) in partitions.iter().zip(stored) {
                epoch.into_iter().for_each(|epoch| partition.superseded(epoch));
            }
            sleep(begun.elapsed() * REST).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::TopicConfig;
    use crate::replication::partition::{NotCommitted, PartitionFetch, Reader};
    use crate::replication::testing::{Bench, bench_of, change, fetch, fetched};
    use crate::sim::brokers::{Inline, SimClock};
    use crate::spawn::ShutdownTrigger;
    use crate::storage::log::AppendError;
    use crate::storage::testing::{batch, client};
    use crate::types::{Acks, BrokerId, Offset};
    use crate::wire::error_code::ErrorCode;

    /// The epoch of every node, and what was read.
    #[derive(Clone, Default)]
    struct Nodes(Arc<Mutex<(i32, Vec<Vec<TopicPartition>>)>>);

    #[async_trait]
    impl StoredEpochs for Nodes {
        async fn leader_epochs(&self, of: &[TopicPartition]) -> Vec<Option<LeaderEpoch>> {
            sleep(Duration::from_millis(10)).await;
            let mut nodes = self.0.lock();
            nodes.1.push(of.to_vec());
            of.iter().map(|_| Some(LeaderEpoch(nodes.0))).collect()
        }
    }

    impl Nodes {
        fn reads(&self) -> usize {
            self.0.lock().1.len()
        }
    }

    struct World {
        bench: Bench,
        nodes: Nodes,
        _stop: ShutdownTrigger,
    }

    fn world() -> World {
        let bench = bench_of(1, Arc::new(SimClock::at(1_700_000_000_000)), TopicConfig::default());
        let nodes = Nodes::default();
        let (stop, shutdown) = Shutdown::new();
        let checks = LeaderChecks::new(Box::new(nodes.clone()), Arc::new(Inline), shutdown);
        bench.table.check_leaders_with(checks.clone());
        checks.watch_silence(&bench.table);
        World { bench, nodes, _stop: stop }
    }

    fn append(partition: &Partition, acks: Acks) -> Result<(), ErrorCode> {
        partition.append_to_leader(&mut batch(1), acks, client(-1, 1_000)).map(drop).map_err(|error| match error {
            AppendError::Refused { code, .. } => code,
            error => panic!("{error}"),
        })
    }

    async fn ms(ms: u64) {
        sleep(Duration::from_millis(ms)).await;
    }

    #[tokio::test(start_paused = true)]
    async fn who_was_replaced_unseen_takes_nothing_more() {
        let World { bench, nodes, _stop } = world();
        let partition = bench.leader(&[1, 2]);
        append(&partition, Acks::Leader).expect("it leads");
        let waits = partition.clone();
        let waiting = tokio::spawn(async move { waits.committed(Offset(1)).await });
        for _ in 0..8 {
            ms(250).await;
            // Of nothing: it does not have the record.
            fetched(&partition, 2, -1, 0).expect("a replica");
        }
        assert_eq!(nodes.reads(), 0, "its follower fetches");
        ms(3_000).await;
        assert!((1..=6).contains(&nodes.reads()), "{} reads", nodes.reads());
        append(&partition, Acks::Leader).expect("nobody else leads");
        nodes.0.lock().0 = 1;
        ms(1_000).await;
        assert_eq!(append(&partition, Acks::Leader), Err(ErrorCode::NotLeaderOrFollower));
        assert_eq!(waiting.await.expect("no panic"), Err(NotCommitted::NotLeader));
        assert_eq!(partition.committed(Offset(1)).await, Err(NotCommitted::NotLeader));
        let reads = nodes.reads();
        ms(5_000).await;
        assert_eq!(nodes.reads(), reads, "there is nothing to find out any more");
        assert_eq!(bench.table.apply_leader_and_isr(&[change(1, 2, &[1, 2])]), [ErrorCode::None]);
        append(&partition, Acks::Leader).expect("it leads again");
    }

    #[tokio::test(start_paused = true)]
    async fn a_replica_that_knows_a_later_epoch_or_leaves_is_a_reason_to_look() {
        let World { bench, nodes, _stop } = world();
        let (one, other) = (bench.leader_of(0, &[1, 2]), bench.leader_of(1, &[1, 3]));
        let later = |id: i32| PartitionFetch {
            current_leader_epoch: LeaderEpoch(1),
            ..fetch(Reader::Replica { id: BrokerId(id), broker_epoch: -1 }, 0)
        };
        assert_eq!(one.read(later(9)).err(), Some(ErrorCode::UnknownLeaderEpoch));
        ms(100).await;
        assert_eq!(nodes.reads(), 0, "it is no replica");
        assert_eq!(one.read(later(2)).err(), Some(ErrorCode::UnknownLeaderEpoch));
        ms(100).await;
        assert_eq!(nodes.0.lock().1, [vec![one.topic_partition().clone()]]);
        append(&one, Acks::Leader).expect("a replica's word is no proof");
        bench.table.follower_left(BrokerId(3));
        ms(100).await;
        assert_eq!(nodes.0.lock().1[1], [other.topic_partition().clone()]);
        bench.table.follower_left(BrokerId(4));
        ms(100).await;
        assert_eq!(nodes.reads(), 2, "it follows nothing");
    }
}
