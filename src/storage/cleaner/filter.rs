//! What is left of a batch.
//!
//! ```text
//! every record stays, no horizon to set   the batch as it is, byte for byte
//! some stay                               the batch with those; offsets, sequences and what is not a record stay
//! none stays                              nothing, or the bare header of a batch that must be known of
//! ```
//! A record stays when no later one has its key. One without a value (a tombstone) stays until its batch's delete horizon:
//! the first pass that keeps it sets the horizon, `delete.retention.ms` ahead, so that readers have that long to see it
//! (KIP-534); messages older than magic 2 have no place for it and go by the file's age. Rules: Kafka's `Cleaner` and
//! `MemoryRecords.filterTo`.
//!
//! Differs from Kafka: a tombstone's time begins with the pass that knows its batch, not with one that rewrites its segment
//! and knows less, so that it outlives what it deletes by as long as was promised; the checksum of what is rewritten is
//! looked at before, so that damage does not get a sound one; the base timestamp stays where it can, so that records are
//! copied as they lie; the last batch of what becomes a segment is never dropped whole, so that the files it replaces are
//! known from it (`swap`).

use std::collections::HashMap;
use std::io;

use super::offset_map::OffsetMap;
use super::transactions::Transactions;
use crate::storage::append::{control_marker, crc_fits};
use crate::storage::entry::Entry;
use crate::types::Offset;
use crate::wire::batch::{Batch, BatchHeader, HEADER_LEN, LOG_OVERHEAD, Record, RecordStream, stamp};
use crate::wire::compression::{Codec, Compressor, DECOMPRESSED_MAX, Decompressor, Scratch};
use crate::wire::legacy::{InnerMessages, Message, MessageSetBuilder, SetOptions};
use crate::wire::varint;

/// Where an active producer stands: the batch that says so is kept.
#[derive(Clone, Copy, Debug)]
pub struct LastBatch {
    /// Last offset of its last batch of data, if there was one.
    pub data: Option<Offset>,
    pub epoch: i16,
}

/// What decides.
#[derive(Debug)]
pub struct Rules<'a> {
    pub map: &'a OffsetMap,
    pub now_ms: i64,
    pub delete_retention_ms: i64,
    /// Tombstones older than magic 2 stay.
    pub keep_old_tombstones: bool,
    pub producers: &'a HashMap<i64, LastBatch>,
    /// Last offset of the last batch of what becomes one segment.
    pub last: Offset,
}

/// Buffers, used again and again.
#[derive(Debug, Default)]
pub struct Buffers {
    scratch: Scratch,
    record: Vec<u8>,
    kept: Vec<bool>,
}

fn damaged(entry: &Entry, what: impl std::fmt::Display) -> io::Error {
    let text = format!("the batch that ends at offset {}: {what}", entry.last_offset);
    io::Error::new(io::ErrorKind::InvalidData, text)
}

