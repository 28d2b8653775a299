//! Reads from one leader: the next fetch is on its way while what the last one brought is written out.

use std::io::Write;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::SyncSender;
use std::thread;

use anyhow::{Context, anyhow};
use bytes::Bytes;

use super::answer::{self, API_KEY, Part, VERSION};
use super::options::{Settings, Start};
use crate::cli::client::{Connection, read_answer};
use crate::types::Offset;
use crate::wire::batch::{Batches, RawBatch};
use crate::wire::error_code::ErrorCode;

/// What the thread that writes is told.
#[derive(Debug)]
pub enum Event {
    /// By a fetcher of this assignment.
    Read(u64, Read),
    /// The group gives these partitions, to be read from there.
    Assigned(Vec<(i32, Start)>),
    /// The group takes back what it gave; it waits for the answer.
    Revoked(SyncSender<()>),
    /// There is no way to go on.
    Failed(anyhow::Error),
    /// Ctrl-C.
    Interrupted,
}

/// What a fetcher has to say.
#[derive(Debug)]
pub enum Read {
    Fetched(Fetched),
    /// The fetcher has ended: these partitions need another, from there.
    Ended {
        positions: Vec<(i32, Start)>,
        why: String,
    },
    /// There is no way to go on.
    Failed(anyhow::Error),
}

/// Counts assignments. Fetchers of an earlier one end by themselves, and what they still say does not count.
#[derive(Clone, Debug, Default)]
pub struct Assignments(Arc<AtomicU64>);

impl Assignments {
    pub fn current(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }

    pub fn end_current(&self) {
        self.0.fetch_add(1, Ordering::AcqRel);
    }
}

/// Records of some partitions.
#[derive(Debug)]
pub struct Fetched {
    pub body: Bytes,
    /// With the offset from which records are wanted.
    pub parts: Vec<(Part, i64)>,
}

/// Starts the thread for partitions that are led at `address`.
pub fn spawn(
    settings: Settings,
    address: String,
    positions: Vec<(i32, i64)>,
    assignments: Assignments,
    events: SyncSender<Event>,
) -> anyhow::Result<()> {
    let fetcher = move || {
        let assignment = assignments.current();
        let mut fetcher = Fetcher { settings, positions, assignments, assignment, events };
        let why = match fetcher.run(&address) {
            Ok(why) => why,
            Err(error) => format!("{error:#}"),
        };
        fetcher.end(why);
    };
    thread::Builder::new().name("fetcher".to_owned()).spawn(fetcher)?;
    Ok(())
}

struct Fetcher {
    settings: Settings,
    /// Partition and next offset.
    positions: Vec<(i32, i64)>,
    assignments: Assignments,
    /// The one it reads for.
    assignment: u64,
    events: SyncSender<Event>,
}

impl Fetcher {
    /// Until something is wrong.
    fn run(&mut self, address: &str) -> anyhow::Result<String> {
        let connection = Connection::open(address)?;
        connection.version(API_KEY, VERSION, VERSION)?;
        let mut stream = connection.into_stream();
        let mut correlation_id = 1;
        self.ask(&mut stream, correlation_id)?;
        loop {
            let body = read_answer(&mut stream, correlation_id)?;
            let (error, parts) = answer::parse(&body).context("the broker's answer")?;
            if error != 0 {
                return Ok(name(error));
            }
            let mut trouble = None;
            let mut fetched = Vec::with_capacity(parts.len());
            for part in parts {
                let Some(position) = self.positions.iter_mut().find(|(partition, _)| *partition == part.partition)
                else {
                    continue;
                };
                if part.error != 0 {
                    trouble = Some((part.partition, part.error));
                } else if !part.records.is_empty() {
                    let wanted_from = position.1;
                    let records = body.get(part.records.clone()).unwrap_or_default();
                    position.1 = next_offset(records, wanted_from)?;
                    fetched.push((part, wanted_from));
                }
            }
            // The broker fills its answer from the front: each partition gets there in turn.
            self.positions.rotate_left(1);
            correlation_id = i32::wrapping_add(correlation_id, 1);
            if self.assignments.current() != self.assignment {
                return Ok(String::new());
            }
            if trouble.is_none() {
                self.ask(&mut stream, correlation_id)?;
            }
            if !fetched.is_empty() && !self.say(Read::Fetched(Fetched { body, parts: fetched })) {
                return Ok(String::new());
            }
            if let Some((partition, error)) = trouble {
                return self.give_up(partition, error);
            }
        }
    }

    /// False when nobody listens any more, as at the end of the program.
    fn say(&self, what: Read) -> bool {
        self.events.send(Event::Read(self.assignment, what)).is_ok()
    }

    fn ask(&self, stream: &mut TcpStream, correlation_id: i32) -> anyhow::Result<()> {
        Ok(stream.write_all(&answer::request(&self.settings, correlation_id, &self.positions))?)
    }

    fn give_up(&mut self, partition: i32, error: i16) -> anyhow::Result<String> {
        let what = format!("partition {partition}: {}", name(error));
        if error != ErrorCode::OffsetOutOfRange.code() {
            return Ok(what);
        }
        let at = self.positions.iter().position(|(other, _)| *other == partition);
        match (self.settings.reset, at) {
            (Some(reset), Some(at)) => {
                let (_, offset) = self.positions.swap_remove(at);
                let why = format!("offset {offset} of partition {partition} is out of range");
                self.say(Read::Ended { positions: vec![(partition, reset)], why });
                Ok(String::new())
            }
            _ => {
                self.say(Read::Failed(anyhow!("{what}, and auto.offset.reset is none")));
                Ok(what)
            }
        }
    }

    fn end(self, why: String) {
        let positions = self.positions.iter().map(|(partition, offset)| (*partition, Start::At(*offset))).collect();
        self.say(Read::Ended { positions, why });
    }
}

fn name(error: i16) -> String {
    ErrorCode::from_code(error).map_or(format!("error {error}"), |code| code.to_string())
}

/// Behind the last whole batch; an error when there is none, for then no fetch will ever get further.
fn next_offset(records: &[u8], from: i64) -> anyhow::Result<i64> {
    let mut next = from;
    for raw in Batches::new(records) {
        next = next.max(behind(&raw?)?.0);
    }
    if next == from {
        return Err(anyhow!("the broker's answer of {} bytes holds no whole batch", records.len()));
    }
    Ok(next)
}

/// The offset behind a batch.
pub fn behind(raw: &RawBatch<'_>) -> anyhow::Result<Offset> {
    Ok(if raw.magic == 2 { raw.v2()?.header.next_offset() } else { raw.offset() + 1 })
}
