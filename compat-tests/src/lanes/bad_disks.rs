//! Disks that are read-only, vanish, are full or answer with an error, under a whole broker: the directory goes offline at
//! once and the others serve on, the last one halts the broker with a sentence, and nothing acknowledged is lost.

use std::ffi::CString;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use kafka_protocol::messages::{ApiKey, DescribeLogDirsRequest, RequestKind, ResponseKind};
use rustix::mount::{MountFlags, UnmountFlags, mount, mount_remount, unmount};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use super::bad_days::{basic, refused, says};
use super::load::{self, Ledger};
use crate::broker::{Broker, On, free_port};
use crate::lane::{Run, skip};
use crate::proc::tool;
use crate::raw::Connection;
use crate::twin::requests::{counted, create, with_configs};

const STORAGE_ERROR: i16 = 56;

/// What a broker that does not come up, or does not notice, is given.
const LIMIT: Duration = Duration::from_secs(20);

pub fn units(run: &mut Run) {
    run.unit("a read-only directory", read_only);
    run.unit("the directory vanishes while running", vanished);
    run.unit("the disk is full", full_disk);
    run.unit("one directory of two vanishes, then the other", || one_of_two(Fault::Vanished));
    if !run.full() {
        return;
    }
    for fault in [Fault::Full, Fault::NoNames, Fault::Write, Fault::Sync] {
        run.unit(format!("{fault:?} in one directory of two, then in the other"), || one_of_two(fault));
    }
    run.unit("no space for the metastore's journal", full_journal);
}

/// A file system of its own, unmounted when dropped.
pub struct Tmpfs(TempDir);

impl Tmpfs {
    /// Of so many bytes, in words of `mount`. A skip where none can be mounted.
    pub fn new(size: &str) -> Result<Tmpfs> {
        let dir = TempDir::with_prefix("compat-")?;
        let options = CString::new(format!("size={size}"))?;
        match mount("tmpfs", dir.path(), "tmpfs", MountFlags::empty(), Some(options.as_c_str())) {
            Ok(()) => Ok(Tmpfs(dir)),
            Err(error) => skip(format!("a tmpfs cannot be mounted here: {error}")),
        }
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for Tmpfs {
    fn drop(&mut self) {
        let _ = unmount(self.0.path(), UnmountFlags::DETACH);
    }
}

fn read_only() -> Result<()> {
    let disk = Tmpfs::new("16m")?;
    mount_remount(disk.0.path(), MountFlags::RDONLY, "").context("remount read-only")?;
    let dir = TempDir::with_prefix("compat-")?;
    let mut lines = basic(dir.path(), free_port()?);
    let data = disk.0.path().join("data").display().to_string();
    lines.push(format!("log.dirs={data}"));
    says(&refused(dir.path(), &lines)?, &[&data])
}

/// The only directory goes away: the broker says so and halts, or answers errors; it never acknowledges into nothing.
fn vanished() -> Result<()> {
    let mut broker = Broker::start(&On::Klamm, &[("log.segment.bytes", "100000")])?;
    load::create_topic(&broker.address(), "t", 1)?;
    let address = broker.address();
    let data = broker.log_dir();
    let away = data.with_extension("away");
    let mut writers = vec![vec![(0, Ledger::default())]];
    let moved = load::run(&address, "t", -1, &mut writers, |total| {
        load::await_count(total, 20, LIMIT)?;
        fs::rename(&data, &away)?;
        // Segments roll every few dozen batches: the loss is met soon.
        broker
            .await_exit(LIMIT)
            .and_then(|status| status.context("it still runs without its only directory"))
            .and_then(|status| if status.success() { bail!("it ended as if all were well") } else { Ok(()) })
    });
    moved?;
    says(&broker.log_text(), &[&data.display().to_string()])?;
    ensure!(!broker.log_text().contains("panicked"), "it panicked: {}", broker.log_tail(20));
    if data.exists() {
        fs::remove_dir_all(&data)?;
    }
    fs::rename(&away, &data)?;
    broker.start_again()?;
    load::verify(&address, "t", 0, &writers[0][0].1).map(|_| ())
}

fn full_disk() -> Result<()> {
    let disk = Tmpfs::new("24m")?;
    let data = disk.0.path().join("data");
    let ballast = disk.0.path().join("ballast");
    fs::write(&ballast, vec![1; 8 << 20])?;
    let path = data.display().to_string();
    let mut broker = Broker::start(&On::Klamm, &[("log.dirs", &path), ("log.segment.bytes", "1000000")])?;
    load::create_topic(&broker.address(), "t", 2)?;
    let address = broker.address();
    let mut writers = vec![vec![(0, Ledger::default())], vec![(1, Ledger::default())]];
    load::run(&address, "t", -1, &mut writers, |_| {
        let status = broker.await_exit(Duration::from_secs(60))?.context("it still runs on a full disk")?;
        ensure!(!status.success(), "it ended as if all were well");
        Ok(())
    })?;
    says(&broker.log_text(), &[&path])?;
    ensure!(!broker.log_text().contains("panicked"), "it panicked: {}", broker.log_tail(20));
    fs::remove_file(&ballast)?;
    broker.start_again()?;
    for ledger in writers.iter().flatten() {
        load::verify(&address, "t", ledger.0, &ledger.1)?;
    }
    load::create_topic(&address, "after", 1)
}

/// What becomes of a directory that is in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// Renamed: open files go on, the next segment has no place.
    Vanished,
    /// ENOSPC for bytes.
    Full,
    /// ENOSPC for names: open files go on, the next segment has no place.
    NoNames,
    /// EIO from every write to one partition's log.
    Write,
    /// EIO from every fsync of one partition's log.
    Sync,
}

/// A log directory with a fault to come.
struct Victim {
    fault: Fault,
    data: PathBuf,
    /// The file system or directory below `data`.
    _disk: Result<Tmpfs, TempDir>,
    injected: Option<Injected>,
}

impl Victim {
    fn new(fault: Fault) -> Result<Victim> {
        let disk = match fault {
            Fault::Full => Ok(Tmpfs::new("16m")?),
            Fault::NoNames => Ok(Tmpfs::new("64m,nr_inodes=200")?),
            Fault::Vanished | Fault::Write | Fault::Sync => Err(TempDir::with_prefix("compat-")?),
        };
        let root = disk.as_ref().map_or_else(|temp| temp.path(), |tmpfs| tmpfs.0.path());
        Ok(Victim { fault, data: root.join("data"), _disk: disk, injected: None })
    }

