//! Record batches (magic 2) and message sets (magic 0 and 1), written and read independently of the broker's own code.

use std::io::{Read, Write};

use anyhow::{Context, Result, bail, ensure};
use bytes::{Buf, BufMut};

/// One record; also one message of an old set.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Record {
    pub offset: i64,
    pub timestamp: i64,
    pub key: Option<Vec<u8>>,
    pub value: Option<Vec<u8>>,
    pub headers: Vec<(Vec<u8>, Option<Vec<u8>>)>,
}

/// Codec numbers as they stand in the attributes.
pub const NONE: i16 = 0;
pub const GZIP: i16 = 1;
pub const SNAPPY: i16 = 2;
pub const LZ4: i16 = 3;
pub const ZSTD: i16 = 4;

/// A batch under construction. `None` means "what is right".
#[derive(Clone, Debug)]
pub struct Batch {
    pub base_offset: i64,
    pub leader_epoch: i32,
    pub magic: i8,
    pub attributes: i16,
    pub max_timestamp: Option<i64>,
    pub last_offset_delta: Option<i32>,
    pub count: Option<i32>,
    pub producer_id: i64,
    pub producer_epoch: i16,
    pub base_sequence: i32,
    /// Xored into the CRC.
    pub crc_error: u32,
    pub records: Vec<Record>,
    /// In place of the encoded (and compressed) records.
    pub payload: Option<Vec<u8>>,
}

impl Batch {
    pub fn new(records: Vec<Record>) -> Batch {
        Batch {
            base_offset: 0,
            leader_epoch: -1,
            magic: 2,
            attributes: 0,
            max_timestamp: None,
            last_offset_delta: None,
            count: None,
            producer_id: -1,
            producer_epoch: -1,
            base_sequence: -1,
            crc_error: 0,
            records,
            payload: None,
        }
    }

    /// Records valued v0, v1, ... with these timestamps.
    pub fn stamped(timestamps: &[i64]) -> Batch {
        let record = |(i, &timestamp): (usize, &i64)| Record {
            timestamp,
            key: Some(format!("k{i}").into_bytes()),
            value: Some(format!("v{i}").into_bytes()),
            ..Record::default()
        };
        Batch::new(timestamps.iter().enumerate().map(record).collect())
    }

    pub fn codec(mut self, codec: i16) -> Batch {
        self.attributes = self.attributes & !7 | codec;
        self
    }

    pub fn encode(&self) -> Vec<u8> {
        let base_timestamp = self.records.first().map_or(0, |record| record.timestamp);
        let payload = self.payload.clone().unwrap_or_else(|| {
            let mut plain = Vec::new();
            for (i, record) in self.records.iter().enumerate() {
                put_record(&mut plain, record, i as i64, record.timestamp - base_timestamp);
            }
            compress(self.attributes & 7, &plain)
        });
        let count = self.records.len() as i32;
        let newest = self.records.iter().map(|record| record.timestamp).max().unwrap_or(-1);
        let mut checked = Vec::new();
        checked.put_i16(self.attributes);
        checked.put_i32(self.last_offset_delta.unwrap_or(count - 1));
        checked.put_i64(base_timestamp);
        checked.put_i64(self.max_timestamp.unwrap_or(newest));
        checked.put_i64(self.producer_id);
        checked.put_i16(self.producer_epoch);
        checked.put_i32(self.base_sequence);
        checked.put_i32(self.count.unwrap_or(count));
        checked.extend_from_slice(&payload);
        let mut bytes = Vec::new();
        bytes.put_i64(self.base_offset);
        bytes.put_i32(4 + 1 + 4 + checked.len() as i32);
        bytes.put_i32(self.leader_epoch);
        bytes.put_i8(self.magic);
        bytes.put_u32(crc32c::crc32c(&checked) ^ self.crc_error);
        bytes.extend_from_slice(&checked);
        bytes
    }
}

/// One record as it lies in a batch.
pub fn put_record(out: &mut Vec<u8>, record: &Record, offset_delta: i64, timestamp_delta: i64) {
    let mut body = vec![0];
    put_varint(&mut body, timestamp_delta);
    put_varint(&mut body, offset_delta);
    put_bytes(&mut body, record.key.as_deref());
    put_bytes(&mut body, record.value.as_deref());
    put_varint(&mut body, record.headers.len() as i64);
    for (key, value) in &record.headers {
        put_bytes(&mut body, Some(key));
        put_bytes(&mut body, value.as_deref());
    }
    put_varint(out, body.len() as i64);
    out.extend_from_slice(&body);
}

