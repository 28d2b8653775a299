//! One blocking connection, and the few requests that set a row up.

use std::io::{self, IoSlice, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::wire::{Reader, Writer};

/// Frames in and out; answers come in order.
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
        stream.set_read_timeout(Some(Duration::from_secs(40)))?;
        stream.set_write_timeout(Some(Duration::from_secs(40)))?;
        Ok(Connection { stream, buf: vec![0; 4096], start: 0, end: 0 })
    }

    pub fn send(&mut self, head: &[u8], body: &[u8]) -> io::Result<()> {
        let n = self.stream.write_vectored(&[IoSlice::new(head), IoSlice::new(body)])?;
        if n < head.len() {
            self.stream.write_all(&head[n..])?;
            return self.stream.write_all(body);
        }
        self.stream.write_all(&body[n - head.len()..])
    }

    /// The next response, without its length.
    pub fn receive(&mut self) -> io::Result<&[u8]> {
        loop {
            let have = self.end - self.start;
            let want = if have < 4 { 4 } else { 4 + self.length() };
            if have >= 4 && have >= want {
                let frame = self.start + 4..self.start + want;
                self.start += want;
                return Ok(&self.buf[frame]);
            }
            self.buf.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, have);
            if self.buf.len() < want + 4096 {
                self.buf.resize(want + 4096, 0);
            }
            let n = self.stream.read(&mut self.buf[self.end..])?;
            if n == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            self.end += n;
        }
    }

    pub fn call(&mut self, frame: &[u8]) -> io::Result<&[u8]> {
        self.send(frame, &[])?;
        self.receive()
    }

    fn length(&self) -> usize {
        let at = self.start;
        u32::from_be_bytes([self.buf[at], self.buf[at + 1], self.buf[at + 2], self.buf[at + 3]]) as usize
    }
}

/// Creates a topic of one partition. Whether it has a leader shows in the first produce.
pub fn create_topic(addr: &str, name: &str) -> io::Result<()> {
    let mut w = Writer::request(19, 2);
    w.i32(1).str(name).i32(1).i16(1).i32(0).i32(0).i32(30_000).i8(0);
    let mut c = Connection::open(addr)?;
    let frame = w.done(0);
    let until = Instant::now() + Duration::from_secs(20);
    loop {
        let mut r = Reader::body(c.call(&frame)?);
        r.i32();
        r.i32();
        r.skip_str();
        match r.i16() {
            0 | 36 => return Ok(()),
            // A broker that listens before it knows itself, or before there is a controller.
            38 | 41 if Instant::now() < until => std::thread::sleep(Duration::from_millis(1)),
            code => return Err(io::Error::other(format!("CreateTopics answered error {code}"))),
        }
    }
}

pub fn delete_topic(addr: &str, name: &str) -> io::Result<()> {
    let mut w = Writer::request(20, 1);
    w.i32(1).str(name).i32(30_000);
    Connection::open(addr)?.call(&w.done(0)).map(|_| ())
}

/// Log end of partition 0.
pub fn end_offset(addr: &str, topic: &str) -> io::Result<i64> {
    let mut w = Writer::request(2, 1);
    w.i32(-1).i32(1).str(topic).i32(1).i32(0).i64(-1);
    let mut c = Connection::open(addr)?;
    let mut r = Reader::body(c.call(&w.done(0))?);
    r.i32();
    r.skip_str();
    r.i32();
    r.i32();
    r.i16();
    r.i64();
    Ok(r.i64())
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
