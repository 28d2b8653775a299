//! ISR changes on their way to the controller: AlterPartition, one request at a time with all that waits.
//!
//! ```text
//! partition: Proposal ──► waiting ──► one AlterPartition ──► answers ──► partition, on the blocking pool
//!                            ▲            │ not reached, or refused as a whole: again after 50 ms
//!                            └────────────┘
//! ```
//! Asked until answered. A partition whose role changed meanwhile passes the answer over. The requests go from the
//! control thread; what an answer moves may wait for a disk and does so elsewhere, each partition for itself.
//!
//! Source: Kafka's `DefaultAlterPartitionManager`.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use kafka_protocol::messages::alter_partition_request::{BrokerState, PartitionData, TopicData};
use kafka_protocol::messages::{AlterPartitionRequest, AlterPartitionResponse, BrokerId as WireId, TopicName};
use kafka_protocol::protocol::StrBytes;
use parking_lot::Mutex;

use super::isr::{Confirmed, Outcome, Proposal};
use super::partition::Partition;
use super::table::PartitionTable;
use crate::cluster::peer::ToController;
use crate::spawn::{Shutdown, Spawner};
use crate::types::{BrokerId, LeaderEpoch, TopicId, TopicPartition};
use crate::wire::error_code::ErrorCode;

/// Between two attempts.
const RETRY: Duration = Duration::from_millis(50);

/// One partition of an AlterPartition request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IsrChange {
    pub tp: TopicPartition,
    pub topic_id: TopicId,
    pub leader_epoch: LeaderEpoch,
    /// Of the state that is replaced.
    pub partition_epoch: i32,
    /// With the broker epoch of each member's last fetch; -1 unknown.
    pub isr: Vec<(BrokerId, i64)>,
}

#[derive(Clone)]
struct Waiting {
    partition: Arc<Partition>,
    proposal: Proposal,
}

#[derive(Default)]
struct State {
    waiting: BTreeMap<TopicPartition, Waiting>,
    /// A task sends what waits.
    sending: bool,
}

/// Who this broker is, and the way to the controller.
pub struct Surroundings {
    pub broker: BrokerId,
    /// This broker's, at the moment.
    pub broker_epoch: Box<dyn Fn() -> i64 + Send + Sync>,
    /// Given version 3 of the request, names and topic ids filled; what an older version says less is its part.
    pub controller: Arc<dyn ToController>,
    pub spawner: Arc<dyn Spawner>,
    pub shutdown: Shutdown,
}

/// All changes that wait.
pub struct IsrChanges {
    me: Weak<IsrChanges>,
    around: Surroundings,
    state: Mutex<State>,
}

impl IsrChanges {
    pub fn new(around: Surroundings) -> Arc<IsrChanges> {
        Arc::new_cyclic(|me| IsrChanges { me: me.clone(), around, state: Mutex::default() })
    }

    /// Has the controller asked. A partition has one change in flight; one of a later epoch takes its place.
    pub fn submit(&self, partition: Arc<Partition>, proposal: Proposal) {
        let tp = partition.topic_partition().clone();
        let begin = {
            let mut state = self.state.lock();
            state.waiting.insert(tp, Waiting { partition, proposal });
            !std::mem::replace(&mut state.sending, true)
        };
        if begin && let Some(me) = self.me.upgrade() {
            self.around.spawner.control(Box::pin(async move { me.send().await }));
        }
    }

    /// Looks for members that fell behind every half `replica.lag.time.max.ms`, so that one leaves between once and one and
    /// a half times that after it was last caught up.
    pub fn watch_lag(self: &Arc<IsrChanges>, table: &Arc<PartitionTable>, lag_max_ms: i64) {
        let (spawner, shutdown) = (Arc::clone(&self.around.spawner), self.around.shutdown.clone());
        let table = Arc::clone(table);
        let every = Duration::from_millis(u64::try_from(lag_max_ms / 2).unwrap_or(0).max(1));
        let on_pool = Arc::clone(&spawner);
        spawner.control(Box::pin(async move {
            loop {
                tokio::select! {
                    biased;
                    () = shutdown.requested() => return,
                    () = tokio::time::sleep(every) => {}
                }
                let table = Arc::clone(&table);
                on_pool.blocking(Box::new(move || table.all().iter().for_each(|partition| partition.shrink_isr())));
            }
        }));
    }