fn put_bytes(out: &mut Vec<u8>, bytes: Option<&[u8]>) {
    match bytes {
        Some(bytes) => {
            put_varint(out, bytes.len() as i64);
            out.extend_from_slice(bytes);
        }
        None => put_varint(out, -1),
    }
}

pub fn put_varint(out: &mut Vec<u8>, value: i64) {
    let mut zigzag = ((value << 1) ^ (value >> 63)) as u64;
    while zigzag > 0x7f {
        out.push(zigzag as u8 & 0x7f | 0x80);
        zigzag >>= 7;
    }
    out.push(zigzag as u8);
}

/// A message set of magic 0 or 1; with a codec, wrapped in one message whose offsets are relative for magic 1.
pub fn message_set(magic: i8, codec: i16, records: &[Record]) -> Vec<u8> {
    let mut plain = Vec::new();
    for (i, record) in records.iter().enumerate() {
        put_message(&mut plain, i as i64, magic, 0, record.timestamp, record.key.as_deref(), record.value.as_deref());
    }
    if codec == NONE {
        return plain;
    }
    let newest = records.iter().map(|record| record.timestamp).max().unwrap_or(-1);
    wrapped(magic, codec, records.len() as i64 - 1, newest, &plain)
}

/// One message of magic 0 or 1 at `offset` that holds the set `plain`, compressed.
pub fn wrapped(magic: i8, codec: i16, offset: i64, timestamp: i64, plain: &[u8]) -> Vec<u8> {
    let packed = if codec == LZ4 && magic == 0 { lz4_with_old_checksum(plain) } else { compress(codec, plain) };
    let mut bytes = Vec::new();
    put_message(&mut bytes, offset, magic, codec as i8, timestamp, None, Some(&packed));
    bytes
}

/// Appends one message; `attributes` has the codec.
pub fn put_message(
    out: &mut Vec<u8>,
    offset: i64,
    magic: i8,
    attributes: i8,
    stamp: i64,
    key: Option<&[u8]>,
    value: Option<&[u8]>,
) {
    let mut checked = Vec::new();
    checked.put_i8(magic);
    checked.put_i8(attributes);
    if magic > 0 {
        checked.put_i64(stamp);
    }
    for field in [key, value] {
        checked.put_i32(field.map_or(-1, |bytes| bytes.len() as i32));
        checked.extend_from_slice(field.unwrap_or_default());
    }
    out.put_i64(offset);
    out.put_i32(4 + checked.len() as i32);
    out.put_u32(crc32fast::hash(&checked));
    out.extend_from_slice(&checked);
}

/// Compressed as a Java client does.
pub fn compress(codec: i16, plain: &[u8]) -> Vec<u8> {
    match codec {
        GZIP => {
            let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
            encoder.write_all(plain).and_then(|()| encoder.finish()).unwrap_or_default()
        }
        SNAPPY => {
            let mut out = b"\x82SNAPPY\0\0\0\0\x01\0\0\0\x01".to_vec();
            for block in plain.chunks(32 << 10) {
                let packed = snap::raw::Encoder::new().compress_vec(block).unwrap_or_default();
                out.put_i32(packed.len() as i32);
                out.extend_from_slice(&packed);
            }
            out
        }
        LZ4 => {
            let mut encoder = lz4_flex::frame::FrameEncoder::with_frame_info(
                lz4_flex::frame::FrameInfo::new().block_size(lz4_flex::frame::BlockSize::Max64KB),
                Vec::new(),
            );
            encoder.write_all(plain).and_then(|()| encoder.finish().map_err(std::io::Error::other)).unwrap_or_default()
        }
        ZSTD => zstd::encode_all(plain, 3).unwrap_or_default(),
        _ => plain.to_vec(),
    }
}

/// Clients of magic 0 computed the frame header's checksum over the magic number too.
fn lz4_with_old_checksum(plain: &[u8]) -> Vec<u8> {
    let mut frame = compress(LZ4, plain);
    // Magic (4), FLG, BD, then the checksum: no content size and no dictionary is written.
    frame[6] = (xxhash32(&frame[..6]) >> 8) as u8;
    frame
}

