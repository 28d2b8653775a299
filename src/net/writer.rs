//! Responses to bytes of a connection: size prefix and parts in as few writes as possible.
//!
//! Encoded parts are written from where they lie. Large parts of files go by `sendfile` while they are in the page cache,
//! except for what lies before their first page border; that and small parts are read into a pooled buffer and leave with
//! what is around them in one write. What is not in the page cache is read on the blocking pool, so that a slow disk holds
//! up this connection and not its neighbours. A peer that does not read holds no buffer: what it was to get is read again
//! once it takes something. Answers that are small and at hand are written as they are queued, by one system call; what
//! that does not do, and what it leaves, is [`Gather`]'s.
//!
//! Measured on two EPYC cores, kernel 6.18, loopback, 1 MiB answers, bare loops: `sendfile` 0.11 CPU-s/GB, `pread` and
//! `write` through 1 MiB 0.27 (an older Xeon had it the other way round: 0.56 and 0.38). Through a nonblocking socket
//! smaller buffers cost more: 512 KiB as much as 1 MiB, 128 KiB half as much again.

use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::task::Poll;

use smallvec::SmallVec;

use super::line;
use super::listener::Stream;
use super::piece::Piece;
use super::pool::FileBuffers;
use crate::api::{Part, Response};
use crate::clock::Clock;
use crate::spawn::{Spawner, for_request};
use crate::storage::disk::DiskFile;
use crate::storage::log::FileSlice;

/// Most pieces handed to the kernel at once.
const MAX_SLICES: usize = 64;

/// Pieces kept by a connection between its answers.
const KEPT_PIECES: usize = 4;

/// Bytes read again at once for a peer that had stopped reading.
const READ_AGAIN: usize = 64 << 10;

/// Queued answers are written when there are this many bytes of them.
pub const ENOUGH: usize = 256 << 10;

/// Bytes of a large answer that are written before others of the thread have their turn: a peer that takes all it is sent as
/// fast as it comes would keep them waiting for the whole of it.
const TURN: usize = 1 << 20;

/// From this many bytes on a part of a file is worth system calls of its own.
const SEND_FILE: usize = 32 << 10;

/// `sendfile` takes pages, and a packet holds 17 pieces. What stands before the records of an answer is one: 64 KiB that
/// begin inside a page would be two packets, and where congestion control paces (bbr) the second waits for a timer.
const PAGE: u64 = 4096;

/// Most bytes sent between two looks at the page cache.
const SEND_FILE_STEP: usize = 1 << 20;

/// Queues and writes the responses of one connection, in order.
pub struct ResponseWriter {
    queue: Vec<Part>,
    /// Where in `queue` each response ends, with its size as it is sent.
    responses: Vec<(usize, [u8; 4])>,
    queued: usize,
    /// Since the connection last moved a byte.
    time_passed: bool,
    buffers: Arc<FileBuffers>,
    spawner: Arc<dyn Spawner>,
}

/// More than 2 GiB cannot be framed.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("a response of {0} bytes cannot be framed")]
pub struct TooLong(usize);

impl ResponseWriter {
    /// `spawner` has the pool for reads that wait for a device.
    pub fn new(buffers: Arc<FileBuffers>, spawner: Arc<dyn Spawner>) -> ResponseWriter {
        ResponseWriter { queue: Vec::new(), responses: Vec::new(), queued: 0, time_passed: false, buffers, spawner }
    }

    /// A request was waited for: until then, answers are written in the moment in which their requests were read, and that
    /// moment is known.
    pub fn time_passes(&mut self) {
        self.time_passed = true;
    }

    /// Bytes waiting to be written.
    pub fn queued(&self) -> usize {
        self.queued
    }

    pub fn queue(&mut self, response: Response) -> Result<(), TooLong> {
        let size: usize = response.parts.iter().map(Part::len).sum();
        let prefix = i32::try_from(size).map_err(|_| TooLong(size))?;
        self.queue.extend(response.parts);
        self.responses.push((self.queue.len(), prefix.to_be_bytes()));
        self.queued += 4 + size;
        Ok(())
    }

