//! Hand-built frames of non-flexible versions, encoded once and sent as they are: the client costs next to nothing.

/// Bytes of a batch before its records.
pub const BATCH_HEAD: usize = 61;

/// Writes one request; [`Writer::done`] fills in the length.
pub struct Writer(Vec<u8>);

impl Writer {
    pub fn request(key: i16, version: i16) -> Writer {
        let mut w = Writer(vec![0; 4]);
        w.i16(key).i16(version).i32(0).str("load");
        w
    }
    pub fn i8(&mut self, v: i8) -> &mut Writer {
        self.0.push(v as u8);
        self
    }
    pub fn i16(&mut self, v: i16) -> &mut Writer {
        self.0.extend(v.to_be_bytes());
        self
    }
    pub fn i32(&mut self, v: i32) -> &mut Writer {
        self.0.extend(v.to_be_bytes());
        self
    }
    pub fn i64(&mut self, v: i64) -> &mut Writer {
        self.0.extend(v.to_be_bytes());
        self
    }
    pub fn str(&mut self, s: &str) -> &mut Writer {
        self.i16(s.len() as i16);
        self.0.extend(s.as_bytes());
        self
    }
    /// The frame, when `body` more bytes follow it.
    pub fn done(self, body: usize) -> Vec<u8> {
        let mut frame = self.0;
        let len = (frame.len() - 4 + body) as i32;
        frame[..4].copy_from_slice(&len.to_be_bytes());
        frame
    }
}

/// Reads a response. A short one ends the row with a panic message.
pub struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    /// Past the correlation id.
    pub fn body(frame: &'a [u8]) -> Reader<'a> {
        Reader(&frame[4..])
    }
    pub fn take(&mut self, n: usize) -> &'a [u8] {
        let (head, rest) = self.0.split_at(n);
        self.0 = rest;
        head
    }
    pub fn i16(&mut self) -> i16 {
        i16::from_be_bytes([self.0[0], self.take(2)[1]])
    }
    pub fn i32(&mut self) -> i32 {
        self.take(4).iter().fold(0, |n, b| n << 8 | i32::from(*b))
    }
    pub fn i64(&mut self) -> i64 {
        self.take(8).iter().fold(0, |n, b| n << 8 | i64::from(*b))
    }
    pub fn skip_str(&mut self) {
        let n = self.i16().max(0) as usize;
        self.take(n);
    }
}

fn varint(out: &mut Vec<u8>, v: i64) {
    let mut z = ((v << 1) ^ (v >> 63)) as u64;
    while z >= 0x80 {
        out.push(z as u8 | 0x80);
        z >>= 7;
    }
    out.push(z as u8);
}

/// A batch of `count` records of `record` bytes without keys. Equal arguments give equal checksums.
pub fn batch(count: usize, record: usize, timestamp_ms: i64) -> Vec<u8> {
    let mut records = Vec::new();
    for i in 0..count {
        let mut body = vec![0u8];
        varint(&mut body, 0);
        varint(&mut body, i as i64);
        varint(&mut body, -1);
        varint(&mut body, record as i64);
        let mut x = (i as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        body.extend(
            std::iter::repeat_with(|| {
                x ^= x << 13;
                x ^= x >> 7;
                x ^= x << 17;
                x as u8
            })
            .take(record),
        );
        varint(&mut body, 0);
        varint(&mut records, body.len() as i64);
        records.extend(body);
    }
    let mut w = Writer(Vec::with_capacity(BATCH_HEAD + records.len()));
    w.i64(0).i32((records.len() + BATCH_HEAD - 12) as i32).i32(-1).i8(2).i32(0);
    w.i16(0).i32(count as i32 - 1).i64(timestamp_ms).i64(timestamp_ms);
    w.i64(-1).i16(-1).i32(-1).i32(count as i32);
    w.0.extend(records);
    let crc = crc32c::crc32c(&w.0[21..]);
    w.0[17..21].copy_from_slice(&crc.to_be_bytes());
    w.0
}

/// How many records of `record` bytes fill about `bytes`.
pub fn fit(bytes: usize, record: usize) -> usize {
    (bytes.saturating_sub(BATCH_HEAD) / (record + 9)).max(1)
}

/// Everything of a Produce v7 request that comes before the batch.
pub fn produce_head(topic: &str, acks: i16, batch: usize) -> Vec<u8> {
    let mut w = Writer::request(0, 7);
    w.i16(-1).i16(acks).i32(30_000).i32(1).str(topic).i32(1).i32(0).i32(batch as i32);
    w.done(batch)
}

/// (error, base offset) of a one-partition Produce response.
pub fn produce_result(frame: &[u8]) -> (i16, i64) {
    let mut r = Reader::body(frame);
    r.i32();
    r.skip_str();
    r.i32();
    r.i32();
    (r.i16(), r.i64())
}

/// Fetch v11 of partition 0, 1 MiB.
pub fn fetch(topic: &str, offset: i64) -> Vec<u8> {
    let mut w = Writer::request(1, 11);
    w.i32(-1).i32(500).i32(1).i32(52_428_800).i8(0).i32(0).i32(-1);
    w.i32(1).str(topic).i32(1).i32(0).i32(-1).i64(offset).i64(-1).i32(1 << 20);
    w.i32(0).str("");
    w.done(0)
}

/// (error, records) of a one-partition Fetch response.
pub fn fetch_result(frame: &[u8]) -> (i16, &[u8]) {
    let mut r = Reader::body(frame);
    r.i32();
    let error = r.i16();
    r.i32();
    if error != 0 || r.i32() == 0 {
        return (error, &[]);
    }
    r.skip_str();
    r.i32();
    r.i32();
    let error = r.i16();
    r.take(24);
    for _ in 0..r.i32().max(0) {
        r.take(16);
    }
    r.i32();
    let n = r.i32().max(0) as usize;
    (error, r.take(n))
}

/// The complete batches at the front of fetched records.
pub fn batches(mut bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        if bytes.len() < BATCH_HEAD {
            return None;
        }
        let n = 12 + u32::from_be_bytes([bytes[8], bytes[9], bytes[10], bytes[11]]) as usize;
        let (batch, rest) = bytes.split_at_checked(n)?;
        bytes = rest;
        Some(batch)
    })
}

/// The offset after a batch.
pub fn next_offset(batch: &[u8]) -> i64 {
    let mut r = Reader(batch);
    let base = r.i64();
    r.take(15);
    base + i64::from(r.i32()) + 1
}
