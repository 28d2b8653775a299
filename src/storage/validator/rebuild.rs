//! A batch made anew: for another codec, or out of old messages. Offset deltas become 0, 1, 2 and so on.
//!
//! Records pass from the old bytes to the new ones piece by piece; what grows is the result, and no further than
//! `max.message.bytes`.

use super::checks::CheckedSet;
use super::rules::RecordRules;
use super::{Context, Refusal, Rule, Target, Validated, Written, walk};
use crate::types::Offset;
use crate::wire::batch::{BatchBuilder, BatchHeader, BatchOptions, Batches, BuildError};
use crate::wire::compression::{Codec, Scratch};
use crate::wire::legacy::{InnerMessages, Message, WrapperError};

/// Rewrites one batch of magic 2 whose records have been walked.
pub(super) fn from_batch(
    batch: &[u8],
    header: &BatchHeader,
    codec: Codec,
    target: Target,
    context: &Context<'_>,
    scratch: &mut Scratch,
) -> Result<Validated, Refusal> {
    let mut new = NewBatch::begin(target, Some(header), context)?;
    let mut records = walk::open(batch, header, codec, context, scratch)?;
    while let Some(record) = records.next_open()? {
        let offset = new.next_offset();
        let timestamp = header.record_timestamp(record.timestamp_delta);
        new.builder.begin_copy(offset, timestamp, record.rest)?;
        records.rest(|piece| {
            new.builder.copy(piece)?;
            new.check_size()
        })?;
    }
    new.finish()
}

/// Makes one batch out of a message set of magic 0 or 1, checking each message on the way.
pub(super) fn from_messages(
    set_bytes: &[u8],
    set: &CheckedSet,
    target: Target,
    context: &Context<'_>,
    scratch: &mut Scratch,
) -> Result<Validated, Refusal> {
    if set.codec != Codec::None && set.batches > 1 {
        return Err(Refusal::new(Rule::SeveralBatches, "a compressed message is not alone in its set"));
    }
    let mut new = NewBatch::begin(target, None, context)?;
    for raw in Batches::new(set_bytes).flatten() {
        check_magic(raw.magic, set)?;
        let message = raw.message().map_err(WrapperError::from)?;
        let mut rules = RecordRules::new(message.is_log_append_time(), raw.bytes.len(), context);
        if set.codec == Codec::None {
            new.add(&message, &mut rules)?;
        } else {
            let mut inner = InnerMessages::new(message, scratch)?;
            while let Some(message) = inner.next_message()? {
                check_magic(message.magic, set)?;
                new.add(&message, &mut rules)?;
            }
        }
        rules.finish()?;
    }
    new.finish()
}

fn check_magic(magic: i8, set: &CheckedSet) -> Result<(), Refusal> {
    if magic != set.magic {
        return Err(Refusal::new(Rule::MixedMagic, format!("magic {magic} in a set of magic {}", set.magic)));
    }
    Ok(())
}

struct NewBatch<'a> {
    builder: BatchBuilder,
    context: &'a Context<'a>,
    records: i64,
    /// A message set has grown too large; its other messages are still checked, since their errors go first.
    too_large: bool,
}

impl<'a> NewBatch<'a> {
    fn begin(target: Target, old: Option<&BatchHeader>, context: &'a Context<'_>) -> Result<NewBatch<'a>, Refusal> {
        let fresh = BatchOptions {
            base_offset: context.next_offset,
            leader_epoch: context.leader_epoch,
            codec: target.codec,
            level: target.level,
            log_append_time_ms: context.log_append_time_ms(),
            ..BatchOptions::default()
        };
        let options = match old {
            Some(old) => BatchOptions {
                producer_id: old.producer_id,
                producer_epoch: old.producer_epoch,
                base_sequence: old.base_sequence,
                transactional: old.is_transactional(),
                control: old.is_control(),
                ..fresh
            },
            None => fresh,
        };
        Ok(NewBatch { builder: BatchBuilder::new(options)?, context, records: 0, too_large: false })
    }

    fn next_offset(&mut self) -> Offset {
        let offset = self.context.next_offset.0.wrapping_add(self.records);
        self.records += 1;
        Offset(offset)
    }

    fn add(&mut self, message: &Message<'_>, rules: &mut RecordRules) -> Result<(), Refusal> {
        rules.check(message.key.is_some(), message.timestamp, message.offset.0);
        if rules.all_good() && !self.too_large {
            let offset = self.next_offset();
            self.builder.append_at(offset, message.timestamp, message.key, message.value)?;
            self.too_large = self.check_size().is_err();
        }
        Ok(())
    }

    fn check_size(&self) -> Result<(), Refusal> {
        check_size(self.builder.len(), self.context)
    }

    fn finish(self) -> Result<Validated, Refusal> {
        self.check_size()?;
        let bytes = self.builder.finish()?;
        check_size(bytes.len(), self.context)?;
        let header = BatchHeader::parse(&bytes).map_err(|error| Refusal::new(Rule::Corrupt, error.to_string()))?;
        Ok(Validated::new(Written::Rewritten(bytes), header, self.context.log_append_time_ms()))
    }
}

fn check_size(bytes: usize, context: &Context<'_>) -> Result<(), Refusal> {
    let limit = context.config.max_message_bytes;
    if bytes > limit.max(0) as usize {
        let message = format!("a rewritten batch of {bytes} bytes or more is larger than max.message.bytes {limit}");
        return Err(Refusal::new(Rule::TooLarge, message));
    }
    Ok(())
}

impl From<BuildError> for Refusal {
    fn from(error: BuildError) -> Refusal {
        let rule = match error {
            BuildError::TooLarge(_) | BuildError::Offset { .. } => Rule::TooLarge,
            BuildError::Compress(_) => Rule::Undecodable,
        };
        Refusal::new(rule, error.to_string())
    }
}

impl From<WrapperError> for Refusal {
    fn from(error: WrapperError) -> Refusal {
        let rule = match error {
            WrapperError::Crc | WrapperError::Size(_) => Rule::Corrupt,
            WrapperError::Codec(_) => Rule::UnknownCodec,
            WrapperError::Decompress(_) | WrapperError::Message(_) => Rule::Undecodable,
            WrapperError::TooLarge(_) => Rule::TooLarge,
            WrapperError::Zstd(_)
            | WrapperError::Null
            | WrapperError::Empty
            | WrapperError::Offset { .. }
            | WrapperError::Nested => Rule::Malformed,
        };
        Refusal::new(rule, error.to_string())
    }
}
