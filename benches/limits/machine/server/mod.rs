//! The floor of a broker: a process that frames requests and does one thing with them, parsing nothing beyond length and
//! correlation id.

mod echo;
mod frames;
mod mapped;
mod sender;
mod sink;
mod tail;

use std::error::Error;
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;

/// What is done with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mode {
    /// Checked and appended to a file, then answered. One thread for each connection.
    Sink,
    /// Answered at once. One thread for each connection.
    Pong,
    /// Answered at once by one tokio runtime of one thread: what 64 connections cost at least.
    Echo,
    /// Answered with 1 MiB of a cached file, in one of three ways.
    Pread,
    Sendfile,
    Mmap,
    /// Appended to a file, answered, and sent from there to all who follow. One thread.
    Tail,
}

impl Mode {
    pub const ALL: [Mode; 7] =
        [Mode::Sink, Mode::Pong, Mode::Echo, Mode::Pread, Mode::Sendfile, Mode::Mmap, Mode::Tail];

    pub fn name(self) -> &'static str {
        match self {
            Mode::Sink => "sink",
            Mode::Pong => "pong",
            Mode::Echo => "echo",
            Mode::Pread => "pread",
            Mode::Sendfile => "sendfile",
            Mode::Mmap => "mmap",
            Mode::Tail => "tail",
        }
    }

    pub fn parse(name: &str) -> Result<Mode, String> {
        Mode::ALL.into_iter().find(|mode| mode.name() == name).ok_or_else(|| format!("no mode {name}"))
    }
}

/// `ADDR DIR MODE`: serves until it is killed.
pub fn from_args(args: &[String]) -> Result<(), Box<dyn Error>> {
    let [addr, dir, mode] = args else {
        return Err("usage: server ADDR DIR sink|pong|echo|pread|sendfile|mmap|tail".into());
    };
    let (mode, dir) = (Mode::parse(mode)?, PathBuf::from(dir));
    std::fs::create_dir_all(&dir)?;
    if matches!(mode, Mode::Pread | Mode::Sendfile | Mode::Mmap) {
        sender::make_cached(&dir)?;
    }
    let listener = TcpListener::bind(addr)?;
    if mode == Mode::Echo {
        return echo::serve(listener);
    }
    if mode == Mode::Tail {
        return Ok(tail::serve(&listener, &dir)?);
    }
    for (i, stream) in listener.incoming().enumerate() {
        let (stream, dir) = (stream?, dir.clone());
        std::thread::spawn(move || {
            // A peer that goes away ends its thread; nobody is told.
            let _ = connection(stream, mode, &dir, i);
        });
    }
    Err("listener closed".into())
}

fn connection(stream: TcpStream, mode: Mode, dir: &std::path::Path, number: usize) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    match mode {
        Mode::Sink => {
            let path = dir.join(format!("sink{number}"));
            let outcome = sink::connection(stream, Some(&path));
            std::fs::remove_file(path)?;
            outcome
        }
        Mode::Pong => sink::connection(stream, None),
        _ => sender::connection(stream, mode, dir, number),
    }
}
