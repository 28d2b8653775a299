//! Open loop: a request goes when it is due, whatever became of those before. Times count from the moment it was due.

use std::collections::VecDeque;
use std::num::NonZeroU64;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::retry_on_intr;

use super::consume::{ANSWER, whole_batches};
use super::{Ledger, Outcome, Peer, histogram};
use crate::admin::end_offsets;
use crate::connection::{Connection, PATIENCE, timespec};
use crate::meter::{Mark, Spent};
use crate::wire::{Batch, Produce, fetch, fetch_result};

pub struct Paced<'a> {
    pub topic: &'a str,
    pub request: &'a Produce,
    pub batch: &'a Batch,
    /// Requests per second.
    pub rate: f64,
    /// Consumers in long polls at the end of partition 0. Of the limit program only one that serves a tail has them.
    pub tails: usize,
    /// Seconds.
    pub warm: f64,
    pub measured: f64,
}

/// The measured part. Times in ns from the moment a request was due.
pub struct Timed {
    pub acked: Histogram<u64>,
    /// To its arrival at a consumer.
    pub arrived: Histogram<u64>,
    pub spent: Spent,
    /// GB to all consumers.
    pub delivered_gb: f64,
}

struct Tail {
    connection: Connection,
    at: i64,
}

impl Paced<'_> {
    pub fn run(&self, peer: &Peer, ledger: &mut Ledger) -> Outcome<Timed> {
        // Timers of a thread may otherwise be 50 µs late.
        rustix::thread::set_current_timer_slack(NonZeroU64::new(1000))?;
        let start = if peer.broker { end_offsets(&peer.addr, self.topic, 1)?[0] } else { 0 };
        let mut producer = Connection::open(&peer.addr)?;
        let mut consumers = Vec::new();
        for _ in 0..self.tails {
            let mut connection = Connection::open(&peer.addr)?;
            connection.send(&fetch(self.topic, 0, start, ANSWER), &[])?;
            consumers.push(Tail { connection, at: start });
        }
        let step = Duration::from_secs_f64(1.0 / self.rate);
        let skipped = (self.warm * self.rate) as u32;
        let total = skipped + (self.measured * self.rate) as u32;
        let end = start + i64::from(total) * self.batch.records;
        let (mut acked, mut arrived) = (histogram()?, histogram()?);
        let (mut sent, mut open) = (0u32, VecDeque::new());
        let (mut mark, mut delivered, mut heard) = (None, 0u64, Instant::now());
        let begin = Instant::now() + Duration::from_millis(20);
        while sent < total || !open.is_empty() || consumers.iter().any(|tail| tail.at < end) {
            let due = begin + step * sent;
            if sent < total && Instant::now() >= due {
                if sent == skipped {
                    mark = Some(Mark::now(&peer.paying));
                }
                producer.send(&self.request.head, &self.request.body)?;
                open.push_back(due);
                sent += 1;
                continue;
            }
            let limit = if sent < total { due.saturating_duration_since(Instant::now()) } else { PATIENCE };
            let readable = readable(&producer, &consumers, limit)?;
            let now = Instant::now();
            if !readable.is_empty() {
                heard = now;
            } else if heard.elapsed() >= PATIENCE {
                return Err(format!("no answer for {} s", PATIENCE.as_secs()).into());
            }
            for index in readable {
                let Some(index) = index.checked_sub(1) else {
                    producer.fill()?;
                    while let Some(frame) = producer.pop() {
                        ledger.answered(frame)?;
                        let due: Instant = open.pop_front().ok_or("an answer too many")?;
                        if due >= begin + step * skipped {
                            acked.saturating_record((now - due).as_nanos() as u64);
                        }
                    }
                    continue;
                };
                let tail = &mut consumers[index];
                tail.connection.fill()?;
                let Some(frame) = tail.connection.pop() else { continue };
                let (next, bytes) = match peer.broker {
                    true => whole_batches(fetch_result(frame)?, tail.at, self.batch, false)?,
                    false => self.echoed(frame, tail.at)?,
                };
                while tail.at < next {
                    let number = ((tail.at - start) / self.batch.records) as u32;
                    if number >= skipped {
                        arrived.saturating_record((now - (begin + step * number)).as_nanos() as u64);
                    }
                    tail.at += self.batch.records;
                }
                delivered += if mark.is_some() { bytes } else { 0 };
                if tail.at < end {
                    tail.connection.send(&fetch(self.topic, 0, tail.at, ANSWER), &[])?;
                }
            }
        }
        let spent = mark.ok_or("ended before it was measured")?.spent();
        Ok(Timed { acked, arrived, spent, delivered_gb: delivered as f64 / 1e9 })
    }

    /// As [`whole_batches`], of the limit program's answer: a correlation id and whole requests as they were sent.
    fn echoed(&self, frame: &[u8], at: i64) -> Outcome<(i64, u64)> {
        let (bytes, request) = (frame.len() - 4, self.request.head.len() + self.request.body.len());
        if bytes == 0 || !bytes.is_multiple_of(request) || !frame.ends_with(&self.request.body) {
            return Err(format!("{bytes} bytes are not requests of {request}").into());
        }
        Ok((at + (bytes / request) as i64 * self.batch.records, bytes as u64))
    }
}

/// Which can be read without waiting: 0 is the producer, then the consumers.
fn readable(producer: &Connection, consumers: &[Tail], limit: Duration) -> std::io::Result<Vec<usize>> {
    let all = std::iter::once(producer).chain(consumers.iter().map(|tail| &tail.connection));
    let mut fds: Vec<PollFd> = all.map(|connection| PollFd::new(connection, PollFlags::IN)).collect();
    retry_on_intr(|| poll(&mut fds, Some(&timespec(limit))))?;
    Ok(fds.iter().enumerate().filter(|(_, fd)| !fd.revents().is_empty()).map(|(i, _)| i).collect())
}