    /// Writes what is queued. `progress` is set to the time of every write that moved something after a wait.
    pub async fn flush(&mut self, stream: &mut dyn Stream, clock: &dyn Clock, progress: &AtomicI64) -> io::Result<()> {
        if self.responses.is_empty() {
            return Ok(());
        }
        let mut buffer = None;
        let written = self.write_at_once(stream, &mut buffer);
        if let Some(buffer) = buffer {
            self.buffers.put(buffer);
        }
        let written = written?;
        if written > 0 && mem::take(&mut self.time_passed) {
            progress.store(clock.monotonic_ms(), Ordering::Relaxed);
        }
        if written < self.queued {
            // Apart: an idle connection has no room for it.
            Box::pin(self.write_rest(written, stream, clock, progress)).await?;
        }
        self.queue.clear();
        self.responses.clear();
        self.queued = 0;
        // An idle connection holds nothing of a large answer.
        if self.queue.capacity() > KEPT_PIECES {
            self.queue = Vec::new();
        }
        if self.responses.capacity() > KEPT_PIECES {
            self.responses = Vec::new();
        }
        Ok(())
    }

    /// Writes what is queued by one system call if all of it is small and need not be waited for. Bytes the peer took.
    fn write_at_once(&self, stream: &mut dyn Stream, buffer: &mut Option<Box<[u8]>>) -> io::Result<usize> {
        let mut filled = 0;
        for part in &self.queue {
            let Part::File(slice) = part else { continue };
            let into = match slice.len < SEND_FILE {
                true => buffer.get_or_insert_with(|| self.buffers.take()).get_mut(filled..filled + slice.len),
                false => None,
            };
            let Some(into) = into else { return Ok(0) };
            if slice.file.read_at_nowait(into, slice.position).map_err(unreadable)? != Some(slice.len) {
                return Ok(0);
            }
            filled += slice.len;
        }
        if self.queue.len() + self.responses.len() > MAX_SLICES {
            return Ok(0);
        }
        let mut slices: SmallVec<[IoSlice<'_>; 8]> = SmallVec::new();
        let (mut begin, mut read) = (0, buffer.as_deref().unwrap_or_default());
        for (end, prefix) in &self.responses {
            slices.push(IoSlice::new(prefix));
            for part in self.queue.get(begin..*end).unwrap_or_default() {
                slices.push(IoSlice::new(match part {
                    Part::Bytes(bytes) => bytes,
                    Part::File(slice) => {
                        let (bytes, rest) = read.split_at_checked(slice.len).unwrap_or_default();
                        read = rest;
                        bytes
                    }
                }));
            }
            begin = *end;
        }
        match stream.try_write(&slices) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(0),
            written => written,
        }
    }

