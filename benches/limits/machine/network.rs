//! Loopback: how long it takes to be answered by a thread that has nothing else to do.

use std::error::Error;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Instant;

use rustix::thread::{CpuSet, sched_setaffinity};

use super::quantile;

const PINGS: usize = 5000;

pub fn lines() -> Result<Vec<String>, Box<dyn Error>> {
    let cores = std::thread::available_parallelism()?.get();
    let mut lines = Vec::new();
    for (name, core) in [("other core", 1), ("same core", 0)] {
        if core < cores {
            let times = ping_pong(core)?;
            let (p50, p99, p999) = (quantile(&times, 0.5), quantile(&times, 0.99), quantile(&times, 0.999));
            lines.push(format!("| ping-pong, {name} | p50 {p50:.0} µs, p99 {p99:.0} µs, p99.9 {p999:.0} µs |"));
        }
    }
    Ok(lines)
}

/// Sorted microseconds of one byte there and back; the asking thread on core 0, the answering one on `core`.
fn ping_pong(core: usize) -> Result<Vec<f64>, Box<dyn Error>> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let addr = listener.local_addr()?;
    let echo = move || -> std::io::Result<()> {
        pin(core)?;
        let (mut stream, _) = listener.accept()?;
        stream.set_nodelay(true)?;
        let mut byte = [0u8; 1];
        while stream.read(&mut byte)? == 1 {
            stream.write_all(&byte)?;
        }
        Ok(())
    };
    let ask = move || -> std::io::Result<Vec<f64>> {
        pin(0)?;
        let mut stream = TcpStream::connect(addr)?;
        stream.set_nodelay(true)?;
        let mut times = Vec::with_capacity(PINGS);
        for _ in 0..PINGS {
            let start = Instant::now();
            stream.write_all(b"x")?;
            stream.read_exact(&mut [0u8; 1])?;
            times.push(start.elapsed().as_secs_f64() * 1e6);
        }
        times.sort_by(f64::total_cmp);
        Ok(times)
    };
    // Two threads of their own: the caller keeps its cores.
    let (echo, ask) = (std::thread::spawn(echo), std::thread::spawn(ask));
    let times = ask.join().map_err(|_| "the asking thread panicked")??;
    echo.join().map_err(|_| "the echo thread panicked")??;
    Ok(times)
}

fn pin(core: usize) -> std::io::Result<()> {
    let mut set = CpuSet::new();
    set.set(core);
    Ok(sched_setaffinity(None, &set)?)
}
