//! The records of a compressed batch, one at a time, without ever holding the decompressed payload.
//!
//! Same rules as [`Records`](super::Records). Either the head of each record (nothing of key, value and headers is kept), or
//! whole records in a buffer that grows with the bytes that really came.

use super::header::BatchHeader;
use super::records::{Record, RecordError};
use crate::wire::compression::{DecompressError, Decompressor, held_bytes_max};
use crate::wire::varint::{self, VARINT_MAX, VARLONG_MAX, VarintError};

/// Why a payload cannot be walked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StreamError {
    #[error(transparent)]
    Decompress(#[from] DecompressError),
    #[error(transparent)]
    Record(#[from] RecordError),
}

impl From<VarintError> for StreamError {
    fn from(error: VarintError) -> StreamError {
        StreamError::Record(error.into())
    }
}

/// What a walk needs to know of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordHead {
    pub timestamp_delta: i64,
    pub offset_delta: i32,
    pub has_key: bool,
}

/// A record of which key, value and headers are still to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenRecord {
    pub timestamp_delta: i64,
    pub offset_delta: i32,
    /// Bytes from the key's length to the record's end.
    pub rest: usize,
}

/// A cursor over the records of one payload.
pub struct RecordStream<'a, 's> {
    source: Decompressor<'a, 's>,
    left: i32,
    /// Bytes of the current record not yet read.
    body: usize,
}

impl<'a, 's> RecordStream<'a, 's> {
    pub fn new(batch: &BatchHeader, source: Decompressor<'a, 's>) -> Result<RecordStream<'a, 's>, StreamError> {
        if batch.record_count < 0 {
            return Err(RecordError::Count(batch.record_count).into());
        }
        Ok(RecordStream { source, left: batch.record_count, body: 0 })
    }

    /// The next record's head, its whole body checked and skipped. `None` when all records were there and nothing else was.
    pub fn next_head(&mut self) -> Result<Option<RecordHead>, StreamError> {
        if !self.begin()? {
            return Ok(None);
        }
        self.skip(1)?;
        let timestamp_delta = self.varint(VARLONG_MAX, varint::take_i64)?;
        let offset_delta = self.int()?;
        let has_key = self.skip_nullable()?;
        self.skip_nullable()?;
        let count = self.int()?;
        if count < 0 || count as usize > self.body {
            return Err(RecordError::HeaderCount { count, left: self.body }.into());
        }
        for _ in 0..count {
            let length = self.int()?;
            if length < 0 {
                return Err(RecordError::HeaderKey(length).into());
            }
            self.skip_field(length)?;
            self.skip_nullable()?;
        }
        if self.body > 0 {
            return Err(RecordError::Unused(self.body).into());
        }
        Ok(Some(RecordHead { timestamp_delta, offset_delta, has_key }))
    }

    /// The next record up to its key, which [`RecordStream::rest`] then hands out with all that follows, unchecked: for a copy
    /// of records that have been walked before. `None` when all records were there and nothing else was.
    pub fn next_open(&mut self) -> Result<Option<OpenRecord>, StreamError> {
        while self.body > 0 {
            self.skip(self.body)?;
        }
        if !self.begin()? {
            return Ok(None);
        }
        self.skip(1)?;
        let timestamp_delta = self.varint(VARLONG_MAX, varint::take_i64)?;
        let offset_delta = self.int()?;
        Ok(Some(OpenRecord { timestamp_delta, offset_delta, rest: self.body }))
    }

    /// Passes what is left of the open record on, piece by piece.
    pub fn rest<E: From<StreamError>>(&mut self, mut put: impl FnMut(&[u8]) -> Result<(), E>) -> Result<(), E> {
        while self.body > 0 {
            let bytes = available(&mut self.source, self.body)?;
            put(bytes)?;
            let read = bytes.len();
            self.advance(read);
        }
        Ok(())
    }

