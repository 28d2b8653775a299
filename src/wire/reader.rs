//! The protocol's primitive types, read from a request that is all there. Nothing is allocated and nothing can panic:
//! a length is believed only after that many bytes have been found.

use std::ops::Range;

use crate::types::TopicId;

/// Why a request cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    #[error("ends inside {0}")]
    Ends(&'static str),
    #[error("{field} has length {length}")]
    Length { field: &'static str, length: i64 },
    #[error("{0} is not UTF-8")]
    Utf8(&'static str),
    #[error("{0} is a number of more than five bytes")]
    Varint(&'static str),
    #[error("more than {TAGS_MAX} tagged fields")]
    Tags,
}

/// Longest string that Kafka reads, bytes, however its length is written.
const STRING_MAX: i64 = i16::MAX as i64;

/// Tagged fields that one request may have, all told. Each is skipped in no time, and two bytes are one: Kafka's messages
/// have a few of them.
const TAGS_MAX: u32 = 100_000;

/// A place in a request. `flexible` versions (KIP-482) write lengths as variable-length numbers, one higher.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    flexible: bool,
    /// Tagged fields so far.
    tags: u32,
}

impl<'a> Reader<'a> {
    /// Starts at byte `at`.
    pub fn new(bytes: &'a [u8], at: usize, flexible: bool) -> Reader<'a> {
        Reader { bytes, at: at.min(bytes.len()), flexible, tags: 0 }
    }

    pub fn position(&self) -> usize {
        self.at
    }

    pub fn remaining(&self) -> usize {
        self.bytes.len() - self.at
    }

    fn array<const N: usize>(&mut self, field: &'static str) -> Result<[u8; N], ReadError> {
        let found = self.bytes[self.at..].first_chunk::<N>().ok_or(ReadError::Ends(field))?;
        self.at += N;
        Ok(*found)
    }

    pub fn i8(&mut self, field: &'static str) -> Result<i8, ReadError> {
        Ok(i8::from_be_bytes(self.array(field)?))
    }

    pub fn bool(&mut self, field: &'static str) -> Result<bool, ReadError> {
        Ok(self.i8(field)? != 0)
    }

    pub fn i16(&mut self, field: &'static str) -> Result<i16, ReadError> {
        Ok(i16::from_be_bytes(self.array(field)?))
    }

    pub fn i32(&mut self, field: &'static str) -> Result<i32, ReadError> {
        Ok(i32::from_be_bytes(self.array(field)?))
    }

    pub fn i64(&mut self, field: &'static str) -> Result<i64, ReadError> {
        Ok(i64::from_be_bytes(self.array(field)?))
    }

    pub fn topic_id(&mut self, field: &'static str) -> Result<TopicId, ReadError> {
        Ok(TopicId(uuid::Uuid::from_bytes(self.array(field)?)))
    }

    /// An unsigned number of at most five bytes; bits above the 32nd are dropped, as Kafka drops them.
    pub fn uvarint(&mut self, field: &'static str) -> Result<u32, ReadError> {
        let mut value = 0u32;
        for shift in (0..35).step_by(7) {
            let [byte] = self.array(field)?;
            value |= u32::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(ReadError::Varint(field))
    }

    /// A length in bytes, found to be there; `None` for null.
    fn length(&mut self, field: &'static str, wide: bool) -> Result<Option<usize>, ReadError> {
        let length = match (self.flexible, wide) {
            (true, _) => i64::from(self.uvarint(field)?) - 1,
            (false, true) => i64::from(self.i32(field)?),
            (false, false) => i64::from(self.i16(field)?),
        };
        match usize::try_from(length) {
            Ok(_) if !wide && length > STRING_MAX => Err(ReadError::Length { field, length }),
            Ok(bytes) if bytes <= self.remaining() => Ok(Some(bytes)),
            Ok(_) => Err(ReadError::Ends(field)),
            Err(_) if length == -1 => Ok(None),
            Err(_) => Err(ReadError::Length { field, length }),
        }
    }

    /// Where a nullable string stands.
    pub fn nullable_string_range(&mut self, field: &'static str) -> Result<Option<Range<usize>>, ReadError> {
        let Some(length) = self.length(field, false)? else { return Ok(None) };
        let range = self.at..self.at + length;
        std::str::from_utf8(&self.bytes[range.clone()]).map_err(|_| ReadError::Utf8(field))?;
        self.at = range.end;
        Ok(Some(range))
    }

    pub fn string_range(&mut self, field: &'static str) -> Result<Range<usize>, ReadError> {
        self.nullable_string_range(field)?.ok_or(ReadError::Length { field, length: -1 })
    }

    pub fn nullable_string(&mut self, field: &'static str) -> Result<Option<&'a str>, ReadError> {
        let Some(length) = self.length(field, false)? else { return Ok(None) };
        let bytes = &self.bytes[self.at..self.at + length];
        self.at += length;
        std::str::from_utf8(bytes).map(Some).map_err(|_| ReadError::Utf8(field))
    }

    pub fn string(&mut self, field: &'static str) -> Result<&'a str, ReadError> {
        self.nullable_string(field)?.ok_or(ReadError::Length { field, length: -1 })
    }

    /// Where nullable bytes stand.
    pub fn nullable_bytes_range(&mut self, field: &'static str) -> Result<Option<Range<usize>>, ReadError> {
        let Some(length) = self.length(field, true)? else { return Ok(None) };
        let range = self.at..self.at + length;
        self.at = range.end;
        Ok(Some(range))
    }

    /// Elements of an array; `None` for null. No more than one element per byte left can be meant.
    pub fn nullable_array_len(&mut self, field: &'static str) -> Result<Option<usize>, ReadError> {
        self.length(field, true)
    }

    pub fn array_len(&mut self, field: &'static str) -> Result<usize, ReadError> {
        self.nullable_array_len(field)?.ok_or(ReadError::Length { field, length: -1 })
    }

    /// Tagged fields: `known` gets each tag with a reader over its bytes alone. Nothing in versions that are not flexible.
    pub fn tags(
        &mut self,
        mut known: impl FnMut(u32, &mut Reader<'a>) -> Result<(), ReadError>,
    ) -> Result<(), ReadError> {
        if !self.flexible {
            return Ok(());
        }
        let count = self.uvarint("tagged fields")?;
        if count == 0 {
            return Ok(());
        }
        self.tags = self.tags.saturating_add(count);
        if self.tags > TAGS_MAX {
            return Err(ReadError::Tags);
        }
        for _ in 0..count {
            let tag = self.uvarint("tag")?;
            let size = self.uvarint("tagged field")? as usize;
            if size > self.remaining() {
                return Err(ReadError::Ends("tagged field"));
            }
            let end = self.at + size;
            known(tag, &mut Reader { bytes: &self.bytes[..end], at: self.at, flexible: true, tags: self.tags })?;
            self.at = end;
        }
        Ok(())
    }

    /// Tagged fields of which none is known.
    pub fn skip_tags(&mut self) -> Result<(), ReadError> {
        self.tags(|_, _| Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_no_longer_than_kafka_reads_them() {
        for (length, taken) in [(STRING_MAX, true), (STRING_MAX + 1, false)] {
            let text = vec![b'n'; length as usize];
            let mut bytes =
                vec![(length + 1) as u8 | 0x80, ((length + 1) >> 7) as u8 | 0x80, ((length + 1) >> 14) as u8];
            bytes.extend_from_slice(&text);
            let read = Reader::new(&bytes, 0, true).string("name").map(str::len);
            let refused = Err(ReadError::Length { field: "name", length });
            assert_eq!(read, if taken { Ok(text.len()) } else { refused });
        }
        // Bytes may be longer.
        let bytes = [&[0x81, 0x80, 0x04][..], &[0; 1 << 16]].concat();
        assert_eq!(Reader::new(&bytes, 0, true).nullable_bytes_range("records"), Ok(Some(3..3 + (1 << 16))));
    }

    #[test]
    fn a_request_has_so_many_tags_wherever_they_stand() {
        let some = |count: u32| {
            let mut bytes = vec![count as u8 | 0x80, (count >> 7) as u8 | 0x80, (count >> 14) as u8];
            bytes.resize(bytes.len() + 2 * count as usize, 0);
            bytes
        };
        let half = some(TAGS_MAX / 2);
        let twice = [&half[..], &half].concat();
        let mut reader = Reader::new(&twice, 0, true);
        assert_eq!((reader.skip_tags(), reader.skip_tags(), reader.remaining()), (Ok(()), Ok(()), 0));
        let more = [&half[..], &some(TAGS_MAX / 2 + 1)].concat();
        let mut reader = Reader::new(&more, 0, true);
        assert_eq!((reader.skip_tags(), reader.skip_tags()), (Ok(()), Err(ReadError::Tags)));
    }
}
