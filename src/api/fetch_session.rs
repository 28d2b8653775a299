//! Incremental fetch sessions (KIP-227): the broker remembers which partitions a client asks for and what it was told
//! of them last, and both sides send only what changed.
//!
//! ```text
//! (session id, epoch) of the request        meaning
//! (0, -1)                                   no session
//! (0, 0)                                    full; a session is wanted: a new id, or 0 when there is no room
//! (n, 0) (n, -1)                            session n is closed, then as above
//! (n, e)                                    incremental: e must be the next of session n; after 2^31-1 comes 1
//! ```
//! There are `max.incremental.fetch.session.cache.slots`. A new session takes the place of one that was idle for two
//! minutes; else a follower takes that of a consumer, and any takes that of a smaller one that lived for two minutes.
//! What they remember is bounded by [`HELD_MAX`] too: beyond it no session is granted, and one that grows past it is
//! closed, on which its client asks again in full.
//! Source: Kafka's `FetchSession.scala`. Time and ids come in as arguments.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use crate::types::{LeaderEpoch, Offset, TopicId};
use crate::wire::error_code::ErrorCode;
use crate::wire::fetch::{PartitionResponse, Payload, ResponseTopic};

/// Idle or alive this long, a session may give way, ms.
const EVICTION_MS: i64 = 120_000;

/// Bytes that all sessions may hold together, by estimate: some 400,000 partitions. A session costs its client a request,
/// the broker its memory for as long as nobody takes its place.
const HELD_MAX: usize = 128 << 20;

/// Bytes that a partition of a session takes, beside a topic name that is the session's own.
const HELD_PER_PARTITION: usize = 320;

/// Partitions of a session that are read in less than a millisecond.
const MANY: usize = 2_000;

/// One partition as a client asks for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    pub topic: ResponseTopic,
    pub partition: i32,
    pub current_leader_epoch: LeaderEpoch,
    pub fetch_offset: Offset,
    pub last_fetched_epoch: LeaderEpoch,
    pub log_start_offset: Offset,
    pub max_bytes: i32,
}

/// What makes a partition the same: its id if it has one, else its name, and the index.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    topic: Result<TopicId, Arc<str>>,
    partition: i32,
}

impl Asked {
    /// Bytes held for it in a session, at the most: topics that exist share their names.
    fn held(&self) -> usize {
        HELD_PER_PARTITION + self.topic.name.len()
    }
}

impl Key {
    pub fn new(topic: &ResponseTopic, partition: i32) -> Key {
        let topic = if topic.id.is_zero() { Err(topic.name.clone()) } else { Ok(topic.id) };
        Key { topic, partition }
    }
}

/// What a request says about sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionRequest {
    pub id: i32,
    pub epoch: i32,
    /// v13+.
    pub uses_topic_ids: bool,
    pub is_follower: bool,
}

impl SessionRequest {
    /// Neither has a session nor wants one.
    pub fn is_none(&self) -> bool {
        (self.id, self.epoch) == (0, -1)
    }
}

/// How one request relates to a session, between its begin and its end.
#[derive(Debug)]
pub enum Context {
    Sessionless(Vec<Asked>),
    Full { asked: Vec<Asked>, uses_topic_ids: bool, is_follower: bool },
    Incremental { id: i32, session: Arc<Mutex<Session>>, next_epoch: i32 },
}

/// A partition and what the client knows of it.
#[derive(Debug)]
struct Cached {
    asked: Asked,
    high_watermark: Offset,
    log_start_offset: Offset,
}

/// One session's partitions, in the order they are served.
#[derive(Debug)]
pub struct Session {
    uses_topic_ids: bool,
    /// Of the next request.
    epoch: i32,
    places: HashMap<Key, u64>,
    in_order: BTreeMap<u64, Cached>,
    next_place: u64,
    /// Bytes, see [`HELD_MAX`].
    held: usize,
}

