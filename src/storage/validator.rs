//! What a leader checks and stamps before it appends: Kafka's `LogValidator` and the checks around it, as one function
//! from bytes to bytes.
//!
//! ```text
//! received ─ cut into batches ─ whole-batch checks ─ walk over every record ─┬─ stamp in place: offset, epoch, max timestamp
//!                                                                           └─ rebuild as one batch (other codec, old magic)
//! ```
//! Knows no log and no lock: the next offset comes in, the bytes to write go out. Never copies records that are kept as they
//! came; never holds more than a small window of what it decompresses.

mod checks;
mod rebuild;
mod refusal;
mod rules;
mod walk;

pub use checks::check_produce;
pub use refusal::{Refusal, Rule};

use std::cell::RefCell;

use super::log::Origin;
use crate::config::TopicConfig;
use crate::config::topic::{CompressionType, TimestampType};
use crate::types::{LeaderEpoch, Offset};
use crate::wire::batch::{BatchHeader, stamp};
use crate::wire::compression::{Codec, DECOMPRESSED_MAX, Scratch};

/// A record or batch without a time.
const NO_TIMESTAMP: i64 = -1;

/// What the checks need to know beside the bytes.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    pub origin: Origin,
    pub config: &'a TopicConfig,
    /// The log end offset: the first record gets it.
    pub next_offset: Offset,
    pub leader_epoch: LeaderEpoch,
    /// Wall time.
    pub now_ms: i64,
    /// A batch of magic 2 that decompresses to more bytes is refused as [`Rule::Lengthy`]. Unless this is
    /// [`DECOMPRESSED_MAX`], so is what is built anew if it is more than a little, and many records that each break a rule.
    pub decompressed_max: usize,
}

/// One batch of magic 2, ready to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Validated {
    pub written: Written,
    /// As it stands in the written bytes: offsets, leader epoch, producer fields, maximum timestamp, size.
    pub header: BatchHeader,
    /// What belongs beside the maximum timestamp into a time index: the batch's last offset, as in Kafka 3.9
    /// (-1 when no record has a timestamp).
    pub offset_of_max_timestamp: Offset,
    /// -1 unless the topic has LogAppendTime.
    pub log_append_time_ms: i64,
}

/// Where the bytes to write are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Written {
    /// The first so many received bytes; what follows them is an unfinished batch, which is dropped.
    InPlace(usize),
    /// A batch built anew.
    Rewritten(Vec<u8>),
}

impl Validated {
    /// The bytes to write; `received` is what [`validate`] was given.
    pub fn bytes<'a>(&'a self, received: &'a [u8]) -> &'a [u8] {
        match &self.written {
            Written::InPlace(len) => received.get(..*len).unwrap_or(received),
            Written::Rewritten(bytes) => bytes,
        }
    }
}

/// Checks one partition's records and makes them ready to be appended at `context.next_offset`.
///
/// `None`: a message set (Produce v0-2) without one complete message, which Kafka answers with success and base offset -1.
/// After an error the received bytes may already carry new offsets; they are not to be written.
pub fn validate(received: &mut [u8], context: &Context<'_>) -> Result<Option<Validated>, Refusal> {
    let Some(set) = checks::check_set(received, context)? else { return Ok(None) };
    let bytes = received.get_mut(..set.valid_len).unwrap_or_default();
    let target = context.target(set.codec);
    if context.is_brief() && is_lengthy(bytes.len(), &set, target, context) {
        return Err(Refusal::new(Rule::Lengthy, format!("{} bytes to be unpacked or built anew", bytes.len())));
    }
    SCRATCH.with_borrow_mut(|scratch| {
        if set.magic != 2 {
            return rebuild::from_messages(bytes, &set, target, context, scratch).map(Some);
        }
        let header = checks::check_batch(bytes, context)?;
        let walked = match set.codec {
            Codec::None => walk::uncompressed(bytes, &header, context)?,
            codec => walk::compressed(bytes, &header, codec, context, scratch)?,
        };
        // Control batches are never compressed.
        let as_it_came = set.codec == target.codec || set.codec == Codec::None && header.is_control();
        if as_it_came {
            if set.codec != Codec::None && !walked.consecutive {
                return Err(Refusal::new(Rule::Gaps, "offset deltas inside compressed records have gaps"));
            }
            return Ok(Some(stamp_in_place(bytes, header, walked, context)));
        }
        rebuild::from_batch(bytes, &header, set.codec, target, context, scratch).map(Some)
    })
}