    fn away(&self) -> PathBuf {
        self.data.with_extension("away")
    }

    fn strike(&mut self, broker: &Broker, partition: &str) -> Result<()> {
        let log = self.data.join(partition).join("00000000000000000000.log");
        match self.fault {
            Fault::Vanished => fs::rename(&self.data, self.away())?,
            Fault::Full => fill(&self.away())?,
            Fault::NoNames => use_up_names(&self.away())?,
            Fault::Write => self.injected = Some(Injected::new(broker.pid()?, &log, "pwrite64", "")?),
            Fault::Sync => self.injected = Some(Injected::new(broker.pid()?, &log, "fdatasync", "")?),
        }
        Ok(())
    }

    fn heal(&mut self) -> Result<()> {
        self.injected = None;
        match self.fault {
            Fault::Vanished => {
                // A broker that is told to write may have made the directory anew.
                if self.data.exists() {
                    fs::remove_dir_all(&self.data)?;
                }
                fs::rename(self.away(), &self.data)?;
            }
            Fault::Full => fs::remove_file(self.away())?,
            Fault::NoNames => fs::remove_dir_all(self.away())?,
            Fault::Write | Fault::Sync => {}
        }
        Ok(())
    }
}

/// Writes `ballast` until its file system has no byte left.
pub fn fill(ballast: &Path) -> Result<()> {
    let mut file = fs::File::create(ballast)?;
    loop {
        match std::io::Write::write_all(&mut file, &[1; 4096]) {
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::StorageFull => return Ok(()),
            Err(error) => return Err(error.into()),
        }
    }
}

/// Makes files in `ballast` until its file system has room for no further name.
fn use_up_names(ballast: &Path) -> Result<()> {
    fs::create_dir(ballast)?;
    for name in 0.. {
        match fs::File::create(ballast.join(name.to_string())) {
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::StorageFull => break,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// A system call that fails with EIO on one file of a running process, until dropped.
pub struct Injected(Child);

impl Injected {
    /// Every time, or as often as `when` says in words of `strace`.
    pub fn new(pid: i32, file: &Path, call: &str, when: &str) -> Result<Injected> {
        let mut strace = Command::new(tool("strace")?);
        strace.args(["-f", "-p", &pid.to_string(), "-P"]).arg(file);
        strace.args([
            "-e",
            &format!("trace={call}"),
            "-e",
            &format!("inject={call}:error=EIO{when}"),
            "-o",
            "/dev/null",
        ]);
        let mut child = strace.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().context("start strace")?;
        let mut said = BufReader::new(child.stderr.take().context("a pipe")?);
        let injected = Injected(child);
        let mut line = String::new();
        while said.read_line(&mut line)? > 0 {
            if line.contains("attached") {
                // Threads that come and go are told of too: nobody reads that, and a closed pipe would end it.
                thread::spawn(move || std::io::copy(&mut said, &mut std::io::sink()));
                return Ok(injected);
            }
        }
        skip(format!("strace cannot attach here: {}", line.trim()))
    }
}

impl Drop for Injected {
    fn drop(&mut self) {
        // Told to end it lets go of the process in order.
        if let Some(pid) = Pid::from_raw(self.0.id() as i32) {
            let _ = kill_process(pid, Signal::TERM);
        }
        let _ = self.0.wait();
    }
}

/// The directories the broker shows as offline.
pub fn offline(address: &str) -> Result<Vec<String>> {
    let request = RequestKind::DescribeLogDirs(DescribeLogDirsRequest::default().with_topics(None));
    let ResponseKind::DescribeLogDirs(answer) = Connection::open(address)?.ask(ApiKey::DescribeLogDirs, 1, &request)?
    else {
        bail!("no DescribeLogDirs response")
    };
    let failed = answer.results.into_iter().filter(|dir| dir.error_code == STORAGE_ERROR);
    Ok(failed.map(|dir| dir.log_dir.to_string()).collect())
}

/// The first directory holds the metastore and one partition, the second the other partition. The second fails under a
/// produce load, then the first.
fn one_of_two(fault: Fault) -> Result<()> {
    let mut dirs = [Victim::new(fault)?, Victim::new(fault)?];
    let shown: Vec<String> = dirs.iter().map(|dir| dir.data.display().to_string()).collect();
    let flush = if fault == Fault::Sync { "1" } else { "1000000" };
    // A fault that is met at a file's first byte or its first fsync needs no second segment.
    let segment = if matches!(fault, Fault::Vanished | Fault::NoNames) { "100000" } else { "100000000" };
    let settings =
        [("log.dirs", &*shown.join(",")), ("log.segment.bytes", segment), ("log.flush.interval.messages", flush)];
    let mut broker = Broker::start(&On::Klamm, &settings)?;
    let address = broker.address();
    load::create_topic(&address, "t", 2)?;
    let holds = |dir: &Victim| ["t-0", "t-1"].into_iter().find(|name| dir.data.join(name).is_dir());
    let partitions = dirs.each_ref().map(holds);
    let [Some(first), Some(second)] = partitions else { bail!("both partitions in one directory: {partitions:?}") };

    let mut writers = vec![vec![(0, Ledger::default())], vec![(1, Ledger::default())]];
    load::run(&address, "t", -1, &mut writers, |total| {
        load::await_count(total, 40, LIMIT)?;
        dirs[1].strike(&broker, second)?;
        let until = Instant::now() + LIMIT;
        while offline(&address)? != [shown[1].as_str()] {
            ensure!(Instant::now() < until, "{} is not offline: {}", shown[1], broker.log_tail(8));
            thread::sleep(Duration::from_millis(5));
        }
        // From one directory alone, and while the other's writer goes on asking.
        load::await_count(total, 40, LIMIT).context("the other directory serves on")?;
        ensure!(offline(&address)? == [shown[1].as_str()], "the other directory went offline too");
        // One process is traced by one other.
        dirs[1].injected = None;
        dirs[0].strike(&broker, first)?;
        let status = broker.await_exit(LIMIT)?.context("it still runs without a directory")?;
        ensure!(!status.success(), "it ended as if all were well");
        Ok(())
    })?;
    let log = broker.log_text();
    // A full disk may be met by the metastore's journal first.
    let sentence = match fault {
        Fault::Full => "the broker halts".to_owned(),
        _ => format!("{} failed, and none is left online: the broker halts", shown[0]),
    };
    says(&log, &[&sentence])?;
    ensure!(!log.contains("panicked"), "it panicked: {}", broker.log_tail(20));

    for dir in &mut dirs {
        dir.heal()?;
    }
    broker.start_again()?;
    for (partition, ledger) in writers.iter().flatten() {
        ensure!(!ledger.acknowledged.is_empty(), "nothing was acknowledged in t-{partition}");
        load::verify(&address, "t", *partition, ledger)?;
    }
    ensure!(offline(&address)?.is_empty(), "a healed directory is offline");
    load::create_topic(&address, "after", 2)
}

/// The journal meets a full disk: the broker halts, and what it acknowledged before is there afterwards.
fn full_journal() -> Result<()> {
    let disk = Tmpfs::new("16m")?;
    let temp = TempDir::with_prefix("compat-")?;
    let ballast = disk.0.path().join("ballast");
    let dirs = format!("{},{}", disk.0.path().join("data").display(), temp.path().join("data").display());
    let mut broker = Broker::start(&On::Klamm, &[("log.dirs", &dirs)])?;
    let address = broker.address();
    load::create_topic(&address, "kept", 1)?;
    fill(&ballast)?;
    // The journal has room for a few more of these, and none to grow.
    let long = (0..4096).map(|n| format!("0:{n}")).collect::<Vec<_>>().join(",");
    let mut made = Vec::new();
    loop {
        ensure!(made.len() < 100, "acknowledged again and again, with a full disk below");
        let name = format!("late-{}", made.len());
        let topic = with_configs(counted(&name, 1, 1), &[("leader.replication.throttled.replicas", Some(&long))]);
        let request = RequestKind::CreateTopics(create(vec![topic]));
        match Connection::open(&address).and_then(|mut client| client.ask(ApiKey::CreateTopics, 5, &request)) {
            Ok(ResponseKind::CreateTopics(created)) if created.topics[0].error_code == 0 => made.push(name),
            _ => break,
        }
    }
    let status = broker.await_exit(LIMIT)?.context("it still runs without a metastore")?;
    ensure!(!status.success(), "it ended as if all were well");
    says(&broker.log_text(), &["the metastore's journal failed", "the broker halts"])?;
    fs::remove_file(&ballast)?;
    broker.start_again()?;
    for name in made.iter().map(String::as_str).chain(["kept"]) {
        load::verify(&address, name, 0, &Ledger::default()).with_context(|| format!("{name} was acknowledged"))?;
    }
    load::create_topic(&address, "after", 1)
}
