//! Clients without measure: some write as fast as they are answered, many are connected and say nothing.

use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use kafka_protocol::messages::{ApiKey, RequestKind};

use crate::raw::{Connection, Heard, frame};
use crate::records::{Batch, Record};
use crate::twin::requests::produce;

/// For an answer. A broker that is busy with 63 others takes its time.
const LIMIT: Duration = Duration::from_secs(10);
/// Before a writer connects again.
const PAUSE: Duration = Duration::from_millis(50);
/// Of a batch.
const RECORDS: usize = 10;
const BYTES: usize = 1000;

/// Over when dropped.
pub struct Flood {
    topic: String,
    silent: Vec<Connection>,
    writers: Vec<JoinHandle<()>>,
    stop: Arc<AtomicBool>,
    answered: Arc<AtomicU64>,
}

impl Flood {
    /// Writes to the partitions of a topic, each led by who serves at its address; all addresses are in `leaders`.
    pub fn start(topic: &str, leaders: &[String], writers: usize, silent: usize) -> Result<Flood> {
        let (stop, answered) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let mut flood = Flood { topic: topic.to_owned(), silent: Vec::new(), writers: Vec::new(), stop, answered };
        for (_, address) in (0..silent).zip(leaders.iter().cycle()) {
            flood.silent.push(Connection::open(address).context("a silent connection")?);
        }
        for (number, (partition, address)) in (0..writers).zip((0..).zip(leaders).cycle()) {
            let record = Record { value: Some(vec![b'x'; BYTES]), ..Record::default() };
            let records = Batch::new(vec![record; RECORDS]).encode();
            let request = RequestKind::Produce(produce(1, &[(topic, partition, Some(records))]));
            let bytes = frame(ApiKey::Produce, 7, number as i32, &request)?;
            let (address, stop, answered) = (address.clone(), Arc::clone(&flood.stop), Arc::clone(&flood.answered));
            flood.writers.push(thread::spawn(move || write(&address, &bytes, &stop, &answered)));
        }
        Ok(flood)
    }

    pub fn topic(&self) -> &str {
        &self.topic
    }

    /// Connections that are open, and answers that writers were given.
    pub fn seen(&self) -> Result<(usize, u64)> {
        let mut open = self.writers.iter().filter(|writer| !writer.is_finished()).count();
        for connection in &self.silent {
            let stream = connection.stream();
            stream.set_nonblocking(true)?;
            let lives = matches!(stream.peek(&mut [0]), Err(error) if error.kind() == ErrorKind::WouldBlock);
            open += usize::from(lives);
        }
        Ok((open, self.answered.load(Ordering::Relaxed)))
    }

    pub fn end(mut self) -> Result<()> {
        self.stop.store(true, Ordering::Relaxed);
        for writer in self.writers.drain(..) {
            ensure!(writer.join().is_ok(), "a writer of the flood panicked");
        }
        Ok(())
    }
}

impl Drop for Flood {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// What it is answered is nobody's concern: it goes on.
fn write(address: &str, request: &Bytes, stop: &AtomicBool, answered: &AtomicU64) {
    while !stop.load(Ordering::Relaxed) {
        if let Ok(mut connection) = Connection::open_within(address, LIMIT) {
            while !stop.load(Ordering::Relaxed) {
                connection.send(request);
                let Ok(Heard::Reply(_)) = connection.hear(LIMIT) else { break };
                answered.fetch_add(1, Ordering::Relaxed);
            }
        }
        thread::sleep(PAUSE);
    }
}
