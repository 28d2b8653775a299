//! Open loop: when each request is due, whatever became of those before. Times count from the moment it was due.

use std::borrow::BorrowMut;
use std::collections::VecDeque;
use std::io;
use std::num::NonZeroU64;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::retry_on_intr;

use super::{Outcome, histogram};
use crate::connection::{Connection, PATIENCE, timespec};

/// An even rate, not measured at first.
#[derive(Clone, Copy)]
pub struct Rate {
    /// Requests per second.
    pub per_second: f64,
    /// Seconds.
    pub warm: f64,
    pub measured: f64,
}

/// A [`Rate`] that has begun.
pub struct Pace {
    begin: Instant,
    step: Duration,
    skipped: u32,
    total: u32,
    sent: u32,
    /// Something was last heard.
    heard: Instant,
}

impl Pace {
    pub fn begin(rate: Rate) -> Outcome<Pace> {
        // Timers of a thread may otherwise be 50 µs late.
        rustix::thread::set_current_timer_slack(NonZeroU64::new(1000))?;
        let skipped = (rate.warm * rate.per_second) as u32;
        Ok(Pace {
            begin: Instant::now() + Duration::from_millis(20),
            step: Duration::from_secs_f64(1.0 / rate.per_second),
            skipped,
            total: skipped + (rate.measured * rate.per_second) as u32,
            sent: 0,
            heard: Instant::now(),
        })
    }

    /// Requests in all.
    pub fn total(&self) -> u32 {
        self.total
    }

    /// When the request of this number is due.
    pub fn at(&self, number: u32) -> Instant {
        self.begin + self.step * number
    }

    /// Whether a request due then belongs to the measured part.
    pub fn is_measured(&self, due: Instant) -> bool {
        due >= self.at(self.skipped)
    }

    pub fn is_over(&self) -> bool {
        self.sent == self.total
    }

    /// Number and time of the next request, if it is due now. It counts as sent.
    pub fn due(&mut self) -> Option<(u32, Instant)> {
        let (number, due) = (self.sent, self.at(self.sent));
        (!self.is_over() && Instant::now() >= due).then(|| {
            self.sent += 1;
            (number, due)
        })
    }

    /// Waits until the next request is due or something can be read. Who can be read without waiting, by place.
    pub fn wait<'c>(&mut self, all: impl Iterator<Item = &'c Connection>) -> Outcome<Vec<usize>> {
        let limit = match self.is_over() {
            true => PATIENCE,
            false => self.at(self.sent).saturating_duration_since(Instant::now()),
        };
        let mut fds: Vec<PollFd> = all.map(|connection| PollFd::new(connection, PollFlags::IN)).collect();
        retry_on_intr(|| poll(&mut fds, Some(&timespec(limit))))?;
        let readable: Vec<usize> =
            fds.iter().enumerate().filter(|(_, fd)| !fd.revents().is_empty()).map(|(place, _)| place).collect();
        if !readable.is_empty() {
            self.heard = Instant::now();
        } else if self.heard.elapsed() >= PATIENCE {
            return Err(format!("no answer for {} s", PATIENCE.as_secs()).into());
        }
        Ok(readable)
    }
}

impl Rate {
    /// Each request goes over the next of `lanes`. From when one was due to its answer, ns.
    pub fn in_turn<T: BorrowMut<Connection>>(
        self,
        lanes: &mut [T],
        mut send: impl FnMut(usize, &mut T) -> io::Result<()>,
        mut answered: impl FnMut(&[u8]) -> Outcome<()>,
    ) -> Outcome<Histogram<u64>> {
        let mut open: Vec<VecDeque<Instant>> = vec![VecDeque::new(); lanes.len()];
        let (mut pace, mut times) = (Pace::begin(self)?, histogram()?);
        while !pace.is_over() || open.iter().any(|requests| !requests.is_empty()) {
            if let Some((number, due)) = pace.due() {
                let lane = number as usize % lanes.len();
                send(lane, &mut lanes[lane])?;
                open[lane].push_back(due);
                continue;
            }
            let readable = pace.wait(lanes.iter().map(|lane| lane.borrow()))?;
            let now = Instant::now();
            for lane in readable {
                let connection = lanes[lane].borrow_mut();
                connection.fill()?;
                while let Some(frame) = connection.pop() {
                    answered(frame)?;
                    let due = open[lane].pop_front().ok_or("an answer too many")?;
                    if pace.is_measured(due) {
                        times.saturating_record((now - due).as_nanos() as u64);
                    }
                }
            }
        }
        Ok(times)
    }
}