/// Appends to `out` what is left of the whole batch in `bytes`. Returns how many records that is.
pub fn filter(
    bytes: &[u8],
    entry: &Entry,
    rules: &Rules<'_>,
    transactions: &mut Transactions,
    buffers: &mut Buffers,
    out: &mut Vec<u8>,
) -> io::Result<u64> {
    let Some(header) = entry.batch else { return filter_message(bytes, entry, rules, buffers, out) };
    let keep_empty = rules.is_last_of_producer(&header) || entry.last_offset == rules.last;
    let (discard, marker_of_nothing) = match header.is_control() {
        true => {
            let may_go = transactions.may_go(&header, control_marker(&header, bytes));
            let is_over = header.has_delete_horizon() && header.base_timestamp <= rules.now_ms;
            (may_go && is_over, may_go)
        }
        false => (transactions.is_aborted(&header), false),
    };
    if discard || header.record_count == 0 {
        if keep_empty {
            put_empty(&header, out);
        }
        return Ok(0);
    }
    let codec = Codec::from_bits(header.codec_bits()).map_err(|e| damaged(entry, e))?;
    let mut choice = Choice::new(&mut buffers.kept);
    let is_control = header.is_control();
    each_record(bytes, &header, codec, &mut buffers.scratch, &mut buffers.record, |_, record| {
        choice.add(&header, record, is_control || rules.keep(&header, record));
        Ok(())
    })
    .map_err(|e| damaged(entry, e))?;
    let Choice { count, tombstones, max_timestamp, all, .. } = choice;
    if count == 0 {
        if keep_empty {
            put_empty(&header, out);
        }
        return Ok(0);
    }
    // What of it lies beyond the map is no newer than others to this pass, and its time has not begun.
    let is_mapped = entry.last_offset <= rules.map.latest();
    let horizon = ((tombstones || marker_of_nothing) && is_mapped && !header.has_delete_horizon())
        .then(|| rules.now_ms.saturating_add(rules.delete_retention_ms));
    if all && horizon.is_none() {
        out.extend_from_slice(bytes);
        return Ok(u64::from(count));
    }
    if !crc_fits(bytes, entry) {
        return Err(damaged(entry, "its checksum does not fit"));
    }
    let mut rewritten = header;
    rewritten.record_count = count as i32;
    if !header.is_log_append_time() {
        rewritten.max_timestamp = max_timestamp;
    }
    if let Some(horizon) = horizon {
        rewritten.attributes |= HORIZON;
        rewritten.base_timestamp = horizon;
    }
    let start = out.len();
    out.resize(start + HEADER_LEN, 0);
    let compressor = Compressor::new(codec, None, 2, std::mem::take(out)).map_err(|e| damaged(entry, e));
    let mut compressor = compressor?;
    let mut kept = buffers.kept.iter();
    let mut front = Vec::new();
    let written = each_record(bytes, &header, codec, &mut buffers.scratch, &mut buffers.record, |raw, record| {
        if kept.next() != Some(&true) {
            return Ok(());
        }
        let put = match horizon {
            None => compressor.write(raw),
            Some(horizon) => {
                let rest = put_front(&mut front, raw, record, record.timestamp(&header).wrapping_sub(horizon))?;
                compressor.write(&front).and_then(|()| compressor.write(rest))
            }
        };
        put.map_err(|e| e.to_string())
    });
    *out = compressor.finish().map_err(|e| damaged(entry, e))?;
    written.map_err(|e| damaged(entry, e))?;
    finish(out, start, rewritten).map_err(|e| damaged(entry, e))?;
    Ok(u64::from(count))
}

/// Attribute bit 6: the base timestamp is the delete horizon.
const HORIZON: i16 = 1 << 6;

/// The attributes that a header without records keeps: timestamp type, transactional, control.
const EMPTY_KEEPS: i16 = 0b11_1000;

/// What was found out about the records of a batch.
struct Choice<'a> {
    kept: &'a mut Vec<bool>,
    count: u32,
    all: bool,
    /// One that is kept has no value.
    tombstones: bool,
    /// Of those that are kept.
    max_timestamp: i64,
}

impl<'a> Choice<'a> {
    fn new(kept: &'a mut Vec<bool>) -> Choice<'a> {
        kept.clear();
        Choice { kept, count: 0, all: true, tombstones: false, max_timestamp: -1 }
    }

    fn add(&mut self, header: &BatchHeader, record: &Record<'_>, kept: bool) {
        self.kept.push(kept);
        self.all &= kept;
        if kept {
            self.count += 1;
            self.tombstones |= record.value.is_none();
            self.max_timestamp = self.max_timestamp.max(record.timestamp(header));
        }
    }
}

impl Rules<'_> {
    fn is_last_of_producer(&self, batch: &BatchHeader) -> bool {
        let last = self.producers.get(&batch.producer_id).filter(|_| batch.has_producer());
        last.is_some_and(|last| match last.data {
            Some(offset) => offset == batch.last_offset(),
            // Known from a marker alone, which tells its epoch.
            None => batch.is_control() && batch.producer_epoch == last.epoch,
        })
    }

    fn keep(&self, header: &BatchHeader, record: &Record<'_>) -> bool {
        let horizon_ahead = || !header.has_delete_horizon() || self.now_ms < header.base_timestamp;
        self.keep_at(record.offset(header), record.key, record.value.is_some(), horizon_ahead)
    }

    fn keep_message(&self, message: &Message<'_>) -> bool {
        self.keep_at(message.offset, message.key, message.value.is_some(), || self.keep_old_tombstones)
    }

