//! `.kafka_cleanshutdown`: written last by an orderly stop, removed first by the next start.
//!
//! ```text
//! {"version":0,"brokerEpoch":-1}
//! ```
//! Its existence alone means clean; a ZooKeeper-mode broker writes -1 as the epoch (seen on a live 3.9.1).

use std::io;
use std::path::Path;

use super::atomic_file;
use super::disk::{Disk, Open};

const NAME: &str = ".kafka_cleanshutdown";

/// Whether the last stop was orderly. The marker is gone afterwards, durably: a crash while loading counts as one.
pub fn take(disk: &dyn Disk, dir: &Path) -> io::Result<bool> {
    let path = dir.join(NAME);
    match disk.info(&path) {
        Ok(_) => {
            atomic_file::remove_if_there(disk, &path)?;
            disk.sync_dir(dir)?;
            Ok(true)
        }
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(e) => Err(e),
    }
}

pub fn write(disk: &dyn Disk, dir: &Path) -> io::Result<()> {
    let file = disk.open(&dir.join(NAME), Open::Create)?;
    file.set_len(0)?;
    file.write_all_at(br#"{"version":0,"brokerEpoch":-1}"#, 0)?;
    file.sync()?;
    disk.sync_dir(dir)
}
