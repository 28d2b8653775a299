//! The records inside a batch, whatever its magic: what `dump-log` prints and `consume` writes.

use anyhow::bail;

use crate::types::Offset;
use crate::wire::batch::{Batch, BatchHeader, ControlRecord, RawBatch, Record, RecordStream};
use crate::wire::compression::{Codec, DECOMPRESSED_MAX, Decompressor, Scratch};
use crate::wire::legacy::{InnerMessages, Message};

/// One record of a batch of any magic.
pub struct Row<'a> {
    pub offset: Offset,
    /// ms; -1 without.
    pub timestamp: i64,
    pub key: Option<&'a [u8]>,
    pub value: Option<&'a [u8]>,
    pub kind: Kind<'a>,
}

/// What the formats do not share.
pub enum Kind<'a> {
    Message { crc: u32, crc_matches: bool },
    Record { record: Record<'a>, sequence: i32, control: Option<ControlRecord> },
}

/// Calls `each` with every record of the batch.
pub fn for_each_row(
    raw: &RawBatch<'_>,
    scratch: &mut Scratch,
    mut each: impl FnMut(Row<'_>) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    if raw.magic < 2 {
        let message = raw.message()?;
        if message.codec()? == Codec::None {
            return each(message_row(&message, raw.crc_matches()));
        }
        let mut inner = InnerMessages::new(message, scratch)?;
        while let Some(message) = inner.next_message()? {
            each(message_row(&message, true))?;
        }
        return Ok(());
    }
    let batch = raw.v2()?;
    let header = &batch.header;
    if header.record_count < 0 {
        bail!("the batch at offset {} announces {} records", header.base_offset.0, header.record_count);
    }
    if header.codec()? == Codec::None {
        return batch.records().try_for_each(|record| each(record_row(&batch, record?)?));
    }
    let source = Decompressor::new(header.codec()?, 2, batch.payload(), DECOMPRESSED_MAX, scratch)?;
    let mut records = RecordStream::new(header, source)?;
    let mut buffer = Vec::new();
    while let Some(record) = records.next_record(&mut buffer)? {
        each(record_row(&batch, record)?)?;
    }
    Ok(())
}

fn record_row<'a>(batch: &Batch<'_>, record: Record<'a>) -> anyhow::Result<Row<'a>> {
    let header = &batch.header;
    let control = if header.is_control() { Some(ControlRecord::parse(&record)?) } else { None };
    Ok(Row {
        offset: record.offset(header),
        timestamp: record.timestamp(header),
        key: record.key,
        value: record.value,
        kind: Kind::Record { record, sequence: sequence(header, record.offset_delta), control },
    })
}

fn message_row<'a>(message: &Message<'a>, crc_matches: bool) -> Row<'a> {
    Row {
        offset: message.offset,
        timestamp: message.timestamp,
        key: message.key,
        value: message.value,
        kind: Kind::Message { crc: message.crc, crc_matches },
    }
}

/// After 2147483647 comes 0.
fn sequence(header: &BatchHeader, offset_delta: i32) -> i32 {
    if header.base_sequence < 0 { -1 } else { header.base_sequence.wrapping_add(offset_delta) & i32::MAX }
}
