//! A disk in memory that forgets: after [`SimDisk::crash`] only synced bytes and synced names are left.
//!
//! ```text
//! write ─→ live bytes ──fsync──→ durable bytes        create, rename, remove ─→ live names ──sync_dir──→ durable names
//!              └──────── crash: live := durable, with or without something of what was not synced: [`Keep`] ────────┘
//! ```
//! Faults: power lost at a chosen change (that one may survive in part, every later call fails until the crash), a write
//! that stops half way, an fsync that fails and drops what it should have saved, no space, a directory that does not answer.
//! A file that was open at a crash is dead.
//!
//! `node` holds what a file and a directory remember, `calls` answers as a [`crate::storage::disk::Disk`].

mod calls;
mod node;
mod stall;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

pub use self::node::Keep;
use self::node::{DirNode, FileChange, FileNode, NamesChange, Node};
use self::stall::Stall;
use crate::clock::Clock;

/// What goes wrong once, at the next call of that kind on a path that contains the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Half the bytes are written, then EIO.
    ShortWrite,
    /// Nothing is written: EIO.
    WriteError,
    /// fsync answers EIO; the pages count as clean, and a second fsync would succeed without having saved them.
    SyncError,
    ReadError,
    /// fsync panics.
    SyncPanic,
}

/// What happens at a chosen change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The power goes: the change may survive in part or not at all, every later call fails until the crash.
    PowerLost,
    /// This change fails with EIO, a write half done, an fsync without having saved anything; later ones succeed.
    Error,
    /// This write, size or new name, and every later one, finds no space; what needs none goes on.
    Full,
}

/// The disk; clones share it.
#[derive(Clone)]
pub struct SimDisk(Arc<Mutex<State>>, Arc<Stall>);

#[derive(Clone)]
struct State {
    clock: Arc<dyn Clock>,
    /// Its number: that of no copy of it.
    device: u64,
    nodes: HashMap<u64, Node>,
    next: u64,
    /// Rises with each crash.
    life: u64,
    locked: HashSet<u64>,
    /// Bytes all files may hold together.
    capacity: u64,
    changes: u64,
    syncs: u64,
    cuts: u64,
    stop: Option<(u64, Stop)>,
    stopped: Option<PathBuf>,
    faults: Vec<(Fault, String)>,
}

/// Something a crash may undo, or that undoes the danger.
enum Change {
    File(u64, FileChange),
    SyncFile(u64),
    Names(u64, NamesChange),
    SyncDir(u64),
}

const ROOT: u64 = 0;

impl fmt::Debug for SimDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.0.lock();
        f.debug_struct("SimDisk").field("nodes", &state.nodes.len()).field("changes", &state.changes).finish()
    }
}

impl SimDisk {
    /// An empty disk; the clock gives modification times.
    pub fn new(clock: Arc<dyn Clock>) -> SimDisk {
        SimDisk::of(State {
            clock,
            device: 1,
            nodes: HashMap::from([(ROOT, Node::Dir(DirNode::default()))]),
            next: ROOT + 1,
            life: 0,
            locked: HashSet::new(),
            capacity: u64::MAX,
            changes: 0,
            syncs: 0,
            cuts: 0,
            stop: None,
            stopped: None,
            faults: Vec::new(),
        })
    }

    fn of(state: State) -> SimDisk {
        SimDisk(Arc::new(Mutex::new(state)), Arc::default())
    }

    /// From now on what changes something in `dir` or below it blocks its thread, until [`SimDisk::go_on`]. Reads are
    /// answered.
    pub fn stall(&self, dir: &Path) {
        self.1.set(Some(dir.to_path_buf()));
    }

    /// Blocks its thread until a write to that file is held up by [`SimDisk::stall`].
    pub fn until_a_write_waits(&self, file: &Path) {
        self.1.until_a_write_waits(file);
    }

    /// Blocks its thread until anything is held up in `dir` or below it.
    pub fn until_something_waits(&self, dir: &Path) {
        self.1.until_something_waits(dir);
    }

    pub fn go_on(&self) {
        self.1.set(None);
    }

    /// The machine goes down and comes up again, with its faults mended.
    pub fn crash(&self, keep: Keep<'_>) {
        self.0.lock().crash(keep);
    }

    /// A copy as the next process finds it when this one dies and the machine does not: what was not synced is there and
    /// still not synced, no file is open, no fault waits.
    pub fn fork(&self) -> SimDisk {
        let mut state = self.0.lock().clone();
        state.begin_life();
        SimDisk::of(state)
    }

    /// The same files on another disk, as `cp -a` makes them.
    pub fn copy(&self) -> SimDisk {
        let copy = self.fork();
        copy.0.lock().device += 1;
        copy
    }

    /// What [`SimDisk::crash`] would leave, as another disk; this one goes on.
    pub fn after_crash(&self, keep: Keep<'_>) -> SimDisk {
        let after = self.fork();
        after.crash(keep);
        after
    }

    /// Writes, size changes, syncs and changes of names so far.
    pub fn changes(&self) -> u64 {
        self.0.lock().changes
    }

    /// fsyncs of files so far.
    pub fn syncs(&self) -> u64 {
        self.0.lock().syncs
    }

