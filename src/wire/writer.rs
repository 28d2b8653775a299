//! The protocol's primitive types, written behind each other.

use bytes::{BufMut, BytesMut};

use crate::types::TopicId;

/// Grows a response. `flexible` versions (KIP-482) write lengths as variable-length numbers, one higher.
#[derive(Debug)]
pub struct Writer {
    pub buf: BytesMut,
    flexible: bool,
}

impl Writer {
    pub fn new(buf: BytesMut, flexible: bool) -> Writer {
        Writer { buf, flexible }
    }

    pub fn i8(&mut self, value: i8) {
        self.buf.put_i8(value);
    }

    pub fn bool(&mut self, value: bool) {
        self.buf.put_u8(value.into());
    }

    pub fn i16(&mut self, value: i16) {
        self.buf.put_i16(value);
    }

    pub fn i32(&mut self, value: i32) {
        self.buf.put_i32(value);
    }

    pub fn i64(&mut self, value: i64) {
        self.buf.put_i64(value);
    }

    pub fn topic_id(&mut self, id: TopicId) {
        self.buf.put_slice(id.0.as_bytes());
    }

    pub fn uvarint(&mut self, mut value: u32) {
        while value > 0x7f {
            self.buf.put_u8(value as u8 | 0x80);
            value >>= 7;
        }
        self.buf.put_u8(value as u8);
    }

    /// `None` is null.
    pub fn nullable_string(&mut self, text: Option<&str>) {
        match (self.flexible, text) {
            (true, None) => self.uvarint(0),
            (true, Some(text)) => self.uvarint(text.len() as u32 + 1),
            (false, None) => self.i16(-1),
            (false, Some(text)) => self.i16(text.len() as i16),
        }
        self.buf.put_slice(text.unwrap_or_default().as_bytes());
    }

    pub fn string(&mut self, text: &str) {
        self.nullable_string(Some(text));
    }

    /// What stands before an array's elements, or before bytes; `None` is null.
    pub fn nullable_len(&mut self, len: Option<usize>) {
        match (self.flexible, len) {
            (true, None) => self.uvarint(0),
            (true, Some(len)) => self.uvarint(len as u32 + 1),
            (false, None) => self.i32(-1),
            (false, Some(len)) => self.i32(len as i32),
        }
    }

    pub fn len(&mut self, len: usize) {
        self.nullable_len(Some(len));
    }

    /// No tagged fields.
    pub fn no_tags(&mut self) {
        self.tag_count(0);
    }

    /// How many tagged fields follow, in versions that have them.
    pub fn tag_count(&mut self, count: usize) {
        if self.flexible {
            self.uvarint(count as u32);
        }
    }

    /// One tagged field; its size is written in front of what `body` writes.
    pub fn tag(&mut self, tag: u32, body: impl FnOnce(&mut Writer)) {
        let mut inner = Writer::new(BytesMut::new(), self.flexible);
        body(&mut inner);
        self.uvarint(tag);
        self.uvarint(inner.buf.len() as u32);
        self.buf.put_slice(&inner.buf);
    }
}