    /// Writes what is queued, of which the peer has `written` bytes.
    async fn write_rest(
        &self,
        written: usize,
        stream: &mut dyn Stream,
        clock: &dyn Clock,
        progress: &AtomicI64,
    ) -> io::Result<()> {
        let (buffers, spawner) = (&self.buffers, &*self.spawner);
        let pieces = Vec::with_capacity(KEPT_PIECES);
        let mut out = Gather { buffers, spawner, pieces, buffer: None, filled: 0, written, in_turn: 0 };
        let mut begin = 0;
        for &(end, prefix) in &self.responses {
            out.pieces.push(Piece::Prefix(prefix));
            for part in self.queue.get(begin..end).unwrap_or_default() {
                match part {
                    Part::Bytes(bytes) if bytes.is_empty() => {}
                    Part::Bytes(bytes) => out.pieces.push(Piece::Bytes(bytes)),
                    Part::File(slice) => {
                        let mut done = 0;
                        let mut copied = copied_first(slice);
                        while done < slice.len {
                            let rest = FileSlice {
                                file: Arc::clone(&slice.file),
                                position: slice.position + done as u64,
                                len: slice.len - done,
                            };
                            if copied == 0
                                && let Some(sent) = out.send_file(&rest, done == 0, stream, clock, progress).await?
                            {
                                done += sent;
                                out.give_way(sent).await;
                                continue;
                            }
                            let buffer = out.buffer.get_or_insert_with(|| buffers.take());
                            let free = buffer.get_mut(out.filled..).unwrap_or_default();
                            let most = if copied > 0 { copied } else { rest.len };
                            let wanted = free.len().min(most);
                            copied -= copied.min(wanted);
                            let into = free.get_mut(..wanted).unwrap_or_default();
                            let position = rest.position;
                            let read = match slice.file.read_at_nowait(into, position).map_err(unreadable)? {
                                Some(read @ 1..) => read,
                                _ => {
                                    out.read_cold(&slice.file, wanted, position).await?;
                                    wanted
                                }
                            };
                            let from = FileSlice { file: Arc::clone(&slice.file), position, len: read };
                            out.pieces.push(Piece::Buffer(out.filled..out.filled + read, from));
                            out.filled += read;
                            done += read;
                            if out.buffer.as_ref().is_some_and(|buffer| out.filled == buffer.len()) {
                                let bytes = out.filled;
                                out.write(stream, clock, progress).await?;
                                out.give_way(bytes).await;
                            }
                        }
                    }
                }
                if out.pieces.len() >= MAX_SLICES {
                    out.write(stream, clock, progress).await?;
                }
            }
            begin = end;
        }
        out.write(stream, clock, progress).await?;
        out.give_back();
        Ok(())
    }
}

/// Pieces on their way.
struct Gather<'a> {
    buffers: &'a Arc<FileBuffers>,
    spawner: &'a dyn Spawner,
    pieces: Vec<Piece<'a>>,
    buffer: Option<Box<[u8]>>,
    filled: usize,
    /// Bytes of the first pieces that the peer has already.
    written: usize,
    /// Bytes written since others had their turn.
    in_turn: usize,
}