    /// How often a log was made shorter so far.
    pub fn cuts(&self) -> u64 {
        self.0.lock().cuts
    }

    /// Has `stop` happen at the `n`th change from now on, counted from 0, until [`SimDisk::crash`].
    pub fn stop_at(&self, n: u64, stop: Stop) {
        let mut state = self.0.lock();
        state.stop = Some((state.changes + n, stop));
    }

    /// Whether what [`SimDisk::stop_at`] asked for has happened.
    pub fn has_stopped(&self) -> bool {
        self.stopped_at().is_some()
    }

    /// The path of the change at which it happened.
    pub fn stopped_at(&self) -> Option<PathBuf> {
        self.0.lock().stopped.clone()
    }

    /// Lets the next fitting call on a path that contains `text` go wrong.
    pub fn fail_next(&self, fault: Fault, text: &str) {
        self.0.lock().faults.push((fault, text.to_owned()));
    }

    /// Bytes that all files may hold together.
    pub fn set_capacity(&self, bytes: u64) {
        self.0.lock().capacity = bytes;
    }

    /// Changes a file's bytes behind everybody's back, durably.
    pub fn edit(&self, path: &Path, edit: impl FnOnce(&mut Vec<u8>)) -> io::Result<()> {
        let mut state = self.0.lock();
        let id = state.find(path)?;
        let file = state.file(id)?;
        let mut bytes = file.live.clone();
        edit(&mut bytes);
        file.replace(bytes);
        Ok(())
    }

    /// Every file with its live bytes, and every empty directory.
    pub fn tree(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let state = self.0.lock();
        let mut found = BTreeMap::new();
        state.walk(ROOT, Path::new("/"), &mut |path, node| match node {
            Node::File(file) => {
                found.insert(path.to_path_buf(), file.live.clone());
            }
            Node::Dir(dir) if dir.live.is_empty() => {
                found.insert(path.to_path_buf(), Vec::new());
            }
            Node::Dir(_) => {}
        });
        found
    }
}

impl State {
    fn begin_life(&mut self) {
        self.life += 1;
        self.locked.clear();
        self.stop = None;
        self.stopped = None;
        self.faults.clear();
    }

    fn crash(&mut self, keep: Keep<'_>) {
        self.begin_life();
        let mut ids: Vec<u64> = self.nodes.keys().copied().collect();
        // A seed gives the same crash each time.
        ids.sort_unstable();
        ids.iter().filter_map(|id| self.nodes.get_mut(id).map(|node| node.crash(keep))).for_each(drop);
        let mut named = HashSet::new();
        self.walk_ids(ROOT, &mut named);
        self.nodes.retain(|id, _| named.contains(id));
    }

    /// Makes one change, or what the fault that was asked for leaves of it.
    fn change(&mut self, path: &Path, change: Change) -> io::Result<()> {
        self.powered()?;
        let fault = match change {
            Change::File(_, FileChange::Write(..)) => {
                self.fault(path, Fault::WriteError).or_else(|| self.fault(path, Fault::ShortWrite))
            }
            Change::SyncFile(_) | Change::SyncDir(_) => {
                self.fault(path, Fault::SyncPanic).or_else(|| self.fault(path, Fault::SyncError))
            }
            _ => None,
        };
        assert!(fault != Some(Fault::SyncPanic), "a simulated panic");
        let stop = self.stop.and_then(|(at, stop)| match stop {
            Stop::Full => (self.changes >= at && change.needs_space()).then_some(stop),
            _ => (self.changes == at).then_some(stop),
        });
        if stop.is_some() && self.stopped.is_none() {
            self.stopped = Some(path.to_path_buf());
        }
        self.changes += 1;
        if let Change::File(id, FileChange::Len(len)) = &change
            && path.extension().is_some_and(|extension| extension == "log")
        {
            let is_cut = self.file(*id)?.live.len() as u64 > *len;
            self.cuts += u64::from(is_cut);
        }
        match (stop, fault) {
            (Some(Stop::PowerLost), _) => {
                if !matches!(change, Change::SyncFile(_) | Change::SyncDir(_)) {
                    self.apply(change)?;
                }
                self.powered()
            }
            (Some(Stop::Full), _) => Err(io::ErrorKind::StorageFull.into()),
            (None, None) => self.apply_what_fits(change),
            (None, Some(Fault::WriteError)) => Err(io::Error::other("write failed")),
            (Some(Stop::Error), _) | (None, Some(_)) => self.fail(change),
        }
    }

    fn apply(&mut self, change: Change) -> io::Result<()> {
        match change {
            Change::File(id, change) => {
                let now_ms = self.clock.wall_ms();
                self.file(id)?.change(change, now_ms);
            }
            Change::SyncFile(id) => {
                self.syncs += 1;
                self.file(id)?.sync();
            }
            Change::Names(dir, names) => self.dir_mut(dir)?.change(names),
            Change::SyncDir(dir) => self.dir_mut(dir)?.sync(),
        }
        Ok(())
    }

