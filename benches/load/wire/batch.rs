//! Record batches (magic 2) without keys, and walking over fetched ones.

use std::io;
use std::rc::Rc;

use super::fields::{Reader, Writer};

/// Bytes of a batch before its records.
const HEAD: usize = 61;
/// Bytes that a record adds to its value, at most, in the batches made here.
const AROUND_VALUE: usize = 9;
/// Attributes of a batch compressed with lz4.
const LZ4: i16 = 3;

/// One encoded batch, sent again and again.
#[derive(Clone)]
pub struct Batch {
    pub bytes: Rc<[u8]>,
    pub records: i64,
}

impl Batch {
    /// `records` records with values of `value` bytes. Equal arguments give equal bytes.
    pub fn new(records: usize, value: usize, timestamp_ms: i64) -> Batch {
        Batch::encode(records, &encode_records(records, value), 0, timestamp_ms)
    }

    /// As many records as fit in `bytes`.
    pub fn filling(bytes: usize, value: usize, timestamp_ms: i64) -> Batch {
        Batch::new((bytes.saturating_sub(HEAD) / (value + AROUND_VALUE)).max(1), value, timestamp_ms)
    }

    /// As [`Batch::filling`], where `bytes` is the size before compression.
    pub fn lz4(bytes: usize, value: usize, timestamp_ms: i64) -> io::Result<Batch> {
        use std::io::Write;
        let records = ((bytes - HEAD) / (value + AROUND_VALUE)).max(1);
        let info = lz4_flex::frame::FrameInfo::new().block_size(lz4_flex::frame::BlockSize::Max64KB);
        let mut encoder = lz4_flex::frame::FrameEncoder::with_frame_info(info, Vec::new());
        encoder.write_all(&encode_records(records, value))?;
        let compressed = encoder.finish().map_err(io::Error::other)?;
        Ok(Batch::encode(records, &compressed, LZ4, timestamp_ms))
    }

    fn encode(records: usize, encoded: &[u8], attributes: i16, timestamp_ms: i64) -> Batch {
        let last = records as i32 - 1;
        let mut covered = Writer::bare();
        covered.i16(attributes).i32(last).i64(timestamp_ms).i64(timestamp_ms);
        covered.i64(-1).i16(-1).i32(-1).i32(records as i32).bytes(encoded);
        let covered = covered.raw();
        let mut w = Writer::bare();
        // Base offset, length, leader epoch, magic, and the checksum over all that follows.
        w.i64(0).i32(covered.len() as i32 + 9).i32(-1).i8(2).i32(crc32c::crc32c(&covered) as i32).bytes(&covered);
        Batch { bytes: w.raw().into(), records: records as i64 }
    }

    /// Whether a fetched batch is this one: the same checksum and, when `thorough`, bytes that have it.
    pub fn is(&self, fetched: &[u8], thorough: bool) -> bool {
        fetched.len() == self.bytes.len()
            && fetched[17..21] == self.bytes[17..21]
            && (!thorough || crc32c::crc32c(&fetched[21..]).to_be_bytes() == fetched[17..21])
    }
}

fn encode_records(records: usize, value: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(records * (value + AROUND_VALUE));
    for i in 0..records {
        let mut record = vec![0u8];
        varint(&mut record, 0);
        varint(&mut record, i as i64);
        varint(&mut record, -1);
        varint(&mut record, value as i64);
        fill(&mut record, value, i as u64 + 1);
        varint(&mut record, 0);
        varint(&mut out, record.len() as i64);
        out.extend(record);
    }
    out
}

/// Half words that repeat, half noise: what lz4 brings to about the half.
fn fill(out: &mut Vec<u8>, value: usize, seed: u64) {
    const WORDS: [&[u8; 8]; 4] = [b"\"name\": ", b"\"time\": ", b"\"value\":", b"\"river\":"];
    let end = out.len() + value;
    let mut x = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    while out.len() < end {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        out.extend(WORDS[(x >> 62) as usize]);
        out.extend(x.to_le_bytes());
    }
    out.truncate(end);
}

fn varint(out: &mut Vec<u8>, v: i64) {
    let mut z = ((v << 1) ^ (v >> 63)) as u64;
    while z >= 0x80 {
        out.push(z as u8 | 0x80);
        z >>= 7;
    }
    out.push(z as u8);
}

/// The complete batches at the front of fetched records.
pub fn batches(mut bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        if bytes.len() < HEAD {
            return None;
        }
        let n = 12 + u32::from_be_bytes([bytes[8], bytes[9], bytes[10], bytes[11]]) as usize;
        let (batch, rest) = bytes.split_at_checked(n)?;
        bytes = rest;
        Some(batch)
    })
}

/// (base offset, offset after) of a batch.
pub fn offsets(batch: &[u8]) -> io::Result<(i64, i64)> {
    let mut r = Reader::whole(batch);
    let base = r.i64()?;
    r.take(15)?;
    Ok((base, base + i64::from(r.i32()?) + 1))
}
