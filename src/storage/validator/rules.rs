//! The rules that a topic has for each record.

use super::{Context, NO_TIMESTAMP, Refusal, Rule};
use crate::config::topic::TimestampType;
use crate::storage::log::RecordError;
use crate::wire::batch::{BatchHeader, Survey};

/// So many refused records are named to the client; the rest of a large batch of bad records would only fill memory.
const RECORD_ERRORS_MAX: usize = 10_000;

/// Bytes of the smallest record. No more records are named than the batch's bytes could hold uncompressed, lest a few
/// compressed bytes become thousands of sentences.
const SMALLEST_RECORD: usize = 7;

/// The rules, and the records of one batch that broke one.
#[derive(Debug)]
pub(super) struct RecordRules {
    keys_needed: bool,
    /// `None` on a LogAppendTime topic.
    time_limits: Option<TimeLimits>,
    batch_is_log_append_time: bool,
    index: i32,
    named_max: usize,
    errors: Vec<RecordError>,
    refused: usize,
    any_timestamp: bool,
}

#[derive(Clone, Copy, Debug)]
struct TimeLimits {
    now_ms: i64,
    before_max_ms: i64,
    after_max_ms: i64,
}

impl TimeLimits {
    /// With Kafka's arithmetic, wrap included.
    fn allow(&self, timestamp: i64) -> bool {
        let age = self.now_ms.wrapping_sub(timestamp);
        age <= self.before_max_ms && age.wrapping_neg() <= self.after_max_ms
    }

    /// Whether every time from `first` to `last` is allowed; `false` where that arithmetic wraps.
    fn allow_all(&self, first: i64, last: i64) -> bool {
        let no_wrap = |timestamp| self.now_ms.checked_sub(timestamp).is_some();
        no_wrap(first) && no_wrap(last) && self.allow(first) && self.allow(last)
    }

    /// Inclusive.
    fn range(&self) -> (i64, i64) {
        (self.now_ms.wrapping_sub(self.before_max_ms), self.now_ms.wrapping_add(self.after_max_ms))
    }
}

impl RecordRules {
    /// `batch_bytes` is what the batch has as it came.
    pub fn new(batch_is_log_append_time: bool, batch_bytes: usize, context: &Context<'_>) -> RecordRules {
        let config = context.config;
        RecordRules {
            keys_needed: config.cleanup_compact,
            time_limits: (config.message_timestamp_type == TimestampType::CreateTime).then_some(TimeLimits {
                now_ms: context.now_ms,
                before_max_ms: config.message_timestamp_before_max_ms,
                after_max_ms: config.message_timestamp_after_max_ms,
            }),
            batch_is_log_append_time,
            index: 0,
            named_max: RECORD_ERRORS_MAX.min(batch_bytes / SMALLEST_RECORD),
            errors: Vec::new(),
            refused: 0,
            any_timestamp: false,
        }
    }

    /// The largest timestamp, when a look at all records together tells that none breaks a rule: then they need not be
    /// checked one by one.
    pub fn latest_if_all_pass(&self, header: &BatchHeader, survey: &Survey) -> Option<i64> {
        if self.batch_is_log_append_time || self.keys_needed && !survey.all_have_keys {
            return None;
        }
        let (smallest, largest) = survey.timestamp_deltas;
        let first = header.base_timestamp.checked_add(smallest)?;
        let last = header.base_timestamp.checked_add(largest)?;
        let in_time = first <= last && self.time_limits.is_none_or(|limits| limits.allow_all(first, last));
        in_time.then_some(last)
    }

    /// The next record, in order; `offset` is what the producer gave it.
    #[inline]
    pub fn check(&mut self, has_key: bool, timestamp: i64, offset: i64) {
        if self.keys_needed && !has_key {
            self.refuse(false, || "a compacted topic takes no record without a key".to_owned());
        } else if let Some(limits) = self.time_limits
            && timestamp != NO_TIMESTAMP
        {
            if !limits.allow(timestamp) {
                let (oldest, newest) = limits.range();
                self.refuse(true, || {
                    format!("timestamp {timestamp} at offset {offset} is outside [{oldest}, {newest}]")
                });
            }
        } else if self.batch_is_log_append_time {
            self.refuse(true, || "a producer may not set the timestamp type to LogAppendTime".to_owned());
        }
        self.index = self.index.wrapping_add(1);
    }

    #[cold]
    fn refuse(&mut self, timestamp: bool, message: impl FnOnce() -> String) {
        self.refused += 1;
        self.any_timestamp |= timestamp;
        if self.errors.len() < self.named_max {
            self.errors.push(RecordError { batch_index: self.index, message: Some(message()) });
        }
    }

    /// Whether none was refused so far.
    pub fn all_good(&self) -> bool {
        self.refused == 0
    }

    /// Records refused so far.
    pub fn refused(&self) -> usize {
        self.refused
    }

    /// An error when any record was refused. One bad timestamp makes it INVALID_TIMESTAMP, whatever else is wrong.
    pub fn finish(self) -> Result<(), Refusal> {
        if self.refused == 0 {
            return Ok(());
        }
        let (rule, message) = if self.any_timestamp {
            (Rule::Timestamps, "one or more records have an invalid timestamp".to_owned())
        } else {
            let first = self.errors.first().and_then(|error| error.message.as_deref()).unwrap_or_default();
            (Rule::Records, format!("{} records are refused, the first because {first}", self.refused))
        };
        Err(Refusal { rule, message, record_errors: self.errors })
    }
}
