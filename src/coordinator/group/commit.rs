//! OffsetCommit, OffsetFetch, OffsetDelete.

use std::sync::Arc;

use bytes::Bytes;

use super::desk::{Desk, Effect, Life};
use super::offsets::Committed;
use super::rules::{Rule, holds};
use super::state::{Group, State};
use super::{Groups, Now, Speaker};
use crate::coordinator::cores::RequestId;
use crate::coordinator::records::{Key, OffsetValue};
use crate::coordinator::subscription;
use crate::storage::log::Verification;
use crate::types::{LeaderEpoch, Offset, TopicPartition};
use crate::wire::error_code::ErrorCode;

/// The transaction that offsets are committed in.
#[derive(Clone, Copy, Debug)]
pub struct InTransaction {
    pub producer_id: i64,
    pub producer_epoch: i16,
    pub verification: Verification,
}

/// An OffsetCommit request, or a TxnOffsetCommit.
#[derive(Clone, Debug)]
pub struct Commit {
    pub request: RequestId,
    pub group: Arc<str>,
    pub speaker: Speaker,
    /// Versions 2 to 4: ms the offsets are kept; `None` = as the broker's retention has it.
    pub retention_ms: Option<i64>,
    pub transaction: Option<InTransaction>,
    pub partitions: Vec<CommitPartition>,
}

#[derive(Clone, Debug)]
pub struct CommitPartition {
    pub topic: Arc<str>,
    pub partition: i32,
    pub offset: Offset,
    pub leader_epoch: LeaderEpoch,
    pub metadata: Arc<str>,
    /// Version 1 lets the client say when it was committed, wall ms.
    pub commit_timestamp_ms: Option<i64>,
}

/// Topic, partition and what is committed.
type Committing = (Arc<str>, i32, OffsetValue);

/// A commit whose append is not replicated yet.
#[derive(Debug)]
pub(super) struct PendingCommit {
    request: RequestId,
    pub life: Life,
    /// The producer, for what is committed in a transaction.
    producer_id: Option<i64>,
    /// That transaction has ended meanwhile, behind it in the log; true = committed.
    ended: Option<bool>,
    /// In the order of the request; refused ones with their errors.
    partitions: Vec<Result<Committing, ErrorCode>>,
}

impl PendingCommit {
    fn valid(&self) -> impl Iterator<Item = &Committing> {
        self.partitions.iter().filter_map(|partition| partition.as_ref().ok())
    }

    pub fn records(&self) -> Vec<(Bytes, Option<Bytes>)> {
        let record = |(topic, partition, value): &Committing| {
            let key = Key::Offset { group: self.life.group.clone(), topic: topic.clone(), partition: *partition };
            (key.encode(), Some(value.encode()))
        };
        self.valid().map(record).collect()
    }

    /// A marker of this producer is in the log.
    pub fn transaction_ended(&mut self, producer_id: i64, commit: bool) {
        if self.producer_id == Some(producer_id) {
            self.ended.get_or_insert(commit);
        }
    }

    /// Partitions that were refused keep their errors, the rest get `error`.
    pub fn refuse(self, desk: &mut Desk, error: ErrorCode) {
        let errors = self.partitions.into_iter().map(|partition| partition.err().unwrap_or(error)).collect();
        desk.effects.push(Effect::Committed(self.request, errors));
    }
}

/// A committed offset as it is fetched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fetched {
    pub topic: Arc<str>,
    pub partition: i32,
    /// `Err` is UNSTABLE_OFFSET_COMMIT; `Ok(None)`: nothing is committed.
    pub offset: Result<Option<OffsetValue>, ErrorCode>,
}

impl Groups {
    /// Answered with [`Effect::Committed`], at once or when the offsets are replicated.
    pub fn commit(&mut self, now: Now, commit: Commit) {
        self.desk.now = now;
        let (request, count) = (commit.request, commit.partitions.len());
        if let Err(error) = self.try_commit(commit) {
            self.desk.effects.push(Effect::Committed(request, vec![error; count]));
        }
    }

