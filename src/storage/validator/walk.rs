//! The walk over every record of a batch: counts, lengths, times, keys. Looks at record heads only and copies nothing.

use super::rules::RecordRules;
use super::{Context, NO_TIMESTAMP, Refusal, Rule};
use crate::wire::batch::{BatchHeader, HEADER_LEN, RecordError, RecordStream, Records, StreamError};
use crate::wire::compression::{Codec, DecompressError, Decompressor, Scratch};

/// Records that are named, each with a sentence, while others wait.
const REFUSED_AT_ONCE: usize = 1_000;

/// What the walk found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Walked {
    /// Of the records, ms; -1 when none has a time.
    pub max_timestamp: i64,
    /// Offset deltas are 0, 1, 2 and so on.
    pub consecutive: bool,
}

impl Walked {
    const START: Walked = Walked { max_timestamp: NO_TIMESTAMP, consecutive: true };
}

/// Walks an uncompressed batch. Its offset deltas are taken as they are (seen on a live 3.9.1).
pub(super) fn uncompressed(batch: &[u8], header: &BatchHeader, context: &Context<'_>) -> Result<Walked, Refusal> {
    let malformed = |error: RecordError| Refusal::new(Rule::Malformed, error.to_string());
    let mut rules = RecordRules::new(header.is_log_append_time(), batch.len(), context);
    let records = Records::new(header, batch.get(HEADER_LEN..).unwrap_or_default());
    let survey = records.clone().survey().map_err(malformed)?;
    if let Some(latest) = rules.latest_if_all_pass(header, &survey) {
        return Ok(Walked { max_timestamp: latest.max(NO_TIMESTAMP), ..Walked::START });
    }
    // Again, to name those that break a rule.
    if context.is_brief() && usize::try_from(header.record_count).is_ok_and(|count| count > REFUSED_AT_ONCE) {
        return Err(Refusal::new(Rule::Lengthy, format!("{} records to be looked at one by one", header.record_count)));
    }
    let mut walked = Walked::START;
    for record in records {
        let record = record.map_err(malformed)?;
        let timestamp = record.timestamp(header);
        rules.check(record.key.is_some(), timestamp, record.offset_delta.into());
        walked.max_timestamp = walked.max_timestamp.max(timestamp);
    }
    rules.finish()?;
    Ok(walked)
}

/// Walks a compressed batch as it decompresses. Stricter than Kafka, which does not look at lengths inside records that it
/// skips and so stores batches that no consumer can read.
pub(super) fn compressed(
    batch: &[u8],
    header: &BatchHeader,
    codec: Codec,
    context: &Context<'_>,
    scratch: &mut Scratch,
) -> Result<Walked, Refusal> {
    let mut rules = RecordRules::new(header.is_log_append_time(), batch.len(), context);
    let mut walked = Walked::START;
    let mut expected = 0;
    let failed = |error: StreamError| match error {
        StreamError::Decompress(DecompressError::Limit(_)) if context.is_brief() => {
            Refusal::new(Rule::Lengthy, error.to_string())
        }
        error => error.into(),
    };
    let mut records = open(batch, header, codec, context, scratch).map_err(failed)?;
    while let Some(record) = records.next_head().map_err(failed)? {
        let timestamp = header.record_timestamp(record.timestamp_delta);
        rules.check(record.has_key, timestamp, record.offset_delta.into());
        if rules.refused() > REFUSED_AT_ONCE && context.is_brief() {
            return Err(Refusal::new(Rule::Lengthy, "many records that are refused"));
        }
        walked.max_timestamp = walked.max_timestamp.max(timestamp);
        walked.consecutive &= i64::from(record.offset_delta) == expected;
        expected += 1;
    }
    rules.finish()?;
    Ok(walked)
}

/// The records of a batch of any codec.
pub(super) fn open<'a, 's>(
    batch: &'a [u8],
    header: &BatchHeader,
    codec: Codec,
    context: &Context<'_>,
    scratch: &'s mut Scratch,
) -> Result<RecordStream<'a, 's>, StreamError> {
    let payload = batch.get(HEADER_LEN..).unwrap_or_default();
    RecordStream::new(header, Decompressor::new(codec, 2, payload, context.decompressed_max, scratch)?)
}

impl From<StreamError> for Refusal {
    fn from(error: StreamError) -> Refusal {
        let rule = match error {
            StreamError::Decompress(_) => Rule::Undecodable,
            StreamError::Record(_) => Rule::Malformed,
        };
        Refusal::new(rule, error.to_string())
    }
}
