//! The controller's reads and writes of znodes. Every write is a transaction that first checks `/controller_epoch`:
//! a controller that was replaced can change nothing.
//!
//! A reply that was lost counts as unknown: the write is tried again, and what it then finds (a node that is there, a
//! version that moved, nothing left to delete) is compared with what was wanted.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream;

use super::decide::{AfterRead, Event, LoadedState, LoadedTopic, Written};
use super::state::{Leadership, State};
use crate::cluster::{registered, settle, until_known};
use crate::metastore::schema::{ConfigEntity, PartitionState, ReassignPartitions, TopicAssignment, paths};
use crate::metastore::{CreateMode, Error, Metastore, MultiError, Op, OpResult};
use crate::random::Random;
use crate::types::{BrokerId, TopicId, TopicPartition};

/// Requests sent before the first is answered.
pub(super) const IN_FLIGHT: usize = 128;
/// Partitions whose nodes, two each, are made or deleted in one transaction: less than half of what a server takes, with the
/// longest names.
const MADE_TOGETHER: usize = 500;

/// Why the term is over.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Lost {
    #[error("another controller was elected")]
    Moved,
    #[error("the metastore session expired")]
    Expired,
    /// Neither can be told: give the office back and start over.
    #[error("the metastore failed: {0}")]
    Failed(Error),
}

impl From<Error> for Lost {
    fn from(error: Error) -> Lost {
        match error {
            Error::SessionExpired => Lost::Expired,
            other => Lost::Failed(other),
        }
    }
}

/// Write access to the tree for one term.
#[derive(Clone)]
pub struct Fence {
    pub store: Arc<dyn Metastore>,
    /// zkVersion of `/controller_epoch` as this term's election left it.
    pub epoch_version: i32,
    /// zkVersion of `/brokers/ids` from before the registrations were read last; -1 = not read yet, not checked. A broker of
    /// Klamm's raises it when it registers, one of Kafka's does not.
    pub brokers_version: i32,
}

/// Why nothing was written.
enum Refused {
    /// Somebody registered since the registrations were read.
    BrokersChanged,
    Op(Error),
}

impl Fence {
    /// One fenced write. The outer error ends the term, the inner one is the operation's own.
    pub async fn write(&self, op: Op) -> Result<Result<OpResult, Error>, Lost> {
        let written = self.write_together(vec![op]).await?;
        Ok(written.and_then(|mut results| results.pop().ok_or_else(empty_answer)))
    }

    /// All of `ops` or none, with one answer each: the first error is the transaction's.
    async fn write_together(&self, ops: Vec<Op>) -> Result<Result<Vec<OpResult>, Error>, Lost> {
        let written = self.write_checked(Vec::new(), ops).await?;
        Ok(written.map_err(|failed| failed.error))
    }

    /// As [`Fence::write_together`], where `checks` hold too; the answers are those to `ops`, the index of an error counts
    /// from the first check.
    async fn write_checked(&self, checks: Vec<Op>, ops: Vec<Op>) -> Result<Result<Vec<OpResult>, MultiError>, Lost> {
        let epoch = Op::Check { path: paths::CONTROLLER_EPOCH.into(), version: self.epoch_version };
        let unasked = 1 + checks.len();
        let fenced: Vec<Op> = std::iter::once(epoch).chain(checks).chain(ops).collect();
        loop {
            match self.store.multi(fenced.clone()).await {
                Ok(results) => return Ok(Ok(results.into_iter().skip(unasked).collect())),
                Err(failed) if failed.error == Error::Unknown => settle(&*self.store).await,
                Err(failed) if failed.error == Error::SessionExpired => return Err(Lost::Expired),
                Err(failed) if failed.index == 0 => {
                    return Err(match failed.error {
                        Error::BadVersion(_) | Error::NoNode(_) => Lost::Moved,
                        other => other.into(),
                    });
                }
                Err(failed) => return Ok(Err(MultiError { index: failed.index - 1, ..failed })),
            }
        }
    }