    fn try_commit(&mut self, commit: Commit) -> Result<(), ErrorCode> {
        let desk = &mut self.desk;
        if !self.groups.contains_key(&commit.group) {
            if commit.transaction.is_none() && commit.speaker.generation >= 0 {
                return Err(ErrorCode::IllegalGeneration);
            }
            // A client that keeps its offsets here and assigns its partitions itself.
            let group = Group::new(desk.begin_life(commit.group.clone()));
            self.groups.insert(commit.group.clone(), group);
        }
        let group = self.groups.get_mut(&commit.group).ok_or(ErrorCode::UnknownServerError)?;
        match &commit.transaction {
            Some(_) => group.may_commit_in_transaction(&commit.speaker)?,
            None => {
                group.may_commit(&commit.speaker)?;
                match group.state() {
                    State::CompletingRebalance => return Err(ErrorCode::RebalanceInProgress),
                    State::Stable | State::PreparingRebalance => group.touch(desk, &commit.speaker.member_id),
                    State::Empty | State::Dead => {}
                }
            }
        }
        let (now_ms, longest) = (desk.now.wall_ms, desk.settings.offset_metadata_max);
        let retention_ms = commit.retention_ms;
        let value = |at: CommitPartition| {
            if at.metadata.encode_utf16().count() > longest {
                return Err(ErrorCode::OffsetMetadataTooLarge);
            }
            let commit_timestamp_ms = at.commit_timestamp_ms.unwrap_or(now_ms);
            let value = OffsetValue {
                offset: at.offset,
                leader_epoch: at.leader_epoch,
                metadata: at.metadata,
                commit_timestamp_ms,
                expire_timestamp_ms: retention_ms.map(|keep_ms| now_ms.saturating_add(keep_ms)),
            };
            Ok((at.topic, at.partition, value))
        };
        let partitions: Vec<_> = commit.partitions.into_iter().map(value).collect();
        let (request, life, ended) = (commit.request, group.life.clone(), None);
        let producer_id = commit.transaction.map(|transaction| transaction.producer_id);
        let pending = PendingCommit { request, life, producer_id, ended, partitions };
        if pending.valid().next().is_none() {
            pending.refuse(desk, ErrorCode::None);
            return Ok(());
        }
        for (topic, partition, _) in pending.valid() {
            match producer_id {
                None => group.offsets.begin(topic, *partition),
                Some(_) => group.offsets.begin_in_transaction(TopicPartition::new(topic.clone(), *partition)),
            }
        }
        let Some(transaction) = commit.transaction else {
            desk.append_offsets(pending, None, Verification::NotAsked);
            return Ok(());
        };
        let InTransaction { producer_id, producer_epoch, verification } = transaction;
        self.transactions.opened(producer_id, &group.life.group);
        desk.append_offsets(pending, Some((producer_id, producer_epoch)), verification);
        Ok(())
    }

    pub(super) fn commit_appended(&mut self, commit: PendingCommit, outcome: Result<Offset, ErrorCode>) {
        if let Some(group) = self.alive(&commit.life) {
            for (nth, (topic, partition, value)) in commit.valid().enumerate() {
                let outcome =
                    if holds(Rule::CommittedWhenReplicated) { outcome } else { outcome.or(Ok(Offset(i64::MAX >> 1))) };
                let committed = outcome.ok().map(|base| Committed { record: base + nth as i64, value: value.clone() });
                match commit.producer_id {
                    None => group.offsets.end(topic, *partition, committed),
                    Some(id) => {
                        let at = TopicPartition::new(topic.clone(), *partition);
                        group.offsets.end_in_transaction(id, at, committed, commit.ended);
                    }
                }
            }
        }
        commit.refuse(&mut self.desk, outcome.err().map_or(ErrorCode::None, commit_error));
    }

    /// Offsets of these partitions. An unknown group has committed none.
    pub fn fetch(&self, group: &str, asked: &[(Arc<str>, i32)], require_stable: bool) -> Vec<Fetched> {
        let group = self.groups.get(group);
        let fetch = |(topic, partition): &(Arc<str>, i32)| Fetched {
            topic: topic.clone(),
            partition: *partition,
            offset: group.map_or(Ok(None), |group| group.fetch(topic, *partition, require_stable)),
        };
        asked.iter().map(fetch).collect()
    }