/// XXH32 with seed 0, for inputs under 16 bytes.
fn xxhash32(short: &[u8]) -> u32 {
    let mut hash = 374_761_393u32.wrapping_add(short.len() as u32);
    let mut words = short.chunks_exact(4);
    for word in &mut words {
        let word = u32::from_le_bytes([word[0], word[1], word[2], word[3]]);
        hash = hash.wrapping_add(word.wrapping_mul(3_266_489_917)).rotate_left(17).wrapping_mul(668_265_263);
    }
    for &byte in words.remainder() {
        hash = hash.wrapping_add(u32::from(byte).wrapping_mul(374_761_393)).rotate_left(11).wrapping_mul(2_654_435_761);
    }
    hash = (hash ^ hash >> 15).wrapping_mul(2_246_822_519);
    hash = (hash ^ hash >> 13).wrapping_mul(3_266_489_917);
    hash ^ hash >> 16
}

fn decompress(codec: i16, packed: &[u8]) -> Result<Vec<u8>> {
    let mut plain = Vec::new();
    match codec {
        NONE => plain.extend_from_slice(packed),
        GZIP => drop(flate2::read::MultiGzDecoder::new(packed).read_to_end(&mut plain)?),
        SNAPPY if packed.starts_with(b"\x82SNAPPY\0") => {
            let mut rest = packed.get(16..).context("short snappy header")?;
            while rest.len() >= 4 {
                let size = rest.get_i32() as usize;
                let block = rest.get(..size).context("short snappy block")?;
                plain.extend(snap::raw::Decoder::new().decompress_vec(block)?);
                rest = &rest[size..];
            }
        }
        SNAPPY => plain = snap::raw::Decoder::new().decompress_vec(packed)?,
        LZ4 => {
            let mut frame = packed.to_vec();
            if frame.len() > 6 {
                // Either checksum is accepted.
                frame[6] = (xxhash32(&frame[4..6]) >> 8) as u8;
            }
            lz4_flex::frame::FrameDecoder::new(frame.as_slice()).read_to_end(&mut plain)?;
        }
        ZSTD => plain = zstd::decode_all(packed)?,
        other => bail!("codec {other}"),
    }
    Ok(plain)
}

/// A stored batch or message with its records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// Of the batch; of the wrapper or message for old sets.
    pub base_offset: i64,
    pub magic: i8,
    pub attributes: i16,
    pub leader_epoch: i32,
    pub last_offset_delta: i32,
    pub base_timestamp: i64,
    pub max_timestamp: i64,
    pub producer_id: i64,
    pub producer_epoch: i16,
    pub base_sequence: i32,
    pub records: Vec<Record>,
}

/// Every whole batch or message; a cut one at the end is dropped, as clients do.
pub fn read(mut bytes: &[u8]) -> Result<Vec<Stored>> {
    let mut all = Vec::new();
    while bytes.len() >= 17 {
        let size = 12 + i32::from_be_bytes([bytes[8], bytes[9], bytes[10], bytes[11]]) as usize;
        let Some(one) = bytes.get(..size) else { break };
        let stored = match bytes[16] {
            0 | 1 => read_message(one),
            2 => read_batch(one),
            magic => bail!("magic {magic}"),
        };
        all.push(stored?);
        bytes = &bytes[size..];
    }
    Ok(all)
}

/// The whole batches of a segment, as they lie in it.
pub fn batches(mut log: &[u8]) -> Vec<&[u8]> {
    let mut found = Vec::new();
    while let Some(size) = log.get(8..12).and_then(<[u8]>::first_chunk::<4>) {
        let Some((batch, rest)) = log.split_at_checked(12 + u32::from_be_bytes(*size) as usize) else { break };
        found.push(batch);
        log = rest;
    }
    found
}

