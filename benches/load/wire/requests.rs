//! Produce v7 and Fetch v11, the two that rows are made of.

use std::io;
use std::rc::Rc;

use super::batch::Batch;
use super::fields::{Reader, Writer};

/// Milliseconds a broker may take for acks=all, and a fetch may wait for records.
const PRODUCE_TIMEOUT_MS: i32 = 30_000;
const FETCH_WAIT_MS: i32 = 500;
/// What one fetch answer may hold, bytes; far above what is asked of a partition.
const FETCH_MAX: i32 = 52_428_800;

/// A produce request in two pieces, so that requests to many partitions share one batch in memory.
pub struct Produce {
    pub head: Vec<u8>,
    pub body: Rc<[u8]>,
}

impl Produce {
    pub fn one(topic: &str, partition: i32, acks: i16, batch: &Batch) -> Produce {
        let mut w = Writer::request(0, 7);
        w.i16(-1).i16(acks).i32(PRODUCE_TIMEOUT_MS).i32(1).str(topic).i32(1);
        w.i32(partition).i32(batch.bytes.len() as i32);
        let head = w.done(batch.bytes.len());
        Produce { head, body: batch.bytes.clone() }
    }

    /// The batch once for each of `partitions`, all in one request.
    pub fn many(topic: &str, partitions: impl ExactSizeIterator<Item = i32>, acks: i16, batch: &Batch) -> Produce {
        let mut w = Writer::request(0, 7);
        w.i16(-1).i16(acks).i32(PRODUCE_TIMEOUT_MS).i32(1).str(topic).i32(partitions.len() as i32);
        for partition in partitions {
            w.i32(partition).i32(batch.bytes.len() as i32).bytes(&batch.bytes);
        }
        Produce { head: w.done(0), body: Rc::new([]) }
    }

    /// Bytes of batches.
    pub fn payload(&self) -> usize {
        if self.body.is_empty() { self.head.len() } else { self.body.len() }
    }
}

/// (partition, error, base offset) of each partition of a Produce response for one topic.
pub fn produce_result(frame: &[u8], mut each: impl FnMut(i32, i16, i64)) -> io::Result<()> {
    let mut r = Reader::body(frame)?;
    r.i32()?;
    r.skip_str()?;
    for _ in 0..r.count()? {
        let (partition, error, base) = (r.i32()?, r.i16()?, r.i64()?);
        each(partition, error, base);
        r.take(16)?;
    }
    Ok(())
}

/// A fetch of one partition from `offset`, of at most `max` bytes unless the first batch is larger.
pub fn fetch(topic: &str, partition: i32, offset: i64, max: i32) -> Vec<u8> {
    let mut w = Writer::request(1, 11);
    w.i32(-1).i32(FETCH_WAIT_MS).i32(1).i32(FETCH_MAX).i8(0).i32(0).i32(-1);
    w.i32(1).str(topic).i32(1).i32(partition).i32(-1).i64(offset).i64(-1).i32(max);
    w.i32(0).str("");
    w.done(0)
}

/// The records of a one-partition Fetch response.
pub fn fetch_result(frame: &[u8]) -> io::Result<&[u8]> {
    let mut r = Reader::body(frame)?;
    r.i32()?;
    refused(r.i16()?)?;
    r.i32()?;
    if r.count()? == 0 {
        return Ok(&[]);
    }
    r.skip_str()?;
    if r.count()? == 0 {
        return Ok(&[]);
    }
    r.i32()?;
    refused(r.i16()?)?;
    // High watermark, last stable offset and log start; aborted transactions; preferred replica.
    r.take(24)?;
    r.skip_array(16)?;
    r.i32()?;
    let n = r.count()?;
    r.take(n)
}

fn refused(error: i16) -> io::Result<()> {
    if error == 0 { Ok(()) } else { Err(io::Error::other(format!("fetch answered error {error}"))) }
}
