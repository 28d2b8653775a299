//! Which machine and which commit a table belongs to.

use std::fs::read_to_string;
use std::process::Command;

use serde::Serialize;

#[derive(Serialize)]
pub struct Fingerprint {
    pub cores: usize,
    pub processor: String,
    pub memory_gib: f64,
    pub kernel: String,
    /// As git describes it; a `-dirty` one is not in any history.
    pub commit: String,
    /// Seconds since 1970.
    pub time: u64,
    /// Runnable threads over the last minute when the run began: what else the machine did.
    pub load: f64,
}

impl Fingerprint {
    pub fn take() -> Fingerprint {
        let text = |path: &str| read_to_string(path).unwrap_or_default();
        let field = |path: &str, name: &str| -> String {
            let text = text(path);
            let value = text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
            value.trim_start_matches([' ', '\t', ':']).to_string()
        };
        let kib = field("/proc/meminfo", "MemTotal").split_whitespace().next().and_then(|n| n.parse::<f64>().ok());
        let commit =
            Command::new("git").args(["-C", env!("CARGO_MANIFEST_DIR"), "describe", "--always", "--dirty"]).output();
        Fingerprint {
            cores: std::thread::available_parallelism().map_or(0, usize::from),
            processor: field("/proc/cpuinfo", "model name"),
            memory_gib: kib.map_or(0.0, |kib| kib / f64::from(1 << 20)),
            kernel: text("/proc/sys/kernel/osrelease").trim().to_string(),
            commit: commit.map(|o| String::from_utf8_lossy(&o.stdout).trim().to_string()).unwrap_or_default(),
            time: std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |d| d.as_secs()),
            load: text("/proc/loadavg").split_whitespace().next().and_then(|n| n.parse().ok()).unwrap_or_default(),
        }
    }

    pub fn line(&self) -> String {
        format!(
            "{} x {}, {:.0} GiB, kernel {}, load {:.1} before; commit {}",
            self.cores, self.processor, self.memory_gib, self.kernel, self.load, self.commit
        )
    }
}
