//! Bytes of a connection to frames.
//!
//! An idle connection holds no buffer: one is taken from the pool for the length of a read and goes back when nothing
//! came; none is taken for a socket that has nothing. A frame in the making may have the memory its bytes have earned
//! ([`frame::room`]). A whole one is handed out where it lies ([`Frame`]). Who waits for an answer keeps the buffer of the last
//! large one: fresh pages for each megabyte cost a follower that catches up more than the bytes themselves. The first small
//! answer gives it back.

use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{Buf, BufMut, BytesMut};
use tokio::io::AsyncReadExt;

use super::listener::Stream;
use super::pool::BufferPool;
use crate::wire::frame::{self, Frame, FrameError, KEY_AND_VERSION, PREFIX};

/// What may be held of a frame in the making without having been earned.
const FREE: usize = 4 << 10;

/// A pending large frame may hold this many bytes of buffer per byte that arrived.
const HELD_PER_BYTE: usize = 16;

/// A pending small frame: thousands of connections may each be inside one at a time.
const HELD_PER_SMALL_BYTE: usize = 4;

/// Bytes read at once where frames are smaller than [`LARGE_FRAME`]: many pipelined requests cost one system call, and
/// their answers leave together.
const GULP: usize = 256 << 10;

/// Frames from this size on are read to their end and no further: at most a quarter of a gulp is ever moved.
const LARGE_FRAME: usize = GULP / 4;

/// Bytes that say which request comes.
const HEAD: usize = PREFIX + KEY_AND_VERSION;

/// Takes frames from one connection.
#[derive(Debug)]
pub struct FrameReader {
    /// What was read and not yet handed out. Begins at a frame's size.
    held: BytesMut,
    /// Capacity of `held` when nothing was split off it yet.
    whole: usize,
    /// The stream had nothing when it was last asked: who asks again was woken, and something is there.
    was_empty: bool,
    /// Size of the last whole frame, expected of the next one.
    last_size: usize,
    /// `socket.request.max.bytes`, or what an answer may have.
    limit: usize,
    /// Of a peer who may be anybody, in frames that begin with an api key, which may lower the limit.
    requests: bool,
    pool: Arc<BufferPool>,
}

impl FrameReader {
    pub fn new(limit: usize, pool: Arc<BufferPool>) -> FrameReader {
        FrameReader { held: BytesMut::new(), whole: 0, was_empty: false, last_size: 0, limit, requests: true, pool }
    }

    /// Of a connection on which answers come.
    pub fn of_answers(limit: usize, pool: Arc<BufferPool>) -> FrameReader {
        FrameReader { requests: false, ..FrameReader::new(limit, pool) }
    }

    /// What was read and not handed out yet, for saying what a stranger sent.
    pub fn held(&self) -> &[u8] {
        &self.held
    }

    /// The api key of the next request, once it has arrived: as the peer sent it.
    pub fn api_key(&self) -> Option<i16> {
        let key = self.held.get(PREFIX..PREFIX + 2)?;
        key.try_into().ok().map(i16::from_be_bytes)
    }

    /// The checked size of the frame in the making, once it is known.
    pub fn announced(&self) -> Result<Option<usize>, FrameError> {
        let Some((prefix, rest)) = self.held.split_first_chunk::<PREFIX>() else { return Ok(None) };
        let size = frame::length(*prefix, self.limit)?;
        if self.requests
            && let Some(key_and_version) = rest.first_chunk::<KEY_AND_VERSION>()
        {
            frame::check_for_api(size, *key_and_version)?;
        }
        Ok(Some(size))
    }

    /// The size of the next frame, if all of it has been read.
    pub fn whole(&self) -> Result<Option<usize>, FrameError> {
        Ok(self.announced()?.filter(|size| self.holds(*size)))
    }

    /// Whether all of a frame of `size` bytes, as announced, has been read.
    pub fn holds(&self, size: usize) -> bool {
        self.held.len() >= PREFIX + size
    }

