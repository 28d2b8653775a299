//! What a row costs the process under test, read from /proc.

use std::fs::{read_dir, read_to_string};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Clock ticks of /proc/PID/stat per second: USER_HZ, 100 on every Linux.
const TICKS: f64 = 100.0;

/// Seconds of user and system time so far. Compiler threads of a JVM are left out: they are a cost of its first minutes.
fn cpu(pid: u32) -> f64 {
    let compilers: f64 = tasks(pid)
        .filter(|task| {
            let name = read_to_string(task.join("comm")).unwrap_or_default();
            name.starts_with("C1 Comp") || name.starts_with("C2 Comp")
        })
        .map(|task| stat(task.join("stat")))
        .sum();
    stat(PathBuf::from(format!("/proc/{pid}/stat"))) - compilers
}

fn together(pids: &[u32]) -> f64 {
    pids.iter().map(|pid| cpu(*pid)).sum()
}

fn tasks(pid: u32) -> impl Iterator<Item = PathBuf> {
    read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten().map(|task| task.path())
}

fn stat(path: PathBuf) -> f64 {
    let text = read_to_string(path).unwrap_or_default();
    let fields = text.rsplit(')').next().unwrap_or_default();
    fields.split_whitespace().skip(11).take(2).filter_map(|t| t.parse::<f64>().ok()).sum::<f64>() / TICKS
}

/// Resident memory, MB (1e6 bytes).
pub fn resident_mb(pid: u32) -> f64 {
    status(&PathBuf::from(format!("/proc/{pid}/status")), "VmRSS:").map_or(f64::NAN, |kib| kib * 1024.0 / 1e6)
}

/// How often all threads together have gone to sleep so far.
pub fn sleeps(pid: u32) -> f64 {
    tasks(pid).filter_map(|task| status(&task.join("status"), "voluntary_ctxt_switches:")).sum()
}

/// Descriptors open now.
pub fn descriptors(pid: u32) -> f64 {
    read_dir(format!("/proc/{pid}/fd")).map_or(f64::NAN, |fds| fds.count() as f64)
}

fn status(path: &std::path::Path, field: &str) -> Option<f64> {
    let text = read_to_string(path).ok()?;
    text.lines().find_map(|l| l.strip_prefix(field)?.split_whitespace().next()?.parse().ok())
}

/// Bytes that the disk may still be owed when a measurement begins.
const OWED_MAX: f64 = 16e6;
const DRAIN_LIMIT: Duration = Duration::from_secs(180);

/// Returns when the page cache has been written back, or others keep it from that: what is still owed would be in the way of
/// what is measured.
pub fn written_back() {
    rustix::fs::sync();
    let until = Instant::now() + DRAIN_LIMIT;
    while owed() > OWED_MAX && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Bytes written and not on the disk yet, of all processes.
fn owed() -> f64 {
    let path = std::path::Path::new("/proc/meminfo");
    ["Dirty:", "Writeback:"].iter().filter_map(|field| status(path, field)).sum::<f64>() * 1024.0
}

/// Bytes that a process has had written to disks so far.
pub fn written(pid: u32) -> f64 {
    status(&PathBuf::from(format!("/proc/{pid}/io")), "write_bytes:").unwrap_or(f64::NAN)
}

/// The beginning of a measured stretch.
pub struct Mark {
    pids: Vec<u32>,
    cpu: f64,
    at: Instant,
}

/// What went by since a mark.
#[derive(Clone, Copy)]
pub struct Spent {
    /// Seconds of the processes together.
    pub cpu: f64,
    /// Seconds on the wall.
    pub secs: f64,
}

impl Mark {
    pub fn now(pids: &[u32]) -> Mark {
        Mark { pids: pids.to_vec(), cpu: together(pids), at: Instant::now() }
    }

    pub fn spent(&self) -> Spent {
        Spent { cpu: together(&self.pids) - self.cpu, secs: self.at.elapsed().as_secs_f64() }
    }
}
