//! A line of a history: what a client asked and was told, what a replica holds at the end, what was done to the cluster.
//!
//! Times are microseconds of one clock, from any beginning. Offsets are a partition's; `next`, `high_watermark`,
//! `last_stable_offset` and committed offsets are exclusive. A value is written once in a history, so that it names its
//! send. Transactions are named by whatever is unique in the history.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A topic's partition.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Partition {
    pub topic: String,
    pub partition: i32,
}

impl fmt::Display for Partition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.topic, self.partition)
    }
}

/// From the call to the answer; an answer that never came has no end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Span {
    pub from_us: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to_us: Option<u64>,
}

impl Span {
    /// Whether it was over when the other began.
    pub fn before(&self, other: &Span) -> bool {
        self.to_us.is_some_and(|end| end < other.from_us)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Acks {
    #[serde(rename = "0")]
    None,
    #[serde(rename = "1")]
    Leader,
    #[serde(rename = "all")]
    All,
}

/// What became of a send or a commit, as far as its client knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// Acknowledged; a send with the offset it was given.
    Stored { offset: i64 },
    /// Acknowledged as what an earlier try has stored, wherever that is.
    StoredBefore,
    /// An error after which it can not be stored.
    Refused,
    /// A time-out, a lost connection, or an error that may follow what was stored.
    Unknown,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum End {
    Committed,
    Aborted,
    Unknown,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Send {
    pub client: String,
    /// The how-manieth send of its client, in the order in which the client was handed them.
    pub number: u64,
    #[serde(flatten)]
    pub span: Span,
    #[serde(flatten)]
    pub at: Partition,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    pub value: String,
    pub acks: Acks,
    /// Retries store it once, in the order of `number`.
    #[serde(default)]
    pub idempotent: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transaction: Option<String>,
    /// The value that it was made of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<String>,
    pub outcome: Outcome,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Polled {
    pub offset: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    pub value: String,
}

/// A fetch of one partition and what the client made of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Poll {
    pub client: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    #[serde(flatten)]
    pub span: Span,
    #[serde(flatten)]
    pub at: Partition,
    /// Where it read from.
    pub position: i64,
    /// Where the next poll reads from.
    pub next: i64,
    /// The epoch of the leader that answered, where the client knows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leader_epoch: Option<i32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub high_watermark: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_stable_offset: Option<i64>,
    #[serde(default)]
    pub read_committed: bool,
    /// The transaction in which it was read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transaction: Option<String>,
    #[serde(default)]
    pub records: Vec<Polled>,
}

/// A group's offset written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Commit {
    pub client: String,
    pub group: String,
    #[serde(flatten)]
    pub span: Span,
    #[serde(flatten)]
    pub at: Partition,
    pub offset: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transaction: Option<String>,
    /// `stored` repeats the offset.
    pub outcome: Outcome,
}

/// A group's offset read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Committed {
    pub client: String,
    pub group: String,
    #[serde(flatten)]
    pub span: Span,
    #[serde(flatten)]
    pub at: Partition,
    /// Absent: none is committed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offset: Option<i64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Transaction {
    pub transaction: String,
    #[serde(flatten)]
    pub span: Span,
    pub end: End,
}

/// What a client that reads a partition starts from, and again after each jump of its own will.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seek {
    pub client: String,
    pub at_us: u64,
    #[serde(flatten)]
    pub at: Partition,
    pub offset: i64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stored {
    pub offset: i64,
    pub epoch: i32,
    /// Absent for a control record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The checksum of the batch it lies in, so that replicas are compared byte by byte.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub crc: Option<u32>,
}

/// What a replica holds after the run. Several lines continue one another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Replica {
    pub broker: i32,
    #[serde(flatten)]
    pub at: Partition,
    /// Exactly one of a partition.
    #[serde(default)]
    pub leader: bool,
    pub log_start_offset: i64,
    pub high_watermark: i64,
    pub records: Vec<Stored>,
}

/// What was done to the cluster. A run whose fault left no trace has shown nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    pub name: String,
    pub at_us: u64,
    /// The trace: an ISR that changed, an epoch that rose, a connection that was refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shown_by: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum Event {
    Send(Send),
    Poll(Poll),
    Seek(Seek),
    Commit(Commit),
    Committed(Committed),
    Transaction(Transaction),
    Replica(Replica),
    /// Records of it may be gone for a later one of the same key.
    Compacted {
        topic: String,
    },
    Fault(Fault),
    /// From now on nothing is broken.
    Healed {
        at_us: u64,
    },
    /// Something happened that was not meant to: the run says nothing.
    Spoilt {
        why: String,
    },
}
