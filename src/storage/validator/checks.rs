//! Checks that need no record: the frame, the header, the size, the CRC. In Kafka's order, so that the first failing one is
//! the one that Kafka would name.

use super::{Context, Refusal, Rule};
use crate::storage::log::Origin;
use crate::wire::batch::{BatchHeader, Batches, HEADER_UP_TO_MAGIC, RawBatch};
use crate::wire::compression::Codec;

/// Where a batch's producer id ends: Kafka looks at it before anything else, and fails on shorter batches.
const PRODUCER_END: usize = 51;

/// What Produce v3+ demands of one partition's records before anything else is looked at: exactly one batch of magic 2,
/// and no zstd below v7. Older versions are not checked here. Kafka does this before it looks at acks or the partition.
pub fn check_produce(records: &[u8], produce_version: i16) -> Result<(), Refusal> {
    if produce_version < 3 {
        return Ok(());
    }
    let mut batches = Batches::new(records);
    let first = next(&mut batches)
        .map_err(|refusal| match batches.rest().get(HEADER_UP_TO_MAGIC - 1) {
            Some(magic) if !(0..=2).contains(magic) => Refusal { rule: Rule::Magic, ..refusal },
            _ => refusal,
        })?
        .ok_or_else(|| Refusal::new(Rule::NoBatch, format!("no whole batch in {} bytes", records.len())))?;
    if first.magic != 2 {
        return Err(Refusal::new(
            Rule::OldMagic,
            format!("magic {} in produce version {produce_version}, which takes only magic 2", first.magic),
        ));
    }
    if first.bytes.len() < PRODUCER_END {
        return Err(Refusal::new(Rule::ShortHeader, format!("a batch of {} bytes", first.bytes.len())));
    }
    if produce_version < 7 && codec_bits(&first) == Codec::Zstd.bits() {
        return Err(Refusal::new(
            Rule::EarlyZstd,
            format!("zstd in produce version {produce_version}, which is allowed from 7 on"),
        ));
    }
    if next(&mut batches)?.is_some() {
        return Err(Refusal::new(Rule::SeveralBatches, "more than one batch for one partition"));
    }
    Ok(())
}

/// A set whose every batch has a fitting size and CRC and a known codec.
#[derive(Clone, Copy, Debug)]
pub(super) struct CheckedSet {
    /// Bytes of all whole batches; an unfinished one may follow.
    pub valid_len: usize,
    pub batches: usize,
    /// Of the first.
    pub magic: i8,
    /// Of the last compressed one.
    pub codec: Codec,
}

/// Cuts the set and checks each batch as a whole; `None` when there is none.
pub(super) fn check_set(received: &[u8], context: &Context<'_>) -> Result<Option<CheckedSet>, Refusal> {
    if let Origin::Client { produce_version } = context.origin {
        check_produce(received, produce_version)?;
    }
    let mut batches = Batches::new(received);
    let mut set = CheckedSet { valid_len: 0, batches: 0, magic: 2, codec: Codec::None };
    while let Some(batch) = next(&mut batches)? {
        let codec = check_whole(&batch, context)?;
        if codec != Codec::None {
            set.codec = codec;
        }
        if set.batches == 0 {
            set.magic = batch.magic;
        }
        set.valid_len += batch.bytes.len();
        set.batches += 1;
    }
    if set.magic == 2 && set.batches > 1 {
        return Err(Refusal::new(Rule::SeveralBatches, format!("{} batches where one is allowed", set.batches)));
    }
    Ok((set.batches > 0).then_some(set))
}

fn check_whole(batch: &RawBatch<'_>, context: &Context<'_>) -> Result<Codec, Refusal> {
    let from_client = matches!(context.origin, Origin::Client { .. });
    if batch.magic == 2 && from_client && batch.offset().0 != 0 {
        return Err(Refusal::new(Rule::BaseOffset, format!("base offset {} where 0 is expected", batch.offset())));
    }
    let limit = context.config.max_message_bytes;
    if batch.bytes.len() > limit.max(0) as usize {
        return Err(Refusal::new(
            Rule::TooLarge,
            format!("a batch of {} bytes is larger than max.message.bytes {limit}", batch.bytes.len()),
        ));
    }
    if !batch.crc_matches() {
        return Err(Refusal::new(Rule::Corrupt, "the batch does not fit its crc"));
    }
    Codec::from_bits(codec_bits(batch)).map_err(|error| Refusal::new(Rule::UnknownCodec, error.to_string()))
}

/// What the header of the one batch must say, after its CRC has been found right.
pub(super) fn check_batch(batch: &[u8], context: &Context<'_>) -> Result<BatchHeader, Refusal> {
    let header = BatchHeader::parse(batch).map_err(|error| Refusal::new(Rule::Corrupt, error.to_string()))?;
    if let Origin::Coordinator = context.origin {
        return Ok(header);
    }
    let (count, last_delta) = (header.record_count, header.last_offset_delta);
    if count <= 0 || i64::from(count) != i64::from(last_delta) + 1 {
        return Err(Refusal::new(Rule::Count, format!("{count} records with a last offset delta of {last_delta}")));
    }
    if header.is_control() {
        return Err(Refusal::new(Rule::Control, "clients may not write control batches"));
    }
    if header.has_producer() && header.base_sequence < 0 {
        return Err(Refusal::new(
            Rule::Sequence,
            format!("sequence {} with producer id {}", header.base_sequence, header.producer_id),
        ));
    }
    Ok(header)
}

fn next<'a>(batches: &mut Batches<'a>) -> Result<Option<RawBatch<'a>>, Refusal> {
    batches.next().transpose().map_err(|error| Refusal::new(Rule::Cut, error.to_string()))
}

/// Of either format; 0 when the batch is too short to say.
fn codec_bits(batch: &RawBatch<'_>) -> u8 {
    let attributes = if batch.magic == 2 { batch.bytes.get(22) } else { batch.bytes.get(17) };
    attributes.map_or(0, |bits| bits & 0b111)
}