impl Gather<'_> {
    /// After `bytes` more were written, and nothing is held of what is still to be: lets others have their turn when theirs
    /// has come. Who waits for it holds no buffer.
    async fn give_way(&mut self, bytes: usize) {
        self.in_turn += bytes;
        if self.in_turn > TURN {
            self.in_turn = 0;
            self.give_back();
            line::stand().await;
        }
    }

    /// Sends the beginning of a large slice that is in the page cache, after the pieces before it. `None`: it has to be
    /// read. `begins` when nothing of what lies before it has been read or sent just now.
    async fn send_file(
        &mut self,
        slice: &FileSlice,
        begins: bool,
        stream: &mut dyn Stream,
        clock: &dyn Clock,
        progress: &AtomicI64,
    ) -> io::Result<Option<usize>> {
        let Some(fd) = slice.file.fd().filter(|_| slice.len >= SEND_FILE) else { return Ok(None) };
        let len = slice.len.min(SEND_FILE_STEP);
        // Both ends are there: then the middle is as well, as good as always.
        let begin = begins.then_some(slice.position);
        for position in begin.into_iter().chain([slice.position + len as u64 - 1]) {
            if slice.file.read_at_nowait(&mut [0], position).map_err(unreadable)?.is_none() {
                return Ok(None);
            }
        }
        self.write_out(stream, clock, progress, true).await?;
        let sent = poll_fn(|cx| match stream.poll_send_file(cx, fd, slice.position, len) {
            None => Poll::Ready(Ok(None)),
            Some(sent) => sent.map_ok(Some),
        })
        .await?;
        if sent == Some(0) {
            return Err(unreadable(io::ErrorKind::UnexpectedEof.into()));
        }
        progress.store(clock.monotonic_ms(), Ordering::Relaxed);
        Ok(sent)
    }

    /// Fills the next `wanted` bytes of the buffer on the blocking pool.
    async fn read_cold(&mut self, file: &Arc<dyn DiskFile>, wanted: usize, position: u64) -> io::Result<()> {
        // A job that waits for its turn holds no empty buffer.
        if self.filled == 0 {
            self.give_back();
        }
        let (held, buffers) = (self.buffer.take(), Arc::clone(self.buffers));
        let (file, into) = (file.clone(), self.filled..self.filled + wanted);
        let read = for_request(self.spawner, move || {
            let mut buffer = held.unwrap_or_else(|| buffers.take());
            let read = file.read_exact_at(buffer.get_mut(into).unwrap_or_default(), position);
            (buffer, read)
        });
        let (buffer, read) = read.await.ok_or(io::ErrorKind::Interrupted)?;
        self.buffer = Some(buffer);
        read.map_err(unreadable)
    }

    /// Writes every piece; the buffer may be filled anew afterwards.
    async fn write(&mut self, stream: &mut dyn Stream, clock: &dyn Clock, progress: &AtomicI64) -> io::Result<()> {
        self.write_out(stream, clock, progress, false).await
    }

    /// As [`Gather::write`]; when `more` follows at once, it may leave together with that.
    async fn write_out(
        &mut self,
        stream: &mut dyn Stream,
        clock: &dyn Clock,
        progress: &AtomicI64,
        more: bool,
    ) -> io::Result<()> {
        let (mut at, mut skip) = (0, mem::take(&mut self.written));
        self.pass(&mut at, &mut skip);
        while at < self.pieces.len() {
            let buffer = self.buffer.as_deref().unwrap_or_default();
            let written = poll_fn(|cx| {
                let rest = self.pieces.get(at..).unwrap_or_default();
                let read = rest.iter().take_while(|piece| !matches!(piece, Piece::Unread(_)));
                let slices: SmallVec<[IoSlice<'_>; 8]> = read
                    .take(MAX_SLICES)
                    .enumerate()
                    .map(|(n, piece)| {
                        let bytes = piece.bytes(buffer);
                        IoSlice::new(bytes.get(if n == 0 { skip } else { 0 }..).unwrap_or_default())
                    })
                    .collect();
                let written = match more {
                    true => stream.poll_write_more(cx, &slices),
                    false => Pin::new(&mut *stream).poll_write_vectored(cx, &slices),
                };
                match written {
                    Poll::Pending if !buffer.is_empty() => Poll::Ready(None),
                    other => other.map(Some),
                }
            })
            .await
            .transpose()?;
            let Some(written) = written else {
                self.let_go(at, &mut skip);
                at = 0;
                woken().await;
                self.read_again().await?;
                continue;
            };
            if written == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            progress.store(clock.monotonic_ms(), Ordering::Relaxed);
            skip += written;
            self.pass(&mut at, &mut skip);
            if matches!(self.pieces.get(at), Some(Piece::Unread(_))) {
                self.pieces.drain(..at);
                at = 0;
                self.read_again().await?;
            }
        }
        self.pieces.clear();
        self.filled = 0;
        Ok(())
    }

    /// Moves `at` past the pieces that `skip` bytes from there on complete.
    fn pass(&self, at: &mut usize, skip: &mut usize) {
        while let Some(length) = self.pieces.get(*at).map(Piece::len).filter(|length| length <= skip) {
            *skip -= length;
            *at += 1;
        }
    }

    /// Gives the buffer to others. What of it is not written yet, from `skip` bytes into the piece at `at` on, is
    /// remembered by where it was read from.
    fn let_go(&mut self, at: usize, skip: &mut usize) {
        self.pieces.drain(..at);
        for (n, piece) in self.pieces.iter_mut().enumerate() {
            if let Piece::Buffer(_, from) = piece {
                // Only of the first piece a part may be written.
                let written = if n == 0 { mem::take(skip) } else { 0 };
                let (file, position) = (Arc::clone(&from.file), from.position + written as u64);
                *piece = Piece::Unread(FileSlice { file, position, len: from.len - written });
            }
        }
        self.filled = 0;
        self.give_back();
    }

    fn give_back(&mut self) {
        if let Some(buffer) = self.buffer.take() {
            self.buffers.put(buffer);
        }
    }

    /// Reads the first [`READ_AGAIN`] bytes of what was let go.
    async fn read_again(&mut self) -> io::Result<()> {
        self.filled = 0;
        let mut n = 0;
        while self.filled < READ_AGAIN {
            let from = match self.pieces.get(n) {
                Some(Piece::Unread(from)) => from.clone(),
                Some(_) => {
                    n += 1;
                    continue;
                }
                None => break,
            };
            let (whole, len) = (from.len, from.len.min(READ_AGAIN - self.filled));
            let from = FileSlice { len, ..from };
            let buffer = self.buffer.get_or_insert_with(|| self.buffers.take());
            let into = buffer.get_mut(self.filled..self.filled + len).unwrap_or_default();
            let read = from.file.read_at_nowait(into, from.position).map_err(unreadable)?;
            if read.unwrap_or(0) < len {
                self.read_cold(&from.file, len, from.position).await?;
            }
            let rest = FileSlice { position: from.position + len as u64, len: whole - len, ..from.clone() };
            let read = Piece::Buffer(self.filled..self.filled + len, from);
            self.pieces.splice(n..=n, [read].into_iter().chain((rest.len > 0).then_some(Piece::Unread(rest))));
            self.filled += len;
        }
        Ok(())
    }
}

