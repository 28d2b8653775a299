//! Closed-loop produce: each connection keeps a number of requests in flight.

use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use super::{Ledger, Outcome, Peer, histogram};
use crate::connection::{Connection, PATIENCE, Poller};
use crate::meter::{Mark, Spent, resident_mb};
use crate::wire::Produce;

/// How much is sent before, or while, it is measured. Bytes where fresh pages would cost one server more than another
/// that is slower.
#[derive(Clone, Copy)]
pub enum Amount {
    Bytes(u64),
    Secs(f64),
}

pub struct Closed<'a> {
    pub requests: &'a [Produce],
    pub connections: usize,
    /// Requests in flight on each connection.
    pub window: usize,
    pub warm: Amount,
    pub measured: Amount,
}

/// The measured part.
pub struct Produced {
    pub spent: Spent,
    pub requests: f64,
    pub gb: f64,
    /// Most resident memory seen, MB.
    pub peak_mb: f64,
    /// From sending a request to its answer, ns; of the measured part.
    pub answered: Histogram<u64>,
}

impl Produced {
    pub fn cpu_per_gb(&self) -> f64 {
        self.spent.cpu / self.gb
    }

    pub fn mb_s(&self) -> f64 {
        self.gb * 1e3 / self.spent.secs
    }

    pub fn requests_s(&self) -> f64 {
        self.requests / self.spent.secs
    }

    pub fn cpu_us_per_request(&self) -> f64 {
        self.spent.cpu * 1e6 / self.requests
    }
}

const SAMPLE: Duration = Duration::from_millis(50);

struct Lane {
    connection: Connection,
    next: usize,
    /// Indexes of the requests in flight, and when each went.
    open: std::collections::VecDeque<(usize, Instant)>,
}

impl Closed<'_> {
    pub fn run(&self, peer: &Peer, ledger: &mut Ledger) -> Outcome<Produced> {
        let (mut poller, mut lanes) = (Poller::new()?, Vec::new());
        for i in 0..self.connections {
            let connection = Connection::open(&peer.addr)?;
            poller.add(&connection, i)?;
            let next = i * self.requests.len() / self.connections;
            lanes.push(Lane { connection, next, open: std::collections::VecDeque::with_capacity(self.window) });
        }
        let mut progress = Progress { begin: Instant::now(), bytes: 0, requests: 0 };
        for _ in 0..self.window {
            for lane in &mut lanes {
                self.send(lane)?;
            }
        }
        let (mut measured, mut done): (Option<(Mark, Progress)>, Option<Produced>) = (None, None);
        let mut answers = histogram()?;
        let (mut peak_mb, mut sampled, mut heard) = (0f64, Instant::now(), Instant::now());
        let mut ready = vec![0];
        while lanes.iter().any(|lane| !lane.open.is_empty()) {
            // One connection blocks in its read: a system call less for each answer.
            if self.connections > 1 {
                ready.clear();
                ready.extend(poller.wait(Duration::from_secs(1))?);
            }
            for i in &ready {
                let lane = &mut lanes[*i];
                lane.connection.fill()?;
                heard = Instant::now();
                let mut got = 0;
                while let Some(frame) = lane.connection.pop() {
                    ledger.answered(frame)?;
                    let (index, sent) = lane.open.pop_front().ok_or("an answer too many")?;
                    progress.bytes += self.requests[index].payload() as u64;
                    progress.requests += 1;
                    got += 1;
                    if measured.is_some() && done.is_none() {
                        answers.saturating_record((heard - sent).as_nanos() as u64);
                    }
                }
                for _ in 0..if done.is_none() { got } else { 0 } {
                    self.send(lane)?;
                }
            }
            match &measured {
                None if progress.past(self.warm) => {
                    progress = Progress { begin: Instant::now(), ..progress };
                    measured = Some((Mark::now(&peer.paying), progress));
                }
                Some((mark, from)) if done.is_none() && progress.since(from).past(self.measured) => {
                    let part = progress.since(from);
                    done = Some(Produced {
                        spent: mark.spent(),
                        requests: part.requests as f64,
                        gb: part.bytes as f64 / 1e9,
                        peak_mb,
                        answered: answers.clone(),
                    });
                }
                _ => {}
            }
            if sampled.elapsed() > SAMPLE {
                (peak_mb, sampled) = (peak_mb.max(resident_mb(peer.pid)), Instant::now());
            }
            if heard.elapsed() > PATIENCE {
                return Err(format!("no answer for {} s", PATIENCE.as_secs()).into());
            }
        }
        let done = done.ok_or("ended before it was measured")?;
        Ok(Produced { peak_mb: peak_mb.max(resident_mb(peer.pid)), ..done })
    }

    fn send(&self, lane: &mut Lane) -> std::io::Result<()> {
        let index = lane.next % self.requests.len();
        let request = &self.requests[index];
        lane.next += 1;
        lane.open.push_back((index, Instant::now()));
        lane.connection.send(&request.head, &request.body)
    }
}

#[derive(Clone, Copy)]
struct Progress {
    begin: Instant,
    bytes: u64,
    requests: u64,
}

impl Progress {
    fn past(&self, amount: Amount) -> bool {
        match amount {
            Amount::Bytes(bytes) => self.bytes >= bytes,
            Amount::Secs(secs) => self.begin.elapsed().as_secs_f64() >= secs,
        }
    }

    fn since(&self, from: &Progress) -> Progress {
        Progress { begin: from.begin, bytes: self.bytes - from.bytes, requests: self.requests - from.requests }
    }
}
