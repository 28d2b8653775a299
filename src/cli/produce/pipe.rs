//! A connection on which requests are written while answers to earlier ones are read by a thread of its own.

use std::io::Write;
use std::net::{Shutdown, TcpStream};
use std::sync::mpsc;
use std::thread;

use anyhow::bail;
use kafka_protocol::messages::ProduceResponse;

use super::frame::{API_KEY, Frame, HIGHEST_VERSION, LOWEST_VERSION};
use crate::cli::client::{Connection, read_answer};
use crate::wire::guard;

/// What the broker said of one frame.
#[derive(Debug)]
pub struct Answer {
    pub code: i16,
    pub message: Option<String>,
}

/// What happens beside the thread that builds batches.
#[derive(Debug)]
pub enum Event {
    Input(Input),
    Answered {
        pipe: u64,
        frame: Frame,
        answer: Answer,
    },
    /// Sent, but perhaps never arrived.
    Lost {
        pipe: u64,
        frame: Frame,
        error: String,
    },
}

/// What came from stdin.
#[derive(Debug)]
pub enum Input {
    /// As many bytes of the buffer as the number says.
    Chunk(Vec<u8>, usize),
    End(std::io::Result<()>),
}

/// The writing end.
#[derive(Debug)]
pub struct Pipe {
    pub id: u64,
    /// Frames whose answer or loss is still to come.
    pub in_flight: usize,
    stream: TcpStream,
    version: i16,
    next_correlation_id: i32,
    pending: mpsc::Sender<(i32, Frame)>,
}

impl Pipe {
    /// Answers go to `events`.
    pub fn open(id: u64, address: &str, events: mpsc::Sender<Event>) -> anyhow::Result<Pipe> {
        let connection = Connection::open(address)?;
        let version = connection.version(API_KEY, LOWEST_VERSION, HIGHEST_VERSION)?;
        let stream = connection.into_stream();
        let reading = stream.try_clone()?;
        let (pending, frames) = mpsc::channel();
        thread::Builder::new()
            .name("answers".to_owned())
            .spawn(move || answers(id, reading, version, &frames, &events))?;
        Ok(Pipe { id, in_flight: 0, stream, version, next_correlation_id: 1, pending })
    }

    /// Writes the frame; `answered`: whether the broker will answer it. A frame that cannot be written comes back.
    pub fn send(&mut self, mut frame: Frame, answered: bool) -> Result<(), (Frame, String)> {
        let correlation_id = self.next_correlation_id;
        self.next_correlation_id = correlation_id.wrapping_add(1);
        if let Err(error) = self.stream.write_all(frame.stamped(self.version, correlation_id)) {
            return Err((frame, error.to_string()));
        }
        if answered {
            self.in_flight += 1;
            // The thread outlives every sender.
            let _ = self.pending.send((correlation_id, frame));
        }
        Ok(())
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        // Wakes the thread; whether the peer is still there does not matter.
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}

/// Reads answers in the order of the requests; after a failure everything that comes is lost.
fn answers(
    pipe: u64,
    mut stream: TcpStream,
    version: i16,
    frames: &mpsc::Receiver<(i32, Frame)>,
    events: &mpsc::Sender<Event>,
) {
    let mut failed: Option<String> = None;
    for (correlation_id, frame) in frames {
        if failed.is_none() {
            match answer(&mut stream, version, correlation_id) {
                Ok(answer) => {
                    let _ = events.send(Event::Answered { pipe, frame, answer });
                    continue;
                }
                Err(error) => failed = Some(format!("{error:#}")),
            }
        }
        let error = failed.clone().unwrap_or_default();
        let _ = events.send(Event::Lost { pipe, frame, error });
    }
}

fn answer(stream: &mut TcpStream, version: i16, correlation_id: i32) -> anyhow::Result<Answer> {
    let body = read_answer(stream, correlation_id)?;
    let response: ProduceResponse = guard::decode(body, version)?;
    let Some(partition) = response.responses.first().and_then(|topic| topic.partition_responses.first()) else {
        bail!("the broker's answer names no partition");
    };
    let first = partition.record_errors.first().and_then(|record| record.batch_index_error_message.as_ref());
    let message = partition.error_message.as_ref().or(first).map(ToString::to_string);
    Ok(Answer { code: partition.error_code, message })
}
