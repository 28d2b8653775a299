//! Cutting bytes into batches, whatever their magic: the frame that all record formats share.
//!
//! ```text
//! 0 i64 offset (magic 2: of the first record, older: of the last)
//! 8 i32 size of what follows      16 i8 magic
//! ```
//! An unfinished batch at the end is not an error: a fetch response and a log after a crash may end in one.
//! Source: Kafka's `ByteBufferLogInputStream`.

use super::header::{BatchHeader, HeaderError, LOG_OVERHEAD};
use super::records::{RecordError, Records};
use crate::types::Offset;

/// Bytes that tell a batch's size and magic.
pub const HEADER_UP_TO_MAGIC: usize = 17;
/// The smallest size that a message of magic 0 can have after the [`LOG_OVERHEAD`].
const SIZE_MIN: i32 = 14;

/// Bytes that cannot be cut into batches any further.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CutError {
    #[error("record size {0} is smaller than the smallest message")]
    Size(i32),
    #[error("magic {0} is none that Kafka has used")]
    Magic(i8),
}

/// One batch or message with its frame; nothing but size and magic is checked yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawBatch<'a> {
    pub magic: i8,
    /// The whole batch, from its offset field to its last byte.
    pub bytes: &'a [u8],
}

impl<'a> RawBatch<'a> {
    /// The first eight bytes: base offset in magic 2, offset of the last message before.
    pub fn offset(&self) -> Offset {
        Offset(self.bytes.first_chunk().map_or(0, |bytes| i64::from_be_bytes(*bytes)))
    }

    /// The batch of magic 2 that it claims to be.
    pub fn v2(&self) -> Result<Batch<'a>, HeaderError> {
        Batch::parse(self.bytes)
    }
}

/// Batches one after another. Ends silently at an unfinished one ([`Batches::rest`] tells), and after an error.
#[derive(Clone, Debug)]
pub struct Batches<'a> {
    rest: &'a [u8],
    failed: bool,
}

impl<'a> Batches<'a> {
    pub fn new(bytes: &'a [u8]) -> Batches<'a> {
        Batches { rest: bytes, failed: false }
    }

    /// Bytes not yet handed out. After the end: an unfinished batch, or what the error was about.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }
}

impl<'a> Iterator for Batches<'a> {
    type Item = Result<RawBatch<'a>, CutError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        let size = i32::from_be_bytes(*self.rest.get(8..)?.first_chunk()?);
        if size < SIZE_MIN {
            self.failed = true;
            return Some(Err(CutError::Size(size)));
        }
        let magic = *self.rest.get(HEADER_UP_TO_MAGIC - 1)? as i8;
        if !(0..=2).contains(&magic) {
            self.failed = true;
            return Some(Err(CutError::Magic(magic)));
        }
        let (bytes, rest) = self.rest.split_at_checked(LOG_OVERHEAD + size as usize)?;
        self.rest = rest;
        Some(Ok(RawBatch { magic, bytes }))
    }
}

/// A whole batch of magic 2, header parsed; records and CRC are not looked at yet.
#[derive(Clone, Copy, Debug)]
pub struct Batch<'a> {
    pub header: BatchHeader,
    /// Exactly the batch.
    pub bytes: &'a [u8],
}

impl<'a> Batch<'a> {
    /// The batch at the front of `bytes`, which may go on behind it.
    pub fn parse(bytes: &'a [u8]) -> Result<Batch<'a>, HeaderError> {
        let header = BatchHeader::parse(bytes)?;
        let whole = bytes.get(..header.size()).ok_or(HeaderError::Short(bytes.len()))?;
        Ok(Batch { header, bytes: whole })
    }

    /// The records as stored: compressed when the attributes say so.
    pub fn payload(&self) -> &'a [u8] {
        self.bytes.get(super::HEADER_LEN..).unwrap_or_default()
    }

    /// CRC-32C over everything behind the CRC field.
    pub fn crc_matches(&self) -> bool {
        super::stamp::checksum(self.bytes) == self.header.crc
    }

    /// The records of an uncompressed batch. For a compressed one, decompress [`Batch::payload`] first and use
    /// [`Records::new`].
    pub fn records(&self) -> Records<'a> {
        Records::new(&self.header, self.payload())
    }

    /// Walks all records of an uncompressed batch and says whether they are sound.
    pub fn check_records(&self) -> Result<(), RecordError> {
        self.records().try_for_each(|record| record.map(drop))
    }
}
