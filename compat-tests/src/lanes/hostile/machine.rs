//! Where the full form measures: the broker has a core of its own, and what the attackers cost by themselves is nobody's.
//!
//! On one core an attacker is as much in the way of the honest producer as of the broker, and who waits for a processor waits
//! for the kernel's tick. So the attackers run when nobody else wants their core, and what they cost all the same is
//! measured: [`spend_without_a_broker`].

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::thread;

use anyhow::{Result, anyhow};
use rustix::thread::{CpuSet, gettid, sched_setaffinity};

const BROKER: usize = 0;
const CLIENTS: usize = 1;

/// The cores that this thread may use, while there is one of these: two of its own, or as it was.
pub struct Cores(bool);

impl Cores {
    /// With `wanted` and a second core this thread, and those it starts, run on the clients' core from now on.
    pub fn take(wanted: bool) -> Result<Cores> {
        let cores = Cores(wanted && thread::available_parallelism()?.get() > 1);
        cores.on(CLIENTS)?;
        Ok(cores)
    }

    /// What `start` starts runs on the broker's core.
    pub fn for_broker<T>(&self, start: impl FnOnce() -> Result<T>) -> Result<T> {
        self.on(BROKER)?;
        let started = start();
        self.on(CLIENTS)?;
        started
    }

    fn on(&self, core: usize) -> Result<()> {
        if self.0 {
            let mut set = CpuSet::new();
            set.set(core);
            sched_setaffinity(None, &set)?;
        }
        Ok(())
    }
}

impl Drop for Cores {
    fn drop(&mut self) {
        if self.0 {
            let mut set = CpuSet::new();
            [BROKER, CLIENTS].into_iter().for_each(|core| set.set(core));
            // The next lane would have one core.
            let _ = sched_setaffinity(None, &set);
        }
    }
}

/// Whether a thread is in the way of others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rank {
    Normal,
    /// It runs when no other wants its core.
    Last,
}

impl Rank {
    /// Of the thread that calls, and of those it starts.
    pub fn take(self) {
        if self == Rank::Normal {
            return;
        }
        let mut command = Command::new("chrt");
        command.args(["--idle", "--pid", "0"]).arg(gettid().as_raw_nonzero().to_string());
        let done = command.stdin(Stdio::null()).stderr(Stdio::null()).status();
        if !done.is_ok_and(|status| status.success()) {
            // The next best.
            let _ = rustix::process::nice(19);
        }
    }
}

/// Connections of one round of work without a broker, and what each of them sends.
const CONNECTIONS: usize = 40;
const BYTES: usize = 1 << 20;

/// What attackers do anyway: open connections, send, close.
pub fn spend_without_a_broker() -> Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    thread::scope(|scope| {
        let sink = scope.spawn(|| listener.incoming().take(CONNECTIONS).try_for_each(|stream| drain(stream?)));
        let sender = scope.spawn(|| (0..CONNECTIONS).try_for_each(|_| send(address)));
        let sent = sender.join().map_err(|_| anyhow!("a sender panicked"))?;
        let drained = sink.join().map_err(|_| anyhow!("the sink panicked"))?;
        Ok(sent.and(drained)?)
    })
}

fn send(address: SocketAddr) -> std::io::Result<()> {
    TcpStream::connect(address)?.write_all(&vec![0; BYTES])
}

fn drain(mut stream: TcpStream) -> std::io::Result<()> {
    let mut room = vec![0; 64 << 10];
    while stream.read(&mut room)? > 0 {}
    Ok(())
}
