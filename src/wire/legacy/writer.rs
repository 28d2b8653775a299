//! Writes message sets of magic 0 and 1, plain or in one compressed wrapper.

use super::message::Message;
use crate::types::Offset;
use crate::wire::batch::{BuildError, LOG_OVERHEAD};
use crate::wire::compression::{Codec, Compressor};

/// What is not in the messages.
#[derive(Clone, Copy, Debug)]
pub struct SetOptions {
    /// 0 or 1.
    pub magic: i8,
    /// Not zstd.
    pub codec: Codec,
    /// The offset that relative inner offsets of magic 1 count from.
    pub base_offset: Offset,
    /// `Some(time)` stamps every message with it (ms), as LogAppendTime.
    pub log_append_time_ms: Option<i64>,
}

/// One message set in the making, appended to a buffer of the caller's.
pub struct MessageSetBuilder {
    options: SetOptions,
    start: usize,
    messages: Compressor,
    message: Vec<u8>,
    max_timestamp: i64,
    last_offset: Offset,
}

impl MessageSetBuilder {
    pub fn append_to(mut out: Vec<u8>, options: SetOptions) -> Result<MessageSetBuilder, BuildError> {
        let start = out.len();
        if options.codec != Codec::None {
            out.resize(start + LOG_OVERHEAD + overhead(options.magic), 0);
        }
        Ok(MessageSetBuilder {
            messages: Compressor::new(options.codec, None, options.magic, out)?,
            options,
            start,
            message: Vec::new(),
            max_timestamp: -1,
            last_offset: Offset::NONE,
        })
    }

    /// The offset is absolute; magic 0 has no place for the timestamp.
    pub fn append(
        &mut self,
        offset: Offset,
        timestamp: i64,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
    ) -> Result<(), BuildError> {
        let SetOptions { magic, codec, base_offset, log_append_time_ms } = self.options;
        let timestamp = log_append_time_ms.unwrap_or(timestamp);
        let relative = magic == 1 && codec != Codec::None;
        let written = if relative { offset.0.wrapping_sub(base_offset.0) } else { offset.0 };
        let attributes = time_attribute(magic, log_append_time_ms);
        let message = &mut self.message;
        message.clear();
        message.resize(LOG_OVERHEAD, 0);
        put_front(message, magic, attributes, timestamp);
        for field in [key, value] {
            let length = field.map_or(Ok(-1), |bytes| length(bytes.len()))?;
            message.extend(length.to_be_bytes());
            message.extend_from_slice(field.unwrap_or_default());
        }
        finish_message(message, written)?;
        self.messages.write(message)?;
        self.max_timestamp = self.max_timestamp.max(timestamp);
        self.last_offset = offset;
        Ok(())
    }

    /// Bytes of the set so far; a codec may still hold some back.
    pub fn len(&self) -> usize {
        self.messages.len() - self.start
    }

    pub fn is_empty(&self) -> bool {
        self.last_offset == Offset::NONE
    }

    /// The buffer with the finished set at its end.
    pub fn finish(self) -> Result<Vec<u8>, BuildError> {
        let SetOptions { magic, codec, log_append_time_ms, .. } = self.options;
        let mut out = self.messages.finish()?;
        if codec == Codec::None {
            return Ok(out);
        }
        let front_len = LOG_OVERHEAD + overhead(magic);
        let Some(wrapper) = out.get_mut(self.start..).filter(|wrapper| wrapper.len() >= front_len) else {
            return Ok(out);
        };
        let attributes = codec.bits() | time_attribute(magic, log_append_time_ms);
        let mut front = vec![0; LOG_OVERHEAD];
        put_front(&mut front, magic, attributes, log_append_time_ms.unwrap_or(self.max_timestamp));
        front.extend((-1i32).to_be_bytes());
        front.extend(length(wrapper.len() - front_len)?.to_be_bytes());
        wrapper[..front_len].copy_from_slice(&front);
        finish_message(wrapper, self.last_offset.0)?;
        Ok(out)
    }
}

/// Bytes of a message beside frame, key and value.
fn overhead(magic: i8) -> usize {
    if magic == 0 { 14 } else { 22 }
}

fn time_attribute(magic: i8, log_append_time_ms: Option<i64>) -> u8 {
    u8::from(magic == 1 && log_append_time_ms.is_some()) << 3
}

/// From the place of the CRC to the key.
fn put_front(out: &mut Vec<u8>, magic: i8, attributes: u8, timestamp: i64) {
    out.extend([0; 4]);
    out.extend([magic as u8, attributes]);
    if magic == 1 {
        out.extend(timestamp.to_be_bytes());
    }
}

/// Offset, size and CRC of a message that is otherwise complete.
fn finish_message(message: &mut [u8], offset: i64) -> Result<(), BuildError> {
    let size = length(message.len().saturating_sub(LOG_OVERHEAD))?;
    if let Some((front, checked)) = message.split_at_mut_checked(LOG_OVERHEAD + 4) {
        front[..8].copy_from_slice(&offset.to_be_bytes());
        front[8..12].copy_from_slice(&size.to_be_bytes());
        front[12..].copy_from_slice(&crc32fast::hash(checked).to_be_bytes());
    }
    Ok(())
}

fn length(bytes: usize) -> Result<i32, BuildError> {
    i32::try_from(bytes).map_err(|_| BuildError::TooLarge(bytes))
}

impl MessageSetBuilder {
    /// Appends a message of another set.
    pub fn append_message(&mut self, message: &Message<'_>) -> Result<(), BuildError> {
        self.append(message.offset, message.timestamp, message.key, message.value)
    }
}