/// What eviction looks at.
#[derive(Debug)]
struct Slot {
    session: Arc<Mutex<Session>>,
    is_follower: bool,
    created_ms: i64,
    used_ms: i64,
    /// Partitions.
    size: usize,
    /// Bytes, see [`HELD_MAX`].
    held: usize,
}

/// All sessions of a broker.
#[derive(Debug)]
pub struct FetchSessions {
    max_slots: usize,
    held_max: usize,
    /// There was a session of more than [`MANY`] partitions.
    may_be_large: AtomicBool,
    slots: Mutex<HashMap<i32, Slot>>,
}

impl FetchSessions {
    /// With 0 slots no session is ever granted.
    pub fn new(max_slots: usize) -> FetchSessions {
        FetchSessions { max_slots, held_max: HELD_MAX, may_be_large: AtomicBool::default(), slots: Mutex::default() }
    }

    #[cfg(test)]
    fn holding_at_most(self, held_max: usize) -> FetchSessions {
        FetchSessions { held_max, ..self }
    }

    /// Whether [`FetchSessions::is_large`] is worth a question.
    pub fn may_be_large(&self) -> bool {
        self.may_be_large.load(Ordering::Relaxed)
    }

    /// Whether every request of that session takes long, whatever it names.
    pub fn is_large(&self, id: i32) -> bool {
        self.slots.lock().get(&id).is_some_and(|slot| slot.size > MANY)
    }

    fn has_size(&self, partitions: usize) {
        if partitions > MANY {
            self.may_be_large.store(true, Ordering::Relaxed);
        }
    }

    /// Takes a request in: FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH or FETCH_SESSION_TOPIC_ID_ERROR leave
    /// the session as it was; a session that would hold too much is closed, and its id not found.
    pub fn begin(
        &self,
        request: SessionRequest,
        asked: Vec<Asked>,
        forgotten: &[Key],
        now_ms: i64,
    ) -> Result<Context, ErrorCode> {
        let SessionRequest { id, epoch, uses_topic_ids, is_follower } = request;
        if epoch == 0 || epoch == -1 {
            if id != 0 {
                self.slots.lock().remove(&id);
            }
            return Ok(match epoch {
                0 => Context::Full { asked, uses_topic_ids, is_follower },
                _ => Context::Sessionless(asked),
            });
        }
        let mut slots = self.slots.lock();
        let slot = slots.get_mut(&id).ok_or(ErrorCode::FetchSessionIdNotFound)?;
        let mut session = slot.session.lock();
        if session.epoch != epoch {
            return Err(ErrorCode::InvalidFetchSessionEpoch);
        }
        if session.uses_topic_ids != uses_topic_ids {
            return Err(ErrorCode::FetchSessionTopicIdError);
        }
        session.update(&asked, forgotten);
        if session.in_order.is_empty() {
            drop(session);
            slots.remove(&id);
            return Ok(Context::Sessionless(asked));
        }
        session.epoch = next_epoch(epoch);
        let next_epoch = session.epoch;
        let grew = session.held > slot.held;
        slot.held = session.held;
        slot.size = session.in_order.len();
        self.has_size(slot.size);
        slot.used_ms = now_ms;
        drop(session);
        let session = Arc::clone(&slot.session);
        if grew && held(&slots) > self.held_max {
            slots.remove(&id);
            return Err(ErrorCode::FetchSessionIdNotFound);
        }
        Ok(Context::Incremental { id, session, next_epoch })
    }

    /// Ends a request: grants a session to a full one that wants it, and drops from an incremental one's `answers` what the
    /// client knows already. Returns the session id of the answer. `random_id` gives numbers in `1..=i32::MAX`.
    pub fn end<R: Payload>(
        &self,
        context: Context,
        answers: &mut Vec<(ResponseTopic, PartitionResponse<R>)>,
        now_ms: i64,
        random_id: impl FnMut() -> i32,
    ) -> Result<i32, ErrorCode> {
        match context {
            Context::Sessionless(_) => Ok(0),
            Context::Full { asked, uses_topic_ids, is_follower } => {
                Ok(self.create(asked, uses_topic_ids, is_follower, answers, now_ms, random_id))
            }
            Context::Incremental { id, session, next_epoch } => {
                let mut session = session.lock();
                if session.epoch != next_epoch {
                    return Err(ErrorCode::InvalidFetchSessionEpoch);
                }
                answers.retain(|(topic, answer)| session.answered(topic, answer));
                Ok(id)
            }
        }
    }

