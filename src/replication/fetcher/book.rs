//! The partitions of one fetcher: what the next request names, and where the parts of an answer go.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use bytes::BytesMut;

use super::FetchConfig;
use super::session::Session;
use crate::quota::ReplicationQuota;
use crate::replication::follower::{Fetched, Follower, Position, Question, Step};
use crate::replication::partition::{NotTaken, Partition};
use crate::types::{BrokerId, LeaderEpoch, Offset, TopicId, TopicPartition};
use crate::wire::error_code::ErrorCode;
use crate::wire::fetch::{
    FIRST_FLEXIBLE, FIRST_WITH_IDS, FetchRequest, ForgottenPartition, PartitionAnswer, PartitionRequest, TopicRef,
};
use crate::wire::writer::Writer;

/// A partition with what its leader was told of it last.
#[derive(Debug)]
struct Followed {
    partition: Arc<Partition>,
    follower: Follower,
    /// In the session as this; `None`: the leader's session does not have it.
    told: Option<Position>,
    /// It had all that is committed when the leader last answered.
    is_in_sync: bool,
}

#[derive(Debug, Default)]
struct Topic {
    id: TopicId,
    partitions: BTreeMap<i32, Followed>,
    /// In the leader's session, to be forgotten there.
    gone: Vec<i32>,
}

/// A body to be sent.
pub struct Body {
    pub version: i16,
    pub bytes: BytesMut,
}

/// What a fetcher follows.
#[derive(Debug)]
pub struct Book {
    config: FetchConfig,
    quota: Arc<ReplicationQuota>,
    /// Some partition is held up until then, monotonic ms.
    held_up_until_ms: Option<i64>,
    topics: BTreeMap<Arc<str>, Topic>,
    names: HashMap<TopicId, Arc<str>>,
    session: Session,
    /// To be forgotten in the session under an id the topic no longer has.
    gone_with_id: Vec<(TopicId, i32)>,
}

/// A partition whose leader is asked for one of its offsets.
pub struct Lookup {
    pub tp: TopicPartition,
    pub leader_epoch: LeaderEpoch,
    pub question: Question,
}

impl Book {
    pub fn new(config: FetchConfig, quota: Arc<ReplicationQuota>) -> Book {
        Book {
            config,
            quota,
            held_up_until_ms: None,
            topics: BTreeMap::new(),
            names: HashMap::new(),
            session: Session::default(),
            gone_with_id: Vec::new(),
        }
    }

    /// Follows a partition in `epoch`, and no longer in an earlier one.
    pub fn add(&mut self, partition: Arc<Partition>, epoch: LeaderEpoch) {
        let tp = partition.topic_partition().clone();
        let id = partition.topic_id();
        let mut follower = Follower::new(epoch);
        let begun = partition.log().map(|log| follower.begin(&*log));
        match begun.map(|step| partition.follow(epoch, step, &[])) {
            Ok(Ok(_)) => {}
            Ok(Err(NotTaken::NotFollowing)) => return,
            Ok(Err(_)) | Err(_) => follower.fail(),
        }
        let topic = self.topics.entry(Arc::clone(&tp.topic)).or_default();
        if topic.id != id {
            // Another topic of that name.
            let old = std::mem::replace(&mut topic.id, id);
            let told = topic.partitions.iter_mut().filter_map(|(index, followed)| followed.told.take().map(|_| *index));
            let told: Vec<i32> = told.collect();
            if !old.is_zero() {
                self.names.remove(&old);
                self.gone_with_id.extend(told.into_iter().chain(topic.gone.drain(..)).map(|gone| (old, gone)));
            }
            self.names.insert(id, Arc::clone(&tp.topic));
        }
        let told = topic.partitions.get(&tp.partition).and_then(|followed| followed.told);
        topic.gone.retain(|gone| *gone != tp.partition);
        topic.partitions.insert(tp.partition, Followed { partition, follower, told, is_in_sync: false });
    }

    pub fn remove(&mut self, tp: &TopicPartition) {
        let Some(topic) = self.topics.get_mut(&tp.topic) else { return };
        if let Some(followed) = topic.partitions.remove(&tp.partition)
            && followed.told.is_some()
        {
            topic.gone.push(tp.partition);
        }
    }

