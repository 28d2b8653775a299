//! Bytes in, compressed bytes appended to a buffer.

use std::io::{self, Write};

use flate2::write::GzEncoder;

use super::codec::Codec;
use super::{lz4, snappy};

/// The codec's library failed; the output is not to be used.
#[derive(Debug, thiserror::Error)]
#[error("{codec} compression fails: {source}")]
pub struct CompressError {
    codec: Codec,
    source: io::Error,
}

/// Appends one compressed stream to a buffer.
pub struct Compressor {
    codec: Codec,
    writer: Writer,
}

enum Writer {
    None(Vec<u8>),
    Gzip(GzEncoder<Vec<u8>>),
    Snappy(snappy::Writer),
    Lz4(lz4::Writer),
    Zstd(Box<zstd::stream::write::Encoder<'static, Vec<u8>>>),
}

impl Compressor {
    /// `level` is the codec's own (`compression.gzip.level` and so on); `None` is the default of Kafka's clients.
    /// `magic` 0 makes lz4 frames with the header checksum that clients of its time expect.
    pub fn new(codec: Codec, level: Option<i32>, magic: i8, out: Vec<u8>) -> Result<Compressor, CompressError> {
        let writer = match codec {
            Codec::None => Writer::None(out),
            Codec::Gzip => {
                let level = level.and_then(|level| u32::try_from(level).ok()).map(|level| level.min(9));
                Writer::Gzip(GzEncoder::new(
                    out,
                    level.map_or_else(flate2::Compression::default, flate2::Compression::new),
                ))
            }
            Codec::Snappy => Writer::Snappy(snappy::Writer::new(out)),
            Codec::Lz4 => Writer::Lz4(lz4::Writer::new(out, level, magic)),
            Codec::Zstd => {
                let encoder = zstd::stream::write::Encoder::new(out, level.unwrap_or(zstd::DEFAULT_COMPRESSION_LEVEL))
                    .map_err(|source| CompressError { codec, source })?;
                Writer::Zstd(Box::new(encoder))
            }
        };
        Ok(Compressor { codec, writer })
    }

    pub fn codec(&self) -> Codec {
        self.codec
    }

    pub fn write(&mut self, bytes: &[u8]) -> Result<(), CompressError> {
        let result = match &mut self.writer {
            Writer::None(out) => {
                out.extend_from_slice(bytes);
                Ok(())
            }
            Writer::Gzip(encoder) => encoder.write_all(bytes),
            Writer::Snappy(writer) => writer.write(bytes),
            Writer::Lz4(writer) => writer.write(bytes),
            Writer::Zstd(encoder) => encoder.write_all(bytes),
        };
        result.map_err(|source| CompressError { codec: self.codec, source })
    }

    /// Bytes in the buffer so far, those before the stream included; some of the input may still wait inside the codec.
    pub fn len(&self) -> usize {
        match &self.writer {
            Writer::None(out) => out.len(),
            Writer::Gzip(encoder) => encoder.get_ref().len(),
            Writer::Snappy(writer) => writer.len(),
            Writer::Lz4(writer) => writer.len(),
            Writer::Zstd(encoder) => encoder.get_ref().len(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Ends the stream and hands the buffer back.
    pub fn finish(self) -> Result<Vec<u8>, CompressError> {
        let codec = self.codec;
        let result = match self.writer {
            Writer::None(out) => Ok(out),
            Writer::Gzip(encoder) => encoder.finish(),
            Writer::Snappy(writer) => writer.finish(),
            Writer::Lz4(writer) => writer.finish(),
            Writer::Zstd(encoder) => encoder.finish(),
        };
        result.map_err(|source| CompressError { codec, source })
    }
}

/// One stream made of `bytes`, appended to `out`.
pub fn compress(
    codec: Codec,
    level: Option<i32>,
    magic: i8,
    bytes: &[u8],
    out: Vec<u8>,
) -> Result<Vec<u8>, CompressError> {
    let mut compressor = Compressor::new(codec, level, magic, out)?;
    compressor.write(bytes)?;
    compressor.finish()
}
