//! Compressed records that are valid and grow by the codec's largest factor. Made of one block repeated, so that making
//! them costs nothing.

use super::scene::MIB;
use crate::records::{
    Batch, GZIP, LZ4, NONE, Record, SNAPPY, ZSTD, compress, message_set, put_message, put_varint, wrapped,
};

/// Records of one partition of a Produce request of `version`.
pub struct Bomb {
    pub name: String,
    pub version: i16,
    pub records: Vec<u8>,
}

/// Bytes of the block that is repeated.
const BLOCK: usize = 64 << 10;

/// Bytes of a record of nothing.
const EMPTY_RECORD: &[u8] = &[12, 0, 0, 0, 1, 1, 0];

pub fn all(full: bool) -> Vec<Bomb> {
    let mut bombs = Vec::new();
    // A record of nothing takes as long to look at as a large one.
    let share = if full { 3 } else { 16 };
    // What 1 MiB, the largest batch by default, can become with each codec; gzip and zstd could become more.
    let sizes: &[(i16, &str, u64)] = &[
        (GZIP, "gzip", if full { 1000 } else { 300 }),
        (SNAPPY, "snappy in frames", 20),
        (LZ4, "lz4", 200),
        (ZSTD, "zstd", if full { 2000 } else { 300 }),
    ];
    for &(codec, name, mib) in sizes {
        bombs.push(Bomb {
            name: format!("a record of {mib} MiB in {name}"),
            version: 7,
            records: one_record(codec, mib * MIB),
        });
        let mib = mib / share;
        bombs.push(Bomb {
            name: format!("{mib} MiB of records of nothing in {name}"),
            version: 7,
            records: many_records(codec, mib * MIB),
        });
    }
    let plain = record_of(20 * MIB);
    let raw = snap::raw::Encoder::new().compress_vec(&plain).unwrap_or_default();
    let batch = Batch { payload: Some(raw), ..Batch::stamped(&[1]).codec(SNAPPY) };
    bombs.push(Bomb { name: "20 MiB of one record in raw snappy".into(), version: 7, records: batch.encode() });
    for (magic, version) in [(0, 1), (1, 2)] {
        let (gzip, lz4) = if full { (300, 200) } else { (64, 64) };
        for (codec, name, mib) in [(GZIP, "gzip", gzip), (SNAPPY, "snappy", 20), (LZ4, "lz4", lz4)] {
            let message = Record { value: Some(vec![0; (mib * MIB) as usize]), timestamp: 1, ..Record::default() };
            bombs.push(Bomb {
                name: format!("a message of {mib} MiB in {name}, magic {magic}"),
                version,
                records: message_set(magic, codec, &[message]),
            });
            bombs.push(Bomb {
                name: format!("{} MiB of messages of nothing in {name}, magic {magic}", mib / share),
                version,
                records: messages_of_nothing(magic, codec, mib / share * MIB),
            });
            bombs.push(Bomb {
                name: format!("messages in messages, 1,000 deep, in {name}, magic {magic}"),
                version,
                records: nested(magic, codec),
            });
        }
    }
    bombs
}

/// A record whose value is `bytes` zeros.
fn record_of(bytes: u64) -> Vec<u8> {
    let mut body = vec![0, 0, 0, 1];
    put_varint(&mut body, bytes as i64);
    let mut record = Vec::new();
    put_varint(&mut record, (body.len() as u64 + bytes + 1) as i64);
    record.extend_from_slice(&body);
    // The value, and no headers.
    record.resize(record.len() + bytes as usize + 1, 0);
    record
}

fn one_record(codec: i16, bytes: u64) -> Vec<u8> {
    // The head of the record, then zeros without end.
    let mut head = record_of(bytes);
    let size = head.len();
    head.truncate(BLOCK);
    let blocks = (size - BLOCK) / BLOCK;
    let rest = size - BLOCK - blocks * BLOCK;
    let payload = repeated(codec, &head, &[0; BLOCK], blocks, &vec![0; rest]);
    Batch { payload: Some(payload), ..Batch::stamped(&[1]).codec(codec) }.encode()
}

fn many_records(codec: i16, bytes: u64) -> Vec<u8> {
    let block = EMPTY_RECORD.repeat(BLOCK / EMPTY_RECORD.len());
    let blocks = bytes as usize / block.len();
    let count = ((blocks + 2) * block.len() / EMPTY_RECORD.len()) as i32;
    let payload = repeated(codec, &block, &block, blocks, &block);
    let batch = Batch::stamped(&[1]).codec(codec);
    Batch { payload: Some(payload), count: Some(count), last_offset_delta: Some(count - 1), ..batch }.encode()
}

/// `first`, `block` as often as `times` says, `last`: one stream of the codec.
fn repeated(codec: i16, first: &[u8], block: &[u8], times: usize, last: &[u8]) -> Vec<u8> {
    let [first, block, last] = [first, block, last].map(|plain| compress(codec, plain));
    match codec {
        // Members, frames and, in snappy's framing, streams may be joined.
        GZIP | ZSTD | SNAPPY => [first, block.repeat(times), last].concat(),
        // Of a frame: 7 bytes of header in front of the blocks, 4 of the end mark behind them.
        LZ4 => {
            let blocks = |frame: &[u8]| frame[7..frame.len() - 4].to_vec();
            let end = &last[last.len() - 4..];
            [&first[..first.len() - 4], &blocks(&block).repeat(times), &blocks(&last), end].concat()
        }
        _ => unreachable!("only codecs"),
    }
}

fn messages_of_nothing(magic: i8, codec: i16, bytes: u64) -> Vec<u8> {
    let mut one = Vec::new();
    put_message(&mut one, 0, magic, NONE as i8, 1, None, None);
    wrapped(magic, codec, 0, 1, &one.repeat(bytes as usize / one.len()))
}

/// Small on the wire only while the codec finds the repetition; what matters is that no recursion follows it.
fn nested(magic: i8, codec: i16) -> Vec<u8> {
    let mut set = Vec::new();
    put_message(&mut set, 0, magic, NONE as i8, 1, None, Some(b"the innermost"));
    for _ in 0..1000 {
        set = wrapped(magic, codec, 0, 1, &set);
        if set.len() > 900_000 {
            break;
        }
    }
    set
}