    /// The partitions whose leader must be asked for an offset before they can be fetched again.
    pub fn lookups(&mut self, now_ms: i64) -> Vec<Lookup> {
        let mut found = Vec::new();
        for followed in self.all() {
            let Ok(log) = followed.partition.log() else { continue };
            match followed.follower.question(now_ms, &*log) {
                Some(question @ (Question::LogEnd | Question::LogStart)) => found.push(Lookup {
                    tp: followed.partition.topic_partition().clone(),
                    leader_epoch: followed.follower.leader_epoch(),
                    question,
                }),
                Some(Question::Fetch(_)) | None => {}
            }
        }
        found
    }

    /// The answer to a [`Lookup`].
    pub fn offset_found(&mut self, lookup: &Lookup, answer: Result<Offset, ErrorCode>, now_ms: i64) {
        let backoff_ms = self.config.backoff_ms;
        let Some(followed) = self.find(&lookup.tp.topic, lookup.tp.partition) else { return };
        let Ok(log) = followed.partition.log() else { return followed.follower.fail() };
        if followed.follower.leader_epoch() == lookup.leader_epoch {
            let step = followed.follower.offset_found(lookup.question, answer, &*log, now_ms, backoff_ms);
            followed.take(step, &[], now_ms, backoff_ms);
        }
    }

    /// The next fetch; `None` when there is nothing to ask and nothing to forget.
    pub fn request(&mut self, me: BrokerId, broker_epoch: i64, now_ms: i64) -> Option<Body> {
        let with_ids =
            self.config.fetch_version >= FIRST_WITH_IDS && self.topics.values().all(|topic| !topic.id.is_zero());
        let version =
            if with_ids { self.config.fetch_version } else { self.config.fetch_version.min(FIRST_WITH_IDS - 1) };
        self.session.use_topic_ids(with_ids);
        let full = self.session.is_full();
        let mut request = FetchRequest {
            replica_id: me,
            replica_epoch: broker_epoch,
            max_wait_ms: self.config.max_wait_ms,
            min_bytes: self.config.min_bytes,
            max_bytes: self.config.response_max_bytes,
            isolation_level: 0,
            session_id: self.session.id,
            session_epoch: self.session.epoch,
            topics: Default::default(),
            partitions: Default::default(),
            forgotten: Vec::new(),
            rack_id: "",
        };
        let mut any_told = false;
        let is_exceeded = self.quota.is_exceeded(now_ms);
        self.held_up_until_ms = None;
        for (name, topic) in &mut self.topics {
            let named = if with_ids { TopicRef::Id(topic.id) } else { TopicRef::Name(name) };
            let index = request.topics.len() as u32;
            if full {
                topic.gone.clear();
            }
            let gone = topic.gone.drain(..).map(|partition| ForgottenPartition { topic: index, partition });
            request.forgotten.extend(gone);
            for (partition, followed) in &mut topic.partitions {
                let is_held_up = is_exceeded && !followed.is_in_sync && followed.partition.is_throttled_follower();
                if is_held_up {
                    self.held_up_until_ms = Some(now_ms.saturating_add(self.config.backoff_ms));
                }
                let question = match followed.partition.log() {
                    Ok(_) if is_held_up => None,
                    Ok(log) => followed.follower.question(now_ms, &*log),
                    Err(_) => None,
                };
                match (question, followed.told) {
                    (Some(Question::Fetch(position)), told) => {
                        any_told = true;
                        if full || told != Some(position) {
                            request.partitions.push(PartitionRequest {
                                topic: index,
                                partition: *partition,
                                current_leader_epoch: position.leader_epoch,
                                fetch_offset: position.offset,
                                last_fetched_epoch: position.last_fetched_epoch,
                                log_start_offset: position.log_start,
                                max_bytes: self.config.max_bytes,
                            });
                        }
                        followed.told = Some(position);
                    }
                    (_, Some(_)) => {
                        followed.told = None;
                        if !full {
                            request.forgotten.push(ForgottenPartition { topic: index, partition: *partition });
                        }
                    }
                    (_, None) => {}
                }
            }
            request.topics.push(named);
        }
        for (id, partition) in self.gone_with_id.drain(..).filter(|_| !full && with_ids) {
            request.forgotten.push(ForgottenPartition { topic: request.topics.len() as u32, partition });
            request.topics.push(TopicRef::Id(id));
        }
        if !any_told && request.forgotten.is_empty() {
            return None;
        }
        let mut out =
            Writer::new(BytesMut::with_capacity(64 + 48 * request.partitions.len()), version >= FIRST_FLEXIBLE);
        request.encode(&mut out, version);
        let bytes = out.buf;
        drop(request);
        self.topics.retain(|_, topic| !topic.partitions.is_empty());
        let topics = &self.topics;
        self.names.retain(|id, name| topics.get(name).is_some_and(|topic| topic.id == *id));
        Some(Body { version, bytes })
    }