    /// `partitions` of each topic, then every `<p>`, then every `<p>/state`: the order of a live 3.9.1. In one
    /// transaction, so that the store syncs once for a topic; one node after the other (as Kafka does) when that fails,
    /// since some may be there.
    pub async fn create_states(
        &self,
        states: &[(TopicPartition, PartitionState)],
    ) -> Result<Vec<(TopicPartition, Written)>, Lost> {
        let mut outcomes = Vec::with_capacity(states.len());
        for states in states.chunks(MADE_TOGETHER) {
            if self.create_together(states).await? {
                outcomes.extend(states.iter().map(|(tp, _)| (tp.clone(), Written::Done { version: 0 })));
            } else {
                outcomes.extend(self.create_each(states).await?);
            }
        }
        Ok(outcomes)
    }

    /// False when nothing was made.
    async fn create_together(&self, states: &[(TopicPartition, PartitionState)]) -> Result<bool, Lost> {
        let mut ops = Vec::with_capacity(2 * states.len() + 1);
        let mut topics: Vec<&Arc<str>> = states.iter().map(|(tp, _)| &tp.topic).collect();
        topics.dedup();
        for topic in topics {
            let path = paths::partitions(topic);
            if until_known(&*self.store, || self.store.exists(&path)).await?.is_none() {
                ops.push(create(path, None));
            }
        }
        ops.extend(states.iter().map(|(tp, _)| create(paths::partition(&tp.topic, tp.partition), None)));
        ops.extend(states.iter().map(state_node));
        match self.write_together(ops).await? {
            Ok(_) => Ok(true),
            Err(error) => {
                tracing::debug!(%error, "partitions are created one by one");
                Ok(false)
            }
        }
    }

    async fn create_each(
        &self,
        states: &[(TopicPartition, PartitionState)],
    ) -> Result<Vec<(TopicPartition, Written)>, Lost> {
        let mut topics: Vec<&Arc<str>> = states.iter().map(|(tp, _)| &tp.topic).collect();
        topics.dedup();
        self.write_each(topics.iter().map(|topic| create(paths::partitions(topic), None))).await?;
        let partition = |(tp, _): &(TopicPartition, _)| create(paths::partition(&tp.topic, tp.partition), None);
        self.write_each(states.iter().map(partition)).await?;
        let created = self.write_each(states.iter().map(state_node)).await?;
        let mut outcomes = Vec::with_capacity(states.len());
        for ((tp, state), created) in states.iter().zip(created) {
            let outcome = match created {
                Ok(_) => Written::Done { version: 0 },
                // Perhaps ours, of a try whose reply was lost.
                Err(Error::NodeExists(_)) => match self.read_state(tp).await? {
                    Some((found, _)) if found.state == *state => Written::Done { version: found.partition_epoch },
                    _ => Written::Failed,
                },
                Err(_) => Written::Failed,
            };
            outcomes.push((tp.clone(), outcome));
        }
        Ok(outcomes)
    }

    async fn write_each(&self, ops: impl Iterator<Item = Op>) -> Result<Vec<Result<OpResult, Error>>, Lost> {
        let writes: Vec<_> = ops.map(|op| self.write(op)).collect();
        stream::iter(writes).buffered(IN_FLIGHT).collect::<Vec<_>>().await.into_iter().collect()
    }

