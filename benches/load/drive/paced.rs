//! Produce at an even rate, open loop, while consumers wait for what comes.

use std::collections::VecDeque;
use std::time::Instant;

use hdrhistogram::Histogram;

use super::consume::{ANSWER, whole_batches};
use super::pace::{Pace, Rate};
use super::{Ledger, Outcome, Peer, histogram};
use crate::admin::end_offsets;
use crate::connection::Connection;
use crate::meter::{Mark, Spent};
use crate::wire::{Batch, Produce, fetch, fetch_result};

pub struct Paced<'a> {
    pub topic: &'a str,
    pub request: &'a Produce,
    pub batch: &'a Batch,
    pub rate: Rate,
    /// Consumers in long polls at the end of partition 0. Of the limit program only one that serves a tail has them.
    pub tails: usize,
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
        let start = if peer.broker { end_offsets(&peer.addr, self.topic, 1)?[0] } else { 0 };
        let mut producer = Connection::open(&peer.addr)?;
        let mut consumers = Vec::new();
        for _ in 0..self.tails {
            let mut connection = Connection::open(&peer.addr)?;
            connection.send(&fetch(self.topic, 0, start, ANSWER), &[])?;
            consumers.push(Tail { connection, at: start });
        }
        let mut pace = Pace::begin(self.rate)?;
        let end = start + i64::from(pace.total()) * self.batch.records;
        let (mut acked, mut arrived) = (histogram()?, histogram()?);
        let (mut open, mut mark, mut delivered) = (VecDeque::new(), None, 0u64);
        while !pace.is_over() || !open.is_empty() || consumers.iter().any(|tail| tail.at < end) {
            if let Some((_, due)) = pace.due() {
                if mark.is_none() && pace.is_measured(due) {
                    mark = Some(Mark::now(&peer.paying));
                }
                producer.send(&self.request.head, &self.request.body)?;
                open.push_back(due);
                continue;
            }
            // The producer, then the consumers.
            let all = std::iter::once(&producer).chain(consumers.iter().map(|tail| &tail.connection));
            let readable = pace.wait(all)?;
            let now = Instant::now();
            for index in readable {
                let Some(index) = index.checked_sub(1) else {
                    producer.fill()?;
                    while let Some(frame) = producer.pop() {
                        ledger.answered(frame)?;
                        let due: Instant = open.pop_front().ok_or("an answer too many")?;
                        if pace.is_measured(due) {
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
                    let due = pace.at(((tail.at - start) / self.batch.records) as u32);
                    if pace.is_measured(due) {
                        arrived.saturating_record((now - due).as_nanos() as u64);
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
