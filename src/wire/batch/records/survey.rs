//! One walk over all records of a payload, for what can be said of them together.
//!
//! Records of the common shape have no headers and no number longer than two bytes. Of those that follow one with the same
//! lengths and the same time a walk learns nothing new: three comparisons tell that they are such ([`Alike`]). Any other
//! record, sound or not, is [`Record::take`]'s.

use super::{Record, RecordError, Records};
use crate::wire::varint;

/// What holds for all records of a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Survey {
    /// Smallest and largest; `i64::MAX` and `i64::MIN` where there is no record.
    pub timestamp_deltas: (i64, i64),
    pub all_have_keys: bool,
}

impl Survey {
    /// Of no record.
    pub const EMPTY: Survey = Survey { timestamp_deltas: (i64::MAX, i64::MIN), all_have_keys: true };

    /// Takes one more record in.
    #[inline]
    pub fn add(&mut self, timestamp_delta: i64, has_key: bool) {
        let (smallest, largest) = self.timestamp_deltas;
        self.timestamp_deltas = (smallest.min(timestamp_delta), largest.max(timestamp_delta));
        self.all_have_keys &= has_key;
    }
}

impl Records<'_> {
    /// Walks all records that are left, as iterating does, until the first error.
    pub fn survey(mut self) -> Result<Survey, RecordError> {
        let mut survey = Survey::EMPTY;
        loop {
            // In locals: what `next` needs a pointer to would live in memory.
            let (mut left, mut bytes) = (self.left, self.bytes);
            while left > 0
                && let Some(common) = Common::take(&mut bytes)
            {
                survey.add(varint::unzigzag_32(common.timestamp).into(), common.has_key);
                left = common.alike.pass(&mut bytes, left - 1);
            }
            (self.left, self.bytes) = (left, bytes);
            match self.next_uncommon() {
                Some(record) => {
                    let (timestamp_delta, has_key) = record?;
                    survey.add(timestamp_delta, has_key);
                }
                None => return Ok(survey),
            }
        }
    }

    // Apart, so that the loop over common records stays small.
    #[inline(never)]
    fn next_uncommon(&mut self) -> Option<Result<(i64, bool), RecordError>> {
        Some(self.next()?.map(|Record { timestamp_delta, key, .. }| (timestamp_delta, key.is_some())))
    }
}

/// A record of the common shape.
struct Common {
    /// Its delta, zigzag not undone.
    timestamp: u32,
    has_key: bool,
    alike: Alike,
}

/// Bytes in which the numbers up to the key's length stand, and more.
const HEAD: usize = 16;

impl Common {
    /// Takes one from the front of `bytes`. `None`, with nothing taken, for any other record, sound or not.
    #[inline]
    fn take(bytes: &mut &[u8]) -> Option<Common> {
        let head: &[u8; HEAD] = bytes.first_chunk()?;
        let (length, body_at) = short_varint(u16::from_le_bytes([head[0], head[1]]))?;
        let mut fields = Fields { word: word_at(head, body_at + 1)?, at: body_at + 1 };
        let timestamp = fields.take()?;
        let offset_at = fields.at;
        fields.take()?;
        let offset_end = fields.at;
        let key = fields.take()?;
        // Then the key, the value's length, the value, and that there are no headers. A negative length is null.
        let value_length_at = fields.at + varint::length(key).unwrap_or(0);
        let value_length = u16::from_le_bytes(*bytes.get(value_length_at..)?.first_chunk()?);
        let (value, width) = short_varint(value_length)?;
        let last = value_length_at + width + varint::length(value).unwrap_or(0);
        let size = body_at + varint::length(length)?;
        let (record, rest) = bytes.split_at_checked(size)?;
        if last + 1 != size || record.last() != Some(&0) {
            return None;
        }
        *bytes = rest;
        let attributes = bytes_between(body_at, body_at + 1);
        let offset = bytes_between(offset_at, offset_end) & !CONTINUES;
        let alike = Alike {
            // Where eight bytes do not hold the lengths no other is known to be alike.
            size: if fields.at <= WORD { size } else { usize::MAX },
            head: word_at(head, 0)?,
            same: bytes_between(0, fields.at) & !attributes & !offset,
            value_length_at,
            value_length,
            value_length_same: if width == 1 { 0xff } else { 0xffff },
        };
        Some(Common { timestamp, has_key: key & 1 == 0, alike })
    }
}

/// What tells that a record is as sound as another one, and of the same time: all its lengths, and the delta of its time,
/// are the same bytes. Its attributes mean nothing; its offset delta may differ, but not in how many bytes it has.
struct Alike {
    /// Bytes of the record, those of its length included.
    size: usize,
    /// Its first bytes, and which of their bits are the same.
    head: u64,
    same: u64,
    value_length_at: usize,
    value_length: u16,
    value_length_same: u16,
}

impl Alike {
    /// Passes over records like this one at the front of `bytes`, of which there are `left`. How many are left then.
    #[inline]
    fn pass(&self, bytes: &mut &[u8], mut left: i32) -> i32 {
        while left > 0
            && let Some((record, rest)) = bytes.split_at_checked(self.size)
            && self.is(record)
        {
            *bytes = rest;
            left -= 1;
        }
        left
    }

    /// Of a record of the same size.
    #[inline]
    fn is(&self, record: &[u8]) -> bool {
        let Some(head) = record.first_chunk() else { return false };
        let value_length = record.get(self.value_length_at..).and_then(|rest| rest.first_chunk());
        let Some(value_length) = value_length else { return false };
        (u64::from_le_bytes(*head) ^ self.head) & self.same == 0
            && (u16::from_le_bytes(*value_length) ^ self.value_length) & self.value_length_same == 0
            && record.last() == Some(&0)
    }
}

/// Numbers behind each other.
struct Fields {
    word: u64,
    /// Where the word begins in its record.
    at: usize,
}

impl Fields {
    /// One of one or two bytes, zigzag not undone. Three fit.
    #[inline]
    fn take(&mut self) -> Option<u32> {
        let (value, width) = short_varint(self.word as u16)?;
        self.word >>= 8 * width;
        self.at += width;
        Some(value)
    }
}

/// Bytes of a word.
const WORD: usize = size_of::<u64>();

/// The bit in each byte of a varint that says whether another follows.
const CONTINUES: u64 = 0x8080_8080_8080_8080;

/// A varint of one or two bytes at the low end of `raw`, zigzag not undone, and its bytes.
#[inline]
fn short_varint(raw: u16) -> Option<(u32, usize)> {
    let low = u32::from(raw & 0x7f);
    if raw & 0x80 == 0 {
        return Some((low, 1));
    }
    (raw & 0x8000 == 0).then_some((low | u32::from(raw >> 1 & 0x3f80), 2))
}

#[inline]
fn word_at(head: &[u8; HEAD], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*head.get(at..)?.first_chunk()?))
}

/// All bits of the bytes of a word from `from` to `to`, exclusive.
#[inline]
fn bytes_between(from: usize, to: usize) -> u64 {
    let above = |at: usize| u64::MAX.checked_shl(8 * at as u32).unwrap_or(0);
    above(from) & !above(to)
}