    fn keep_at(&self, offset: Offset, key: Option<&[u8]>, value: bool, tombstone: impl Fn() -> bool) -> bool {
        if offset > self.map.latest() {
            return true;
        }
        // What has no key can never be replaced, and had no business here.
        let Some(key) = key else { return false };
        (value || tombstone()) && self.map.get(key).is_none_or(|latest| offset >= latest)
    }
}

/// Shows `then` each record of a batch: as it is encoded, and read.
fn each_record(
    bytes: &[u8],
    header: &BatchHeader,
    codec: Codec,
    scratch: &mut Scratch,
    buffer: &mut Vec<u8>,
    mut then: impl FnMut(&[u8], &Record<'_>) -> Result<(), String>,
) -> Result<(), String> {
    fn text(error: impl std::fmt::Display) -> String {
        error.to_string()
    }
    let batch = Batch::parse(bytes).map_err(text)?;
    if codec != Codec::None {
        let payload = Decompressor::new(codec, 2, batch.payload(), DECOMPRESSED_MAX, scratch).map_err(text)?;
        let mut records = RecordStream::new(header, payload).map_err(text)?;
        while let Some((encoded, record)) = records.next_encoded(buffer).map_err(text)? {
            then(encoded, &record)?;
        }
        return Ok(());
    }
    let mut rest = batch.payload();
    for _ in 0..header.record_count {
        let before = rest;
        let record = Record::take(&mut rest).map_err(text)?;
        then(&before[..before.len() - rest.len()], &record)?;
    }
    match rest.len() {
        0 => Ok(()),
        left => Err(format!("{left} bytes are left behind the last record")),
    }
}

/// The keys of a batch of magic 2 with their offsets, null ones left out; its checksum is looked at first.
pub fn each_key(
    bytes: &[u8],
    entry: &Entry,
    buffers: &mut Buffers,
    mut then: impl FnMut(&[u8], Offset) -> bool,
) -> io::Result<bool> {
    if !crc_fits(bytes, entry) {
        return Err(damaged(entry, "its checksum does not fit"));
    }
    let mut go_on = true;
    let mut show = |key: Option<&[u8]>, offset| {
        if let Some(key) = key.filter(|_| go_on) {
            go_on = then(key, offset);
        }
    };
    match entry.batch {
        Some(header) => {
            let codec = Codec::from_bits(header.codec_bits()).map_err(|e| damaged(entry, e))?;
            each_record(bytes, &header, codec, &mut buffers.scratch, &mut buffers.record, |_, record| {
                show(record.key, record.offset(&header));
                Ok(())
            })
            .map_err(|e| damaged(entry, e))?;
        }
        None => each_message(bytes, entry, &mut buffers.scratch, |message, _| {
            show(message.key, message.offset);
            Ok(())
        })?,
    }
    Ok(go_on)
}

/// Writes the front of a record with another timestamp delta; returns the rest of it, from the key's length on.
fn put_front<'r>(front: &mut Vec<u8>, raw: &'r [u8], record: &Record<'_>, delta: i64) -> Result<&'r [u8], String> {
    let mut rest = raw;
    let text = |e: varint::VarintError| e.to_string();
    varint::take_i32(&mut rest).map_err(text)?;
    let (attributes, mut rest) = rest.split_first().ok_or("a record without attributes")?;
    varint::take_i64(&mut rest).map_err(text)?;
    varint::take_i32(&mut rest).map_err(text)?;
    let deltas = 1 + varint::len_i64(delta) + varint::len_i64(record.offset_delta.into());
    front.clear();
    varint::put_i32(front, i32::try_from(deltas + rest.len()).map_err(|e| e.to_string())?);
    front.push(*attributes);
    varint::put_i64(front, delta);
    varint::put_i32(front, record.offset_delta);
    Ok(rest)
}

/// Puts `header` over the beginning of the batch at the end of `out`, with its length and checksum.
fn finish(out: &mut [u8], start: usize, mut header: BatchHeader) -> Result<(), String> {
    let batch = out.get_mut(start..).unwrap_or_default();
    let length = batch.len().saturating_sub(LOG_OVERHEAD);
    header.batch_length = i32::try_from(length).map_err(|e| e.to_string())?;
    if let Some(front) = batch.first_chunk_mut() {
        *front = header.to_bytes();
    }
    stamp::set_checksum(batch);
    Ok(())
}

/// The header alone: producer, sequence, epoch and offsets stay known.
fn put_empty(header: &BatchHeader, out: &mut Vec<u8>) {
    let start = out.len();
    let empty = BatchHeader {
        batch_length: (HEADER_LEN - LOG_OVERHEAD) as i32,
        attributes: header.attributes & EMPTY_KEEPS,
        base_timestamp: -1,
        record_count: 0,
        ..*header
    };
    out.extend_from_slice(&empty.to_bytes());
    stamp::set_checksum(out.get_mut(start..).unwrap_or_default());
}

/// A header of magic 2 in place of an older message, which has none of its own: it tells that the log was longer.
fn put_end(offset: Offset, out: &mut Vec<u8>) {
    let header = BatchHeader {
        base_offset: offset,
        batch_length: (HEADER_LEN - LOG_OVERHEAD) as i32,
        leader_epoch: crate::types::LeaderEpoch::NONE,
        crc: 0,
        attributes: 0,
        last_offset_delta: 0,
        base_timestamp: -1,
        max_timestamp: -1,
        producer_id: -1,
        producer_epoch: -1,
        base_sequence: -1,
        record_count: 0,
    };
    put_empty(&header, out);
}

/// A message of magic 0 or 1, alone or with others inside.
fn filter_message(
    bytes: &[u8],
    entry: &Entry,
    rules: &Rules<'_>,
    buffers: &mut Buffers,
    out: &mut Vec<u8>,
) -> io::Result<u64> {
    buffers.kept.clear();
    let (mut count, mut as_it_is, mut first) = (0, true, None);
    let kept = &mut buffers.kept;
    each_message(bytes, entry, &mut buffers.scratch, |message, wrapper| {
        let keep = rules.keep_message(message);
        kept.push(keep);
        // Some old brokers wrapped messages of another magic.
        as_it_is &= keep && message.magic == wrapper.magic;
        if keep {
            count += 1;
            first.get_or_insert(message.offset);
        }
        Ok(())
    })?;
    let Some(first) = first else {
        if entry.last_offset == rules.last {
            put_end(entry.last_offset, out);
        }
        return Ok(0);
    };
    if as_it_is {
        out.extend_from_slice(bytes);
        return Ok(count);
    }
    if !crc_fits(bytes, entry) {
        return Err(damaged(entry, "its checksum does not fit"));
    }
    let wrapper = Message::parse(bytes).map_err(|e| damaged(entry, e))?;
    let options = SetOptions {
        magic: wrapper.magic,
        codec: wrapper.codec().map_err(|e| damaged(entry, e))?,
        base_offset: first,
        log_append_time_ms: wrapper.is_log_append_time().then_some(wrapper.timestamp),
    };
    let set = MessageSetBuilder::append_to(std::mem::take(out), options).map_err(|e| damaged(entry, e));
    let mut set = set?;
    let mut kept = buffers.kept.iter();
    each_message(bytes, entry, &mut buffers.scratch, |message, _| match kept.next() {
        Some(true) => set.append_message(message).map_err(|e| e.to_string()),
        _ => Ok(()),
    })?;
    *out = set.finish().map_err(|e| damaged(entry, e))?;
    Ok(count)
}

/// Shows `then` each message with what it came in: itself, when that is no wrapper.
fn each_message(
    bytes: &[u8],
    entry: &Entry,
    scratch: &mut Scratch,
    mut then: impl FnMut(&Message<'_>, &Message<'_>) -> Result<(), String>,
) -> io::Result<()> {
    let message = Message::parse(bytes).map_err(|e| damaged(entry, e))?;
    if message.codec().map_err(|e| damaged(entry, e))? == Codec::None {
        return then(&message, &message).map_err(|e| damaged(entry, e));
    }
    let mut inner = InnerMessages::new(message, scratch).map_err(|e| damaged(entry, e))?;
    while let Some(inside) = inner.next_message().map_err(|e| damaged(entry, e))? {
        then(&inside, &message).map_err(|e| damaged(entry, e))?;
    }
    Ok(())
}
