//! What brokers and ZooKeeper servers stand on: disks that can be filled, lose power or fail in part, and clocks that jump.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;

use super::stage::{BROKERS, ZOOKEEPERS};
use crate::cluster::in_memory;
use crate::lane::skip;
use crate::lanes::bad_disks::{Tmpfs, fill};
use crate::lanes::power_loss::{Ext4, Shutdown};

/// What a fault needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    pub disks: Disks,
    /// Two log directories for each broker.
    pub two_directories: bool,
    /// A clock for each broker.
    pub clocks: bool,
    /// A small disk for each ZooKeeper server.
    pub small_trees: bool,
    /// Brokers do not wait until sessions are over, which last longer here than any fault.
    pub fast_failover: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Disks {
    /// Directories of the machine's.
    #[default]
    Shared,
    /// A small one in memory for each broker.
    Small,
    /// For each broker one that can lose power. Brokers sync each record before they acknowledge it.
    Devices,
}

impl Needs {
    pub const NOTHING: Needs =
        Needs { disks: Disks::Shared, two_directories: false, clocks: false, small_trees: false, fast_failover: false };
    /// What can be had together: where nobody waits for sessions, faults show otherwise.
    pub const EVERYTHING: Needs =
        Needs { disks: Disks::Devices, two_directories: true, clocks: true, small_trees: true, fast_failover: false };
}

/// Of each disk in memory.
const SIZE: &str = "48m";
const BALLAST: &str = "ballast";
/// Where the C library's time is replaced.
const FAKETIME: &str = "faketime/libfaketime.so.1";

pub struct Ground {
    pub needs: Needs,
    /// A folder or a link to a disk under the id of each broker, and the file that tells how far its clock is off.
    links: TempDir,
    devices: Vec<Ext4>,
    // Held until it is over.
    _disks: Vec<Tmpfs>,
    trees: Vec<Tmpfs>,
}

impl Ground {
    /// A skip where it cannot be had.
    pub fn new(needs: Needs) -> Result<Ground> {
        let mut ground = Ground {
            needs,
            links: TempDir::with_prefix("compat-")?,
            devices: Vec::new(),
            _disks: Vec::new(),
            trees: Vec::new(),
        };
        for id in BROKERS {
            let place = ground.of(id);
            match needs.disks {
                Disks::Shared => fs::create_dir(place)?,
                Disks::Small => {
                    let disk = Tmpfs::new(SIZE)?;
                    symlink(disk.path(), place)?;
                    ground._disks.push(disk);
                }
                Disks::Devices => {
                    let disk = Ext4::new("data=ordered")?;
                    symlink(disk.path(), place)?;
                    ground.devices.push(disk);
                }
            }
            ground.set_clock(id, 0)?;
        }
        Ok(ground)
    }

    fn of(&self, broker: i32) -> PathBuf {
        self.links.path().join(broker.to_string())
    }

    /// The log directories of a broker, `{id}` in the place of its id.
    fn directories(&self, broker: &str) -> Vec<PathBuf> {
        let names: &[&str] = if self.needs.two_directories { &["data", "more"] } else { &["data"] };
        names.iter().map(|name| self.links.path().join(broker).join(name)).collect()
    }

    pub fn log_dirs(&self, broker: i32) -> Vec<PathBuf> {
        self.directories(&broker.to_string())
    }

    pub fn settings(&self) -> Vec<(&'static str, String)> {
        let dirs: Vec<String> = self.directories("{id}").iter().map(|dir| dir.display().to_string()).collect();
        let mut settings = vec![("log.dirs", dirs.join(","))];
        if self.needs.disks == Disks::Devices {
            settings.push(("log.flush.interval.messages", "1".to_owned()));
        }
        if self.needs.fast_failover {
            settings.push(("klamm.fast.failover.enable", "true".to_owned()));
            settings.push(("zookeeper.session.timeout.ms", "40000".to_owned()));
        }
        settings
    }

