//! Fetch version 11 as a consumer writes and reads it, without sessions and without copying records.

use std::ops::Range;

use bytes::{Bytes, BytesMut};

use super::options::Settings;
use crate::wire::reader::{ReadError, Reader};
use crate::wire::writer::Writer;

pub const API_KEY: i16 = 1;
/// The last version without flexible fields; every broker since 2.3 serves it.
pub const VERSION: i16 = 11;

/// A request for `positions`, partition and offset each; the frame's length included.
pub fn request(settings: &Settings, correlation_id: i32, positions: &[(i32, i64)]) -> BytesMut {
    let mut out = Writer::new(BytesMut::new(), false);
    out.i32(0);
    out.i16(API_KEY);
    out.i16(VERSION);
    out.i32(correlation_id);
    out.string(&settings.client_id);
    out.i32(-1);
    out.i32(settings.max_wait_ms);
    out.i32(settings.min_bytes);
    out.i32(settings.max_bytes);
    out.i8(settings.read_committed.into());
    // No session.
    out.i32(0);
    out.i32(-1);
    out.len(1);
    out.string(&settings.topic);
    out.len(positions.len());
    for (partition, offset) in positions {
        out.i32(*partition);
        out.i32(-1);
        out.i64(*offset);
        out.i64(-1);
        out.i32(settings.partition_max_bytes);
    }
    out.len(0);
    out.string("");
    let len = (out.buf.len() - 4) as i32;
    if let Some(front) = out.buf.first_chunk_mut() {
        *front = len.to_be_bytes();
    }
    out.buf
}

/// What came for one partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    pub partition: i32,
    pub error: i16,
    /// Producer id and first offset of transactions that were aborted; only with read_committed.
    pub aborted: Vec<(i64, i64)>,
    /// Where the records lie in the answer.
    pub records: Range<usize>,
}

/// The error for the whole, and the parts.
pub fn parse(body: &Bytes) -> Result<(i16, Vec<Part>), ReadError> {
    let mut reader = Reader::new(body, 0, false);
    reader.i32("throttle time")?;
    let error = reader.i16("error")?;
    reader.i32("session")?;
    let mut parts = Vec::new();
    for _ in 0..reader.array_len("topics")? {
        reader.string("topic")?;
        for _ in 0..reader.array_len("partitions")? {
            let partition = reader.i32("partition")?;
            let error = reader.i16("partition's error")?;
            reader.i64("high watermark")?;
            reader.i64("last stable offset")?;
            reader.i64("log start offset")?;
            let mut aborted = Vec::new();
            for _ in 0..reader.nullable_array_len("aborted transactions")?.unwrap_or(0) {
                aborted.push((reader.i64("producer id")?, reader.i64("first offset")?));
            }
            reader.i32("preferred read replica")?;
            let records = reader.nullable_bytes_range("records")?.unwrap_or(0..0);
            parts.push(Part { partition, error, aborted, records });
        }
    }
    Ok((error, parts))
}
