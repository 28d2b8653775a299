//! The LZ4 frame as Kafka writes and reads it.
//!
//! ```text
//! u32 0x184D2204 | flags | block size | [u64 content size] | header checksum | { u32 size | block | [u32 checksum] }… | u32 0
//! ```
//! All numbers little-endian. Written with independent blocks of 64 KiB and no other checksums. Magic 0 computes the header
//! checksum over the frame's magic number too, which is wrong by the standard and what clients of that format expect
//! (KIP-57); there it is written so and not checked. Dependent blocks are refused: Kafka's own readers cannot read them.

use std::io;

use twox_hash::XxHash32;

use super::block::fill;
use super::decompressor::DecompressError;

const FRAME_MAGIC: [u8; 4] = 0x184D_2204u32.to_le_bytes();
/// Version 1, independent blocks.
const FLAGS: u8 = 0b0110_0000;
const BLOCK_64_KIB: u8 = 4 << 4;
const BLOCK: usize = 64 * 1024;
/// Set on the size of a block that is stored as it is.
const STORED: u32 = 1 << 31;
/// The most that one compressed byte can become.
const EXPANSION_MAX: usize = 255;

fn header_checksum(bytes: &[u8]) -> u8 {
    (XxHash32::oneshot(0, bytes) >> 8) as u8
}

pub(super) struct Writer {
    out: Vec<u8>,
    block: Vec<u8>,
    compressed: Vec<u8>,
}

impl Writer {
    pub fn new(mut out: Vec<u8>, _level: Option<i32>, magic: i8) -> Writer {
        let start = out.len();
        out.extend(FRAME_MAGIC);
        out.extend([FLAGS, BLOCK_64_KIB]);
        let hashed = if magic == 0 { start } else { start + FRAME_MAGIC.len() };
        out.push(header_checksum(&out[hashed..]));
        Writer { out, block: Vec::new(), compressed: Vec::new() }
    }

    pub fn write(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while fill(&mut self.block, BLOCK, &mut bytes) {
            self.end_block()?;
        }
        Ok(())
    }

    pub fn len(&self) -> usize {
        self.out.len()
    }

    pub fn finish(mut self) -> io::Result<Vec<u8>> {
        self.end_block()?;
        self.out.extend(0u32.to_le_bytes());
        Ok(self.out)
    }

    fn end_block(&mut self) -> io::Result<()> {
        if self.block.is_empty() {
            return Ok(());
        }
        self.compressed.resize(lz4_flex::block::get_maximum_output_size(self.block.len()), 0);
        let len = lz4_flex::block::compress_into(&self.block, &mut self.compressed).map_err(io::Error::other)?;
        if len < self.block.len() {
            self.out.extend((len as u32).to_le_bytes());
            self.out.extend(&self.compressed[..len]);
        } else {
            self.out.extend((self.block.len() as u32 | STORED).to_le_bytes());
            self.out.extend(&self.block);
        }
        self.block.clear();
        Ok(())
    }
}

pub(super) struct Reader<'a> {
    rest: &'a [u8],
    block_max: usize,
    block_checksums: bool,
    ended: bool,
}

impl<'a> Reader<'a> {
    pub fn new(bytes: &'a [u8], magic: i8) -> Result<Reader<'a>, DecompressError> {
        let [m0, m1, m2, m3, flags, descriptor, rest @ ..] = bytes else { return Err(DecompressError::Truncated) };
        let dependent = flags & 0b0010_0000 == 0;
        let size_code = descriptor >> 4;
        let known = flags & 0b1100_0011 == 0b0100_0000 && descriptor & 0b1000_1111 == 0 && size_code >= 4;
        if [*m0, *m1, *m2, *m3] != FRAME_MAGIC || !known || dependent {
            return Err(DecompressError::Corrupt("lz4"));
        }
        let size_len = if flags & 0b1000 != 0 { 8 } else { 0 };
        let (&checksum, rest) = rest.get(size_len..).and_then(<[u8]>::split_first).ok_or(DecompressError::Truncated)?;
        if magic != 0 && checksum != header_checksum(&bytes[4..6 + size_len]) {
            return Err(DecompressError::Corrupt("lz4"));
        }
        // 64 KiB, 256 KiB, 1 MiB, 4 MiB
        let block_max = 1usize << (8 + 2 * size_code);
        Ok(Reader { rest, block_max, block_checksums: flags & 0b1_0000 != 0, ended: false })
    }

    /// Decompresses the next block into `out`, which it clears; leaves it empty at the end.
    /// What follows the frame is not looked at. A block that makes more than `limit` bytes of the `produced` ones ends there.
    pub fn next_block(&mut self, out: &mut Vec<u8>, produced: usize, limit: usize) -> Result<(), DecompressError> {
        out.clear();
        // One more byte tells that there are more.
        let room = limit.saturating_sub(produced).saturating_add(1);
        while !self.ended && out.is_empty() {
            let word = self.take_u32()?;
            let size = (word & !STORED) as usize;
            if size == 0 {
                self.ended = true;
                break;
            }
            if size > self.block_max {
                return Err(DecompressError::Corrupt("lz4"));
            }
            let (block, rest) = self.rest.split_at_checked(size).ok_or(DecompressError::Truncated)?;
            self.rest = rest;
            if self.block_checksums && self.take_u32()? != XxHash32::oneshot(0, block) {
                return Err(DecompressError::Corrupt("lz4"));
            }
            if word & STORED != 0 {
                out.extend_from_slice(block);
                continue;
            }
            let most = self.block_max.min(size * EXPANSION_MAX);
            out.resize(most.min(room), 0);
            let len = lz4_flex::block::decompress_into(block, out).map_err(|_| match most > room {
                true => DecompressError::Limit(limit),
                false => DecompressError::Corrupt("lz4"),
            })?;
            out.truncate(len);
        }
        Ok(())
    }

    fn take_u32(&mut self) -> Result<u32, DecompressError> {
        let (word, rest) = self.rest.split_first_chunk().ok_or(DecompressError::Truncated)?;
        self.rest = rest;
        Ok(u32::from_le_bytes(*word))
    }
}
