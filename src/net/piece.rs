//! A piece of what a connection is about to write: at hand, or to be read from a file again.

use std::ops::Range;

use crate::storage::log::FileSlice;

/// What the next write begins with, in order.
#[derive(Debug)]
pub enum Piece<'a> {
    Prefix([u8; 4]),
    Bytes(&'a [u8]),
    /// Of the file buffer, with where it was read from.
    Buffer(Range<usize>, FileSlice),
    /// Was in the file buffer, and is read again before it is written.
    Unread(FileSlice),
}

impl Piece<'_> {
    pub fn len(&self) -> usize {
        match self {
            Piece::Prefix(bytes) => bytes.len(),
            Piece::Bytes(bytes) => bytes.len(),
            Piece::Buffer(_, from) | Piece::Unread(from) => from.len,
        }
    }

    pub fn bytes<'s>(&'s self, buffer: &'s [u8]) -> &'s [u8] {
        match self {
            Piece::Prefix(bytes) => bytes,
            Piece::Bytes(bytes) => bytes,
            Piece::Buffer(range, _) => buffer.get(range.clone()).unwrap_or_default(),
            Piece::Unread(_) => &[],
        }
    }
}
