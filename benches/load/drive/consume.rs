//! Closed-loop fetch of a cached log, over and over, and reading back what a row has written.

use std::ops::Range;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use super::{Outcome, Peer, histogram};
use crate::connection::{Connection, Poller};
use crate::meter::{Mark, Spent};
use crate::wire::{Batch, batches, fetch, fetch_result, offsets};

/// What is asked of a partition in one fetch, bytes.
pub const ANSWER: i32 = 1 << 20;
/// Every such answer has its checksums computed, the others have them compared.
const THOROUGH: u64 = 64;

pub struct Consume<'a> {
    pub topic: &'a str,
    pub offsets: Range<i64>,
    pub batch: &'a Batch,
    pub consumers: usize,
    /// What one fetch asks for, bytes.
    pub max: i32,
    /// Given the number of fetches so far, where the next one begins; none follows the log.
    pub seek: Option<&'a dyn Fn(u64) -> i64>,
    /// Seconds.
    pub warm: f64,
    pub measured: f64,
}

/// The measured part.
pub struct Consumed {
    pub spent: Spent,
    pub gb: f64,
    /// From sending a fetch to its whole answer, ns.
    pub answered: Histogram<u64>,
}

impl Consumed {
    pub fn cpu_per_gb(&self) -> f64 {
        self.spent.cpu / self.gb
    }

    pub fn mb_s(&self) -> f64 {
        self.gb * 1e3 / self.spent.secs
    }
}

struct Lane {
    connection: Connection,
    at: i64,
    asked: Instant,
}

impl<'a> Consume<'a> {
    /// All of `offsets` in order, in answers of 1 MiB.
    pub fn all(
        topic: &'a str,
        offsets: Range<i64>,
        batch: &'a Batch,
        consumers: usize,
        warm: f64,
        measured: f64,
    ) -> Consume<'a> {
        Consume { topic, offsets, batch, consumers, max: ANSWER, seek: None, warm, measured }
    }

    pub fn run(&self, peer: &Peer) -> Outcome<Consumed> {
        let (mut poller, mut lanes) = (Poller::new()?, Vec::new());
        let span = self.offsets.end - self.offsets.start;
        for i in 0..self.consumers {
            let connection = Connection::open(&peer.addr)?;
            poller.add(&connection, i)?;
            // Spread over the log, so that consumers do not share one hot megabyte; on a batch's border.
            let records = self.batch.records;
            let at = self.offsets.start + span / records / self.consumers as i64 * i as i64 * records;
            let mut lane = Lane { connection, at, asked: Instant::now() };
            self.ask(&mut lane)?;
            lanes.push(lane);
        }
        let begin = Instant::now();
        let (mut bytes, mut fetches) = (0u64, 0u64);
        let mut answers = histogram()?;
        let mut measured: Option<(Mark, u64)> = None;
        let mut ready = vec![0];
        loop {
            if self.consumers > 1 {
                ready.clear();
                ready.extend(poller.wait(Duration::from_secs(1))?);
            }
            for i in &ready {
                let lane = &mut lanes[*i];
                lane.connection.fill()?;
                let Some(frame) = lane.connection.pop() else { continue };
                if measured.is_some() {
                    answers.saturating_record(lane.asked.elapsed().as_nanos() as u64);
                }
                fetches += 1;
                if peer.broker {
                    let (next, got) = self.checked(frame, lane.at, fetches.is_multiple_of(THOROUGH))?;
                    bytes += got;
                    lane.at = match self.seek {
                        Some(seek) => seek(fetches),
                        None if next >= self.offsets.end => self.offsets.start,
                        None => next,
                    };
                } else {
                    bytes += frame.len() as u64;
                }
                self.ask(lane)?;
            }
            let t = begin.elapsed().as_secs_f64();
            match &measured {
                None if t >= self.warm => measured = Some((Mark::now(&peer.paying), bytes)),
                Some((mark, bytes_before)) if t >= self.warm + self.measured => {
                    let gb = (bytes - bytes_before) as f64 / 1e9;
                    return Ok(Consumed { spent: mark.spent(), gb, answered: answers });
                }
                _ => {}
            }
        }
    }

    fn ask(&self, lane: &mut Lane) -> std::io::Result<()> {
        lane.asked = Instant::now();
        lane.connection.send(&fetch(self.topic, 0, lane.at, self.max), &[])
    }

    /// (offset after the last whole batch, bytes of batches) of an answer to a fetch from `at`.
    fn checked(&self, frame: &[u8], at: i64, thorough: bool) -> Outcome<(i64, u64)> {
        let (next, bytes) = whole_batches(fetch_result(frame)?, at, self.batch, thorough)?;
        if bytes == 0 { Err(format!("nothing at offset {at}").into()) } else { Ok((next, bytes)) }
    }
}

/// Sees that `records`, fetched from `at`, hold nothing but `batch` at one offset after the other. Returns the offset
/// after them and their bytes. A fetch may begin inside a batch and end inside one.
pub fn whole_batches(records: &[u8], at: i64, batch: &Batch, thorough: bool) -> Outcome<(i64, u64)> {
    let (mut next, mut bytes) = (at, 0);
    for fetched in batches(records) {
        let (base, after) = offsets(fetched)?;
        if base > next || after <= next || (base < next && next != at) {
            return Err(format!("fetched offset {base}, expected {next}").into());
        }
        if !batch.is(fetched, thorough) {
            return Err(format!("the batch at {base} is not what was sent").into());
        }
        next = after;
        bytes += fetched.len() as u64;
    }
    Ok((next, bytes))
}

/// Reads `range` of a partition, or about `most` bytes from its beginning, computing every checksum.
pub fn read_back(peer: &Peer, topic: &str, partition: i32, range: Range<i64>, most: u64, batch: &Batch) -> Outcome<()> {
    let mut connection = Connection::open(&peer.addr)?;
    let (mut at, mut read) = (range.start, 0);
    while at < range.end && read < most {
        let frame = connection.call(&fetch(topic, partition, at, ANSWER))?;
        let (next, bytes) = whole_batches(fetch_result(frame)?, at, batch, true)?;
        if bytes == 0 {
            return Err(format!("nothing to read at offset {at} of partition {partition}").into());
        }
        (at, read) = (next, read + bytes);
    }
    Ok(())
}
