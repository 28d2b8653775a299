//! The numbers and names that everything else is written in.

use std::fmt;
use std::ops::{Add, AddAssign, Sub};
use std::str::FromStr;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use uuid::Uuid;

/// A record's position in its partition. Log start and the like are inclusive; `log_end_offset`,
/// high watermark and last stable offset are exclusive everywhere: the first offset *not* covered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Offset(pub i64);

impl Offset {
    pub const ZERO: Offset = Offset(0);
    /// What the protocol sends where there is no offset.
    pub const NONE: Offset = Offset(-1);
}

impl Add<i64> for Offset {
    type Output = Offset;
    fn add(self, records: i64) -> Offset {
        Offset(self.0 + records)
    }
}

impl AddAssign<i64> for Offset {
    fn add_assign(&mut self, records: i64) {
        self.0 += records;
    }
}

impl Sub for Offset {
    type Output = i64;
    fn sub(self, other: Offset) -> i64 {
        self.0 - other.0
    }
}

impl fmt::Display for Offset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Grows with each leader change of a partition (KIP-101). Stamped into every batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeaderEpoch(pub i32);

impl LeaderEpoch {
    /// Unknown, or "do not check".
    pub const NONE: LeaderEpoch = LeaderEpoch(-1);
}

impl fmt::Display for LeaderEpoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// `broker.id`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BrokerId(pub i32);

impl BrokerId {
    /// No leader, no controller; a consumer in a fetch request.
    pub const NONE: BrokerId = BrokerId(-1);
}

impl fmt::Display for BrokerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A topic's identity across deletion and re-creation (KIP-516). Written as 22 characters of base64url.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TopicId(pub Uuid);

impl TopicId {
    /// No id: requests that name the topic instead.
    pub const ZERO: TopicId = TopicId(Uuid::nil());

    pub fn is_zero(self) -> bool {
        self.0.is_nil()
    }
}

impl fmt::Display for TopicId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&URL_SAFE_NO_PAD.encode(self.0.as_bytes()))
    }
}

/// Not 16 bytes of base64url.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a base64url id of 16 bytes")]
pub struct BadId;

impl FromStr for TopicId {
    type Err = BadId;
    fn from_str(text: &str) -> Result<TopicId, BadId> {
        let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| BadId)?;
        Uuid::from_slice(&bytes).map(TopicId).map_err(|_| BadId)
    }
}

/// One partition of one topic. Displayed as Kafka does: `topic-0`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TopicPartition {
    pub topic: Arc<str>,
    pub partition: i32,
}

impl TopicPartition {
    pub fn new(topic: impl Into<Arc<str>>, partition: i32) -> TopicPartition {
        TopicPartition { topic: topic.into(), partition }
    }
}

impl fmt::Display for TopicPartition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.topic, self.partition)
    }
}

/// Where a client is sent: an advertised listener.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Endpoint {
    pub host: Arc<str>,
    pub port: u16,
}

/// When a produce is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acks {
    /// 0: never.
    None,
    /// 1: the leader has it.
    Leader,
    /// -1: every in-sync replica has it.
    All,
}

/// `isolation_level` of Fetch and ListOffsets: 0 and 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IsolationLevel {
    ReadUncommitted,
    ReadCommitted,
}
