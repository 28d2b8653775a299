//! The records of a batch of magic 2, borrowed from its decompressed payload.
//!
//! ```text
//! varint body length | i8 attributes | varlong timestamp delta | varint offset delta
//! varint key length, key | varint value length, value           (negative length = null)
//! varint header count | { varint key length, key | varint value length, value }…
//! ```
//! Strict: a body is exactly as long as it says, and `count` records are exactly the payload. Never allocates.
//! Source: Kafka's `DefaultRecord`.

mod survey;

pub use survey::Survey;

use super::header::BatchHeader;
use crate::types::Offset;
use crate::wire::varint::{self, VarintError};

/// Bytes that are no record, or a payload that is not what its batch header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    #[error("a record of {length} bytes where {left} are left")]
    Length { length: i32, left: usize },
    #[error("a field of {length} bytes where {left} are left in the record")]
    Field { length: i32, left: usize },
    #[error("the record ends {0} bytes before its announced length")]
    Unused(usize),
    #[error("{count} headers where {left} bytes are left in the record")]
    HeaderCount { count: i32, left: usize },
    #[error("header key length {0} is negative")]
    HeaderKey(i32),
    #[error("{0} bytes are left behind the last record")]
    Trailing(usize),
    #[error("the batch announces {0} records")]
    Count(i32),
    #[error("the bytes end {0} records early")]
    Missing(i32),
    #[error(transparent)]
    Varint(#[from] VarintError),
}

/// One record. Offset and timestamp are relative to the batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    pub timestamp_delta: i64,
    pub offset_delta: i32,
    pub key: Option<&'a [u8]>,
    pub value: Option<&'a [u8]>,
    header_count: i32,
    headers: &'a [u8],
}

impl<'a> Record<'a> {
    /// Takes one record from the front of `bytes`. Headers are checked here and parsed again when iterated.
    #[inline]
    pub fn take(bytes: &mut &'a [u8]) -> Result<Record<'a>, RecordError> {
        let mut rest = *bytes;
        let length = varint::take_i32(&mut rest)?;
        let split = usize::try_from(length).ok().and_then(|length| rest.split_at_checked(length));
        let Some((mut body, after)) = split else {
            return Err(RecordError::Length { length, left: rest.len() });
        };
        let Some((_attributes, fields)) = body.split_first() else {
            return Err(RecordError::Varint(VarintError::Short));
        };
        body = fields;
        let timestamp_delta = varint::take_i64(&mut body)?;
        let offset_delta = varint::take_i32(&mut body)?;
        let key = take_nullable(&mut body)?;
        let value = take_nullable(&mut body)?;
        let header_count = varint::take_i32(&mut body)?;
        if header_count < 0 || header_count as usize > body.len() {
            return Err(RecordError::HeaderCount { count: header_count, left: body.len() });
        }
        let headers = body;
        for _ in 0..header_count {
            Header::take(&mut body)?;
        }
        if !body.is_empty() {
            return Err(RecordError::Unused(body.len()));
        }
        *bytes = after;
        Ok(Record { timestamp_delta, offset_delta, key, value, header_count, headers })
    }

    /// Headers in the order they were sent; keys may repeat.
    pub fn headers(&self) -> Headers<'a> {
        Headers { left: self.header_count, bytes: self.headers }
    }

    /// Absolute; wraps on a batch that was made to.
    pub fn offset(&self, batch: &BatchHeader) -> Offset {
        Offset(batch.base_offset.0.wrapping_add(self.offset_delta.into()))
    }

    /// Absolute, ms: the batch's own with LogAppendTime.
    pub fn timestamp(&self, batch: &BatchHeader) -> i64 {
        batch.record_timestamp(self.timestamp_delta)
    }
}

/// One header of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header<'a> {
    /// UTF-8 by convention, not by check.
    pub key: &'a [u8],
    pub value: Option<&'a [u8]>,
}

impl<'a> Header<'a> {
    fn take(bytes: &mut &'a [u8]) -> Result<Header<'a>, RecordError> {
        let length = varint::take_i32(bytes)?;
        let key = take_field(bytes, length)?.ok_or(RecordError::HeaderKey(length))?;
        Ok(Header { key, value: take_nullable(bytes)? })
    }
}

/// The headers of one record.
#[derive(Clone, Debug)]
pub struct Headers<'a> {
    left: i32,
    bytes: &'a [u8],
}

impl<'a> Iterator for Headers<'a> {
    type Item = Header<'a>;

    fn next(&mut self) -> Option<Header<'a>> {
        if self.left <= 0 {
            return None;
        }
        self.left -= 1;
        // Record::take has walked the same bytes: this does not fail.
        Header::take(&mut self.bytes).ok()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left.max(0) as usize, Some(self.left.max(0) as usize))
    }
}

#[inline]
fn take_nullable<'a>(bytes: &mut &'a [u8]) -> Result<Option<&'a [u8]>, RecordError> {
    let length = varint::take_i32(bytes)?;
    take_field(bytes, length)
}

/// Every negative length is null, not only -1, as for Kafka.
#[inline]
fn take_field<'a>(bytes: &mut &'a [u8], length: i32) -> Result<Option<&'a [u8]>, RecordError> {
    let Ok(wanted) = usize::try_from(length) else { return Ok(None) };
    match bytes.split_at_checked(wanted) {
        Some((field, rest)) => {
            *bytes = rest;
            Ok(Some(field))
        }
        None => Err(RecordError::Field { length, left: bytes.len() }),
    }
}

/// All records of one payload. After the last one, bytes left over are an error; ends after an error.
#[derive(Clone, Debug)]
pub struct Records<'a> {
    left: i32,
    bytes: &'a [u8],
    done: bool,
    pending: Option<RecordError>,
}

impl<'a> Records<'a> {
    /// `payload` is decompressed.
    pub fn new(batch: &BatchHeader, payload: &'a [u8]) -> Records<'a> {
        let pending = (batch.record_count < 0).then_some(RecordError::Count(batch.record_count));
        Records { left: batch.record_count, bytes: payload, done: false, pending }
    }

    fn end(&mut self) -> Option<Result<Record<'a>, RecordError>> {
        self.done = true;
        self.pending.take().map(Err)
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<Record<'a>, RecordError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        if self.left <= 0 {
            if self.pending.is_none() && !self.bytes.is_empty() {
                self.pending = Some(RecordError::Trailing(self.bytes.len()));
            }
            return self.end();
        }
        if self.bytes.is_empty() {
            self.pending = Some(RecordError::Missing(self.left));
            return self.end();
        }
        match Record::take(&mut self.bytes) {
            Ok(record) => {
                self.left -= 1;
                Some(Ok(record))
            }
            Err(error) => {
                self.pending = Some(error);
                self.end()
            }
        }
    }
}
