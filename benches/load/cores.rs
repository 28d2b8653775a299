//! Who runs where: servers on core 0, the load on core 1, so that neither takes the other's time.

use std::process::{Child, Command};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::thread::{CpuSet, sched_setaffinity};

const BROKER: usize = 0;
const LOAD: usize = 1;

static PINNED: AtomicBool = AtomicBool::new(false);

/// Puts this thread, and those it starts, on the load's core. Without a second core nothing is pinned.
pub fn pin() -> std::io::Result<()> {
    if std::thread::available_parallelism()?.get() > 1 {
        here(LOAD)?;
        PINNED.store(true, Ordering::Relaxed);
    }
    Ok(())
}

/// A child inherits the core of the thread that starts it.
pub fn spawn_on_broker_core(command: &mut Command) -> std::io::Result<Child> {
    if !PINNED.load(Ordering::Relaxed) {
        return command.spawn();
    }
    here(BROKER)?;
    let child = command.spawn();
    here(LOAD)?;
    child
}

/// Runs `work` on all cores, and what it starts: brokers that talk to each other share them with the load.
pub fn on_all<T>(work: impl FnOnce() -> T) -> std::io::Result<T> {
    if !PINNED.swap(false, Ordering::Relaxed) {
        return Ok(work());
    }
    on(&[BROKER, LOAD])?;
    let done = work();
    pin()?;
    Ok(done)
}

fn here(core: usize) -> std::io::Result<()> {
    on(&[core])
}

fn on(cores: &[usize]) -> std::io::Result<()> {
    let mut set = CpuSet::new();
    cores.iter().for_each(|core| set.set(*core));
    Ok(sched_setaffinity(None, &set)?)
}
