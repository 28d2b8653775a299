//! Limits measured inside one process: checksum, copies, page-cache writes, fsync, ping-pong over loopback.

use std::error::Error;
use std::fs::OpenOptions;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::FileExt;
use std::time::Instant;

const MIB: usize = 1 << 20;

/// Measures each limit and prints one line for it.
pub fn table() -> Result<(), Box<dyn Error>> {
    let dir = std::env::temp_dir().join(format!("klamm-limits-{}", std::process::id()));
    std::fs::create_dir_all(&dir)?;
    let outcome = rows(&dir);
    std::fs::remove_dir_all(&dir)?;
    outcome
}

fn rows(dir: &std::path::Path) -> Result<(), Box<dyn Error>> {
    let block = vec![0x5au8; MIB];
    rate("CRC-32C", 4096, || {
        std::hint::black_box(crc32c::crc32c(&block));
        Ok(())
    })?;
    let mut target = vec![1u8; 256 * MIB];
    let mut i = 0;
    rate("memcpy, cold", 2048, || {
        let at = i % 256 * MIB;
        target[at..at + MIB].copy_from_slice(&block);
        std::hint::black_box(&mut target);
        i += 1;
        Ok(())
    })?;
    let file = OpenOptions::new().create(true).truncate(true).read(true).write(true).open(dir.join("pages"))?;
    let mut at = 0;
    rate("page-cache write, fresh pages", 512, || {
        file.write_all_at(&block, at)?;
        at += MIB as u64;
        Ok(())
    })?;
    at = 0;
    rate("page-cache write, overwrite", 512, || {
        file.write_all_at(&block, at)?;
        at += MIB as u64;
        Ok(())
    })?;
    for size in [16 << 10, 256 << 10, MIB] {
        let mut times = Vec::new();
        for _ in 0..64 {
            file.write_all_at(&block[..size], at)?;
            at += size as u64;
            let start = Instant::now();
            file.sync_data()?;
            times.push(start.elapsed().as_secs_f64() * 1e3);
        }
        times.sort_by(f64::total_cmp);
        println!("append {:>4} KiB + fdatasync      p50 {:.2} ms, p99 {:.2} ms", size >> 10, times[32], times[63]);
    }
    ping_pong()
}

/// Runs `step` (1 MiB each) `n` times and prints GB/s.
fn rate(name: &str, n: usize, mut step: impl FnMut() -> std::io::Result<()>) -> std::io::Result<()> {
    let start = Instant::now();
    for _ in 0..n {
        step()?;
    }
    let secs = start.elapsed().as_secs_f64();
    let gb = (n * MIB) as f64 / 1e9;
    println!("{name:<32} {:.1} GB/s, {:.3} s/GB", gb / secs, secs / gb);
    Ok(())
}

fn ping_pong() -> Result<(), Box<dyn Error>> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let addr = listener.local_addr()?;
    let echo = std::thread::spawn(move || -> std::io::Result<()> {
        let (mut stream, _) = listener.accept()?;
        stream.set_nodelay(true)?;
        let mut byte = [0u8; 1];
        while stream.read(&mut byte)? == 1 {
            stream.write_all(&byte)?;
        }
        Ok(())
    });
    let mut stream = TcpStream::connect(addr)?;
    stream.set_nodelay(true)?;
    let mut times = Vec::new();
    for _ in 0..5000 {
        let start = Instant::now();
        stream.write_all(b"x")?;
        stream.read_exact(&mut [0u8; 1])?;
        times.push(start.elapsed().as_secs_f64() * 1e6);
    }
    drop(stream);
    echo.join().map_err(|_| "echo thread panicked")??;
    times.sort_by(f64::total_cmp);
    println!("ping-pong over loopback          p50 {:.0} us, p99 {:.0} us", times[2500], times[4950]);
    Ok(())
}
