//! Makes batches of magic 2, compressed while they grow.

use super::header::{BatchHeader, HEADER_LEN, LOG_OVERHEAD};
use super::records::Record;
use super::stamp;
use crate::types::{LeaderEpoch, Offset};
use crate::wire::compression::{Codec, CompressError, Compressor};
use crate::wire::varint;

/// What is not in the records: header fields and how to compress.
#[derive(Clone, Copy, Debug)]
pub struct BatchOptions {
    pub base_offset: Offset,
    pub leader_epoch: LeaderEpoch,
    pub codec: Codec,
    /// The codec's own scale; `None` is its default.
    pub level: Option<i32>,
    /// `Some(now)` makes a batch of LogAppendTime: its maximum timestamp is `now` (ms), whatever the records say.
    pub log_append_time_ms: Option<i64>,
    pub producer_id: i64,
    pub producer_epoch: i16,
    pub base_sequence: i32,
    pub transactional: bool,
    pub control: bool,
}

impl Default for BatchOptions {
    /// As a client without idempotence sends it: offset 0, no leader epoch, no producer, uncompressed.
    fn default() -> BatchOptions {
        BatchOptions {
            base_offset: Offset::ZERO,
            leader_epoch: LeaderEpoch::NONE,
            codec: Codec::None,
            level: None,
            log_append_time_ms: None,
            producer_id: -1,
            producer_epoch: -1,
            base_sequence: -1,
            transactional: false,
            control: false,
        }
    }
}

/// Records that do not fit into one batch, or a codec that fails.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    #[error("offset {offset} cannot stand in a batch that begins at {base}")]
    Offset { base: Offset, offset: Offset },
    #[error("a batch of {0} bytes is larger than a batch can be")]
    TooLarge(usize),
    #[error(transparent)]
    Compress(#[from] CompressError),
}

/// One batch in the making, appended to a buffer of the caller's.
pub struct BatchBuilder {
    options: BatchOptions,
    start: usize,
    payload: Compressor,
    record: Vec<u8>,
    count: i32,
    base_timestamp: i64,
    max_timestamp: i64,
    last_offset_delta: i32,
}

impl BatchBuilder {
    pub fn new(options: BatchOptions) -> Result<BatchBuilder, BuildError> {
        BatchBuilder::append_to(Vec::new(), options)
    }

    /// The batch goes behind what `out` holds.
    pub fn append_to(mut out: Vec<u8>, options: BatchOptions) -> Result<BatchBuilder, BuildError> {
        let start = out.len();
        out.resize(start + HEADER_LEN, 0);
        Ok(BatchBuilder {
            payload: Compressor::new(options.codec, options.level, 2, out)?,
            options,
            start,
            record: Vec::new(),
            count: 0,
            base_timestamp: -1,
            max_timestamp: -1,
            last_offset_delta: -1,
        })
    }

    /// Appends a record at the next offset.
    pub fn append(
        &mut self,
        timestamp: i64,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        headers: &[(&[u8], Option<&[u8]>)],
    ) -> Result<(), BuildError> {
        let next = Offset(self.options.base_offset.0.wrapping_add(i64::from(self.last_offset_delta) + 1));
        let headers = headers.iter().copied();
        self.put(next, timestamp, key, value, headers.len(), headers)
    }

    /// Appends a record without headers at `offset`, which is above the last one's.
    pub fn append_at(
        &mut self,
        offset: Offset,
        timestamp: i64,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
    ) -> Result<(), BuildError> {
        self.put(offset, timestamp, key, value, 0, std::iter::empty())
    }

    /// Appends a record of another batch at `offset`, headers included.
    pub fn append_record(&mut self, offset: Offset, timestamp: i64, record: &Record<'_>) -> Result<(), BuildError> {
        let headers = record.headers();
        let count = headers.size_hint().0;
        self.put(offset, timestamp, record.key, record.value, count, headers.map(|h| (h.key, h.value)))
    }

