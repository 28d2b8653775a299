//! One message of magic 0 or 1.
//!
//! ```text
//!  0 i64 offset        16 i8 magic                       i32 key length (-1 null), key
//!  8 i32 size          17 i8 attributes                  i32 value length (-1 null), value
//! 12 u32 crc           [18 i64 timestamp, magic 1 only]
//! ```
//! The CRC is CRC-32 of everything from the magic on. Attributes: bits 0-2 codec, bit 3 LogAppendTime (magic 1).
//! Source: Kafka's `LegacyRecord`.

use crate::types::Offset;
use crate::wire::batch::{LOG_OVERHEAD, RawBatch};
use crate::wire::compression::{Codec, UnknownCodec};

const MAGIC_AT: usize = 16;

/// Bytes that are no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MessageError {
    #[error("a message of magic {magic} in {bytes} bytes is too short")]
    Short { magic: i8, bytes: usize },
    #[error("magic {0} where 0 or 1 is expected")]
    Magic(i8),
    #[error("a field of {length} bytes where {left} are left in the message")]
    Field { length: i32, left: usize },
}

/// A message, borrowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    pub offset: Offset,
    /// As stored: see [`RawBatch::crc_matches`].
    pub crc: u32,
    pub magic: i8,
    pub attributes: u8,
    /// ms; -1 in magic 0.
    pub timestamp: i64,
    pub key: Option<&'a [u8]>,
    pub value: Option<&'a [u8]>,
}

impl<'a> Message<'a> {
    /// Reads one whole message. Bytes behind the value are not looked at, as Kafka does not.
    pub fn parse(bytes: &'a [u8]) -> Result<Message<'a>, MessageError> {
        let short = |magic| MessageError::Short { magic, bytes: bytes.len() };
        let offset = bytes.first_chunk().ok_or(short(0))?;
        let [magic, attributes, rest @ ..] = bytes.get(MAGIC_AT..).unwrap_or_default() else { return Err(short(0)) };
        let magic = *magic as i8;
        let (timestamp, mut rest) = match magic {
            0 => (-1, rest),
            1 => {
                let (timestamp, rest) = rest.split_first_chunk().ok_or(short(1))?;
                (i64::from_be_bytes(*timestamp), rest)
            }
            other => return Err(MessageError::Magic(other)),
        };
        let key = take_field(&mut rest).ok_or(short(magic))??;
        let value = take_field(&mut rest).ok_or(short(magic))??;
        Ok(Message {
            offset: Offset(i64::from_be_bytes(*offset)),
            crc: bytes.get(LOG_OVERHEAD..).and_then(<[u8]>::first_chunk).map_or(0, |crc| u32::from_be_bytes(*crc)),
            magic,
            attributes: *attributes,
            timestamp,
            key,
            value,
        })
    }

    pub fn codec(&self) -> Result<Codec, UnknownCodec> {
        Codec::from_bits(self.attributes)
    }

    pub fn is_log_append_time(&self) -> bool {
        self.magic == 1 && self.attributes & 1 << 3 != 0
    }
}

/// Whether a whole message fits its CRC.
pub fn crc_matches(message: &[u8]) -> bool {
    let stored = message.get(LOG_OVERHEAD..).and_then(<[u8]>::first_chunk);
    match (stored, message.get(MAGIC_AT..)) {
        (Some(stored), Some(checked)) => u32::from_be_bytes(*stored) == crc32fast::hash(checked),
        _ => false,
    }
}

impl<'a> RawBatch<'a> {
    /// The message of magic 0 or 1 that it claims to be.
    pub fn message(&self) -> Result<Message<'a>, MessageError> {
        Message::parse(self.bytes)
    }

    /// Whether the CRC fits, in the algorithm of its magic.
    pub fn crc_matches(&self) -> bool {
        if self.magic == 2 { self.v2().is_ok_and(|batch| batch.crc_matches()) } else { crc_matches(self.bytes) }
    }
}

/// `None` when not even the length is there.
fn take_field<'a>(bytes: &mut &'a [u8]) -> Option<Result<Option<&'a [u8]>, MessageError>> {
    let (length, rest) = bytes.split_first_chunk()?;
    let length = i32::from_be_bytes(*length);
    *bytes = rest;
    let Ok(wanted) = usize::try_from(length) else { return Some(Ok(None)) };
    Some(match rest.split_at_checked(wanted) {
        Some((field, rest)) => {
            *bytes = rest;
            Ok(Some(field))
        }
        None => Err(MessageError::Field { length, left: rest.len() }),
    })
}