    /// In one transaction, or one by one when some other write came before: a conflict is each partition's own.
    ///
    /// A state counts on the members of its ISR in the lives that `known` has them in. Written after one has registered anew,
    /// unseen, it would be younger than that registration, and no later controller could tell that the member may have lost
    /// what it had: it is not written then.
    pub async fn write_states(&self, writes: Vec<StateWrite>, then: AfterRead, known: &State) -> Result<Event, Lost> {
        let mut outcomes: Vec<Option<Written>> = vec![None; writes.len()];
        let mut brokers_version = self.brokers_version;
        loop {
            let open: Vec<usize> = (0..writes.len()).filter(|at| outcomes[*at].is_none()).collect();
            for open in open.chunks(MADE_TOGETHER) {
                let sets: Vec<Op> = open.iter().map(|at| state_change(&writes[*at])).collect();
                for (at, result) in open.iter().zip(self.set_states(sets, brokers_version).await?) {
                    outcomes[*at] = match result {
                        Ok(OpResult::Set(stat)) => Some(Written::Done { version: stat.version }),
                        Err(Refused::BrokersChanged) => None,
                        Err(Refused::Op(Error::BadVersion(_))) => Some(Written::Conflict),
                        Ok(_) | Err(Refused::Op(_)) => Some(Written::Failed),
                    };
                }
            }
            let open: Vec<usize> = open.into_iter().filter(|at| outcomes[*at].is_none()).collect();
            if open.is_empty() {
                break;
            }
            brokers_version = brokers_version_of(&*self.store).await?;
            let unseen = self.unseen(open.iter().map(|at| &writes[*at].1), known).await?;
            for at in open {
                if counts_on(&writes[at].1, &then, &unseen, known) {
                    outcomes[at] = Some(Written::Unseen);
                }
            }
        }
        let outcomes = outcomes.into_iter().map(|outcome| outcome.unwrap_or(Written::Failed));
        let written = writes.into_iter().zip(outcomes).map(|((tp, state, _), outcome)| (tp, state, outcome)).collect();
        Ok(Event::StatesWritten { written, then })
    }

    async fn set_states(&self, sets: Vec<Op>, brokers_version: i32) -> Result<Vec<Result<OpResult, Refused>>, Lost> {
        let check = || vec![Op::Check { path: paths::BROKER_IDS.into(), version: brokers_version }];
        let refused = |failed: MultiError| match failed {
            MultiError { index: 0, error: Error::BadVersion(_) } => Refused::BrokersChanged,
            MultiError { error, .. } => Refused::Op(error),
        };
        match self.write_checked(check(), sets.clone()).await?.map_err(refused) {
            Ok(results) => Ok(results.into_iter().map(Ok).collect()),
            Err(Refused::BrokersChanged) => Ok(sets.iter().map(|_| Err(Refused::BrokersChanged)).collect()),
            Err(Refused::Op(_)) => {
                let each = sets.into_iter().map(|set| async {
                    let written = self.write_checked(check(), vec![set]).await?.map_err(refused);
                    Ok(written.and_then(|mut results| results.pop().ok_or(Refused::Op(empty_answer()))))
                });
                let each: Vec<_> = each.collect();
                stream::iter(each).buffered(IN_FLIGHT).collect::<Vec<_>>().await.into_iter().collect()
            }
        }
    }

    /// Those who are in an ISR of `states` and registered in another life than `known` has them in.
    async fn unseen(
        &self,
        states: impl Iterator<Item = &PartitionState>,
        known: &State,
    ) -> Result<BTreeSet<BrokerId>, Lost> {
        let members: BTreeSet<BrokerId> = states.flat_map(|state| state.isr.iter().copied()).collect();
        let mut unseen = BTreeSet::new();
        for id in members {
            let seen = known.registration(id).map(|broker| broker.epoch);
            if registered(&*self.store, id).await?.is_some_and(|stat| Some(stat.czxid) != seen) {
                unseen.insert(id);
            }
        }
        Ok(unseen)
    }

    pub async fn read_states(
        &self,
        partitions: Vec<TopicPartition>,
    ) -> Result<Vec<(TopicPartition, Option<Leadership>)>, Lost> {
        let read = self.read_each(&partitions).await?;
        let leadership = |read: Option<(Leadership, i64)>| read.map(|(leadership, _)| leadership);
        Ok(partitions.into_iter().zip(read.into_iter().map(leadership)).collect())
    }

    async fn read_each(&self, partitions: &[TopicPartition]) -> Result<Vec<Option<(Leadership, i64)>>, Lost> {
        let reads: Vec<_> = partitions.iter().map(|tp| self.read_state(tp)).collect();
        stream::iter(reads).buffered(IN_FLIGHT).collect::<Vec<_>>().await.into_iter().collect()
    }

