//! Batches and legacy messages as they lie in a segment file, heads only.
//!
//! ```text
//! 0 i64 offset   8 i32 size of the rest   16 i8 magic
//!   magic 2: see wire::batch   magic 0: 12 u32 crc, 17 attributes   magic 1: also 18 i64 timestamp
//! ```
//! A head of fewer than 17 bytes, or a size past the end of the file, is where a log ends; a size no message can have is
//! damage (log-format §8). Never looks at records.

use std::io;

use super::disk::DiskFile;
use crate::types::{LeaderEpoch, Offset};
use crate::wire::batch::{BatchHeader, HEADER_LEN, LOG_OVERHEAD};

/// Enough bytes to know offset, size and magic.
const MAGIC_END: usize = 17;
/// Bytes in which every head fits.
pub const HEAD_MAX: usize = HEADER_LEN;
/// Smallest message of magic 0, after the size field.
const LEGACY_MIN: i32 = 14;
/// Magic 1 has a timestamp more.
const LEGACY_V1_MIN: i32 = 22;

/// Any last offset delta, and the log end after it, still fit.
const OFFSET_MAX: i64 = i64::MAX - (1 << 32);

/// One batch, or one message (maybe compressed, then the wrapper) of magic 0 or 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// For a compressed wrapper of magic 0 or 1 this is the last offset: the first is inside.
    pub base_offset: Offset,
    /// Inclusive.
    pub last_offset: Offset,
    /// Bytes, head included.
    pub size: u64,
    pub magic: i8,
    /// Epoch of the leader; [`LeaderEpoch::NONE`] before magic 2.
    pub leader_epoch: LeaderEpoch,
    /// Largest record timestamp, as the head says; -1 for none.
    pub max_timestamp: i64,
    pub crc: u32,
    pub attributes: i16,
    /// Only for magic 2.
    pub batch: Option<BatchHeader>,
}

/// What the front of some bytes is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Parsed {
    Entry(Entry),
    /// Too few bytes for a head.
    Short,
    /// No batch can look like this.
    Damaged(String),
}

impl From<BatchHeader> for Entry {
    fn from(header: BatchHeader) -> Entry {
        Entry {
            base_offset: header.base_offset,
            last_offset: header.last_offset(),
            size: header.size() as u64,
            magic: 2,
            leader_epoch: header.leader_epoch,
            max_timestamp: header.max_timestamp,
            crc: header.crc,
            attributes: header.attributes,
            batch: Some(header),
        }
    }
}

impl Entry {
    /// Parses the head at the front of `bytes`; the rest of the entry need not be there.
    pub fn parse(bytes: &[u8]) -> Parsed {
        if bytes.len() < MAGIC_END {
            return Parsed::Short;
        }
        let offset = i64_at(bytes, 0);
        let size = i32_at(bytes, 8);
        let magic = bytes[16] as i8;
        if size < LEGACY_MIN {
            return Parsed::Damaged(format!("size {size} at offset {offset} is smaller than any message"));
        }
        if offset < 0 {
            return Parsed::Damaged(format!("negative offset {offset}"));
        }
        if offset > OFFSET_MAX {
            return Parsed::Damaged(format!("offset {offset} leaves none to come after it"));
        }
        let total = LOG_OVERHEAD as u64 + size as u64;
        match magic {
            0 | 1 => {
                if magic == 1 && size < LEGACY_V1_MIN {
                    return Parsed::Damaged(format!("size {size} at offset {offset} is too small for magic 1"));
                }
                if bytes.len() < if magic == 1 { 26 } else { 18 } {
                    return Parsed::Short;
                }
                Parsed::Entry(Entry {
                    base_offset: Offset(offset),
                    last_offset: Offset(offset),
                    size: total,
                    magic,
                    leader_epoch: LeaderEpoch::NONE,
                    max_timestamp: if magic == 1 { i64_at(bytes, 18) } else { -1 },
                    crc: i32_at(bytes, 12) as u32,
                    attributes: i16::from(bytes[17]),
                    batch: None,
                })
            }
            2 => {
                if bytes.len() < HEADER_LEN {
                    return Parsed::Short;
                }
                match BatchHeader::parse(bytes) {
                    Ok(header) if header.last_offset_delta < 0 => {
                        Parsed::Damaged(format!("last offset delta {} at offset {offset}", header.last_offset_delta))
                    }
                    Ok(header) => Parsed::Entry(header.into()),
                    Err(e) => Parsed::Damaged(e.to_string()),
                }
            }
            _ => Parsed::Damaged(format!("magic {magic} at offset {offset}")),
        }
    }