    /// Ends a request whose client is to hear nothing now: what its session knows stays as it was. Returns the session id
    /// of the answer; none is granted.
    pub fn end_untold(&self, context: Context) -> Result<i32, ErrorCode> {
        match context {
            Context::Sessionless(_) | Context::Full { .. } => Ok(0),
            Context::Incremental { id, session, next_epoch } => match session.lock().epoch == next_epoch {
                true => Ok(id),
                false => Err(ErrorCode::InvalidFetchSessionEpoch),
            },
        }
    }

    fn create<R: Payload>(
        &self,
        asked: Vec<Asked>,
        uses_topic_ids: bool,
        is_follower: bool,
        answers: &[(ResponseTopic, PartitionResponse<R>)],
        now_ms: i64,
        mut random_id: impl FnMut() -> i32,
    ) -> i32 {
        let mut session = Session {
            uses_topic_ids,
            epoch: 1,
            places: HashMap::new(),
            in_order: BTreeMap::new(),
            next_place: 0,
            held: 0,
        };
        let mut by_key: HashMap<Key, Asked> =
            asked.into_iter().map(|asked| (Key::new(&asked.topic, asked.partition), asked)).collect();
        for (topic, answer) in answers {
            let key = Key::new(topic, answer.partition);
            if let Some(asked) = by_key.remove(&key) {
                session.push(key, asked, answer.high_watermark, answer.log_start_offset);
            }
        }
        let mut slots = self.slots.lock();
        let is_room =
            |slots: &HashMap<i32, Slot>| slots.len() < self.max_slots && held(slots) + session.held <= self.held_max;
        if !is_room(&slots) {
            let Some(gives_way) = evictable(&slots, is_follower, answers.len(), now_ms) else { return 0 };
            slots.remove(&gives_way);
            if !is_room(&slots) {
                return 0;
            }
        }
        let id = std::iter::repeat_with(&mut random_id).find(|id| *id > 0 && !slots.contains_key(id)).unwrap_or(1);
        let (size, held) = (session.in_order.len(), session.held);
        self.has_size(size);
        let session = Arc::new(Mutex::new(session));
        slots.insert(id, Slot { session, is_follower, created_ms: now_ms, used_ms: now_ms, size, held });
        id
    }

    /// Sessions and the partitions in them.
    pub fn sizes(&self) -> (usize, usize) {
        let slots = self.slots.lock();
        (slots.len(), slots.values().map(|slot| slot.size).sum())
    }
}

/// Bytes of all sessions.
fn held(slots: &HashMap<i32, Slot>) -> usize {
    slots.values().map(|slot| slot.held).sum()
}

/// The session that gives way to a new one of `size` partitions, if one must.
fn evictable(slots: &HashMap<i32, Slot>, is_follower: bool, size: usize, now_ms: i64) -> Option<i32> {
    let (idle, slot) = slots.iter().min_by_key(|(id, slot)| (slot.used_ms, **id))?;
    if now_ms - slot.used_ms > EVICTION_MS {
        return Some(*idle);
    }
    let worth = |id: &i32, slot: &Slot| (slot.is_follower, slot.size, *id);
    slots
        .iter()
        .filter(|(_, slot)| now_ms - slot.created_ms > EVICTION_MS || (is_follower && !slot.is_follower))
        .map(|(id, slot)| worth(id, slot))
        .min()
        .filter(|least| (is_follower, size, 0) >= *least)
        .map(|(_, _, id)| id)
}

