//! Snappy as snappy-java frames it ("xerial"), and the bare form that some clients send.
//!
//! ```text
//! 82 'S' 'N' 'A' 'P' 'P' 'Y' 00 | i32 version 1 | i32 oldest compatible version 1 | { i32 length | snappy block }…
//! ```
//! All numbers big-endian. Written in blocks of 32 KiB, as snappy-java does.

use std::io;

use super::block::fill;
use super::decompressor::DecompressError;
use super::held_bytes_max;

const MAGIC: [u8; 8] = *b"\x82SNAPPY\0";
const HEADER_LEN: usize = 16;
const VERSION: i32 = 1;
const BLOCK: usize = 32 * 1024;
/// The most that one compressed byte can become: a copy of 64 bytes takes 3. A block that claims more is lying.
const EXPANSION_MAX: usize = 22;

pub(super) struct Writer {
    out: Vec<u8>,
    block: Vec<u8>,
    compressed: Vec<u8>,
    encoder: Box<snap::raw::Encoder>,
}

impl Writer {
    pub fn new(mut out: Vec<u8>) -> Writer {
        out.extend(MAGIC);
        out.extend(VERSION.to_be_bytes());
        out.extend(VERSION.to_be_bytes());
        Writer { out, block: Vec::new(), compressed: Vec::new(), encoder: Box::new(snap::raw::Encoder::new()) }
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
        Ok(self.out)
    }

    fn end_block(&mut self) -> io::Result<()> {
        if self.block.is_empty() {
            return Ok(());
        }
        self.compressed.resize(snap::raw::max_compress_len(self.block.len()), 0);
        let len = self.encoder.compress(&self.block, &mut self.compressed)?;
        self.out.extend((len as i32).to_be_bytes());
        self.out.extend(&self.compressed[..len]);
        self.block.clear();
        Ok(())
    }
}

pub(super) struct Reader<'a> {
    rest: &'a [u8],
    framed: bool,
}

impl<'a> Reader<'a> {
    pub fn new(bytes: &'a [u8]) -> Result<Reader<'a>, DecompressError> {
        if bytes.is_empty() {
            return Err(DecompressError::Truncated);
        }
        let framed = bytes.len() >= HEADER_LEN && bytes.starts_with(&MAGIC);
        Ok(Reader { rest: if framed { &bytes[HEADER_LEN..] } else { bytes }, framed })
    }

    /// Decompresses the next block into `out`, which it clears; leaves it empty at the end. A block that makes more than
    /// `limit` bytes of the `produced` ones is not begun.
    pub fn next_block(&mut self, out: &mut Vec<u8>, produced: usize, limit: usize) -> Result<(), DecompressError> {
        out.clear();
        if !self.framed {
            let block = std::mem::take(&mut self.rest);
            return if block.is_empty() { Ok(()) } else { inflate(block, out, produced, limit) };
        }
        while out.is_empty() {
            // Streams may be joined: the next header stands where a length would.
            while self.rest.len() >= HEADER_LEN && self.rest.starts_with(&MAGIC) {
                self.rest = &self.rest[HEADER_LEN..];
            }
            let Some((length, rest)) = self.rest.split_first_chunk() else {
                self.rest = &[];
                return Ok(());
            };
            let length =
                usize::try_from(i32::from_be_bytes(*length)).map_err(|_| DecompressError::Corrupt("snappy"))?;
            let (block, rest) = rest.split_at_checked(length).ok_or(DecompressError::Truncated)?;
            self.rest = rest;
            inflate(block, out, produced, limit)?;
        }
        Ok(())
    }
}

fn inflate(block: &[u8], out: &mut Vec<u8>, produced: usize, limit: usize) -> Result<(), DecompressError> {
    let claimed = snap::raw::decompress_len(block).map_err(|_| DecompressError::Corrupt("snappy"))?;
    if claimed > block.len().saturating_mul(EXPANSION_MAX) {
        return Err(DecompressError::Corrupt("snappy"));
    }
    if produced.saturating_add(claimed) > limit {
        return Err(DecompressError::Limit(limit));
    }
    // The format has no smaller unit than the block, so all of it is held at once.
    let bound = held_bytes_max(block.len());
    if claimed > bound {
        return Err(DecompressError::Limit(bound));
    }
    out.resize(claimed, 0);
    let len = snap::raw::Decoder::new().decompress(block, out).map_err(|_| DecompressError::Corrupt("snappy"))?;
    out.truncate(len);
    Ok(())
}