    fn put<'h>(
        &mut self,
        offset: Offset,
        timestamp: i64,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        header_count: usize,
        headers: impl Iterator<Item = (&'h [u8], Option<&'h [u8]>)>,
    ) -> Result<(), BuildError> {
        let delta = self.place(offset, timestamp)?;
        let record = &mut self.record;
        record.clear();
        record.push(0);
        varint::put_i64(record, timestamp.wrapping_sub(self.base_timestamp));
        varint::put_i32(record, delta);
        put_field(record, key)?;
        put_field(record, value)?;
        varint::put_i32(record, length(header_count)?);
        for (key, value) in headers {
            put_field(record, Some(key))?;
            put_field(record, value)?;
        }
        let mut prefix = Vec::with_capacity(varint::VARINT_MAX);
        varint::put_i32(&mut prefix, length(record.len())?);
        self.payload.write(&prefix)?;
        self.payload.write(record)?;
        Ok(())
    }

    /// Begins a record whose last `rest` bytes, from its key's length on, come by [`BatchBuilder::copy`] in encoded form.
    pub fn begin_copy(&mut self, offset: Offset, timestamp: i64, rest: usize) -> Result<(), BuildError> {
        let delta = self.place(offset, timestamp)?;
        let mut deltas = vec![0];
        varint::put_i64(&mut deltas, timestamp.wrapping_sub(self.base_timestamp));
        varint::put_i32(&mut deltas, delta);
        let mut front = Vec::with_capacity(varint::VARINT_MAX + deltas.len());
        varint::put_i32(&mut front, length(deltas.len().saturating_add(rest))?);
        front.extend(deltas);
        Ok(self.payload.write(&front)?)
    }

    pub fn copy(&mut self, encoded: &[u8]) -> Result<(), BuildError> {
        Ok(self.payload.write(encoded)?)
    }

    /// Counts a record in and returns its offset delta.
    fn place(&mut self, offset: Offset, timestamp: i64) -> Result<i32, BuildError> {
        let base = self.options.base_offset;
        let delta = offset
            .0
            .checked_sub(base.0)
            .and_then(|delta| i32::try_from(delta).ok())
            .filter(|delta| *delta > self.last_offset_delta && self.count < i32::MAX)
            .ok_or(BuildError::Offset { base, offset })?;
        if self.count == 0 {
            self.base_timestamp = timestamp;
        }
        self.count += 1;
        self.last_offset_delta = delta;
        self.max_timestamp = self.max_timestamp.max(timestamp);
        Ok(delta)
    }

    /// Bytes of the batch so far; a codec may still hold some back.
    pub fn len(&self) -> usize {
        self.payload.len() - self.start
    }

    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The buffer with the finished batch at its end.
    pub fn finish(self) -> Result<Vec<u8>, BuildError> {
        let BatchBuilder { options, start, payload, .. } = self;
        let mut out = payload.finish()?;
        let Some(batch) = out.get_mut(start..) else { return Ok(out) };
        let attributes = i16::from(options.codec.bits())
            | i16::from(options.log_append_time_ms.is_some()) << 3
            | i16::from(options.transactional) << 4
            | i16::from(options.control) << 5;
        let header = BatchHeader {
            base_offset: options.base_offset,
            batch_length: length(batch.len() - LOG_OVERHEAD)?,
            leader_epoch: options.leader_epoch,
            crc: 0,
            attributes,
            last_offset_delta: self.last_offset_delta,
            base_timestamp: self.base_timestamp,
            max_timestamp: options.log_append_time_ms.unwrap_or(self.max_timestamp),
            producer_id: options.producer_id,
            producer_epoch: options.producer_epoch,
            base_sequence: options.base_sequence,
            record_count: self.count,
        };
        if let Some(front) = batch.first_chunk_mut() {
            *front = header.to_bytes();
        }
        stamp::set_checksum(batch);
        Ok(out)
    }
}

fn put_field(out: &mut Vec<u8>, field: Option<&[u8]>) -> Result<(), BuildError> {
    match field {
        Some(bytes) => {
            varint::put_i32(out, length(bytes.len())?);
            out.extend_from_slice(bytes);
        }
        None => varint::put_i32(out, -1),
    }
    Ok(())
}

fn length(bytes: usize) -> Result<i32, BuildError> {
    i32::try_from(bytes).map_err(|_| BuildError::TooLarge(bytes))
}
