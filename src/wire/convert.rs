//! Stored records made readable for old consumers: Fetch v0-1 wants magic 0, v2-3 magic 1.
//!
//! Batch by batch, so that the caller decides how much is converted at once. A batch keeps its codec; what magic 0 and 1
//! cannot hold is left out: headers, control batches, and zstd, which is an error. Message sets that are old enough pass
//! unchanged. The other direction is the validator's: it has to check each message anyway.
//! Source: Kafka's `RecordsUtil.downConvert`.

use super::batch::{
    Batch, BatchHeader, Batches, BuildError, CutError, HeaderError, RawBatch, RecordStream, StreamError,
};
use super::compression::{Codec, DECOMPRESSED_MAX, DecompressError, Decompressor, Scratch, UnknownCodec};
use super::legacy::{InnerMessages, Message, MessageError, MessageSetBuilder, SetOptions, WrapperError};
use crate::types::Offset;

/// Why stored records cannot be converted.
#[derive(Debug, thiserror::Error)]
pub enum ConvertError {
    /// UNSUPPORTED_COMPRESSION_TYPE: older formats have no zstd.
    #[error("a batch of zstd cannot be converted to magic {0}")]
    Zstd(i8),
    #[error(transparent)]
    Cut(#[from] CutError),
    #[error(transparent)]
    Header(#[from] HeaderError),
    #[error(transparent)]
    Codec(#[from] UnknownCodec),
    #[error(transparent)]
    Stream(#[from] StreamError),
    #[error(transparent)]
    Message(#[from] MessageError),
    #[error(transparent)]
    Wrapper(#[from] WrapperError),
    #[error(transparent)]
    Build(#[from] BuildError),
}

impl From<DecompressError> for ConvertError {
    fn from(error: DecompressError) -> ConvertError {
        ConvertError::Stream(error.into())
    }
}

/// Converts the batches of one read, one at a time.
///
/// Converted records are often larger than stored ones. Kafka answers as many bytes as the stored batches have, or the whole
/// first converted batch when that is larger, and cuts the last message off where they end (seen on a live 3.9.1).
#[derive(Debug)]
pub struct DownConversion<'a> {
    batches: Batches<'a>,
    to_magic: i8,
    fetch_offset: Offset,
}

impl<'a> DownConversion<'a> {
    /// `records` may end in an unfinished batch, which is dropped. Uncompressed records below `fetch_offset` are dropped too;
    /// compressed ones stay and the consumer skips them, as with Kafka.
    pub fn new(records: &'a [u8], to_magic: i8, fetch_offset: Offset) -> DownConversion<'a> {
        DownConversion { batches: Batches::new(records), to_magic, fetch_offset }
    }

    /// Appends the next batch that has anything to say to `out`; `false` when none is left. After an error `out` is as before.
    pub fn convert_next(&mut self, out: &mut Vec<u8>, scratch: &mut Scratch) -> Result<bool, ConvertError> {
        while let Some(raw) = self.batches.next().transpose()? {
            let before = out.len();
            let result = self.convert(&raw, out, scratch);
            if result.is_err() {
                out.truncate(before);
            }
            result?;
            if out.len() > before {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn convert(&self, raw: &RawBatch<'_>, out: &mut Vec<u8>, scratch: &mut Scratch) -> Result<(), ConvertError> {
        if raw.magic <= self.to_magic {
            out.extend_from_slice(raw.bytes);
            return Ok(());
        }
        if raw.magic == 2 {
            let batch = raw.v2()?;
            if batch.header.is_control() { Ok(()) } else { self.convert_batch(&batch, out, scratch) }
        } else {
            self.convert_message(&raw.message()?, out, scratch)
        }
    }

    fn convert_batch(&self, batch: &Batch<'_>, out: &mut Vec<u8>, scratch: &mut Scratch) -> Result<(), ConvertError> {
        let header = &batch.header;
        let codec = header.codec()?;
        if codec == Codec::Zstd {
            return Err(ConvertError::Zstd(self.to_magic));
        }
        let log_append_time_ms = header.is_log_append_time().then_some(header.max_timestamp);
        let mut set = LazySet::new(self.to_magic, codec, log_append_time_ms, out);
        if codec == Codec::None {
            for record in batch.records() {
                let record = record.map_err(StreamError::from)?;
                let offset = record.offset(header);
                if offset >= self.fetch_offset {
                    set.append(offset, record.timestamp(header), record.key, record.value)?;
                }
            }
        } else {
            append_compressed(header, codec, batch.payload(), &mut set, scratch)?;
        }
        set.finish()
    }

    /// Magic 1 to 0.
    fn convert_message(
        &self,
        message: &Message<'_>,
        out: &mut Vec<u8>,
        scratch: &mut Scratch,
    ) -> Result<(), ConvertError> {
        let codec = message.codec()?;
        let mut set = LazySet::new(self.to_magic, codec, None, out);
        if codec == Codec::None {
            if message.offset >= self.fetch_offset {
                set.append(message.offset, message.timestamp, message.key, message.value)?;
            }
        } else {
            let mut inner = InnerMessages::new(*message, scratch)?;
            while let Some(message) = inner.next_message()? {
                set.append(message.offset, message.timestamp, message.key, message.value)?;
            }
        }
        set.finish()
    }
}

fn append_compressed(
    header: &BatchHeader,
    codec: Codec,
    payload: &[u8],
    set: &mut LazySet<'_>,
    scratch: &mut Scratch,
) -> Result<(), ConvertError> {
    let source = Decompressor::new(codec, 2, payload, DECOMPRESSED_MAX, scratch)?;
    let mut records = RecordStream::new(header, source)?;
    let mut buffer = Vec::new();
    while let Some(record) = records.next_record(&mut buffer)? {
        set.append(record.offset(header), record.timestamp(header), record.key, record.value)?;
    }
    Ok(())
}

/// A message set that is begun with its first message: an empty one must leave no trace, and inner offsets of magic 1 count
/// from the first.
struct LazySet<'o> {
    magic: i8,
    codec: Codec,
    log_append_time_ms: Option<i64>,
    out: &'o mut Vec<u8>,
    set: Option<MessageSetBuilder>,
}

impl<'o> LazySet<'o> {
    fn new(magic: i8, codec: Codec, log_append_time_ms: Option<i64>, out: &'o mut Vec<u8>) -> LazySet<'o> {
        LazySet { magic, codec, log_append_time_ms, out, set: None }
    }

    fn append(
        &mut self,
        offset: Offset,
        timestamp: i64,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
    ) -> Result<(), BuildError> {
        let set = match &mut self.set {
            Some(set) => set,
            None => {
                let options = SetOptions {
                    magic: self.magic,
                    codec: self.codec,
                    base_offset: offset,
                    log_append_time_ms: self.log_append_time_ms,
                };
                self.set.insert(MessageSetBuilder::append_to(Vec::new(), options)?)
            }
        };
        set.append(offset, timestamp, key, value)
    }

    fn finish(self) -> Result<(), ConvertError> {
        if let Some(set) = self.set {
            self.out.append(&mut set.finish()?);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
