//! Servers end with the harness, and their directories go, also when it is interrupted.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::process::{Pid, Signal, kill_process};
use tokio::signal::unix::{SignalKind, signal};

use crate::cores;

/// Process ids, and the directory of each.
static RUNNING: Mutex<BTreeMap<u32, PathBuf>> = Mutex::new(BTreeMap::new());

fn running() -> MutexGuard<'static, BTreeMap<u32, PathBuf>> {
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts a process over `dir`. After an interrupt none is started any more.
pub fn start(command: &mut Command, dir: &Path) -> std::io::Result<Child> {
    let mut running = running();
    let child = cores::spawn_on_broker_core(command)?;
    running.insert(child.id(), dir.to_owned());
    Ok(child)
}

pub fn forget(pid: u32) {
    running().remove(&pid);
}

/// From now on SIGINT and SIGTERM kill what was started, then this process.
pub fn end_with_us() -> std::io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let (mut interrupt, mut terminate) = {
        let _context = runtime.enter();
        (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?)
    };
    std::thread::spawn(move || {
        runtime.block_on(async {
            tokio::select! { _ = interrupt.recv() => {}, _ = terminate.recv() => {} }
        });
        // Held to the end: nobody starts another.
        let running = running();
        for (pid, dir) in running.iter() {
            if let Some(pid) = i32::try_from(*pid).ok().and_then(Pid::from_raw) {
                let _ = kill_process(pid, Signal::KILL);
            }
            let _ = std::fs::remove_dir_all(dir);
        }
        std::process::exit(130);
    });
    Ok(())
}
