//! A stretch of a segment in memory, moved forward while recovery walks its batches.

use std::collections::VecDeque;
use std::io;

use super::append::crc_fits;
use super::disk::DiskFile;
use super::entry::{Entry, read_up_to};
use crate::wire::crc32c;

/// Bytes read at once when every batch is checked, and checked of what is trusted.
const CHECK_WINDOW: usize = 1 << 20;
/// Bytes read at once when heads lie far apart.
const HEAD_WINDOW: usize = 512;
/// Bytes between two heads from which on reading what lies between takes longer than asking again.
const FAR: u64 = 16 << 10;

/// Bytes of a file, as they are asked for.
pub struct Window<'a> {
    file: &'a dyn DiskFile,
    len: u64,
    start: u64,
    bytes: Vec<u8>,
    last_head: u64,
}

impl<'a> Window<'a> {
    pub fn new(file: &'a dyn DiskFile, len: u64) -> Window<'a> {
        Window { file, len, start: 0, bytes: Vec::new(), last_head: 0 }
    }

    /// `want` bytes (at most a window) from `position`, fewer at the end of the file.
    pub fn at(&mut self, position: u64, want: usize) -> io::Result<&[u8]> {
        if !self.holds(position, want) {
            self.read(position, CHECK_WINDOW)?;
        }
        Ok(self.held(position, want))
    }

    /// Like [`Window::at`], for one who wants nothing but heads: where they lie far apart what lies between is not read,
    /// unless the disk must be waited for, which gives much as fast as little.
    pub fn head_at(&mut self, position: u64, want: usize) -> io::Result<&[u8]> {
        let far = position.saturating_sub(self.last_head) >= FAR;
        self.last_head = position;
        if far && !self.holds(position, want) {
            self.bytes.resize(self.left(position, HEAD_WINDOW), 0);
            self.start = position;
            let read = self.file.read_at_nowait(&mut self.bytes, position)?.unwrap_or(0);
            self.bytes.truncate(read);
        }
        self.at(position, want)
    }

    /// `most` bytes, or those up to the end of the file.
    fn left(&self, position: u64, most: usize) -> usize {
        self.len.saturating_sub(position).min(most as u64) as usize
    }

    fn holds(&self, position: u64, want: usize) -> bool {
        let end = position + self.left(position, want) as u64;
        position >= self.start && end <= self.start + self.bytes.len() as u64
    }

    fn read(&mut self, position: u64, most: usize) -> io::Result<()> {
        self.bytes.resize(self.left(position, most), 0);
        self.start = position;
        read_up_to(self.file, &mut self.bytes, position)
    }

    fn held(&self, position: u64, want: usize) -> &[u8] {
        let from = ((position - self.start) as usize).min(self.bytes.len());
        &self.bytes[from..(from + self.left(position, want)).min(self.bytes.len())]
    }

    /// Whether a whole entry has the CRC it names; a large one is read in pieces.
    pub fn crc_fits(&mut self, position: u64, entry: &Entry) -> io::Result<bool> {
        if entry.size <= CHECK_WINDOW as u64 {
            let bytes = self.at(position, entry.size as usize)?;
            return Ok(bytes.len() as u64 == entry.size && crc_fits(bytes, entry));
        }
        let (mut at, end) = (position + entry.crc_start(), position + entry.size);
        let (mut castagnoli, mut ieee) = (0, crc32fast::Hasher::new());
        while at < end {
            let piece = self.at(at, (end - at).min(CHECK_WINDOW as u64) as usize)?;
            if piece.is_empty() {
                return Ok(false);
            }
            match entry.magic {
                2 => castagnoli = crc32c::append(castagnoli, piece),
                _ => ieee.update(piece),
            }
            at += piece.len() as u64;
        }
        Ok(entry.crc == if entry.magic == 2 { castagnoli } else { ieee.finalize() })
    }
}

/// The last batches that were walked over without a look at their bodies.
#[derive(Default)]
pub struct Unchecked(VecDeque<(u64, Entry)>);

impl Unchecked {
    /// Those that begin further back than the window is long are forgotten.
    pub fn push(&mut self, position: u64, entry: Entry) {
        self.0.push_back((position, entry));
        while self.0.front().is_some_and(|(first, _)| position - first > CHECK_WINDOW as u64) {
            self.0.pop_front();
        }
    }

    /// Whether each has the CRC it names; they count as checked then.
    pub fn fit(&mut self, window: &mut Window<'_>) -> io::Result<bool> {
        while let Some((position, entry)) = self.0.pop_front() {
            if !window.crc_fits(position, &entry)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