fn read_batch(mut bytes: &[u8]) -> Result<Stored> {
    ensure!(bytes.len() >= 61, "a batch of {} bytes", bytes.len());
    let base_offset = bytes.get_i64();
    bytes.advance(4);
    let leader_epoch = bytes.get_i32();
    let magic = bytes.get_i8();
    let crc = bytes.get_u32();
    ensure!(crc == crc32c::crc32c(bytes), "wrong CRC in the batch at {base_offset}");
    let attributes = bytes.get_i16();
    let last_offset_delta = bytes.get_i32();
    let base_timestamp = bytes.get_i64();
    let max_timestamp = bytes.get_i64();
    let producer_id = bytes.get_i64();
    let producer_epoch = bytes.get_i16();
    let base_sequence = bytes.get_i32();
    let count = bytes.get_i32();
    let plain = decompress(attributes & 7, bytes)?;
    let mut rest = plain.as_slice();
    let mut records = Vec::new();
    for _ in 0..count {
        let size = get_varint(&mut rest)? as usize;
        let mut one = rest.get(..size).context("a record longer than its batch")?;
        rest = &rest[size..];
        one.try_get_i8()?;
        let timestamp = base_timestamp + get_varint(&mut one)?;
        let offset = base_offset + get_varint(&mut one)?;
        let (key, value) = (get_bytes(&mut one)?, get_bytes(&mut one)?);
        let mut headers = Vec::new();
        for _ in 0..get_varint(&mut one)? {
            headers.push((get_bytes(&mut one)?.context("null header key")?, get_bytes(&mut one)?));
        }
        records.push(Record { offset, timestamp, key, value, headers });
    }
    ensure!(rest.is_empty(), "{} bytes after the last record", rest.len());
    Ok(Stored {
        base_offset,
        magic,
        attributes,
        leader_epoch,
        last_offset_delta,
        base_timestamp,
        max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        records,
    })
}

fn read_message(mut bytes: &[u8]) -> Result<Stored> {
    let offset = bytes.try_get_i64()?;
    bytes.try_get_i32()?;
    let crc = bytes.try_get_u32()?;
    ensure!(crc == crc32fast::hash(bytes), "wrong CRC in the message at {offset}");
    let magic = bytes.try_get_i8()?;
    let attributes = i16::from(bytes.try_get_i8()?);
    let timestamp = if magic > 0 { bytes.try_get_i64()? } else { -1 };
    let mut field = || -> Result<Option<Vec<u8>>> {
        let size = bytes.try_get_i32()?;
        if size < 0 {
            return Ok(None);
        }
        let taken = bytes.get(..size as usize).context("a field longer than its message")?.to_vec();
        bytes.advance(size as usize);
        Ok(Some(taken))
    };
    let (key, value) = (field()?, field()?);
    let records = if attributes & 7 == 0 {
        vec![Record { offset, timestamp, key, value, headers: Vec::new() }]
    } else {
        let inner = decompress(attributes & 7, value.as_deref().unwrap_or_default())?;
        let mut inner: Vec<Record> = read(&inner)?.into_iter().flat_map(|message| message.records).collect();
        if magic > 0 {
            // Relative offsets: the wrapper carries the last one's.
            let last = inner.last().map_or(0, |record| record.offset);
            inner.iter_mut().for_each(|record| record.offset += offset - last);
        }
        inner
    };
    Ok(Stored {
        base_offset: offset,
        magic,
        attributes,
        leader_epoch: -1,
        last_offset_delta: 0,
        base_timestamp: timestamp,
        max_timestamp: timestamp,
        producer_id: -1,
        producer_epoch: -1,
        base_sequence: -1,
        records,
    })
}

fn get_varint(bytes: &mut &[u8]) -> Result<i64> {
    let mut zigzag = 0u64;
    for shift in (0..70).step_by(7) {
        let byte = bytes.try_get_u8()?;
        zigzag |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Ok((zigzag >> 1) as i64 ^ -((zigzag & 1) as i64));
        }
    }
    bail!("a varint of more than 10 bytes")
}

fn get_bytes(bytes: &mut &[u8]) -> Result<Option<Vec<u8>>> {
    let size = get_varint(bytes)?;
    if size < 0 {
        return Ok(None);
    }
    let taken = bytes.get(..size as usize).context("a field longer than its record")?.to_vec();
    bytes.advance(size as usize);
    Ok(Some(taken))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_codec_reads_back() {
        for codec in [NONE, GZIP, SNAPPY, LZ4, ZSTD] {
            let stored = read(&Batch::stamped(&[5, 1, 9]).codec(codec).encode()).unwrap();
            assert_eq!(stored[0].records.len(), 3);
            assert_eq!(stored[0].records[1].timestamp, 1);
            assert_eq!(stored[0].max_timestamp, 9);
        }
    }

    #[test]
    fn old_sets_read_back_with_absolute_offsets() {
        let records = Batch::stamped(&[5, 6, 7]).records;
        for magic in [0, 1] {
            for codec in [NONE, GZIP, SNAPPY, LZ4] {
                let stored = read(&message_set(magic, codec, &records)).unwrap();
                let offsets: Vec<i64> = stored.iter().flat_map(|s| &s.records).map(|r| r.offset).collect();
                assert_eq!(offsets, [0, 1, 2], "magic {magic} codec {codec}");
            }
        }
    }
}