/// After 2^31-1 comes 1: 0 and -1 mean something else.
fn next_epoch(epoch: i32) -> i32 {
    match epoch {
        ..0 => -1,
        i32::MAX => 1,
        _ => epoch + 1,
    }
}

impl Cached {
    /// Whether the answer holds anything that the client does not know.
    fn differs<R: Payload>(&self, answer: &PartitionResponse<R>) -> bool {
        !answer.records.is_empty()
            || answer.error.is_error()
            || answer.diverging.is_some()
            || answer.preferred_read_replica >= 0
            || answer.high_watermark != self.high_watermark
            || answer.log_start_offset != self.log_start_offset
    }
}

impl Context {
    /// Which of `answers` the client would be told.
    pub fn told<'a, R: Payload>(
        &self,
        answers: &'a [(ResponseTopic, PartitionResponse<R>)],
    ) -> Vec<&'a (ResponseTopic, PartitionResponse<R>)> {
        let Context::Incremental { session, .. } = self else { return answers.iter().collect() };
        let session = session.lock();
        let is_told = |(topic, answer): &&(ResponseTopic, PartitionResponse<R>)| {
            let place = session.places.get(&Key::new(topic, answer.partition));
            place.and_then(|place| session.in_order.get(place)).is_none_or(|cached| cached.differs(answer))
        };
        answers.iter().filter(is_told).collect()
    }

    /// What this request reads, in order. Without a session it is kept nowhere else.
    pub fn take_partitions(&mut self) -> Vec<Asked> {
        match self {
            Context::Sessionless(asked) => std::mem::take(asked),
            Context::Full { asked, .. } => asked.clone(),
            Context::Incremental { session, .. } => {
                session.lock().in_order.values().map(|cached| cached.asked.clone()).collect()
            }
        }
    }
}

impl Session {
    fn push(&mut self, key: Key, asked: Asked, high_watermark: Offset, log_start_offset: Offset) {
        self.held += asked.held();
        self.in_order.insert(self.next_place, Cached { asked, high_watermark, log_start_offset });
        self.places.insert(key, self.next_place);
        self.next_place += 1;
    }

    /// Partitions named by an incremental request are added or changed, forgotten ones go.
    fn update(&mut self, asked: &[Asked], forgotten: &[Key]) {
        for asked in asked {
            let key = Key::new(&asked.topic, asked.partition);
            match self.places.get(&key).and_then(|place| self.in_order.get_mut(place)) {
                Some(cached) => {
                    self.held = self.held - cached.asked.held() + asked.held();
                    cached.asked = asked.clone();
                }
                None => self.push(key, asked.clone(), Offset::NONE, Offset::NONE),
            }
        }
        for key in forgotten {
            if let Some(gone) = self.places.remove(key).and_then(|place| self.in_order.remove(&place)) {
                self.held -= gone.asked.held();
            }
        }
    }

    /// Whether the client must be told, which it then is. Partitions with records go to the end, so that one with much to
    /// say does not keep the others from being heard.
    fn answered<R: Payload>(&mut self, topic: &ResponseTopic, answer: &PartitionResponse<R>) -> bool {
        let key = Key::new(topic, answer.partition);
        let Some(place) = self.places.get(&key).copied() else { return true };
        let Some(cached) = self.in_order.get_mut(&place) else { return true };
        let changed = cached.differs(answer);
        // After an error the client must hear of the partition again, whatever the high watermark is then.
        cached.high_watermark = match answer.error.is_error() || answer.diverging.is_some() {
            true => Offset::NONE,
            false => answer.high_watermark,
        };
        cached.log_start_offset = answer.log_start_offset;
        if !answer.records.is_empty()
            && let Some(cached) = self.in_order.remove(&place)
        {
            self.in_order.insert(self.next_place, cached);
            self.places.insert(key, self.next_place);
            self.next_place += 1;
        }
        changed
    }
}

#[cfg(test)]
mod tests;
