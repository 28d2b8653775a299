//! The messages inside a compressed one, in two passes over the compressed bytes: one finds the last inner offset, from
//! which magic 1 counts back, the other hands the messages out. Never holds more than one of them.
//!
//! ```text
//! magic 0: inner offsets are absolute            magic 1: absolute = wrapper - last inner + inner
//! ```
//! A wrapper of magic 1 at offset 0 counts from 0 whatever stands inside: some producers send it so. An unfinished message
//! at the end is dropped. Source: Kafka's `AbstractLegacyRecordBatch`.

use super::message::{Message, MessageError, crc_matches};
use crate::types::Offset;
use crate::wire::batch::LOG_OVERHEAD;
use crate::wire::compression::{
    Codec, DECOMPRESSED_MAX, DecompressError, Decompressor, Scratch, UnknownCodec, held_bytes_max,
};

const SIZE_MIN: i32 = 14;

/// Times an inner message is held while it becomes a record: as it was read, as a record, and each with room to grow.
const COPIES: usize = 4;

/// A compressed message whose content is not a message set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WrapperError {
    #[error(transparent)]
    Codec(#[from] UnknownCodec),
    #[error("zstd in a message of magic {0}, which is older")]
    Zstd(i8),
    #[error("a compressed message without a value")]
    Null,
    #[error("a compressed message with nothing in it")]
    Empty,
    #[error("wrapper offset {wrapper} is below the last inner offset {inner}")]
    Offset { wrapper: Offset, inner: Offset },
    #[error("a compressed message inside a compressed message")]
    Nested,
    #[error("an inner message does not fit its crc")]
    Crc,
    #[error("inner message size {0} is smaller than the smallest message")]
    Size(i32),
    #[error("an inner message of {0} bytes")]
    TooLarge(usize),
    #[error(transparent)]
    Message(#[from] MessageError),
    #[error(transparent)]
    Decompress(#[from] DecompressError),
}

/// A cursor over the messages inside a wrapper, offsets made absolute and LogAppendTime applied.
pub struct InnerMessages<'a, 's> {
    wrapper: Message<'a>,
    /// Added to inner offsets.
    shift: i64,
    inner_max: usize,
    source: Decompressor<'a, 's>,
    buffer: Vec<u8>,
}

impl<'a, 's> InnerMessages<'a, 's> {
    /// Makes the first pass. `wrapper` has a codec.
    pub fn new(wrapper: Message<'a>, scratch: &'s mut Scratch) -> Result<InnerMessages<'a, 's>, WrapperError> {
        let codec = wrapper.codec()?;
        if codec == Codec::Zstd {
            return Err(WrapperError::Zstd(wrapper.magic));
        }
        let value = wrapper.value.ok_or(WrapperError::Null)?;
        let inner_max = held_bytes_max(value.len()) / COPIES;
        let mut last = None;
        let mut first_pass = Decompressor::new(codec, wrapper.magic, value, DECOMPRESSED_MAX, scratch)?;
        while let Some((offset, size)) = next_frame(&mut first_pass, inner_max)? {
            if !skip(&mut first_pass, size)? {
                break;
            }
            last = Some(offset);
        }
        drop(first_pass);
        let last = last.ok_or(WrapperError::Empty)?;
        let shift = match wrapper.magic {
            1 if wrapper.offset.0 != 0 => {
                if wrapper.offset < last {
                    return Err(WrapperError::Offset { wrapper: wrapper.offset, inner: last });
                }
                wrapper.offset.0.wrapping_sub(last.0)
            }
            _ => 0,
        };
        let source = Decompressor::new(codec, wrapper.magic, value, DECOMPRESSED_MAX, scratch)?;
        Ok(InnerMessages { wrapper, shift, inner_max, source, buffer: Vec::new() })
    }

    /// The next message, its CRC checked.
    pub fn next_message(&mut self) -> Result<Option<Message<'_>>, WrapperError> {
        let Some((offset, size)) = next_frame(&mut self.source, self.inner_max)? else { return Ok(None) };
        self.buffer.clear();
        self.buffer.extend(self.shift.wrapping_add(offset.0).to_be_bytes());
        self.buffer.extend((size as i32).to_be_bytes());
        if !read(&mut self.source, size, &mut self.buffer)? {
            return Ok(None);
        }
        if !crc_matches(&self.buffer) {
            return Err(WrapperError::Crc);
        }
        let mut message = Message::parse(&self.buffer)?;
        if message.codec()? != Codec::None {
            return Err(WrapperError::Nested);
        }
        if self.wrapper.is_log_append_time() && message.magic == 1 {
            message.timestamp = self.wrapper.timestamp;
        }
        Ok(Some(message))
    }
}

/// Offset and size of the next inner message; `None` at the end or at an unfinished frame.
fn next_frame(source: &mut Decompressor<'_, '_>, inner_max: usize) -> Result<Option<(Offset, usize)>, WrapperError> {
    let mut frame = Vec::with_capacity(LOG_OVERHEAD);
    if !read(source, LOG_OVERHEAD, &mut frame)? {
        return Ok(None);
    }
    let Some((offset, rest)) = frame.split_first_chunk() else { return Ok(None) };
    let size = rest.first_chunk().map_or(0, |size| i32::from_be_bytes(*size));
    if size < SIZE_MIN {
        return Err(WrapperError::Size(size));
    }
    if size as usize > inner_max {
        return Err(WrapperError::TooLarge(size as usize));
    }
    Ok(Some((Offset(i64::from_be_bytes(*offset)), size as usize)))
}

/// False when the stream ends before.
fn read(source: &mut Decompressor<'_, '_>, bytes: usize, out: &mut Vec<u8>) -> Result<bool, DecompressError> {
    each(source, bytes, |piece| out.extend_from_slice(piece))
}

fn skip(source: &mut Decompressor<'_, '_>, bytes: usize) -> Result<bool, DecompressError> {
    each(source, bytes, |_| {})
}

fn each(
    source: &mut Decompressor<'_, '_>,
    mut bytes: usize,
    mut put: impl FnMut(&[u8]),
) -> Result<bool, DecompressError> {
    while bytes > 0 {
        let piece = source.fill()?;
        let piece = piece.get(..bytes).unwrap_or(piece);
        if piece.is_empty() {
            return Ok(false);
        }
        put(piece);
        let used = piece.len();
        bytes -= used;
        source.consume(used);
    }
    Ok(true)
}
