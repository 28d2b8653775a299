//! Fields of requests and responses.

use std::io;

/// Writes one request; [`Writer::done`] fills in the length.
pub struct Writer(Vec<u8>);

impl Writer {
    pub fn request(key: i16, version: i16) -> Writer {
        let mut w = Writer(vec![0; 4]);
        w.i16(key).i16(version).i32(0).str("load");
        w
    }

    pub fn bare() -> Writer {
        Writer(Vec::new())
    }

    pub fn i8(&mut self, v: i8) -> &mut Writer {
        self.0.push(v as u8);
        self
    }

    pub fn i16(&mut self, v: i16) -> &mut Writer {
        self.bytes(&v.to_be_bytes())
    }

    pub fn i32(&mut self, v: i32) -> &mut Writer {
        self.bytes(&v.to_be_bytes())
    }

    pub fn i64(&mut self, v: i64) -> &mut Writer {
        self.bytes(&v.to_be_bytes())
    }

    pub fn str(&mut self, s: &str) -> &mut Writer {
        self.i16(s.len() as i16).bytes(s.as_bytes())
    }

    /// As they are, without a length.
    pub fn bytes(&mut self, bytes: &[u8]) -> &mut Writer {
        self.0.extend(bytes);
        self
    }

    /// The frame, when `more` bytes follow it.
    pub fn done(self, more: usize) -> Vec<u8> {
        let mut frame = self.0;
        let len = (frame.len() - 4 + more) as i32;
        frame[..4].copy_from_slice(&len.to_be_bytes());
        frame
    }

    /// The bytes as they are, for what is not a request.
    pub fn raw(self) -> Vec<u8> {
        self.0
    }
}

/// Reads a response; one that is too short is an error.
pub struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub fn whole(bytes: &'a [u8]) -> Reader<'a> {
        Reader(bytes)
    }

    /// Past the correlation id.
    pub fn body(frame: &'a [u8]) -> io::Result<Reader<'a>> {
        let mut r = Reader(frame);
        r.take(4)?;
        Ok(r)
    }

    pub fn take(&mut self, n: usize) -> io::Result<&'a [u8]> {
        let (head, rest) = self.0.split_at_checked(n).ok_or(io::ErrorKind::UnexpectedEof)?;
        self.0 = rest;
        Ok(head)
    }

    fn number(&mut self, n: usize) -> io::Result<i64> {
        let bytes = self.take(n)?;
        let first = i64::from(bytes[0] as i8);
        Ok(bytes[1..].iter().fold(first, |v, b| v << 8 | i64::from(*b)))
    }

    pub fn i16(&mut self) -> io::Result<i16> {
        Ok(self.number(2)? as i16)
    }

    pub fn i32(&mut self) -> io::Result<i32> {
        Ok(self.number(4)? as i32)
    }

    pub fn i64(&mut self) -> io::Result<i64> {
        self.number(8)
    }

    /// An array's length; null counts as empty.
    pub fn count(&mut self) -> io::Result<usize> {
        Ok(self.i32()?.max(0) as usize)
    }

    /// Null counts as empty.
    pub fn str(&mut self) -> io::Result<&'a str> {
        let n = self.i16()?.max(0) as usize;
        std::str::from_utf8(self.take(n)?).map_err(io::Error::other)
    }

    pub fn skip_str(&mut self) -> io::Result<()> {
        let n = self.i16()?.max(0) as usize;
        self.take(n).map(|_| ())
    }

    /// Passes over an array of `width`-byte elements.
    pub fn skip_array(&mut self, width: usize) -> io::Result<()> {
        let n = self.count()?;
        self.take(n * width).map(|_| ())
    }
}