    /// Until nothing waits.
    async fn send(&self) {
        loop {
            let batch: Vec<Waiting> = {
                let mut state = self.state.lock();
                if state.waiting.is_empty() || self.around.shutdown.is_requested() {
                    state.sending = false;
                    return;
                }
                state.waiting.values().cloned().collect()
            };
            let request = self.request(&batch);
            let rest = match self.around.controller.alter_partition(request).await {
                Ok(answer) => match ErrorCode::check(answer.error_code) {
                    Ok(()) => self.answered(&batch, &answer),
                    Err(error) => {
                        tracing::info!(%error, "the controller refuses ISR changes; it is asked again");
                        true
                    }
                },
                Err(error) => {
                    tracing::debug!(%error, "no controller to ask for ISR changes; it is asked again");
                    true
                }
            };
            if rest {
                tokio::select! {
                    biased;
                    () = self.around.shutdown.requested() => {}
                    () = tokio::time::sleep(RETRY) => {}
                }
            }
        }
    }

    fn request(&self, batch: &[Waiting]) -> AlterPartitionRequest {
        let mut topics: BTreeMap<(Arc<str>, TopicId), Vec<PartitionData>> = BTreeMap::new();
        for waiting in batch {
            let change = waiting.partition.isr_change(&waiting.proposal);
            let own = |id: BrokerId, epoch| if id == self.around.broker { (self.around.broker_epoch)() } else { epoch };
            let member = |(id, epoch): &(BrokerId, i64)| {
                BrokerState::default().with_broker_id(WireId(id.0)).with_broker_epoch(own(*id, *epoch))
            };
            topics.entry((change.tp.topic, change.topic_id)).or_default().push(
                PartitionData::default()
                    .with_partition_index(change.tp.partition)
                    .with_leader_epoch(change.leader_epoch.0)
                    .with_partition_epoch(change.partition_epoch)
                    .with_new_isr_with_epochs(change.isr.iter().map(member).collect()),
            );
        }
        let topics = topics.into_iter().map(|((name, id), partitions)| {
            TopicData::default()
                .with_topic_name(TopicName(StrBytes::from_string(name.to_string())))
                .with_topic_id(id.0)
                .with_partitions(partitions)
        });
        AlterPartitionRequest::default()
            .with_broker_id(WireId(self.around.broker.0))
            .with_broker_epoch((self.around.broker_epoch)())
            .with_topics(topics.collect())
    }

    /// Hands out the answers. Whether some partition may be asked about again.
    fn answered(&self, batch: &[Waiting], answer: &AlterPartitionResponse) -> bool {
        let mut again = false;
        for waiting in batch {
            let tp = waiting.partition.topic_partition();
            let Some(answer) = part(answer, tp, waiting.partition.topic_id()) else {
                again = true;
                continue;
            };
            again |= answer.is_err();
            {
                let mut state = self.state.lock();
                if state.waiting.get(tp).is_some_and(|now| now.proposal == waiting.proposal) {
                    state.waiting.remove(tp);
                }
            }
            let (changes, waiting) = (self.me.clone(), waiting.clone());
            self.around.spawner.blocking(Box::new(move || {
                let outcome = waiting.partition.isr_answered(&waiting.proposal, answer);
                if outcome == Outcome::Again
                    && let Some(changes) = changes.upgrade()
                {
                    changes.submit(waiting.partition, waiting.proposal);
                }
            }));
        }
        again
    }
}

/// What an answer says of one partition.
fn part(
    answer: &AlterPartitionResponse,
    tp: &TopicPartition,
    topic_id: TopicId,
) -> Option<Result<Confirmed, ErrorCode>> {
    let is_it = |topic: &&kafka_protocol::messages::alter_partition_response::TopicData| {
        (!topic_id.is_zero() && topic.topic_id == topic_id.0) || *topic.topic_name.0 == *tp.topic
    };
    let partitions = answer.topics.iter().filter(is_it).flat_map(|topic| &topic.partitions);
    let part = partitions.into_iter().find(|part| part.partition_index == tp.partition)?;
    Some(ErrorCode::check(part.error_code).map(|()| Confirmed {
        leader_epoch: LeaderEpoch(part.leader_epoch),
        partition_epoch: part.partition_epoch,
        isr: part.isr.iter().map(|id| BrokerId(id.0)).collect(),
    }))
}

#[cfg(test)]
mod tests;
