//! Compressed bytes in, chunks of decompressed bytes out.

use std::io::Read;

use flate2::bufread::GzDecoder;
use zstd::stream::raw::{Decoder as ZstdDecoder, Operation};

use super::codec::Codec;
use super::{HELD_BYTES_FREE, held_bytes_max, lz4, snappy, zstd_frame};
use crate::spawn::give_way;

const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];
/// Output of the streaming codecs is made in pieces of this many bytes.
const CHUNK: usize = 32 * 1024;
/// Output that is more than this is work for a thread that others need not wait for.
const FIRST_TURN: usize = 128 * 1024;
/// From there on others have the processor after so many bytes: a tenth of a millisecond of the smallest records.
const TURN: usize = 32 * 1024;
/// A larger chunk is given back when its stream ends: one odd batch shall not cost a thread memory for good.
const CHUNK_KEPT: usize = 1 << 20;

/// Compressed bytes that cannot be decompressed, or not within the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecompressError {
    #[error("the compressed bytes end too early")]
    Truncated,
    #[error("the bytes are no valid {0} stream")]
    Corrupt(&'static str),
    #[error("decompresses to more than {0} bytes")]
    Limit(usize),
}

/// Buffers that one decompression after another can use. Between two they hold at most 1 MiB and a zstd window of 8 MiB.
#[derive(Default)]
pub struct Scratch {
    pub(super) chunk: Vec<u8>,
    zstd: Option<ZstdDecoder<'static>>,
}

impl std::fmt::Debug for Scratch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scratch").field("chunk", &self.chunk.capacity()).finish_non_exhaustive()
    }
}

/// One stream. Hands out its output chunk by chunk.
pub struct Decompressor<'a, 's> {
    inner: Inner<'a, 's>,
    chunk: &'s mut Vec<u8>,
    /// Bytes of the chunk already consumed.
    at: usize,
    produced: usize,
    /// Bytes of output after which others have the processor.
    next_turn: usize,
    limit: usize,
    compressed_len: usize,
}