    /// Whether the parts of an answer that begins so are to be taken.
    pub fn answered(&mut self, error: ErrorCode, session_id: i32) -> bool {
        let accepted = self.session.answered(error, session_id);
        if !accepted {
            self.all().for_each(|followed| followed.told = None);
        }
        accepted
    }

    /// One part of an answer whose records lie in `frame`. Returns what must become durable before the next request.
    pub fn take(
        &mut self,
        topic: TopicRef<'_>,
        answer: &PartitionAnswer,
        frame: &[u8],
        now_ms: i64,
    ) -> Option<(Arc<Partition>, Offset)> {
        let backoff_ms = self.config.backoff_ms;
        let is_limited = self.quota.is_set();
        let followed = match topic {
            TopicRef::Name(name) => self.find(name, answer.partition),
            TopicRef::Id(id) => {
                let name = Arc::clone(self.names.get(&id)?);
                self.find(&name, answer.partition)
            }
        }?;
        let told = followed.told?;
        let Ok(log) = followed.partition.log() else {
            followed.follower.fail();
            return None;
        };
        let fetched = Fetched {
            error: answer.error,
            high_watermark: answer.high_watermark,
            log_start: answer.log_start_offset,
            diverging: answer.diverging,
        };
        let step = followed.follower.fetched(&told, &fetched, &*log, now_ms, backoff_ms);
        if answer.error.is_error() {
            let (partition, error) = (followed.partition.topic_partition(), answer.error);
            tracing::debug!(%partition, %error, "the leader does not answer with records");
        }
        let records = frame.get(answer.records.clone()).unwrap_or_default();
        let counts = is_limited && followed.partition.is_throttled_follower();
        let owed = followed.take(step, records, now_ms, backoff_ms);
        let owed = owed.map(|owed| (Arc::clone(&followed.partition), owed));
        if counts {
            self.quota.record(records.len(), now_ms);
        }
        owed
    }

    /// The connection is gone: the next request names everything.
    pub fn connection_lost(&mut self) {
        self.session.lost();
        self.gone_with_id.clear();
        self.topics.values_mut().for_each(|topic| topic.gone.clear());
        self.all().for_each(|followed| followed.told = None);
    }

    /// When the first resting partition asks again, monotonic ms.
    pub fn next_due_ms(&self) -> Option<i64> {
        let all = self.topics.values().flat_map(|topic| topic.partitions.values());
        all.filter_map(|followed| followed.follower.rests_until()).chain(self.held_up_until_ms).min()
    }

    fn all(&mut self) -> impl Iterator<Item = &mut Followed> {
        self.topics.values_mut().flat_map(|topic| topic.partitions.values_mut())
    }

    fn find(&mut self, topic: &str, partition: i32) -> Option<&mut Followed> {
        self.topics.get_mut(topic)?.partitions.get_mut(&partition)
    }
}

impl Followed {
    fn take(&mut self, step: Step, records: &[u8], now_ms: i64, backoff_ms: i64) -> Option<Offset> {
        match self.partition.follow(self.follower.leader_epoch(), step, records) {
            Ok(owed) => {
                if let (Step::Take { high_watermark, .. }, Ok(log)) = (step, self.partition.log()) {
                    self.is_in_sync = log.offsets().log_end >= high_watermark;
                }
                owed
            }
            // Whoever changed the role has told this fetcher, or will.
            Err(NotTaken::NotFollowing | NotTaken::Storage) => {
                self.follower.fail();
                None
            }
            Err(NotTaken::Refused(error)) => {
                let partition = self.partition.topic_partition();
                tracing::error!(%partition, %error, "what the leader sent is not taken; it is asked again");
                self.follower.rest(now_ms, backoff_ms);
                None
            }
        }
    }
}
