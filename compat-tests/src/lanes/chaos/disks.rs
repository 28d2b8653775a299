//! Small disks: a file system in memory for each broker, that can be filled.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use anyhow::{Context, Result};
use tempfile::TempDir;

use super::stage::BROKERS;
use crate::lanes::bad_disks::{Tmpfs, fill};

/// Of each disk.
const SIZE: &str = "48m";
const BALLAST: &str = "ballast";

pub struct Disks {
    /// A link to each disk under the name of its broker.
    links: TempDir,
    // Held until it is over.
    _disks: Vec<Tmpfs>,
}

impl Disks {
    /// One for each broker. A skip where none can be mounted.
    pub fn new() -> Result<Disks> {
        let links = TempDir::with_prefix("compat-")?;
        let mut disks = Vec::new();
        for id in BROKERS {
            let disk = Tmpfs::new(SIZE)?;
            symlink(disk.path(), links.path().join(id.to_string()))?;
            disks.push(disk);
        }
        Ok(Disks { links, _disks: disks })
    }

    pub fn of(&self, broker: &str) -> PathBuf {
        self.links.path().join(broker)
    }

    fn ballast(&self, broker: i32) -> PathBuf {
        self.of(&broker.to_string()).join(BALLAST)
    }

    /// From now on nothing more can be written.
    pub fn fill(&self, broker: i32) -> Result<()> {
        fill(&self.ballast(broker)).context("fill a disk")
    }

    /// Undoes [`Disks::fill`].
    pub fn make_room(&self, broker: i32) -> Result<()> {
        match fs::remove_file(self.ballast(broker)) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error).context("make room on a disk"),
            _ => Ok(()),
        }
    }
}
