//! Decoding what strangers sent with codecs that believe array counts.
//!
//! `kafka-protocol` reserves an array of the size the wire announces before it looks at the bytes. Two things make that
//! harmless: [`crate::alloc`] serves such reservations with address space that costs nothing until it is touched,
//! and the reader handed to the codec here ends early, as if the bytes had run out, once this thread has reserved more
//! than [`allowance`] since the decode began. A large body is decoded on a thread that others need not wait for, and gives way
//! now and then.

use std::ops::Range;

use bytes::{Buf, Bytes};
use kafka_protocol::protocol::Decodable;
use kafka_protocol::protocol::buf::ByteBuf;

use crate::alloc;
use crate::spawn::give_way;

/// Why a body cannot be read. Kafka closes the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    #[error("the body of {bytes} bytes is not a valid one of version {version}")]
    Body { bytes: usize, version: i16 },
    #[error("the body of {bytes} bytes claims more elements than its size allows")]
    Counts { bytes: usize },
}

/// Bytes of a body that are decoded while others wait: with tags of two bytes they are a millisecond.
const FIRST_TURN: usize = 16 << 10;
/// Of those behind them.
const TURN: usize = 2 << 10;

/// Bytes that decoding a body of `bytes` may reserve.
fn allowance(bytes: usize) -> u64 {
    (4 << 20) + 12 * bytes as u64
}

/// Decodes one message. Bytes after it are ignored, as Kafka ignores them. The strings of the result share `body`.
pub fn decode<T: Decodable>(body: Bytes, version: i16) -> Result<T, Malformed> {
    let bytes = body.len();
    let (start, allowance) = (alloc::reserved_by_thread(), allowance(bytes));
    let mut reader = Guarded { body, start, allowance, until_turn: FIRST_TURN };
    let decoded = T::decode(&mut reader, version);
    if reader.is_used_up() {
        return Err(Malformed::Counts { bytes });
    }
    decoded.map_err(|_| Malformed::Body { bytes, version })
}

/// A body that ends when too much memory was reserved while reading it.
struct Guarded {
    body: Bytes,
    start: u64,
    allowance: u64,
    /// Bytes after which others have the processor.
    until_turn: usize,
}

impl Guarded {
    fn is_used_up(&self) -> bool {
        alloc::reserved_by_thread().wrapping_sub(self.start) > self.allowance
    }

    fn walked(&mut self, bytes: usize) {
        match self.until_turn.checked_sub(bytes) {
            Some(left) => self.until_turn = left,
            None => {
                self.until_turn = TURN;
                give_way();
            }
        }
    }
}

impl Buf for Guarded {
    fn remaining(&self) -> usize {
        if self.is_used_up() { 0 } else { self.body.len() }
    }

    fn chunk(&self) -> &[u8] {
        if self.is_used_up() { &[] } else { &self.body }
    }

    fn advance(&mut self, bytes: usize) {
        self.walked(bytes);
        self.body.advance(bytes);
    }
}

impl ByteBuf for Guarded {
    fn peek_bytes(&mut self, range: Range<usize>) -> Bytes {
        self.body.slice(range)
    }

    fn get_bytes(&mut self, size: usize) -> Bytes {
        self.walked(size);
        self.body.split_to(size)
    }
}
