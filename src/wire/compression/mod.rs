//! The codecs of record batches and message sets: gzip, snappy, lz4, zstd, in the framings that Kafka's clients read.
//!
//! Bytes from strangers decide nothing about memory: output is made in chunks of at most one codec block, a chunk's buffer
//! is never larger than its compressed bytes can prove, and a limit ends the stream. What a batch may become at most is
//! [`DECOMPRESSED_MAX`].

mod block;
mod codec;
mod compressor;
mod decompressor;
mod lz4;
mod snappy;
mod zstd_frame;

pub use codec::{Codec, UnknownCodec};
pub use compressor::{CompressError, Compressor, compress};
pub use decompressor::{DecompressError, Decompressor, Scratch, decompress};

/// Bytes that one batch or message set may decompress to: what the 32-bit length of an uncompressed one could hold.
/// Kafka has no limit; no client could read more.
pub const DECOMPRESSED_MAX: usize = i32::MAX as usize;

/// Bytes of output that may be held at once for the sake of `compressed` bytes of input, where output must be held at all:
/// one old message or one record that is converted, the window of a zstd frame. Eight MiB, and 16 times the input more.
pub fn held_bytes_max(compressed: usize) -> usize {
    compressed.saturating_mul(16).saturating_add(HELD_BYTES_FREE)
}

const HELD_BYTES_FREE: usize = 8 * 1024 * 1024;

#[cfg(test)]
mod tests;