    /// What is left of a change that answers EIO.
    fn fail(&mut self, change: Change) -> io::Result<()> {
        let said = match change {
            Change::File(id, FileChange::Write(position, mut bytes)) => {
                bytes.truncate(bytes.len() / 2);
                self.apply(Change::File(id, FileChange::Write(position, bytes)))?;
                "write failed half way"
            }
            Change::SyncFile(id) => {
                self.file(id)?.forget_unsynced();
                "fsync failed"
            }
            Change::SyncDir(_) => "fsync failed",
            Change::File(..) | Change::Names(..) => "input/output error",
        };
        Err(io::Error::other(said))
    }

    /// A write stops where the space ends.
    fn apply_what_fits(&mut self, change: Change) -> io::Result<()> {
        let Change::File(id, FileChange::Write(position, mut bytes)) = change else { return self.apply(change) };
        let len = self.file(id)?.live.len() as u64;
        let grows = (position + bytes.len() as u64).saturating_sub(len);
        let room = self.capacity.saturating_sub(self.used());
        let lacking = grows.saturating_sub(room) as usize;
        bytes.truncate(bytes.len().saturating_sub(lacking));
        self.apply(Change::File(id, FileChange::Write(position, bytes)))?;
        if lacking > 0 { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    }

    fn powered(&self) -> io::Result<()> {
        match self.stop {
            Some((_, Stop::PowerLost)) if self.stopped.is_some() => Err(io::Error::other("the power is gone")),
            _ => Ok(()),
        }
    }

    /// `fault` if it was asked for on this path; it happens once.
    fn fault(&mut self, path: &Path, fault: Fault) -> Option<Fault> {
        let shown = path.to_string_lossy();
        let at = self.faults.iter().position(|(kind, text)| *kind == fault && shown.contains(text.as_str()))?;
        Some(self.faults.remove(at).0)
    }

    fn names(path: &Path) -> Vec<String> {
        path.components()
            .filter_map(|part| match part {
                Component::Normal(name) => Some(name.to_string_lossy().into_owned()),
                _ => None,
            })
            .collect()
    }

    fn find(&self, path: &Path) -> io::Result<u64> {
        let mut at = ROOT;
        for name in State::names(path) {
            at = *self.dir(at)?.live.get(&name).ok_or(io::ErrorKind::NotFound)?;
        }
        Ok(at)
    }

    /// The directory that holds the last name of `path`, and that name.
    fn parent(&self, path: &Path) -> io::Result<(u64, String)> {
        let name = State::names(path).pop().ok_or(io::ErrorKind::InvalidInput)?;
        let parent = path.parent().map_or(Ok(ROOT), |parent| self.find(parent))?;
        self.dir(parent)?;
        Ok((parent, name))
    }

    fn dir(&self, id: u64) -> io::Result<&DirNode> {
        match self.nodes.get(&id) {
            Some(Node::Dir(dir)) => Ok(dir),
            Some(Node::File(_)) => Err(io::ErrorKind::NotADirectory.into()),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn dir_mut(&mut self, id: u64) -> io::Result<&mut DirNode> {
        match self.nodes.get_mut(&id) {
            Some(Node::Dir(dir)) => Ok(dir),
            Some(Node::File(_)) => Err(io::ErrorKind::NotADirectory.into()),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn file(&mut self, id: u64) -> io::Result<&mut FileNode> {
        match self.nodes.get_mut(&id) {
            Some(Node::File(file)) => Ok(file),
            Some(Node::Dir(_)) => Err(io::ErrorKind::IsADirectory.into()),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    /// Gives `node` a name in `dir`.
    fn add(&mut self, path: &Path, dir: u64, name: &str, node: Node) -> io::Result<u64> {
        let id = self.next;
        self.next += 1;
        self.nodes.insert(id, node);
        self.change(path, Change::Names(dir, vec![(name.to_owned(), Some(id))]))?;
        Ok(id)
    }

    /// Shows `see` every named node below `id`.
    fn walk(&self, id: u64, path: &Path, see: &mut dyn FnMut(&Path, &Node)) {
        let Some(node) = self.nodes.get(&id) else { return };
        see(path, node);
        if let Node::Dir(dir) = node {
            dir.live.iter().for_each(|(name, id)| self.walk(*id, &path.join(name), see));
        }
    }

    fn walk_ids(&self, id: u64, named: &mut HashSet<u64>) {
        named.insert(id);
        if let Some(Node::Dir(dir)) = self.nodes.get(&id) {
            dir.live.values().for_each(|id| self.walk_ids(*id, named));
        }
    }

    /// Bytes of all files that have a name.
    fn used(&self) -> u64 {
        let mut used = 0;
        self.walk(ROOT, Path::new("/"), &mut |_, node| {
            if let Node::File(file) = node {
                used += file.live.len() as u64;
            }
        });
        used
    }
}

impl Change {
    fn needs_space(&self) -> bool {
        match self {
            Change::File(_, FileChange::Write(..)) => true,
            Change::Names(_, names) => names.len() == 1 && names.iter().all(|(_, to)| to.is_some()),
            Change::File(_, FileChange::Len(_)) | Change::SyncFile(_) | Change::SyncDir(_) => false,
        }
    }
}

#[cfg(test)]
mod tests;
