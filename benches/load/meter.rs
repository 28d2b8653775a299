//! What a row costs the process under test, read from /proc.

use std::fs::read_to_string;
use std::time::Instant;

/// Clock ticks of /proc/PID/stat per second: USER_HZ, 100 on every Linux.
const TICKS: f64 = 100.0;

/// Seconds of user and system time so far. Compiler threads of a JVM are left out: they are a cost of its first minutes.
pub fn cpu(pid: u32) -> f64 {
    let compilers: f64 = std::fs::read_dir(format!("/proc/{pid}/task"))
        .into_iter()
        .flatten()
        .flatten()
        .filter(|t| {
            let name = read_to_string(t.path().join("comm")).unwrap_or_default();
            name.starts_with("C1 Comp") || name.starts_with("C2 Comp")
        })
        .map(|t| stat(&format!("{}/stat", t.path().display())))
        .sum();
    stat(&format!("/proc/{pid}/stat")) - compilers
}

fn stat(path: &str) -> f64 {
    let text = read_to_string(path).unwrap_or_default();
    let fields = text.rsplit(')').next().unwrap_or_default();
    fields.split_whitespace().skip(11).take(2).filter_map(|t| t.parse::<f64>().ok()).sum::<f64>() / TICKS
}

/// Resident memory, MB (1e6 bytes).
pub fn resident_mb(pid: u32) -> f64 {
    read_to_string(format!("/proc/{pid}/status"))
        .unwrap_or_default()
        .lines()
        .find_map(|l| l.strip_prefix("VmRSS:")?.split_whitespace().next()?.parse::<f64>().ok())
        .map_or(f64::NAN, |kib| kib * 1024.0 / 1e6)
}

/// The beginning of a measured stretch.
pub struct Mark {
    pid: u32,
    cpu: f64,
    at: Instant,
}

impl Mark {
    pub fn now(pid: u32) -> Mark {
        Mark { pid, cpu: cpu(pid), at: Instant::now() }
    }
    /// (CPU seconds of the process, wall seconds) since the mark.
    pub fn spent(&self) -> (f64, f64) {
        (cpu(self.pid) - self.cpu, self.at.elapsed().as_secs_f64())
    }
}