    /// The next record whole, in `buffer`, whose old content goes. `None` when all records were there and nothing else was.
    /// One that is larger than [`held_bytes_max`](crate::wire::compression::held_bytes_max) of the payload is an error.
    pub fn next_record<'b>(&mut self, buffer: &'b mut Vec<u8>) -> Result<Option<Record<'b>>, StreamError> {
        Ok(self.next_encoded(buffer)?.map(|(_, record)| record))
    }

    /// The same, with the bytes it was read from.
    #[allow(clippy::type_complexity)]
    pub fn next_encoded<'b>(&mut self, buffer: &'b mut Vec<u8>) -> Result<Option<(&'b [u8], Record<'b>)>, StreamError> {
        if !self.begin()? {
            return Ok(None);
        }
        let max = held_bytes_max(self.source.compressed_len());
        if self.body > max {
            return Err(DecompressError::Limit(max).into());
        }
        buffer.clear();
        varint::put_i32(buffer, self.body as i32);
        while self.body > 0 {
            let bytes = available(&mut self.source, self.body)?;
            buffer.extend_from_slice(bytes);
            let read = bytes.len();
            self.advance(read);
        }
        let encoded = &buffer[..];
        Ok(Some((encoded, Record::take(&mut &*encoded)?)))
    }

    /// Reads the next record's length; false at the end.
    fn begin(&mut self) -> Result<bool, StreamError> {
        let more = self.source.fill()?.len();
        if self.left == 0 {
            return if more == 0 { Ok(false) } else { Err(RecordError::Trailing(more).into()) };
        }
        if more == 0 {
            return Err(RecordError::Missing(self.left).into());
        }
        self.left -= 1;
        self.body = VARINT_MAX;
        let length = self.int()?;
        self.body = usize::try_from(length).map_err(|_| RecordError::Length { length, left: more })?;
        Ok(true)
    }

    fn int(&mut self) -> Result<i32, StreamError> {
        self.varint(VARINT_MAX, varint::take_i32)
    }

    fn varint<T>(
        &mut self,
        max: usize,
        take: impl FnOnce(&mut &[u8]) -> Result<T, VarintError>,
    ) -> Result<T, StreamError> {
        let bytes = self.source.fill()?;
        let here = bytes.get(..self.body.min(max)).filter(|_| bytes.len() >= max);
        if let Some(mut bytes) = here {
            let before = bytes.len();
            let value = take(&mut bytes)?;
            let used = before - bytes.len();
            self.advance(used);
            return Ok(value);
        }
        // Near the end of a chunk: byte by byte.
        let mut raw = [0; VARLONG_MAX];
        let mut len = 0;
        for slot in raw.iter_mut().take(max.min(self.body)) {
            let byte = *available(&mut self.source, 1)?.first().ok_or(VarintError::Short)?;
            self.advance(1);
            *slot = byte;
            len += 1;
            if byte & 0x80 == 0 {
                break;
            }
        }
        Ok(take(&mut raw.get(..len).unwrap_or_default())?)
    }

    /// Whether it was there.
    fn skip_nullable(&mut self) -> Result<bool, StreamError> {
        let length = self.int()?;
        self.skip_field(length)?;
        Ok(length >= 0)
    }

    fn skip_field(&mut self, length: i32) -> Result<(), StreamError> {
        let bytes = usize::try_from(length).unwrap_or(0);
        if bytes > self.body {
            return Err(RecordError::Field { length, left: self.body }.into());
        }
        self.skip(bytes)
    }

    fn skip(&mut self, mut bytes: usize) -> Result<(), StreamError> {
        if bytes > self.body {
            return Err(VarintError::Short.into());
        }
        while bytes > 0 {
            let some = available(&mut self.source, bytes)?.len();
            self.advance(some);
            bytes -= some;
        }
        Ok(())
    }

    fn advance(&mut self, bytes: usize) {
        self.source.consume(bytes);
        self.body = self.body.saturating_sub(bytes);
    }
}

/// At least one byte and at most `max`.
fn available<'b>(source: &'b mut Decompressor<'_, '_>, max: usize) -> Result<&'b [u8], StreamError> {
    let bytes = source.fill()?;
    if bytes.is_empty() {
        return Err(RecordError::Missing(1).into());
    }
    Ok(bytes.get(..max).unwrap_or(bytes))
}
