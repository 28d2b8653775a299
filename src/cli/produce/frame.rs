//! A produce request that carries one batch of one partition, built in one buffer: what goes to the socket is what the
//! batch grew in.

use anyhow::Context;

use super::lines::{Header, Parts};
use super::options::Settings;
use crate::cli::rows::{Kind, for_each_row};
use crate::wire::batch::{Batch, BatchBuilder, BatchOptions, RawBatch};
use crate::wire::compression::Scratch;
use crate::wire::writer::Writer;
use bytes::BytesMut;

/// The versions whose request body is the same: 3 to 8, in 8 also the broker says why.
pub const LOWEST_VERSION: i16 = 3;
pub const HIGHEST_VERSION: i16 = 8;
pub const API_KEY: i16 = 0;

const VERSION_AT: usize = 6;
const CORRELATION_AT: usize = 8;
/// Bytes a record may take beside key, value and headers.
const RECORD_OVERHEAD: usize = 24;

/// Bytes that a record with these parts takes at most, uncompressed.
pub fn size(parts: &Parts<'_>) -> usize {
    let len = |field: Option<&[u8]>| field.map_or(0, <[u8]>::len);
    let headers: usize = parts.headers.iter().map(|(name, value)| name.len() + len(*value) + 10).sum();
    len(parts.key) + len(parts.value) + headers + RECORD_OVERHEAD
}

/// A request whose batch still grows.
pub struct Draft {
    builder: BatchBuilder,
    records_at: usize,
    partition: i32,
    records: u64,
    /// Uncompressed bytes at most.
    pub size: usize,
    /// Monotonic ms of the first record.
    pub begun_ms: i64,
}

impl Draft {
    pub fn begin(settings: &Settings, topic: &str, partition: i32, now_ms: i64) -> anyhow::Result<Draft> {
        let mut front = Writer::new(BytesMut::with_capacity(64 + topic.len()), false);
        front.i32(0);
        front.i16(API_KEY);
        front.i16(HIGHEST_VERSION);
        front.i32(0);
        front.string(&settings.client_id);
        front.nullable_string(None);
        front.i16(settings.acks);
        front.i32(settings.request_timeout_ms);
        front.len(1);
        front.string(topic);
        front.len(1);
        front.i32(partition);
        front.i32(0);
        let mut front = Vec::from(&front.buf[..]);
        let records_at = front.len();
        // An uncompressed batch grows to about this.
        front.reserve(settings.batch_size.min(1 << 20));
        let options = BatchOptions { codec: settings.codec, level: settings.level, ..BatchOptions::default() };
        let builder = BatchBuilder::append_to(front, options)?;
        Ok(Draft { builder, records_at, partition, records: 0, size: 0, begun_ms: now_ms })
    }

    pub fn append(&mut self, parts: &Parts<'_>, timestamp_ms: i64) -> anyhow::Result<()> {
        self.builder.append(timestamp_ms, parts.key, parts.value, &parts.headers)?;
        self.records += 1;
        self.size += size(parts);
        Ok(())
    }

    pub fn finish(self) -> anyhow::Result<Frame> {
        let mut bytes = self.builder.finish()?;
        let records = i32::try_from(bytes.len() - self.records_at)?;
        let len = i32::try_from(bytes.len() - 4)?;
        patch(&mut bytes, self.records_at - 4, &records.to_be_bytes());
        patch(&mut bytes, 0, &len.to_be_bytes());
        let Draft { records_at, partition, records, .. } = self;
        Ok(Frame { bytes, records_at, partition, records, attempts: 0 })
    }
}

/// A request ready to be sent, and sent again.
#[derive(Debug)]
pub struct Frame {
    bytes: Vec<u8>,
    records_at: usize,
    pub partition: i32,
    /// How many.
    pub records: u64,
    /// Times it was tried again.
    pub attempts: u32,
}

impl Frame {
    /// The bytes for the socket.
    pub fn stamped(&mut self, version: i16, correlation_id: i32) -> &[u8] {
        patch(&mut self.bytes, VERSION_AT, &version.to_be_bytes());
        patch(&mut self.bytes, CORRELATION_AT, &correlation_id.to_be_bytes());
        &self.bytes
    }

    /// The same records in two requests.
    pub fn split(&self, settings: &Settings, topic: &str) -> anyhow::Result<[Frame; 2]> {
        let bytes = self.bytes.get(self.records_at..).unwrap_or_default();
        let batch = Batch::parse(bytes).context("the batch that was sent")?;
        let mut halves = [(); 2].map(|()| Draft::begin(settings, topic, self.partition, 0));
        let mut done = 0;
        for_each_row(&RawBatch { magic: 2, bytes: batch.bytes }, &mut Scratch::default(), |row| {
            let Kind::Record { record, .. } = &row.kind else { return Ok(()) };
            let headers: Vec<Header<'_>> = record.headers().map(|header| (header.key, header.value)).collect();
            let [first, second] = &mut halves;
            let half = if done < self.records / 2 { first } else { second };
            done += 1;
            if let Ok(half) = half {
                half.append(&Parts { headers, key: row.key, value: row.value }, row.timestamp)?;
            }
            Ok(())
        })?;
        let [first, second] = halves;
        Ok([first?.finish()?, second?.finish()?])
    }
}

fn patch(bytes: &mut [u8], at: usize, with: &[u8]) {
    if let Some(place) = bytes.get_mut(at..at + with.len()) {
        place.copy_from_slice(with);
    }
}