    /// The next frame, all of which is here, to be looked at where it is served.
    pub fn whole_frame(&self, size: usize) -> &[u8] {
        self.held.get(PREFIX..PREFIX + size).unwrap_or_default()
    }

    /// The next frame, of `size` bytes as [`FrameReader::whole`] says, without its size.
    pub fn frame(&mut self, size: usize) -> Frame<'_> {
        self.last_size = size;
        self.held.advance(PREFIX.min(self.held.len()));
        Frame::at_front(&mut self.held, size)
    }

    /// The next frame as bytes of its own, if all of it has been read. A large one lies in the buffer of the next, which is
    /// free once this is dropped; after a small one nothing is held.
    pub fn take_frame(&mut self) -> Result<Option<BytesMut>, FrameError> {
        let Some(size) = self.whole()? else { return Ok(None) };
        let frame = self.frame(size).take();
        if size <= frame::SMALL {
            self.release();
        }
        Ok(Some(frame))
    }

    /// Gives an empty buffer back to the pool; called when the last frame is no longer in use.
    pub fn release(&mut self) {
        if self.held.is_empty() && self.held.capacity() > 0 {
            self.replace(BytesMut::new());
        }
    }

    /// Reads once. 0 is the end of the stream. Safe to drop while waiting.
    pub async fn fill(&mut self, stream: &mut dyn Stream) -> io::Result<usize> {
        poll_fn(|cx| self.poll_fill(cx, stream)).await
    }

    /// As [`FrameReader::fill`], no further than to what says which request comes, and without a buffer of the pool: what
    /// is read is carried to another thread, and a crowd of connections may be on its way there.
    pub async fn fill_head(&mut self, stream: &mut dyn Stream) -> io::Result<usize> {
        let bytes = HEAD.saturating_sub(self.held.len()).max(1);
        poll_fn(|cx| {
            self.held.reserve(bytes);
            self.whole = self.held.capacity();
            self.poll_read(cx, stream, bytes)
        })
        .await
    }

    fn poll_fill(&mut self, cx: &mut Context<'_>, stream: &mut dyn Stream) -> Poll<io::Result<usize>> {
        if self.held.capacity() == 0 && !std::mem::take(&mut self.was_empty) && stream.poll_read_ready(cx).is_pending()
        {
            self.was_empty = true;
            return Poll::Pending;
        }
        let bytes = self.wanted();
        if self.held.capacity() - self.held.len() < bytes && !self.held.try_reclaim(bytes) {
            let mut larger = self.pool.take(self.held.len() + bytes);
            larger.extend_from_slice(&self.held);
            self.replace(larger);
        }
        self.poll_read(cx, stream, bytes)
    }

    /// Reads at most `bytes`, for which there is room.
    fn poll_read(&mut self, cx: &mut Context<'_>, stream: &mut dyn Stream, bytes: usize) -> Poll<io::Result<usize>> {
        let mut room = (&mut self.held).limit(bytes);
        let polled = pin!(stream.read_buf(&mut room)).poll(cx);
        if polled.is_pending() && self.requests {
            self.shrink();
        }
        polled
    }

    /// How many bytes to read at most. A large frame in the making: to its end, as far as its bytes have earned it. Not
    /// further, so that the next one begins in a buffer of its own and is not moved. Else what a gulp has room for: its
    /// buffer is only borrowed from the pool, see `shrink`.
    fn wanted(&self) -> usize {
        match self.announced() {
            Ok(Some(size)) if size >= LARGE_FRAME => {
                let arrived = self.held.len() - PREFIX;
                frame::room(size, arrived, self.last_size).saturating_sub(arrived).max(1)
            }
            Ok(None) if self.last_size >= LARGE_FRAME => self.last_size + PREFIX,
            _ => GULP.saturating_sub(self.held.len()).max(1),
        }
    }

    /// Nothing more has come: holds no more than was earned.
    fn shrink(&mut self) {
        if self.held.is_empty() {
            self.release();
            return;
        }
        let per_byte = match self.announced() {
            Ok(Some(size)) if size >= LARGE_FRAME => HELD_PER_BYTE,
            _ => HELD_PER_SMALL_BYTE,
        };
        if self.held.capacity() > FREE.max(self.held.len() * per_byte) {
            let smaller = BytesMut::from(&self.held[..]);
            self.replace(smaller);
        }
    }

    fn replace(&mut self, with: BytesMut) {
        let whole = std::mem::replace(&mut self.whole, with.capacity());
        self.pool.put(std::mem::replace(&mut self.held, with), whole);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;
    use tokio::io::{AsyncWriteExt, DuplexStream, duplex};

    fn reader() -> FrameReader {
        FrameReader::new(100 << 20, Arc::default())
    }

    fn frame(key: i16, size: usize) -> Vec<u8> {
        let mut bytes = u32::try_from(size).expect("small").to_be_bytes().to_vec();
        bytes.extend(key.to_be_bytes());
        bytes.extend((0..size - 2).map(|n| n as u8));
        bytes
    }

    /// Everything that can be read now.
    fn drain(reader: &mut FrameReader, stream: &mut DuplexStream) -> Vec<BytesMut> {
        let mut frames = Vec::new();
        loop {
            while let Some(size) = reader.whole().expect("valid frames") {
                frames.push(reader.frame(size).take());
            }
            match reader.fill(stream).now_or_never().transpose().expect("readable") {
                Some(1..) => {}
                _ => return frames,
            }
        }
    }

    #[tokio::test]
    async fn frames_come_out_however_their_bytes_are_cut() {
        let sizes = [8, 4096, 4097, 70_000, 9, 700_000, 700_000, 12];
        let bytes: Vec<u8> = sizes.iter().flat_map(|&size| frame(0, size)).collect();
        for cut in [1, 3, 4096, 65_537, 1 << 20] {
            let (mut client, mut server) = duplex(1 << 20);
            let (mut reader, mut frames) = (reader(), Vec::new());
            // Single bytes for a while, then larger cuts: the whole in single bytes would take long.
            let cuts = bytes.chunks(cut).take(6000);
            let sent: usize = cuts.clone().map(<[u8]>::len).sum();
            for chunk in cuts.chain(bytes[sent..].chunks(50_000)) {
                client.write_all(chunk).await.expect("room");
                frames.extend(drain(&mut reader, &mut server));
            }
            assert_eq!(frames.iter().map(BytesMut::len).collect::<Vec<_>>(), sizes);
            assert!(frames.iter().zip(sizes).all(|(got, size)| got[..] == frame(0, size)[4..]));
            assert_eq!(reader.held.capacity(), 0, "an idle connection holds nothing");
        }
    }

    #[tokio::test]
    async fn an_announcement_holds_no_memory() {
        let (mut client, mut server) = duplex(1 << 20);
        let mut reader = reader();
        client.write_all(&(50u32 << 20).to_be_bytes()).await.expect("room");
        client.write_all(&[0; 100]).await.expect("room");
        assert!(drain(&mut reader, &mut server).is_empty());
        assert!(reader.held.capacity() <= FREE, "{}", reader.held.capacity());
        client.write_all(&[0; 200_000]).await.expect("room");
        assert!(drain(&mut reader, &mut server).is_empty());
        assert!(reader.held.capacity() <= 200_100 * 4, "{}", reader.held.capacity());
    }

    #[tokio::test]
    async fn a_proven_size_is_read_in_one_gulp() {
        let (mut client, mut server) = duplex(4 << 20);
        let mut reader = reader();
        client.write_all(&frame(0, 1 << 20)).await.expect("room");
        assert_eq!(drain(&mut reader, &mut server).len(), 1);
        reader.release();
        client.write_all(&[frame(0, 1 << 20), frame(0, 1 << 20)].concat()).await.expect("room");
        assert_eq!(reader.fill(&mut server).await.expect("readable"), (1 << 20) + PREFIX);
        let size = reader.whole().expect("valid").expect("whole");
        drop(reader.frame(size));
        assert!(reader.held.is_empty());
    }

    /// A follower that catches up, and what it holds when it has.
    #[tokio::test]
    async fn large_answers_are_read_into_one_buffer_until_a_small_one_comes() {
        let (mut leader, mut follower) = duplex(4 << 20);
        let mut reader = FrameReader::of_answers(100 << 20, Arc::default());
        let mut places = Vec::new();
        for _ in 0..4 {
            assert!(reader.fill(&mut follower).now_or_never().is_none(), "nothing came yet");
            let answer = frame(0, 3 << 20);
            for part in answer.chunks(100_000) {
                leader.write_all(part).await.expect("room");
                while reader.fill(&mut follower).now_or_never().is_some() {}
                // tokio has a task that reads on and on wait, as if nothing were there.
                tokio::task::yield_now().await;
            }
            let got = reader.take_frame().expect("valid").expect("whole");
            assert_eq!(got[..], answer[PREFIX..]);
            places.push(got.as_ptr());
        }
        assert!(places[1..].iter().all(|place| *place == places[1]), "{places:?}");
        leader.write_all(&frame(0, 60)).await.expect("room");
        assert!(reader.fill(&mut follower).now_or_never().is_some());
        assert!(reader.take_frame().expect("valid").is_some());
        assert_eq!(reader.held.capacity(), 0);
    }

    #[tokio::test]
    async fn small_frames_come_many_at_once_and_their_buffer_goes_when_the_last_is_late() {
        let (mut client, mut server) = duplex(1 << 20);
        let mut reader = reader();
        let bytes = vec![frame(0, 30_000); 8].concat();
        let late = 20_000;
        client.write_all(&bytes[..bytes.len() - late]).await.expect("room");
        assert_eq!(reader.fill(&mut server).await.expect("readable"), bytes.len() - late);
        assert_eq!(drain(&mut reader, &mut server).len(), 7);
        let arrived = PREFIX + 30_000 - late;
        assert_eq!(reader.held.len(), arrived);
        assert!(reader.held.capacity() <= arrived * HELD_PER_SMALL_BYTE, "{}", reader.held.capacity());
        client.write_all(&bytes[bytes.len() - late..]).await.expect("room");
        assert_eq!(drain(&mut reader, &mut server), [&frame(0, 30_000)[PREFIX..]]);
        assert_eq!(reader.held.capacity(), 0, "an idle connection holds nothing");
    }

    #[tokio::test]
    async fn what_says_which_request_comes_is_read_alone_and_held_in_its_own_bytes() {
        let (mut client, mut server) = duplex(1 << 20);
        let mut reader = reader();
        let bytes = frame(0, 16_000);
        client.write_all(&bytes[..5]).await.expect("room");
        assert_eq!(reader.fill_head(&mut server).await.expect("readable"), 5);
        assert_eq!(reader.api_key(), None);
        assert!(reader.fill_head(&mut server).now_or_never().is_none(), "nothing more has come");
        client.write_all(&bytes[5..]).await.expect("room");
        assert_eq!(reader.fill_head(&mut server).await.expect("readable"), HEAD - 5);
        assert_eq!(reader.api_key(), Some(0));
        assert!(reader.held.capacity() <= 4 * HEAD, "{}", reader.held.capacity());
        assert_eq!(drain(&mut reader, &mut server), [&bytes[PREFIX..]]);
    }

    #[tokio::test]
    async fn a_limit_holds_as_soon_as_it_can_be_known() {
        let (mut client, mut server) = duplex(1 << 20);
        let mut reader = reader();
        client.write_all(&(20u32 << 20).to_be_bytes()).await.expect("room");
        reader.fill(&mut server).await.expect("readable");
        assert_eq!(reader.whole(), Ok(None));
        client.write_all(&[0, 3, 0, 0]).await.expect("room");
        reader.fill(&mut server).await.expect("readable");
        assert!(matches!(reader.whole(), Err(FrameError::TooLarge { .. })));
    }
}