    /// Largest timestamp of a record that is there: the header that cleaning leaves of a batch tells of one that is gone.
    pub fn largest_timestamp(&self) -> i64 {
        match self.batch {
            Some(batch) if batch.record_count == 0 => -1,
            _ => self.max_timestamp,
        }
    }

    /// Where the bytes begin that the CRC covers.
    pub fn crc_start(&self) -> u64 {
        if self.magic == 2 { 21 } else { 16 }
    }
}

/// Walks the entries in memory; ends at the first that is not whole.
pub fn entries(bytes: &[u8]) -> impl Iterator<Item = (usize, Entry)> + '_ {
    let mut at = 0;
    std::iter::from_fn(move || match Entry::parse(bytes.get(at..)?) {
        Parsed::Entry(entry) if entry.size <= (bytes.len() - at) as u64 => {
            let position = at;
            at += entry.size as usize;
            Some((position, entry))
        }
        _ => None,
    })
}

/// Walks the heads in a file between two positions, reading a little around each.
#[derive(Debug)]
pub struct HeadScanner<'a> {
    file: &'a dyn DiskFile,
    position: u64,
    end: u64,
    window: Vec<u8>,
    window_at: u64,
}

/// Bytes read at once when walking heads: small batches share a read, large ones waste little.
const WINDOW: usize = 4096;

impl<'a> HeadScanner<'a> {
    /// From `start`, which must be the beginning of an entry, to `end`, bytes.
    pub fn new(file: &'a dyn DiskFile, start: u64, end: u64) -> HeadScanner<'a> {
        HeadScanner { file, position: start, end, window: Vec::new(), window_at: start }
    }

    /// The next whole entry and its position. `None` at the end, or where bytes are no whole entry:
    /// [`HeadScanner::position`] then tells where, the end passed to `new` where it should have come.
    pub fn next_entry(&mut self) -> io::Result<Option<(u64, Entry)>> {
        let left = self.end.saturating_sub(self.position);
        if left < MAGIC_END as u64 {
            return Ok(None);
        }
        let want = left.min(HEADER_LEN as u64) as usize;
        let from = (self.position - self.window_at) as usize;
        if self.position < self.window_at || from + want > self.window.len() {
            self.window.resize(left.min(WINDOW as u64) as usize, 0);
            self.window_at = self.position;
            read_up_to(self.file, &mut self.window, self.position)?;
        }
        let from = (self.position - self.window_at) as usize;
        match Entry::parse(&self.window[from.min(self.window.len())..]) {
            Parsed::Entry(entry) if entry.size <= left => {
                let position = self.position;
                self.position += entry.size;
                Ok(Some((position, entry)))
            }
            _ => Ok(None),
        }
    }

    pub fn position(&self) -> u64 {
        self.position
    }
}

/// Fills `buf` as far as the file reaches and cuts it there.
pub fn read_up_to(file: &dyn DiskFile, buf: &mut Vec<u8>, position: u64) -> io::Result<()> {
    let mut done = 0;
    while done < buf.len() {
        match file.read_at(&mut buf[done..], position + done as u64)? {
            0 => break,
            n => done += n,
        }
    }
    buf.truncate(done);
    Ok(())
}

pub(super) fn i64_at(bytes: &[u8], at: usize) -> i64 {
    bytes.get(at..).and_then(|b| b.first_chunk()).map_or(0, |b| i64::from_be_bytes(*b))
}

pub(super) fn i32_at(bytes: &[u8], at: usize) -> i32 {
    bytes.get(at..).and_then(|b| b.first_chunk()).map_or(0, |b| i32::from_be_bytes(*b))
}

pub(super) fn i16_at(bytes: &[u8], at: usize) -> i16 {
    bytes.get(at..).and_then(|b| b.first_chunk()).map_or(0, |b| i16::from_be_bytes(*b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_offset_without_room_for_the_next_is_damage_in_every_format() {
        for magic in 0..=2 {
            let mut bytes = [0; HEADER_LEN];
            bytes[8..12].copy_from_slice(&(HEADER_LEN as i32).to_be_bytes());
            bytes[16] = magic;
            bytes[..8].copy_from_slice(&OFFSET_MAX.to_be_bytes());
            let Parsed::Entry(entry) = Entry::parse(&bytes) else { panic!("magic {magic}") };
            assert_eq!(entry.last_offset, Offset(OFFSET_MAX));
            bytes[..8].copy_from_slice(&i64::MAX.to_be_bytes());
            assert!(matches!(Entry::parse(&bytes), Parsed::Damaged(_)), "magic {magic}");
        }
    }
}
