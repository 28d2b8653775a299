//! Power loss: an ext4 file system on a loop device that is shut down under a produce load, so that what was not synced
//! is gone as after a real one. Needs root, a loop device and ext4; in the full form only.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rustix::mount::{UnmountFlags, unmount};
use tempfile::TempDir;

use super::load::{self, Ledger};
use crate::broker::{Broker, On};
use crate::lane::{Run, skip};
use crate::proc::{self, tool};

const TOPIC: &str = "power";
const PARTITIONS: i32 = 3;
const ROUNDS: usize = 10;
const LIMIT: Duration = Duration::from_secs(60);

/// How the file system goes down.
#[derive(Clone, Copy, Debug)]
pub enum Shutdown {
    /// `EXT4_GOING_FLAGS_NOLOGFLUSH`: the journal's unwritten end is lost too, with every name in it.
    JournalLost = 2,
    /// `EXT4_GOING_FLAGS_LOGFLUSH`: the journal is written, unsynced pages are not: names and sizes without their bytes.
    JournalKept = 1,
}

pub fn lane(run: &mut Run) -> Result<()> {
    if !run.full() {
        return Ok(());
    }
    if run.on != On::Klamm {
        return skip("it judges Klamm's own files");
    }
    for (shutdown, mount) in [
        (Shutdown::JournalLost, "data=ordered"),
        (Shutdown::JournalKept, "data=ordered"),
        (Shutdown::JournalKept, "data=writeback,nodelalloc"),
    ] {
        for flush in [true, false] {
            let name = format!("{shutdown:?}, {mount}, {}", if flush { "every record flushed" } else { "page cache" });
            let result = rounds(shutdown, mount, flush);
            let shown = match &result {
                Ok(told) => format!("{name}: {told}"),
                Err(_) => name,
            };
            run.settled(shown, result.map(|_| ()));
        }
    }
    Ok(())
}

/// An ext4 image on a loop device, mounted while it lives.
pub struct Ext4 {
    dir: TempDir,
    options: String,
}

impl Ext4 {
    /// Mounted with these options. A skip where none can be.
    pub fn new(options: &str) -> Result<Ext4> {
        let dir = TempDir::with_prefix("compat-")?;
        let image = dir.path().join("image");
        fs::File::create(&image)?.set_len(256 << 20)?;
        let mut make = Command::new(tool("mkfs.ext4").or_else(|_| tool("mke2fs"))?);
        make.args(["-q", "-F", "-t", "ext4"]).arg(&image);
        proc::run(&mut make, b"", LIMIT)?.ok().context("mkfs.ext4")?;
        fs::create_dir(dir.path().join("disk"))?;
        let disk = Ext4 { dir, options: format!("loop,{options}") };
        match disk.mount() {
            Ok(()) => Ok(disk),
            Err(error) => skip(format!("a loop device cannot be mounted here: {error:#}")),
        }
    }

    pub fn path(&self) -> PathBuf {
        self.dir.path().join("disk")
    }

    fn mount(&self) -> Result<()> {
        let mut mount = Command::new(tool("mount")?);
        mount.args(["-o", &self.options]).arg(self.dir.path().join("image")).arg(self.path());
        proc::run(&mut mount, b"", LIMIT)?.ok().map(|_| ())
    }

    /// From here on every write fails, and nothing that is not on the device gets there. `EXT4_IOC_SHUTDOWN` goes through
    /// Python: from Rust an ioctl would be this tree's only unsafe line.
    pub fn shut_down(&self, how: Shutdown) -> Result<()> {
        const PROGRAM: &str = "import fcntl, os, struct, sys\n\
            root = os.open(sys.argv[1], os.O_RDONLY)\n\
            fcntl.ioctl(root, 0x8004587d, struct.pack('I', int(sys.argv[2])))";
        let mut python = Command::new(tool("python3")?);
        python.args(["-c", PROGRAM]).arg(self.path()).arg((how as u32).to_string());
        proc::run(&mut python, b"", LIMIT)?.ok().context("shut the file system down").map(|_| ())
    }

    /// Once nobody uses it.
    pub fn mount_again(&self) -> Result<()> {
        unmount(self.path(), UnmountFlags::empty()).context("unmount")?;
        self.mount()?;
        let written = self.path().join("written");
        fs::write(&written, "").context("it is still shut down: in another mount namespace it is mounted yet")?;
        Ok(fs::remove_file(written)?)
    }
}

impl Drop for Ext4 {
    fn drop(&mut self) {
        let _ = unmount(self.path(), UnmountFlags::DETACH);
    }
}

fn rounds(shutdown: Shutdown, mount: &str, flush: bool) -> Result<String> {
    let disk = Ext4::new(mount)?;
    let data = disk.path().join("data").display().to_string();
    let mut settings =
        vec![("log.dirs", data.as_str()), ("log.segment.bytes", "200000"), ("log.index.interval.bytes", "1000")];
    settings.push(match flush {
        true => ("log.flush.interval.messages", "1"),
        // The timer that fsyncs sealed segments comes round often: the beginning of a log is to survive, its end is not.
        false => ("replica.high.watermark.checkpoint.interval.ms", "20"),
    });
    let mut broker = Broker::start(&On::Klamm, &settings)?;
    load::create_topic(&broker.address(), TOPIC, PARTITIONS)?;
    let mut writers: Vec<Vec<(i32, Ledger)>> = (0..PARTITIONS).map(|p| vec![(p, Ledger::default())]).collect();
    let (mut lost, mut acknowledged) = (0, 0);
    for round in 1..=ROUNDS {
        let address = broker.address();
        load::run(&address, TOPIC, -1, &mut writers, |total| {
            load::await_count(total, 60, LIMIT)?;
            thread::sleep(Duration::from_millis(37 * round as u64 % 300));
            disk.shut_down(shutdown)?;
            broker.kill()
        })?;
        disk.mount_again()?;
        broker.start_again().with_context(|| format!("round {round}"))?;
        acknowledged += writers.iter().flatten().map(|(_, ledger)| ledger.acknowledged.len()).sum::<usize>();
        for (partition, ledger) in writers.iter_mut().flatten() {
            lost += survived(&broker.address(), *partition, ledger, flush).with_context(|| format!("round {round}"))?;
        }
    }
    ensure!(!broker.log_text().contains("panicked"), "it panicked: {}", broker.log_tail(20));
    ensure!(flush || lost > 0, "nothing was lost: the power never went");
    ensure!(lost < acknowledged, "all of it was lost: whether it were the end alone could not be told");
    Ok(format!("{ROUNDS} rounds, {acknowledged} records looked for, {lost} lost"))
}

/// How many acknowledged records are gone, all of them at the end; with `flush` none may be.
fn survived(address: &str, partition: i32, ledger: &mut Ledger, flush: bool) -> Result<usize> {
    if flush {
        return load::verify(address, TOPIC, partition, ledger).map(|_| 0);
    }
    let end = load::verify(address, TOPIC, partition, &Ledger::default())? as i64;
    let gone = ledger.acknowledged.split_off(&end);
    load::verify(address, TOPIC, partition, ledger)?;
    Ok(gone.len())
}
