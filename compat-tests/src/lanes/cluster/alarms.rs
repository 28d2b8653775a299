//! A cluster that has a hard time, in which nobody dies: nobody is taken for dead.

use std::fs::{self, File};
use std::io::{Seek as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, ensure};

use super::{BROKERS, LOADED, Play};
use crate::cluster::Cluster;

const LASTS: Duration = Duration::from_secs(600);
/// A broker stands still for so long: a sixth of its session.
const PAUSE: Duration = Duration::from_secs(3);
/// Between two pauses.
const REST: Duration = Duration::from_secs(7);
/// What a broker logs when it takes another one for dead, or one of those that it took for dead answers.
const SUSPICION: &str = "taken for dead";
/// Written and synced by each writer again and again, in bytes.
const CHUNK: usize = 8 << 20;

impl Play<'_> {
    /// Both cores are taken, the disk is, and brokers are stopped in turn, for less than their sessions.
    pub(super) fn nobody_dies(&mut self) -> Result<()> {
        let before = alarms(&mut self.cluster)?;
        let name = format!("{} minutes without a processor, a disk and, in turn, a broker", LASTS.as_secs() / 60);
        self.step(&name, |cluster, load| {
            let directory = cluster.log_dir(BROKERS[0]);
            let _plague = Plague::begin(directory.parent().unwrap_or(&directory))?;
            let begin = Instant::now();
            for broker in BROKERS.into_iter().cycle() {
                cluster.broker(broker)?.pause()?;
                thread::sleep(PAUSE);
                cluster.broker(broker)?.resume()?;
                thread::sleep(REST);
                load.await_flow()?;
                if begin.elapsed() >= LASTS {
                    break;
                }
            }
            cluster.await_isr(&LOADED, &BROKERS)
        })?;
        let after = alarms(&mut self.cluster)?;
        let none = if after.len() == before.len() { Ok(()) } else { Err(anyhow!("{after:#?}")) };
        self.run.must("nobody was taken for dead", none, Duration::ZERO)
    }
}

/// What all brokers have said of suspicions so far, broker by broker.
fn alarms(cluster: &mut Cluster) -> Result<Vec<String>> {
    let mut alarms = Vec::new();
    for id in BROKERS {
        let log = cluster.broker(id)?.log_text();
        ensure!(!log.is_empty(), "broker {id} says nothing");
        alarms.extend(log.lines().filter(|line| line.contains(SUSPICION)).map(str::to_owned));
    }
    Ok(alarms)
}

/// As many threads that compute as there are cores, twice, and two that write and sync. They end when it is dropped.
struct Plague {
    over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
    files: Vec<PathBuf>,
}

impl Plague {
    fn begin(directory: &Path) -> Result<Plague> {
        let over = Arc::new(AtomicBool::new(false));
        let mut plague = Plague { over: over.clone(), threads: Vec::new(), files: Vec::new() };
        for _ in 0..2 * thread::available_parallelism()?.get() {
            let over = over.clone();
            plague.threads.push(thread::spawn(move || {
                while !over.load(Ordering::Relaxed) {
                    std::hint::black_box((0..1_000_u64).sum::<u64>());
                }
            }));
        }
        for nth in 0..2 {
            let path = directory.join(format!("plague-{nth}"));
            let (over, mut file) = (over.clone(), File::create(&path)?);
            plague.files.push(path);
            plague.threads.push(thread::spawn(move || {
                let chunk = vec![1; CHUNK];
                // An end for want of room is one, too.
                while !over.load(Ordering::Relaxed)
                    && file.rewind().is_ok()
                    && file.write_all(&chunk).is_ok()
                    && file.sync_all().is_ok()
                {}
            }));
        }
        Ok(plague)
    }
}

impl Drop for Plague {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // It neither holds nor tells anything.
            let _ = thread.join();
        }
        for path in &self.files {
            let _ = fs::remove_file(path);
        }
    }
}