/// Whether a set of so many bytes is more than is looked at while others wait, as far as that can be told from outside.
fn is_lengthy(bytes: usize, set: &checks::CheckedSet, target: Target, context: &Context<'_>) -> bool {
    let is_built_anew = set.magic != 2 || set.codec != target.codec;
    match set.codec {
        // Packing takes as much longer than unpacking.
        Codec::None => is_built_anew && bytes > context.decompressed_max / 8,
        _ => is_built_anew || bytes > context.decompressed_max,
    }
}

thread_local! {
    /// What decompression needs, kept from one append of a thread to the next.
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

/// The codec that the topic wants, and how hard it shall work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Target {
    codec: Codec,
    /// The topic's, when it names the codec; else the codec's default.
    level: Option<i32>,
}

impl Context<'_> {
    /// Whether the checks may take a limited time only.
    fn is_brief(&self) -> bool {
        self.decompressed_max < DECOMPRESSED_MAX
    }

    fn target(&self, source: Codec) -> Target {
        let config = self.config;
        let (codec, level) = match config.compression_type {
            CompressionType::Producer => (source, None),
            CompressionType::Uncompressed => (Codec::None, None),
            CompressionType::Gzip => (Codec::Gzip, Some(config.compression_gzip_level)),
            CompressionType::Snappy => (Codec::Snappy, None),
            CompressionType::Lz4 => (Codec::Lz4, Some(config.compression_lz4_level)),
            CompressionType::Zstd => (Codec::Zstd, Some(config.compression_zstd_level)),
        };
        Target { codec, level }
    }

    /// `Some(now)` on a LogAppendTime topic.
    fn log_append_time_ms(&self) -> Option<i64> {
        (self.config.message_timestamp_type == TimestampType::LogAppendTime).then_some(self.now_ms)
    }
}

/// Offset, epoch and maximum timestamp into a batch that stays as it came.
fn stamp_in_place(batch: &mut [u8], received: BatchHeader, walked: walk::Walked, context: &Context<'_>) -> Validated {
    let log_append_time = context.log_append_time_ms();
    let max_timestamp = log_append_time.unwrap_or(walked.max_timestamp);
    // As many offsets as records: a coordinator's batch could have a last offset delta that says otherwise.
    let last = context.next_offset.0.wrapping_add(i64::from(received.record_count) - 1);
    let base = last.wrapping_sub(received.last_offset_delta.into());
    stamp::set_base_offset(batch, Offset(base));
    stamp::set_leader_epoch(batch, context.leader_epoch);
    let mut header = BatchHeader { base_offset: Offset(base), leader_epoch: context.leader_epoch, ..received };
    stamp::set_max_timestamp(batch, &mut header, log_append_time.is_some(), max_timestamp);
    Validated::new(Written::InPlace(batch.len()), header, log_append_time)
}

impl Validated {
    fn new(written: Written, header: BatchHeader, log_append_time: Option<i64>) -> Validated {
        let timeless = header.max_timestamp == NO_TIMESTAMP;
        Validated {
            written,
            header,
            offset_of_max_timestamp: if timeless { Offset::NONE } else { header.last_offset() },
            log_append_time_ms: log_append_time.unwrap_or(NO_TIMESTAMP),
        }
    }
}

#[cfg(test)]
mod live_tests;
#[cfg(test)]
mod tests;
