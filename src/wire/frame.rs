//! Frames: a size (i32, big endian) and that many bytes.
//!
//! A size is believed for refusing, never for reserving: [`room`] says how much memory a frame in the making may have,
//! and that follows the bytes that arrived. This file knows no sockets; `net` reads with what it says.

use std::mem;
use std::ops::{Deref, DerefMut};

use bytes::{Buf, BytesMut};

use super::api_versions::ApiKey;

/// Bytes of the size in front of a frame.
pub const PREFIX: usize = 4;

/// Bytes of key and version, which decide the limit of the frame they open.
pub const KEY_AND_VERSION: usize = 4;

/// Most that a frame may have without having earned it: see [`room`].
const FIRST_ROOM: usize = 4 << 10;

/// Requests of every API but the few that carry records or group members' bytes: 16 MiB hold 100,000 partitions with
/// names of 100 characters.
const LIST_REQUEST_MAX: usize = 16 << 20;

/// Requests without lists.
const SMALL_REQUEST_MAX: usize = 128 << 10;

/// Frames up to this size are copied out of the buffer they were read into, so that one that is kept does not keep a large
/// buffer.
pub const SMALL: usize = 4 << 10;

/// A whole frame, without its size, where it was read. What is not taken is gone from there when this is dropped.
#[derive(Debug)]
pub struct Frame<'b> {
    held: &'b mut BytesMut,
    size: usize,
}

impl<'b> Frame<'b> {
    /// The first `size` bytes of `held`, or all of it when that is less.
    pub fn at_front(held: &'b mut BytesMut, size: usize) -> Frame<'b> {
        let size = size.min(held.len());
        Frame { held, size }
    }

    /// The frame as bytes of its own.
    pub fn take(mut self) -> BytesMut {
        if self.size > SMALL {
            return self.held.split_to(mem::take(&mut self.size));
        }
        BytesMut::from(&*self)
    }
}

impl Deref for Frame<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.held.get(..self.size).unwrap_or_default()
    }
}

impl Buf for Frame<'_> {
    fn remaining(&self) -> usize {
        self.len()
    }

    fn chunk(&self) -> &[u8] {
        self
    }

    fn advance(&mut self, count: usize) {
        let count = count.min(self.size);
        self.held.advance(count);
        self.size -= count;
    }
}

impl DerefMut for Frame<'_> {
    fn deref_mut(&mut self) -> &mut [u8] {
        self.held.get_mut(..self.size).unwrap_or_default()
    }
}

impl Drop for Frame<'_> {
    fn drop(&mut self) {
        self.held.advance(self.size);
    }
}

/// Why a peer's size is refused. The connection is closed, as Kafka does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    #[error("a frame of {0} bytes was announced")]
    NotPositive(i32),
    #[error("a frame of {announced} bytes was announced, the limit is {limit}")]
    TooLarge { announced: usize, limit: usize },
}

/// The size in `prefix`, checked against `limit` (`socket.request.max.bytes`).
pub fn length(prefix: [u8; PREFIX], limit: usize) -> Result<usize, FrameError> {
    let announced = i32::from_be_bytes(prefix);
    let size = match usize::try_from(announced) {
        Ok(0) | Err(_) => return Err(FrameError::NotPositive(announced)),
        Ok(size) => size,
    };
    if size > limit {
        return Err(FrameError::TooLarge { announced: size, limit });
    }
    Ok(size)
}

/// Checks a size again once key and version have arrived: where Kafka's messages are bounded the limit is smaller.
pub fn check_for_api(size: usize, key_and_version: [u8; KEY_AND_VERSION]) -> Result<(), FrameError> {
    let [k0, k1, ..] = key_and_version;
    match limit_of(i16::from_be_bytes([k0, k1])) {
        limit if size > limit => Err(FrameError::TooLarge { announced: size, limit }),
        _ => Ok(()),
    }
}

fn limit_of(key: i16) -> usize {
    use ApiKey::*;
    match ApiKey::from_code(key) {
        // Closed after its header anyway.
        None => SMALL_REQUEST_MAX,
        Some(ApiVersions | SaslHandshake | Heartbeat | InitProducerId | AddOffsetsToTxn | EndTxn) => SMALL_REQUEST_MAX,
        Some(DescribeCluster | AllocateProducerIds | ControlledShutdown) => SMALL_REQUEST_MAX,
        // Records, members' metadata and assignments, whole clusters, and whatever an envelope holds.
        Some(Produce | JoinGroup | SyncGroup | UpdateMetadata | LeaderAndIsr | StopReplica | Envelope) => usize::MAX,
        Some(_) => LIST_REQUEST_MAX,
    }
}

/// Bytes of memory a frame of `size` may have when `arrived` of them are there.
///
/// The first few KiB are free; then the room is twice what arrived, so a peer pays for memory with bytes. `proven` is
/// the largest frame this connection has sent whole: a peer that sends 1 MiB requests gets 1 MiB at once.
pub fn room(size: usize, arrived: usize, proven: usize) -> usize {
    size.min(FIRST_ROOM.max(arrived.saturating_mul(2)).max(proven))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_that_kafka_refuses() {
        let check = |size: i32| length(size.to_be_bytes(), 100);
        assert_eq!(check(0), Err(FrameError::NotPositive(0)));
        assert_eq!(check(-1), Err(FrameError::NotPositive(-1)));
        assert_eq!(check(i32::MIN), Err(FrameError::NotPositive(i32::MIN)));
        assert_eq!(check(101), Err(FrameError::TooLarge { announced: 101, limit: 100 }));
        assert_eq!(check(100), Ok(100));
    }

    #[test]
    fn http_is_a_frame_too_large() {
        let limit = 104_857_600;
        assert_eq!(length(*b"GET ", limit), Err(FrameError::TooLarge { announced: 1_195_725_856, limit }));
    }

    #[test]
    fn bounded_apis_have_smaller_limits() {
        let check = |key: i16, size| {
            let [a, b] = key.to_be_bytes();
            check_for_api(size, [a, b, 0, 0]).is_ok()
        };
        assert!(check(0, 100 << 20));
        assert!(check(3, 16 << 20) && !check(3, (16 << 20) + 1));
        assert!(check(18, 100_000) && !check(18, 1 << 20));
        assert!(!check(9_999, 1 << 20));
    }

    #[test]
    fn a_frame_is_gone_once_it_was_served_or_taken() {
        let bytes: Vec<u8> = (0..10_000u32).map(|n| n as u8).collect();
        for size in [1, SMALL, SMALL + 1, 9_000] {
            let mut held = BytesMut::from(&bytes[..]);
            let mut frame = Frame::at_front(&mut held, size);
            frame[0] = 7;
            frame.advance(1);
            assert_eq!(&*frame, &bytes[1..size]);
            drop(frame);
            assert_eq!(held, bytes[size..]);

            let mut held = BytesMut::from(&bytes[..]);
            let mut frame = Frame::at_front(&mut held, size);
            frame.advance(1);
            assert_eq!(frame.take(), bytes[1..size]);
            assert_eq!(held, bytes[size..]);
        }
        assert_eq!(Frame::at_front(&mut BytesMut::from(&bytes[..5]), 6).len(), 5);
    }

    #[test]
    fn room_follows_what_arrived() {
        assert_eq!(room(100 << 20, 4, 0), FIRST_ROOM);
        assert_eq!(room(100 << 20, 1 << 20, 0), 2 << 20);
        assert_eq!(room(100, 4, 0), 100);
        assert_eq!(room(1 << 20, 4, 1 << 20), 1 << 20);
        assert_eq!(room(2 << 20, 4, 1 << 20), 1 << 20);
    }
}
