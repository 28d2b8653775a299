//! Durable appends, and the reading that recovery cannot do without.

use std::error::Error;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use super::{MIB, quantile};

/// Bytes of one append, and files that are appended to and synced at once.
const SIZES: [usize; 5] = [16 << 10, 256 << 10, MIB, 4 * MIB, 16 * MIB];
const PARALLEL: [usize; 3] = [1, 4, 16];

/// Appends of `size` bytes, each followed by fdatasync, on `files` files at once.
#[derive(Clone, Copy, Debug)]
pub struct Synced {
    pub size: usize,
    pub files: usize,
    pub mb_s: f64,
    /// Of one append with its fdatasync.
    pub p50_ms: f64,
    pub p99_ms: f64,
}

/// Tries all sizes and parallelisms for `each`, then the fastest once more for `last`: a disk that is fast for a moment and
/// then capped has to be asked for as long as what it is compared with.
pub fn best_synced(dir: &Path, each: Duration, last: Duration) -> Result<Synced, Box<dyn Error>> {
    let mut best: Option<Synced> = None;
    for size in SIZES {
        for files in PARALLEL {
            let tried = synced(dir, size, files, each)?;
            if best.is_none_or(|best| tried.mb_s > best.mb_s) {
                best = Some(tried);
            }
        }
    }
    let best = best.ok_or("nothing was tried")?;
    synced(dir, best.size, best.files, last)
}

/// Appends and syncs for `length`.
pub fn synced(dir: &Path, size: usize, files: usize, length: Duration) -> Result<Synced, Box<dyn Error>> {
    let start = Instant::now();
    let block = vec![0x5au8; size];
    let times = std::thread::scope(|scope| {
        let run = |n: usize| {
            let (block, path) = (&block, dir.join(format!("sync{n}")));
            move || -> std::io::Result<Vec<f64>> {
                let mut file = File::create(&path)?;
                let mut times = Vec::new();
                while start.elapsed() < length {
                    let begin = Instant::now();
                    file.write_all(block)?;
                    file.sync_data()?;
                    times.push(begin.elapsed().as_secs_f64() * 1e3);
                }
                std::fs::remove_file(path)?;
                Ok(times)
            }
        };
        let threads: Vec<_> = (0..files).map(|n| scope.spawn(run(n))).collect();
        let joined = threads.into_iter().map(|t| t.join().unwrap_or_else(|_| Err(std::io::Error::other("panicked"))));
        joined.collect::<std::io::Result<Vec<_>>>()
    })?;
    let secs = start.elapsed().as_secs_f64();
    let mut times = times.concat();
    times.sort_by(f64::total_cmp);
    Ok(Synced {
        size,
        files,
        mb_s: (times.len() * size) as f64 / 1e6 / secs,
        p50_ms: quantile(&times, 0.5),
        p99_ms: quantile(&times, 0.99),
    })
}

/// Reads all of the file in gulps of 1 MiB with a checksum over each. Returns seconds per GB of one thread.
pub fn read_and_check(path: &Path) -> std::io::Result<f64> {
    let file = OpenOptions::new().read(true).open(path)?;
    let mut block = vec![0u8; MIB];
    let (mut at, start) = (0u64, Instant::now());
    loop {
        let n = file.read_at(&mut block, at)?;
        if n == 0 {
            return Ok(start.elapsed().as_secs_f64() / (at as f64 / 1e9));
        }
        std::hint::black_box(crc32c::crc32c(&block[..n]));
        at += n as u64;
    }
}

pub fn lines(dir: &Path) -> Result<Vec<String>, Box<dyn Error>> {
    let mut lines = Vec::new();
    for size in [16 << 10, 256 << 10, MIB] {
        let one = synced(dir, size, 1, Duration::from_millis(300))?;
        lines.push(format!(
            "| append {} KiB + fdatasync | {:.0} MB/s, p50 {:.2} ms, p99 {:.2} ms |",
            size >> 10,
            one.mb_s,
            one.p50_ms,
            one.p99_ms
        ));
    }
    let best = best_synced(dir, Duration::from_millis(150), Duration::from_millis(600))?;
    lines.push(format!(
        "| best append + fdatasync: {} KiB, {} files at once | {:.0} MB/s, p50 {:.2} ms, p99 {:.2} ms |",
        best.size >> 10,
        best.files,
        best.mb_s,
        best.p50_ms,
        best.p99_ms
    ));
    Ok(lines)
}
