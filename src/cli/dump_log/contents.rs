//! A `.log` file batch by batch, and the records inside a batch, whatever its magic.

use std::io;
use std::path::Path;
use std::sync::Arc;

use anyhow::bail;

use crate::storage::disk::{Disk, DiskFile, Open};
use crate::storage::disk_real::RealDisk;
use crate::storage::entry::{Entry, HEAD_MAX, HeadScanner, Parsed, read_up_to};
use crate::types::Offset;
use crate::wire::batch::{BatchHeader, ControlRecord, RawBatch, Record, RecordStream};
use crate::wire::compression::{Codec, DECOMPRESSED_MAX, Decompressor, Scratch};
use crate::wire::legacy::{InnerMessages, Message};

/// Fewer bytes are no head of a batch, but an end.
const HEAD_MIN: u64 = 17;

/// An open `.log`.
pub struct LogFile {
    file: Arc<dyn DiskFile>,
    /// Bytes.
    pub len: u64,
}

impl LogFile {
    pub fn open(path: &Path) -> io::Result<LogFile> {
        let file = RealDisk.open(path, Open::Read)?;
        Ok(LogFile { len: file.len()?, file })
    }

    /// Batch heads from `start` to `end`, bytes.
    pub fn heads(&self, start: u64, end: u64) -> HeadScanner<'_> {
        HeadScanner::new(self.file.as_ref(), start, end.min(self.len))
    }

    /// What `heads` ended on, if that was not the end or an unfinished batch.
    pub fn damage(&self, heads: &HeadScanner<'_>, end: u64) -> io::Result<Option<String>> {
        let left = end.min(self.len).saturating_sub(heads.position());
        if left < HEAD_MIN {
            return Ok(None);
        }
        let mut head = vec![0; left.min(HEAD_MAX as u64) as usize];
        read_up_to(self.file.as_ref(), &mut head, heads.position())?;
        Ok(match Entry::parse(&head) {
            Parsed::Damaged(what) => Some(what),
            Parsed::Entry(_) | Parsed::Short => None,
        })
    }

    /// The whole batch in `buffer`. `entry` is one that a scan of this file found, so its size is proven.
    pub fn read<'b>(&self, position: u64, entry: &Entry, buffer: &'b mut Vec<u8>) -> io::Result<RawBatch<'b>> {
        buffer.resize(entry.size as usize, 0);
        self.file.read_exact_at(buffer, position)?;
        Ok(RawBatch { magic: entry.magic, bytes: buffer })
    }
}

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
    let source = Decompressor::new(header.codec()?, 2, batch.payload(), DECOMPRESSED_MAX, scratch)?;
    let mut records = RecordStream::new(header, source)?;
    let mut buffer = Vec::new();
    while let Some(record) = records.next_record(&mut buffer)? {
        let control = if header.is_control() { Some(ControlRecord::parse(&record)?) } else { None };
        each(Row {
            offset: record.offset(header),
            timestamp: record.timestamp(header),
            key: record.key,
            value: record.value,
            kind: Kind::Record { record, sequence: sequence(header, record.offset_delta), control },
        })?;
    }
    Ok(())
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

/// As Java prints an `OptionalLong`.
pub fn optional_long(value: Option<i64>) -> String {
    value.map_or("OptionalLong.empty".to_owned(), |value| format!("OptionalLong[{value}]"))
}