    /// Every offset of the group, by topic and partition.
    pub fn fetch_all(&self, group: &str, require_stable: bool) -> Vec<Fetched> {
        let Some(group) = self.groups.get(group) else { return Vec::new() };
        let mut all: Vec<Fetched> = group
            .offsets
            .iter()
            .map(|(topic, partition, _)| Fetched {
                topic: topic.clone(),
                partition,
                offset: group.fetch(topic, partition, require_stable),
            })
            .collect();
        all.sort_by(|a, b| (&a.topic, a.partition).cmp(&(&b.topic, b.partition)));
        all
    }

    /// OffsetDelete: an error for each partition. GROUP_ID_NOT_FOUND, or NON_EMPTY_GROUP where members of another protocol
    /// than the consumers' may use any offset; then GROUP_SUBSCRIBED_TO_TOPIC partition by partition.
    pub fn delete_offsets(
        &mut self,
        now: Now,
        group: &str,
        asked: &[(Arc<str>, i32)],
    ) -> Result<Vec<ErrorCode>, ErrorCode> {
        self.desk.now = now;
        let found = self.groups.get_mut(group).ok_or(ErrorCode::GroupIdNotFound)?;
        let live = found.state() != State::Empty;
        if live && found.protocol_type.as_deref() != Some(subscription::CONSUMER) {
            return Err(ErrorCode::NonEmptyGroup);
        }
        let (mut deleted, mut any) = (Vec::new(), false);
        let errors = asked.iter().map(|(topic, partition)| {
            if live && found.is_subscribed(topic) {
                return ErrorCode::GroupSubscribedToTopic;
            }
            any = true;
            if found.offsets.forget(topic, *partition) {
                deleted.push((topic.clone(), *partition));
            }
            ErrorCode::None
        });
        let errors = errors.collect();
        // Who asks for nothing does not end a group either.
        if any {
            self.bury(group, deleted);
        }
        Ok(errors)
    }
}

impl Group {
    /// Whether `speaker` may commit: with no generation only where nobody is a member.
    fn may_commit(&self, speaker: &Speaker) -> Result<(), ErrorCode> {
        if speaker.generation < 0 && self.state() == State::Empty {
            return Ok(());
        }
        self.check_member(&speaker.member_id, speaker.group_instance_id.as_deref())?;
        if speaker.generation != self.generation {
            return Err(ErrorCode::IllegalGeneration);
        }
        Ok(())
    }

    /// As [`Group::may_commit`], in whatever state the group is. A producer that names no member at all may, as those of
    /// before KIP-447 do.
    fn may_commit_in_transaction(&self, speaker: &Speaker) -> Result<(), ErrorCode> {
        let names_a_member = speaker.generation >= 0 || !speaker.member_id.is_empty();
        if names_a_member || speaker.group_instance_id.is_some() { self.may_commit(speaker) } else { Ok(()) }
    }

    fn fetch(&self, topic: &str, partition: i32, require_stable: bool) -> Result<Option<OffsetValue>, ErrorCode> {
        if require_stable && self.offsets.is_in_transaction(topic, partition) {
            return Err(ErrorCode::UnstableOffsetCommit);
        }
        Ok(self.offsets.get(topic, partition).cloned())
    }
}

/// What a client is told of an append that failed.
fn commit_error(error: ErrorCode) -> ErrorCode {
    match error {
        ErrorCode::UnknownTopicOrPartition | ErrorCode::NotEnoughReplicas | ErrorCode::NotEnoughReplicasAfterAppend => {
            ErrorCode::CoordinatorNotAvailable
        }
        ErrorCode::NotLeaderOrFollower | ErrorCode::KafkaStorageError => ErrorCode::NotCoordinator,
        ErrorCode::MessageTooLarge | ErrorCode::RecordListTooLarge | ErrorCode::InvalidFetchSize => {
            ErrorCode::InvalidCommitOffsetSize
        }
        other => other,
    }
}