/// Bytes at the beginning of a slice that is worth `sendfile` which are read instead, to its first page border.
fn copied_first(slice: &FileSlice) -> usize {
    let copied = (PAGE - slice.position % PAGE) as usize % PAGE as usize;
    if slice.file.fd().is_some() && slice.len >= SEND_FILE + copied { copied } else { 0 }
}

/// Until this task is woken, as it is by a stream that takes bytes again after it took none. To be woken for another
/// reason costs a look.
async fn woken() {
    let mut asked = false;
    poll_fn(|_| if mem::replace(&mut asked, true) { Poll::Ready(()) } else { Poll::Pending }).await;
}

/// A response whose length was announced cannot be completed: the connection ends.
fn unreadable(error: io::Error) -> io::Error {
    tracing::error!(%error, "a file of the log cannot be read, the connection that asked for it is closed");
    error
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::ManualClock;
    use crate::sim::brokers::Inline;
    use crate::storage::disk::{Disk, Open};
    use crate::storage::disk_real::RealDisk;
    use bytes::BytesMut;
    use tokio::io::{AsyncRead, AsyncReadExt, duplex};

    /// Has every second page in the cache and tells how often it was waited for.
    #[derive(Debug, Default)]
    struct Counting(AtomicI64);

    impl DiskFile for Counting {
        fn read_at_nowait(&self, buf: &mut [u8], position: u64) -> io::Result<Option<usize>> {
            let (page, within) = (position / 4096, (position % 4096) as usize);
            if page % 2 == 1 {
                self.0.fetch_add(1, Ordering::Relaxed);
                return Ok(None);
            }
            let most = buf.len().min(4096 - within);
            self.read_at(&mut buf[..most], position).map(Some)
        }
        fn read_at(&self, buf: &mut [u8], position: u64) -> io::Result<usize> {
            (0..).zip(&mut *buf).for_each(|(n, byte)| *byte = ((position + n) % 251) as u8);
            Ok(buf.len())
        }
        fn write_all_at(&self, _: &[u8], _: u64) -> io::Result<()> {
            Err(io::ErrorKind::Unsupported.into())
        }
        fn len(&self) -> io::Result<u64> {
            Ok(u64::MAX)
        }
        fn set_len(&self, _: u64) -> io::Result<()> {
            Err(io::ErrorKind::Unsupported.into())
        }
        fn sync(&self) -> io::Result<()> {
            Ok(())
        }
    }

    fn file(position: u64, len: usize) -> Part {
        Part::File(FileSlice { file: Arc::new(Counting::default()), position, len })
    }

    fn bytes(length: usize) -> Part {
        Part::Bytes(BytesMut::from(&vec![9; length][..]))
    }

    /// What the clock says while [`assert_peer_reads`] writes.
    const NOW_MS: i64 = 5;

    /// Flushes and closes the connection, while the peer reads to the end.
    async fn assert_peer_reads(
        expected: &[u8],
        writer: &mut ResponseWriter,
        mut server: impl Stream,
        mut client: impl AsyncRead + Unpin,
        progress: &AtomicI64,
    ) {
        let write = async {
            writer.flush(&mut server, &ManualClock::at(NOW_MS), progress).await.expect("written");
            drop(server);
        };
        let mut got = Vec::new();
        let (_, read) = tokio::join!(write, client.read_to_end(&mut got));
        read.expect("read");
        assert!(got == expected, "{} bytes of {}", got.len(), expected.len());
    }

    #[tokio::test]
    async fn writes_every_response_framed_and_in_order() {
        let responses = [
            vec![bytes(5)],
            vec![],
            vec![bytes(20), file(1000, 3), bytes(1), bytes(0), file(7, (2 << 20) + 17), bytes(300_000)],
            (0..200).map(|n| if n % 2 == 0 { bytes(n) } else { file(n as u64, n) }).collect(),
        ];
        let mut expected = Vec::new();
        for parts in &responses {
            let size: usize = parts.iter().map(Part::len).sum();
            expected.extend((size as u32).to_be_bytes());
            for part in parts {
                match part {
                    Part::Bytes(bytes) => expected.extend_from_slice(bytes),
                    Part::File(slice) => {
                        expected.extend((0..slice.len as u64).map(|n| ((slice.position + n) % 251) as u8))
                    }
                }
            }
        }
        let (client, server) = duplex(10_000);
        let mut writer = ResponseWriter::new(Arc::default(), Arc::new(Inline));
        for parts in responses {
            writer.queue(Response { parts, throttle_ms: 0 }).expect("framed");
        }
        assert_eq!(writer.queued(), expected.len());
        let progress = AtomicI64::new(0);
        assert_peer_reads(&expected, &mut writer, server, client, &progress).await;
        assert_eq!((writer.queued(), progress.into_inner()), (0, NOW_MS));
    }

    #[tokio::test]
    async fn small_answers_of_which_a_peer_takes_a_part_are_completed() {
        for room in [1, 3, 4, 5, 9, 1_000, 3_020, 4_000] {
            let (client, server) = duplex(room);
            let mut writer = ResponseWriter::new(Arc::default(), Arc::new(Inline));
            let mut expected = Vec::new();
            for n in [5, 0, 7] {
                // Within one page that is there.
                let parts = vec![bytes(n), file(8192 + 1000, 3_000), bytes(20), file(8192 + n as u64, 11)];
                let size = n + 3_000 + 20 + 11;
                writer.queue(Response { parts, throttle_ms: 0 }).expect("framed");
                let at = |from: usize, len: usize| (from..from + len).map(|n| (n % 251) as u8);
                expected.extend((size as u32).to_be_bytes());
                expected.extend(vec![9; n]);
                expected.extend(at(8192 + 1000, 3_000));
                expected.extend([9; 20]);
                expected.extend(at(8192 + n, 11));
            }
            assert_peer_reads(&expected, &mut writer, server, client, &AtomicI64::new(0)).await;
        }
    }

    #[tokio::test]
    async fn peers_that_do_not_read_hold_no_buffers() {
        let buffers = Arc::<FileBuffers>::default();
        let len = 300_000;
        let mut slow: Vec<_> = (0..10)
            .map(|n| {
                let mut writer = ResponseWriter::new(buffers.clone(), Arc::new(Inline));
                let parts = vec![bytes(n), file(n as u64, len), bytes(3), file(5_000, len)];
                writer.queue(Response { parts, throttle_ms: 0 }).expect("framed");
                (n, writer, duplex(50_000))
            })
            .collect();
        let (clock, progress) = (ManualClock::at(0), AtomicI64::new(0));
        let mut flushes = Vec::new();
        let mut clients = Vec::new();
        for (n, writer, (client, server)) in &mut slow {
            let mut flush = Box::pin(writer.flush(server, &clock, &progress));
            assert!(futures_util::FutureExt::now_or_never(&mut flush).is_none(), "it does not fit");
            flushes.push(flush);
            clients.push((*n, client));
        }
        assert_eq!(buffers.kept(), 1, "all of them used the same");
        for (flush, (n, client)) in flushes.into_iter().zip(clients) {
            let mut got = vec![0; 4 + n + len + 3 + len];
            let (written, read) = tokio::join!(flush, client.read_exact(&mut got));
            written.expect("written");
            read.expect("read");
            let at = |from: u64| (0..len as u64).map(move |n| ((from + n) % 251) as u8);
            let expected: Vec<u8> = ((n + 2 * len + 3) as u32)
                .to_be_bytes()
                .into_iter()
                .chain(std::iter::repeat_n(9, n))
                .chain(at(n as u64))
                .chain([9; 3])
                .chain(at(5_000))
                .collect();
            assert!(got == expected, "answer {n}");
        }
        assert_eq!(buffers.kept(), 1);
    }

    #[tokio::test]
    async fn a_socket_gets_large_parts_of_files_in_their_place() {
        let dir = tempfile::tempdir().expect("a directory");
        let content: Vec<u8> = (0..3_000_000u32).map(|n| (n % 251) as u8).collect();
        let file = RealDisk.open(&dir.path().join("segment"), Open::Create).expect("a file");
        file.write_all_at(&content, 0).expect("written");
        let lens = [SEND_FILE - 1, SEND_FILE, SEND_FILE + 4095, SEND_FILE_STEP, SEND_FILE_STEP + SEND_FILE + 1, 5];
        let mut expected = Vec::new();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let client = tokio::net::TcpStream::connect(listener.local_addr().expect("an address")).await;
        let (client, (server, _)) = (client.expect("connected"), listener.accept().await.expect("accepted"));
        let mut writer = ResponseWriter::new(Arc::default(), Arc::new(Inline));
        for (n, len) in lens.into_iter().enumerate() {
            let slice = FileSlice { file: file.clone(), position: n as u64 * 7, len };
            let parts = vec![bytes(3), Part::File(slice), bytes(n)];
            expected.extend((3 + len as u32 + n as u32).to_be_bytes());
            expected.extend([9; 3]);
            expected.extend(&content[n * 7..n * 7 + len]);
            expected.extend(vec![9; n]);
            writer.queue(Response { parts, throttle_ms: 0 }).expect("framed");
        }
        assert_peer_reads(&expected, &mut writer, server, client, &AtomicI64::new(0)).await;
    }

    #[tokio::test]
    async fn a_file_that_ends_early_ends_the_connection() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = RealDisk.open(&dir.path().join("segment"), Open::Create).expect("a file");
        file.write_all_at(&vec![1; SEND_FILE], 0).expect("written");
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let client = tokio::net::TcpStream::connect(listener.local_addr().expect("an address")).await;
        let (client, (mut server, _)) = (client.expect("connected"), listener.accept().await.expect("accepted"));
        let mut writer = ResponseWriter::new(Arc::default(), Arc::new(Inline));
        let part = Part::File(FileSlice { file, position: 0, len: 2 * SEND_FILE });
        writer.queue(Response { parts: vec![part], throttle_ms: 0 }).expect("framed");
        let written = writer.flush(&mut server, &ManualClock::at(0), &AtomicI64::new(0)).await;
        assert_eq!(written.expect_err("short").kind(), io::ErrorKind::UnexpectedEof);
        drop(client);
    }

    #[tokio::test]
    async fn what_is_not_cached_is_read_elsewhere() {
        let cold = Arc::new(Counting::default());
        let slice = FileSlice { file: cold.clone(), position: 4000, len: 10_000 };
        let mut writer = ResponseWriter::new(Arc::default(), Arc::new(Inline));
        writer.queue(Response { parts: vec![Part::File(slice)], throttle_ms: 0 }).expect("framed");
        let (client, server) = duplex(20_000);
        let content = (4000..14_000u64).map(|n| (n % 251) as u8);
        let expected: Vec<u8> = 10_000u32.to_be_bytes().into_iter().chain(content).collect();
        assert_peer_reads(&expected, &mut writer, server, client, &AtomicI64::new(0)).await;
        assert_eq!(cold.0.load(Ordering::Relaxed), 1, "the rest comes with the first wait");
    }
}