enum Inner<'a, 's> {
    Plain(&'a [u8]),
    Gzip(Box<GzDecoder<&'a [u8]>>),
    Snappy(snappy::Reader<'a>),
    Lz4(lz4::Reader<'a>),
    Zstd(Zstd<'a, 's>),
}

struct Zstd<'a, 's> {
    rest: &'a [u8],
    slot: &'s mut Option<ZstdDecoder<'static>>,
    compressed_len: usize,
    in_frame: bool,
    /// A frame keeps more of its output than is free (levels 20 to 22): a few bytes could make the decoder touch 128 MiB.
    large_window: bool,
}

impl<'a, 's> Decompressor<'a, 's> {
    /// `magic` is that of the batch or message around the bytes; the output never exceeds `limit` bytes.
    pub fn new(
        codec: Codec,
        magic: i8,
        bytes: &'a [u8],
        limit: usize,
        scratch: &'s mut Scratch,
    ) -> Result<Decompressor<'a, 's>, DecompressError> {
        let inner = match codec {
            Codec::None => Inner::Plain(bytes),
            Codec::Gzip => Inner::Gzip(Box::new(GzDecoder::new(bytes))),
            Codec::Snappy => Inner::Snappy(snappy::Reader::new(bytes)?),
            Codec::Lz4 => Inner::Lz4(lz4::Reader::new(bytes, magic)?),
            Codec::Zstd => Inner::Zstd(Zstd {
                rest: bytes,
                slot: &mut scratch.zstd,
                compressed_len: bytes.len(),
                in_frame: false,
                large_window: false,
            }),
        };
        scratch.chunk.clear();
        let chunk = &mut scratch.chunk;
        let (at, produced, next_turn, compressed_len) = (0, 0, FIRST_TURN, bytes.len());
        Ok(Decompressor { inner, chunk, at, produced, next_turn, limit, compressed_len })
    }

    /// Bytes of the whole compressed stream.
    pub fn compressed_len(&self) -> usize {
        self.compressed_len
    }

    /// Output that is there and not yet consumed; makes more when there is none. Empty at the end of the stream.
    pub fn fill(&mut self) -> Result<&[u8], DecompressError> {
        if self.at == self.chunk.len() {
            self.at = 0;
            if self.produced >= self.next_turn {
                self.next_turn = self.produced.saturating_add(TURN);
                give_way();
            }
            self.inner.next_chunk(self.chunk, self.produced, self.limit)?;
            self.produced = self.produced.saturating_add(self.chunk.len());
            if self.produced > self.limit {
                self.chunk.clear();
                return Err(DecompressError::Limit(self.limit));
            }
        }
        Ok(self.chunk.get(self.at..).unwrap_or_default())
    }

    /// Marks bytes that [`Decompressor::fill`] returned as used.
    pub fn consume(&mut self, bytes: usize) {
        self.at = self.chunk.len().min(self.at + bytes);
    }
}

impl Drop for Decompressor<'_, '_> {
    fn drop(&mut self) {
        if self.chunk.capacity() > CHUNK_KEPT {
            *self.chunk = Vec::new();
        }
    }
}

impl Inner<'_, '_> {
    /// A block that would go past `limit` is not begun, or not made to its end.
    fn next_chunk(&mut self, out: &mut Vec<u8>, produced: usize, limit: usize) -> Result<(), DecompressError> {
        match self {
            Inner::Plain(rest) => {
                let (now, later) = rest.split_at(rest.len().min(CHUNK));
                out.clear();
                out.extend_from_slice(now);
                *rest = later;
                Ok(())
            }
            Inner::Gzip(decoder) => next_of_gzip(decoder, out),
            Inner::Snappy(reader) => reader.next_block(out, produced, limit),
            Inner::Lz4(reader) => reader.next_block(out, produced, limit),
            Inner::Zstd(zstd) => zstd.next_chunk(out, produced),
        }
    }
}

/// Members may be joined; what follows the last one and is no gzip is not looked at, as by Java.
fn next_of_gzip(decoder: &mut GzDecoder<&[u8]>, out: &mut Vec<u8>) -> Result<(), DecompressError> {
    loop {
        out.resize(CHUNK, 0);
        let read = decoder.read(out).map_err(|error| match error.kind() {
            std::io::ErrorKind::UnexpectedEof => DecompressError::Truncated,
            _ => DecompressError::Corrupt("gzip"),
        });
        out.truncate(*read.as_ref().unwrap_or(&0));
        let rest = *decoder.get_ref();
        if read? > 0 || !rest.starts_with(&GZIP_MAGIC) {
            return Ok(());
        }
        *decoder = GzDecoder::new(rest);
    }
}

impl Zstd<'_, '_> {
    fn next_chunk(&mut self, out: &mut Vec<u8>, produced: usize) -> Result<(), DecompressError> {
        let corrupt = |_| DecompressError::Corrupt("zstd");
        out.clear();
        while out.is_empty() && (self.in_frame || !self.rest.is_empty()) {
            if !self.in_frame {
                self.large_window |= zstd_frame::window(self.rest).is_some_and(|bytes| bytes > HELD_BYTES_FREE as u64);
                self.in_frame = true;
            }
            let bound = held_bytes_max(self.compressed_len);
            if self.large_window && produced > bound {
                return Err(DecompressError::Limit(bound));
            }
            let decoder = match self.slot {
                Some(decoder) => decoder,
                None => self.slot.insert(ZstdDecoder::new().map_err(corrupt)?),
            };
            if produced == 0 && self.rest.len() == self.compressed_len {
                decoder.reinit().map_err(corrupt)?;
            }
            out.resize(CHUNK, 0);
            let step = decoder.run_on_buffers(self.rest, out);
            out.truncate(step.as_ref().map_or(0, |step| step.bytes_written));
            let step = step.map_err(corrupt)?;
            self.rest = self.rest.get(step.bytes_read..).unwrap_or_default();
            if step.remaining == 0 {
                self.in_frame = false;
            } else if step.bytes_read == 0 && step.bytes_written == 0 {
                return Err(DecompressError::Truncated);
            }
        }
        Ok(())
    }
}

impl Drop for Zstd<'_, '_> {
    /// A decoder that has seen a large window would keep its memory.
    fn drop(&mut self) {
        if self.large_window {
            *self.slot = None;
        }
    }
}

/// The whole output at once, in place of what `out` held. Memory grows with the output, never past `limit`.
pub fn decompress(
    codec: Codec,
    magic: i8,
    bytes: &[u8],
    limit: usize,
    scratch: &mut Scratch,
    out: &mut Vec<u8>,
) -> Result<(), DecompressError> {
    out.clear();
    let mut stream = Decompressor::new(codec, magic, bytes, limit, scratch)?;
    loop {
        let chunk = stream.fill()?;
        if chunk.is_empty() {
            return Ok(());
        }
        out.extend_from_slice(chunk);
        let len = chunk.len();
        stream.consume(len);
    }
}