    /// With the number of the transaction that wrote it last.
    async fn read_state(&self, tp: &TopicPartition) -> Result<Option<(Leadership, i64)>, Lost> {
        let path = paths::partition_state(&tp.topic, tp.partition);
        match until_known(&*self.store, || self.store.get(&path)).await {
            Ok((data, stat)) => match PartitionState::decode(&path, &data) {
                Ok(state) => Ok(Some((Leadership { state, partition_epoch: stat.version }, stat.mzxid))),
                Err(error) => {
                    tracing::error!(%error, "partition state ignored");
                    Ok(None)
                }
            },
            Err(Error::NoNode(_)) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// A topic with its partitions' states. One without an id is given one, which is written back. `None` when it is
    /// gone or cannot be read.
    pub async fn load_topic(
        &self,
        name: &Arc<str>,
        read: (Bytes, i32),
        random: &dyn Random,
        with_states: bool,
    ) -> Result<Option<LoadedTopic>, Lost> {
        let path = paths::topic(name);
        let (data, version) = read;
        let mut assignment = match TopicAssignment::decode(&path, &data) {
            Ok(assignment) => assignment,
            Err(error) => {
                tracing::error!(%error, "topic ignored");
                return Ok(None);
            }
        };
        let id = match assignment.id {
            Some(id) => id,
            None => match self.give_id(&path, &mut assignment, version, random.topic_id()).await? {
                Some(id) => id,
                None => return Ok(None),
            },
        };
        let mut states = Vec::new();
        if with_states {
            let partitions: Vec<_> =
                assignment.partitions.keys().map(|index| TopicPartition::new(Arc::clone(name), *index)).collect();
            for (tp, read) in partitions.iter().zip(self.read_each(&partitions).await?) {
                let partition = tp.partition;
                states.extend(read.map(|(leadership, mzxid)| LoadedState { partition, leadership, mzxid }));
            }
        }
        Ok(Some(LoadedTopic { name: Arc::clone(name), id, assignment, states }))
    }

    async fn give_id(
        &self,
        path: &str,
        assignment: &mut TopicAssignment,
        version: i32,
        id: TopicId,
    ) -> Result<Option<TopicId>, Lost> {
        assignment.id = Some(id);
        match self.write(Op::Set { path: path.into(), data: assignment.encode(), version }).await? {
            Ok(_) => Ok(Some(id)),
            Err(error) => {
                tracing::error!(%path, %error, "topic id not written");
                Ok(None)
            }
        }
    }

    pub async fn write_topic(&self, name: &str, assignment: &TopicAssignment) -> Result<(), Lost> {
        let op = Op::Set { path: paths::topic(name), data: assignment.encode(), version: -1 };
        if let Err(error) = self.write(op).await? {
            tracing::error!(topic = %name, %error, "topic node not written");
        }
        Ok(())
    }

    /// Takes partitions out of `/admin/reassign_partitions`. What somebody else writes at the same time stays.
    pub async fn remove_reassign_requests(&self, over: &[TopicPartition]) -> Result<(), Lost> {
        let path = paths::REASSIGN_PARTITIONS;
        loop {
            let (data, version) = match until_known(&*self.store, || self.store.get(path)).await {
                Ok((data, stat)) => (data, stat.version),
                Err(Error::NoNode(_)) => return Ok(()),
                Err(error) => return Err(error.into()),
            };
            // Said when it was read first.
            let Ok(ReassignPartitions(mut wanted)) = ReassignPartitions::decode(path, &data) else { return Ok(()) };
            wanted.retain(|(tp, _)| !over.contains(tp));
            let op = match wanted.is_empty() {
                true => Op::Delete { path: path.into(), version },
                false => Op::Set { path: path.into(), data: ReassignPartitions(wanted).encode(), version },
            };
            match self.write(op).await? {
                Err(Error::BadVersion(_)) => {}
                Err(error) => {
                    tracing::error!(%path, %error, "reassignments that are over stay in it");
                    return Ok(());
                }
                Ok(_) => return Ok(()),
            }
        }
    }

    /// The topic's tree from the leaves up, its config node, its delete request: all in one transaction, or so many
    /// together as a server takes. False when something stayed.
    pub async fn delete_topic(&self, name: &str) -> Result<bool, Lost> {
        let mut doomed = self.leaves_first(&paths::topic(name)).await?;
        doomed.extend(self.leaves_first(&ConfigEntity::Topic(name.into()).path()).await?);
        doomed.push(paths::delete_topic(name));
        for together in doomed.chunks(2 * MADE_TOGETHER) {
            let ops = together.iter().map(|path| Op::Delete { path: path.clone(), version: -1 }).collect();
            if let Err(error) = self.write_together(ops).await? {
                tracing::debug!(topic = %name, %error, "nodes are deleted one by one");
                for path in together {
                    if !self.delete(path.clone()).await? {
                        return Ok(false);
                    }
                }
            }
        }
        Ok(true)
    }

    pub async fn delete(&self, path: String) -> Result<bool, Lost> {
        match self.write(Op::Delete { path: path.clone(), version: -1 }).await? {
            Ok(_) | Err(Error::NoNode(_)) => Ok(true),
            Err(error) => {
                tracing::error!(%path, %error, "node not deleted");
                Ok(false)
            }
        }
    }

    /// The nodes of a tree, children before parents, partitions by number.
    async fn leaves_first(&self, root: &str) -> Result<Vec<String>, Lost> {
        let (mut stack, mut found) = (vec![(root.to_owned(), false)], Vec::new());
        while let Some((path, visited)) = stack.pop() {
            if visited {
                found.push(path);
                continue;
            }
            let mut children = match until_known(&*self.store, || self.store.children(&path)).await {
                Ok(children) => children,
                Err(Error::NoNode(_)) => continue,
                Err(error) => return Err(error.into()),
            };
            children.sort_by_cached_key(|name| (name.parse::<i32>().unwrap_or(i32::MAX), name.clone()));
            stack.push((path.clone(), true));
            stack.extend(children.into_iter().rev().map(|child| (format!("{path}/{child}"), false)));
        }
        Ok(found)
    }
}

/// A state, and the version of the node it replaces.
pub type StateWrite = (TopicPartition, PartitionState, i32);

/// zkVersion of `/brokers/ids`; -1 when it is not there.
pub async fn brokers_version_of(store: &dyn Metastore) -> Result<i32, Error> {
    let found = until_known(store, || store.exists(paths::BROKER_IDS)).await?;
    Ok(found.map_or(-1, |stat| stat.version))
}

/// Whether `state` counts on one of `brokers`, which registered in other lives than `known` has them in. Where members go
/// and none that is left is registered, or one alone is left, whoever comes back is counted on whatever it lost, under a
/// higher leader epoch: nobody else can be.
pub(super) fn counts_on(state: &PartitionState, why: &AfterRead, brokers: &BTreeSet<BrokerId>, known: &State) -> bool {
    let has_known = state.isr.iter().any(|id| known.registration(*id).is_some());
    let is_last = matches!(why, AfterRead::RemoveFromIsr(_)) && (state.isr.len() == 1 || !has_known);
    !is_last && state.isr.iter().any(|id| brokers.contains(id))
}

fn empty_answer() -> Error {
    Error::Other("empty answer".into())
}

fn create(path: String, data: Option<Bytes>) -> Op {
    Op::Create { path, data, mode: CreateMode::Persistent }
}

fn state_node((tp, state): &(TopicPartition, PartitionState)) -> Op {
    create(paths::partition_state(&tp.topic, tp.partition), Some(state.encode()))
}

fn state_change((tp, state, version): &StateWrite) -> Op {
    let path = paths::partition_state(&tp.topic, tp.partition);
    Op::Set { path, data: state.encode(), version: *version }
}