    /// What brokers are started with.
    pub fn environment(&self) -> Result<Vec<(String, String)>> {
        if !self.needs.clocks {
            return Ok(Vec::new());
        }
        let clock = self.clock("{id}").display().to_string();
        let own = |name: &str, value: String| (name.to_owned(), value);
        Ok(vec![
            own("LD_PRELOAD", faketime()?),
            own("FAKETIME_TIMESTAMP_FILE", clock),
            own("FAKETIME_CACHE_DURATION", "1".to_owned()),
            own("FAKETIME_DONT_FAKE_MONOTONIC", "1".to_owned()),
            own("DONT_FAKE_MONOTONIC", "1".to_owned()),
        ])
    }

    /// Where the ZooKeeper servers' folders are to be.
    pub fn tree(&mut self) -> Result<TempDir> {
        let tree = in_memory()?;
        if self.needs.small_trees {
            for number in 1..=ZOOKEEPERS {
                let disk = Tmpfs::new(SIZE)?;
                symlink(disk.path(), tree.path().join(format!("zookeeper-{number}")))?;
                self.trees.push(disk);
            }
        }
        Ok(tree)
    }

    /// From now on nothing more can be written to the broker's disk.
    pub fn fill(&self, broker: i32) -> Result<()> {
        ensure!(self.needs.disks != Disks::Shared, "the disk is not the broker's own");
        fill(&self.of(broker).join(BALLAST)).context("fill a disk")
    }

    /// Undoes [`Ground::fill`].
    pub fn make_room(&self, broker: i32) -> Result<()> {
        remove(&self.of(broker).join(BALLAST))
    }

    /// As [`Ground::fill`], of a ZooKeeper server, numbered from 1.
    pub fn fill_tree(&self, number: usize) -> Result<()> {
        let disk = self.trees.get(number.wrapping_sub(1)).context("the server's disk is not its own")?;
        fill(&disk.path().join(BALLAST)).context("fill a disk")
    }

    /// Undoes [`Ground::fill_tree`] of all.
    pub fn make_room_in_trees(&self) -> Result<()> {
        self.trees.iter().try_for_each(|disk| remove(&disk.path().join(BALLAST)))
    }

    fn device(&self, broker: i32) -> Result<&Ext4> {
        let index = BROKERS.iter().position(|&id| id == broker);
        index.and_then(|index| self.devices.get(index)).context("the disk is no device")
    }

    /// From now on nothing that is not on the device gets there.
    pub fn cut_power(&self, broker: i32) -> Result<()> {
        self.device(broker)?.shut_down(Shutdown::JournalLost)?;
        let written = fs::write(self.of(broker).join("after"), "after");
        ensure!(written.is_err(), "the file system takes files after it was shut down");
        Ok(())
    }

    /// Of a broker that has ended.
    pub fn restore_power(&self, broker: i32) -> Result<()> {
        self.device(broker)?.mount_again()
    }

    fn clock(&self, broker: &str) -> PathBuf {
        self.links.path().join(format!("clock-{broker}"))
    }

    /// How far the broker's clock is off, in seconds.
    pub fn set_clock(&self, broker: i32, seconds: i64) -> Result<()> {
        let (path, new) = (self.clock(&broker.to_string()), self.clock("new"));
        // Whoever reads it meanwhile reads all of it.
        fs::write(&new, format!("{seconds:+}\n"))?;
        fs::rename(&new, &path).with_context(|| path.display().to_string())
    }
}

fn remove(file: &Path) -> Result<()> {
    match fs::remove_file(file) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error).context("make room on a disk"),
        _ => Ok(()),
    }
}

fn faketime() -> Result<String> {
    let folders = ["/usr/lib".to_owned(), format!("/usr/lib/{}-linux-gnu", std::env::consts::ARCH)];
    match folders.iter().map(|folder| Path::new(folder).join(FAKETIME)).find(|path| path.is_file()) {
        Some(path) => Ok(path.display().to_string()),
        None => skip("libfaketime is not installed: no broker has a clock of its own"),
    }
}
