//! One connection: frames in and out; answers come in order. And waiting on many.

use std::io::{self, IoSlice, Read, Write};
use std::net::TcpStream;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{Timespec, epoll};
use rustix::io::retry_on_intr;

/// How long a target may be silent before a row gives up on it.
pub const PATIENCE: Duration = Duration::from_secs(40);
/// Bytes that are asked of the socket beyond the answer that has begun.
const AHEAD: usize = 4096;

pub struct Connection {
    stream: TcpStream,
    buf: Vec<u8>,
    start: usize,
    end: usize,
}

impl Connection {
    pub fn open(addr: &str) -> io::Result<Connection> {
        let stream = TcpStream::connect(addr)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(Connection { stream, buf: vec![0; AHEAD], start: 0, end: 0 })
    }

    pub fn send(&mut self, head: &[u8], body: &[u8]) -> io::Result<()> {
        let n = self.stream.write_vectored(&[IoSlice::new(head), IoSlice::new(body)])?;
        if n < head.len() {
            self.stream.write_all(&head[n..])?;
            return self.stream.write_all(body);
        }
        self.stream.write_all(&body[n - head.len()..])
    }

    /// One read. Afterwards [`Connection::pop`] until it gives nothing.
    pub fn fill(&mut self) -> io::Result<()> {
        let have = self.end - self.start;
        let want = 4 + if have < 4 { 0 } else { self.length() };
        if self.buf.len() - self.start < want + AHEAD || have == 0 {
            self.buf.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, have);
        }
        if self.buf.len() < want + AHEAD {
            self.buf.resize(want + AHEAD, 0);
        }
        match self.stream.read(&mut self.buf[self.end..])? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            n => {
                self.end += n;
                Ok(())
            }
        }
    }

    /// The next response that is here, without its length.
    pub fn pop(&mut self) -> Option<&[u8]> {
        self.next().map(|frame| &self.buf[frame])
    }

    /// The next response, without its length.
    pub fn receive(&mut self) -> io::Result<&[u8]> {
        loop {
            if let Some(frame) = self.next() {
                return Ok(&self.buf[frame]);
            }
            self.fill()?;
        }
    }

    pub fn call(&mut self, frame: &[u8]) -> io::Result<&[u8]> {
        self.send(frame, &[])?;
        self.receive()
    }

    fn next(&mut self) -> Option<Range<usize>> {
        let have = self.end - self.start;
        if have < 4 || have < 4 + self.length() {
            return None;
        }
        let frame = self.start + 4..self.start + 4 + self.length();
        self.start = frame.end;
        Some(frame)
    }

    /// Bytes of the response that begins at `start`.
    fn length(&self) -> usize {
        let at = self.start;
        u32::from_be_bytes([self.buf[at], self.buf[at + 1], self.buf[at + 2], self.buf[at + 3]]) as usize
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

/// Connects as soon as something listens.
pub fn wait_for(addr: &str, limit: Duration) -> io::Result<Connection> {
    let until = Instant::now() + limit;
    loop {
        match Connection::open(addr) {
            Ok(c) => return Ok(c),
            Err(why) if Instant::now() > until => return Err(why),
            Err(_) => std::thread::sleep(Duration::from_micros(500)),
        }
    }
}

/// Waits on many connections at once.
pub struct Poller {
    epoll: OwnedFd,
    events: Vec<epoll::Event>,
}

impl Poller {
    pub fn new() -> io::Result<Poller> {
        Ok(Poller { epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?, events: Vec::with_capacity(256) })
    }

    pub fn add(&self, connection: &Connection, index: usize) -> io::Result<()> {
        let data = epoll::EventData::new_u64(index as u64);
        Ok(epoll::add(&self.epoll, connection, data, epoll::EventFlags::IN)?)
    }

    /// Indexes of those that have something to read, none after `limit`. Rounded up to milliseconds.
    pub fn wait(&mut self, limit: Duration) -> io::Result<impl Iterator<Item = usize>> {
        self.events.clear();
        let limit = timespec(limit);
        let wait = || epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut self.events), Some(&limit));
        retry_on_intr(wait)?;
        Ok(self.events.iter().map(|event| event.data.u64() as usize))
    }
}

pub fn timespec(d: Duration) -> Timespec {
    Timespec { tv_sec: d.as_secs() as i64, tv_nsec: i64::from(d.subsec_nanos()) }
}
