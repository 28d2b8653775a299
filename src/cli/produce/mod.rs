//! `klamm produce`: lines of stdin to records, with kafka-console-producer's flags (3.9.1).
//!
//! A thread reads stdin in large pieces, the main thread makes batches of them, and each connection has a thread that reads
//! answers. Records that could not be sent are told on stderr, and the exit code is then 1.

mod frame;
mod lines;
mod options;
mod partitioner;
mod pipe;
mod sender;

use std::io::{self, IsTerminal, Read, Write};
use std::process::ExitCode;
use std::sync::mpsc;
use std::thread;

use super::progress::Progress;
use super::properties::Properties;
use lines::{LineFormat, Splitter};
pub use options::Args;
use options::Settings;
use pipe::{Event, Input};
use sender::Sender;

/// Bytes read from stdin at once.
const CHUNK: usize = 256 * 1024;
/// Pieces of stdin that are held.
const CHUNKS: usize = 4;

pub fn main(args: Args) -> ExitCode {
    match produce(&args) {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => super::failed(&error),
    }
}

/// How many records could not be sent.
fn produce(args: &Args) -> anyhow::Result<u64> {
    let settings = Settings::new(args)?;
    let format = LineFormat::new(Properties::read(args.reader_config.as_deref(), &args.property)?)?;
    let mut sender = Sender::connect(&settings, &args.bootstrap_server, &args.topic)?;
    let prompt = io::stdin().is_terminal();
    let mut progress = Progress::new(!prompt);
    // What was read before a bad line is sent all the same.
    let read = send_lines(&mut sender, &format, prompt, &mut progress);
    let sent = sender.finish();
    progress.finish();
    read.and(sent)?;
    Ok(sender.failed)
}

fn send_lines(
    sender: &mut Sender<'_>,
    format: &LineFormat,
    prompt: bool,
    progress: &mut Progress,
) -> anyhow::Result<()> {
    let (give_back, buffers) = mpsc::channel();
    for _ in 0..CHUNKS {
        give_back.send(vec![0; CHUNK])?;
    }
    let events = sender.events();
    thread::Builder::new().name("stdin".to_owned()).spawn(move || read_stdin(&buffers, &events))?;
    let mut splitter = Splitter::default();
    loop {
        if prompt {
            print!(">");
            io::stdout().flush()?;
        }
        let input = sender.next_input()?;
        let now_ms = sender.wall_ms();
        let mut take = |line: &[u8]| {
            progress.records += 1;
            progress.bytes += line.len() as u64 + 1;
            sender.append(&format.parse(line, progress.records)?, now_ms)
        };
        match input {
            Input::Chunk(buffer, len) => {
                splitter.feed(buffer.get(..len).unwrap_or_default(), take)?;
                // The thread may have ended.
                let _ = give_back.send(buffer);
            }
            Input::End(result) => {
                splitter.finish(&mut take)?;
                return Ok(result?);
            }
        }
        progress.tick();
    }
}

/// Until the end of stdin, or of the thread that takes the pieces.
fn read_stdin(buffers: &mpsc::Receiver<Vec<u8>>, events: &mpsc::Sender<Event>) {
    let mut stdin = io::stdin().lock();
    for mut buffer in buffers {
        let input = match stdin.read(&mut buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Input::Chunk(buffer, 0),
            Err(error) => Input::End(Err(error)),
            Ok(0) => Input::End(Ok(())),
            Ok(len) => Input::Chunk(buffer, len),
        };
        let ended = matches!(input, Input::End(_));
        if events.send(Event::Input(input)).is_err() || ended {
            return;
        }
    }
}
