//! What this machine can do: memory, page cache, disk and loopback inside one process, and [`server`], the floor of a
//! broker as a process of its own.

pub mod disk;
mod memory;
mod network;
mod page_cache;
pub mod server;

use std::error::Error;
use std::path::Path;
use std::time::Instant;

/// 1 MiB: the gulp everything here is moved in.
pub const MIB: usize = 1 << 20;

/// Measures each limit once, with its files below `dir`; one markdown line for each.
pub fn table(dir: &Path) -> Result<Vec<String>, Box<dyn Error>> {
    let dir = dir.join(format!("klamm-limits-{}", std::process::id()));
    std::fs::create_dir_all(&dir)?;
    let outcome = lines(&dir);
    std::fs::remove_dir_all(&dir)?;
    outcome
}

fn lines(dir: &Path) -> Result<Vec<String>, Box<dyn Error>> {
    let mut lines = vec!["| limit | reached |".to_string(), "|---|---|".to_string()];
    lines.extend(memory::lines()?);
    lines.extend(page_cache::lines(dir)?);
    lines.extend(disk::lines(dir)?);
    lines.extend(network::lines()?);
    Ok(lines)
}

/// Runs `step`, which moves 1 MiB, `n` times. Returns (GB/s, seconds per GB) of one thread.
pub fn rate(n: usize, mut step: impl FnMut() -> std::io::Result<()>) -> std::io::Result<(f64, f64)> {
    let start = Instant::now();
    for _ in 0..n {
        step()?;
    }
    let (secs, gb) = (start.elapsed().as_secs_f64(), (n * MIB) as f64 / 1e9);
    Ok((gb / secs, secs / gb))
}

fn rate_line(name: &str, (speed, cost): (f64, f64)) -> String {
    format!("| {name} | {speed:.1} GB/s, {cost:.3} s/GB |")
}

/// The value below which `part` (0..=1) of `sorted` lies.
pub fn quantile(sorted: &[f64], part: f64) -> f64 {
    let at = (sorted.len() as f64 * part).ceil() as usize;
    sorted.get(at.clamp(1, sorted.len().max(1)) - 1).copied().unwrap_or(f64::NAN)
}
