//! What the cores of the coordinators and their drivers say to each other.

use bytes::Bytes;

use crate::storage::log::Verification;
use crate::types::Offset;
use crate::wire::error_code::ErrorCode;

/// A moment on both clocks.
#[derive(Clone, Copy, Debug, Default)]
pub struct Now {
    pub monotonic_ms: i64,
    pub wall_ms: i64,
}

/// A request that waits for its answer; the driver's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

/// An append that was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AppendId(pub u64);

/// One batch for the partition a core lives in.
#[derive(Clone, Debug)]
pub struct Append {
    pub id: AppendId,
    /// `None` values are tombstones.
    pub records: Vec<(Bytes, Option<Bytes>)>,
    /// 0 for offset commits, -1 for the rest, as Kafka writes them.
    pub base_sequence: i32,
    /// Id and epoch, for offsets committed in a transaction.
    pub producer: Option<(i64, i16)>,
    pub verification: Verification,
    /// acks=all. Tombstones of groups are not waited for.
    pub replicated: bool,
    /// How long the in-sync replicas are waited for, ms; `None`: as the driver's settings have it.
    pub timeout_ms: Option<i32>,
}

/// What a driver does for its core.
#[derive(Debug)]
pub enum Effect<A, T> {
    Answer(RequestId, A),
    /// To be made in this order, and the outcome of each brought back with [`Core::appended`].
    Append(Append),
    Task(T),
}

/// What lives in one partition of an internal topic, as a value.
pub trait Core: Sized + Send + 'static {
    /// To whom asked and waits.
    type Answer: Send + 'static;
    /// What only its own driver can do.
    type Task: Send + 'static;

    /// What the last calls asked for, in order.
    fn take_effects(&mut self) -> Vec<Effect<Self::Answer, Self::Task>>;
    /// Monotonic ms at which [`Core::tick`] has something to do.
    fn next_due_ms(&self) -> Option<i64>;
    /// Lets the timers fire that are due.
    fn tick(&mut self, now: Now);
    /// The outcome of an append: the offset of its first record, replicated as it asks, or the log's error.
    fn appended(&mut self, now: Now, id: AppendId, outcome: Result<Offset, ErrorCode>);
    /// A marker of this producer is in the partition.
    fn end_transaction(&mut self, producer_id: i64, commit: bool);
    /// Answers everyone who waits: the partition is somebody else's.
    fn resign(self) -> Vec<Effect<Self::Answer, Self::Task>>;
}
