//! A disk in memory that forgets: after [`SimDisk::crash`] only synced bytes and synced names are left.
//!
//! ```text
//! write ─→ live bytes ──fsync──→ durable bytes        create, rename, remove ─→ live names ──sync_dir──→ durable names
//!              └──────────── crash: live := durable, with or without a prefix of what was not synced ────────────┘
//! ```
//! Faults: power lost after a number of changes (every later call fails until the crash), a write that stops half way,
//! an fsync that fails and drops what it should have saved, no space. A file that was open at a crash is dead.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

use crate::clock::Clock;
use crate::random::Random;
use crate::storage::disk::{DirEntry, Disk, DiskFile, DiskSpace, FileInfo, Open};

/// What a crash leaves of what was not synced.
#[derive(Clone, Copy)]
pub enum Keep<'a> {
    /// Nothing: the strictest disk.
    Nothing,
    /// Of each file a random number of its first unsynced writes, the last one torn; of each directory likewise.
    Prefix(&'a dyn Random),
    /// Everything: the process died, the machine did not.
    Everything,
}

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

/// The disk; clones share it.
#[derive(Clone)]
pub struct SimDisk(Arc<Mutex<State>>);

struct State {
    clock: Arc<dyn Clock>,
    nodes: HashMap<u64, Node>,
    next: u64,
    /// Rises with each crash.
    life: u64,
    locked: HashSet<u64>,
    /// Bytes all files may hold together.
    capacity: u64,
    changes: u64,
    power_fails_at: Option<u64>,
    faults: Vec<(Fault, String)>,
}

enum Node {
    File(FileNode),
    Dir(DirNode),
}

#[derive(Default)]
struct FileNode {
    live: Vec<u8>,
    durable: Vec<u8>,
    unsynced: Vec<Change>,
    modified_ms: i64,
}

#[derive(Clone)]
enum Change {
    Write(u64, Vec<u8>),
    Len(u64),
}

#[derive(Default)]
struct DirNode {
    live: BTreeMap<String, u64>,
    durable: BTreeMap<String, u64>,
    /// Changes in order; the names of one change become durable together, as in a rename.
    unsynced: Vec<Vec<(String, Option<u64>)>>,
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
        SimDisk(Arc::new(Mutex::new(State {
            clock,
            nodes: HashMap::from([(ROOT, Node::Dir(DirNode::default()))]),
            next: ROOT + 1,
            life: 0,
            locked: HashSet::new(),
            capacity: u64::MAX,
            changes: 0,
            power_fails_at: None,
            faults: Vec::new(),
        })))
    }

    /// The machine goes down and comes up again.
    pub fn crash(&self, keep: Keep<'_>) {
        let mut state = self.0.lock();
        state.life += 1;
        state.locked.clear();
        state.power_fails_at = None;
        state.faults.clear();
        let mut ids: Vec<u64> = state.nodes.keys().copied().collect();
        ids.sort_unstable();
        for id in ids {
            match state.nodes.get_mut(&id) {
                Some(Node::File(file)) => file.crash(keep),
                Some(Node::Dir(dir)) => dir.crash(keep),
                None => {}
            }
        }
    }

    /// Writes, size changes, syncs and changes of names so far.
    pub fn changes(&self) -> u64 {
        self.0.lock().changes
    }

    /// From the `n`th change from now on every call fails, until [`SimDisk::crash`]; that change does not happen.
    pub fn lose_power_after(&self, n: u64) {
        let mut state = self.0.lock();
        state.power_fails_at = Some(state.changes + n);
    }

    /// Lets the next fitting call on a path that contains `text` go wrong.
    pub fn fail_next(&self, fault: Fault, text: &str) {
        self.0.lock().faults.push((fault, text.to_owned()));
    }

    /// Bytes that all files may hold together.
    pub fn set_capacity(&self, bytes: u64) {
        self.0.lock().capacity = bytes;
    }
}

impl FileNode {
    fn apply(bytes: &mut Vec<u8>, change: &Change) {
        match change {
            Change::Write(position, data) => {
                let end = *position as usize + data.len();
                if bytes.len() < end {
                    bytes.resize(end, 0);
                }
                bytes[*position as usize..end].copy_from_slice(data);
            }
            Change::Len(len) => bytes.resize(*len as usize, 0),
        }
    }

    fn change(&mut self, change: Change, now_ms: i64) {
        FileNode::apply(&mut self.live, &change);
        self.unsynced.push(change);
        self.modified_ms = now_ms;
    }

    fn sync(&mut self) {
        for change in self.unsynced.drain(..) {
            FileNode::apply(&mut self.durable, &change);
        }
    }

    fn crash(&mut self, keep: Keep<'_>) {
        match keep {
            Keep::Everything => self.sync(),
            Keep::Nothing => {}
            Keep::Prefix(random) => {
                let kept = random.below(self.unsynced.len() as u64 + 1) as usize;
                for (at, mut change) in self.unsynced.drain(..).enumerate().take(kept) {
                    if let (Change::Write(_, data), true) = (&mut change, at + 1 == kept) {
                        data.truncate(random.below(data.len() as u64 + 1) as usize);
                    }
                    FileNode::apply(&mut self.durable, &change);
                }
            }
        }
        self.unsynced.clear();
        self.live = self.durable.clone();
    }
}

impl DirNode {
    fn change(&mut self, names: &[(&str, Option<u64>)]) {
        for (name, to) in names {
            DirNode::apply(&mut self.live, name, *to);
        }
        self.unsynced.push(names.iter().map(|(name, to)| ((*name).to_owned(), *to)).collect());
    }

    fn apply(names: &mut BTreeMap<String, u64>, name: &str, to: Option<u64>) {
        match to {
            Some(id) => names.insert(name.to_owned(), id),
            None => names.remove(name),
        };
    }

    fn sync(&mut self) {
        self.durable = self.live.clone();
        self.unsynced.clear();
    }

    fn crash(&mut self, keep: Keep<'_>) {
        match keep {
            Keep::Everything => self.sync(),
            Keep::Nothing => {}
            Keep::Prefix(random) => {
                let kept = random.below(self.unsynced.len() as u64 + 1) as usize;
                for (name, to) in self.unsynced.drain(..).take(kept).flatten() {
                    DirNode::apply(&mut self.durable, &name, to);
                }
            }
        }
        self.unsynced.clear();
        self.live = self.durable.clone();
    }
}

impl State {
    /// One change is about to happen.
    fn step(&mut self) -> io::Result<()> {
        self.powered()?;
        self.changes += 1;
        Ok(())
    }

    fn powered(&self) -> io::Result<()> {
        match self.power_fails_at {
            Some(at) if self.changes >= at => Err(io::Error::other("the power is gone")),
            _ => Ok(()),
        }
    }

    fn fault(&mut self, path: &Path, fault: Fault) -> bool {
        let shown = path.to_string_lossy();
        match self.faults.iter().position(|(kind, text)| *kind == fault && shown.contains(text.as_str())) {
            Some(at) => {
                self.faults.remove(at);
                true
            }
            None => false,
        }
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

    fn add(&mut self, parent: u64, name: &str, node: Node) -> io::Result<u64> {
        let id = self.next;
        self.next += 1;
        self.nodes.insert(id, node);
        self.dir_mut(parent)?.change(&[(name, Some(id))]);
        Ok(id)
    }

    fn used(&self) -> u64 {
        self.nodes.values().map(|node| if let Node::File(file) = node { file.live.len() as u64 } else { 0 }).sum()
    }
}

impl Disk for SimDisk {
    fn open(&self, path: &Path, how: Open) -> io::Result<Arc<dyn DiskFile>> {
        let mut state = self.0.lock();
        state.powered()?;
        let id = match (state.find(path), how) {
            (Ok(_), Open::CreateNew) => return Err(io::ErrorKind::AlreadyExists.into()),
            (Ok(id), _) => id,
            (Err(e), Open::Create | Open::CreateNew) if e.kind() == io::ErrorKind::NotFound => {
                let (parent, name) = state.parent(path)?;
                state.step()?;
                let modified_ms = state.clock.wall_ms();
                state.add(parent, &name, Node::File(FileNode { modified_ms, ..FileNode::default() }))?
            }
            (Err(e), _) => return Err(e),
        };
        state.file(id)?;
        Ok(Arc::new(SimFile { disk: self.clone(), id, life: state.life, path: path.to_path_buf() }))
    }

    fn info(&self, path: &Path) -> io::Result<FileInfo> {
        let state = self.0.lock();
        state.powered()?;
        match state.nodes.get(&state.find(path)?) {
            Some(Node::File(file)) => {
                Ok(FileInfo { len: file.live.len() as u64, modified_ms: file.modified_ms, is_dir: false })
            }
            _ => Ok(FileInfo { len: 0, modified_ms: 0, is_dir: true }),
        }
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<DirEntry>> {
        let state = self.0.lock();
        state.powered()?;
        let names = &state.dir(state.find(dir)?)?.live;
        Ok(names
            .iter()
            .map(|(name, id)| DirEntry {
                name: name.clone(),
                is_dir: matches!(state.nodes.get(id), Some(Node::Dir(_))),
            })
            .collect())
    }

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        let mut state = self.0.lock();
        state.powered()?;
        let mut at = ROOT;
        for name in State::names(dir) {
            at = match state.dir(at)?.live.get(&name) {
                Some(id) => *id,
                None => {
                    state.step()?;
                    state.add(at, &name, Node::Dir(DirNode::default()))?
                }
            };
        }
        state.dir(at).map(|_| ())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.0.lock();
        state.powered()?;
        let id = state.find(from)?;
        let (from_dir, from_name) = state.parent(from)?;
        let (to_dir, to_name) = state.parent(to)?;
        state.step()?;
        if from_dir == to_dir {
            state.dir_mut(to_dir)?.change(&[(&to_name, Some(id)), (&from_name, None)]);
        } else {
            state.dir_mut(to_dir)?.change(&[(&to_name, Some(id))]);
            state.dir_mut(from_dir)?.change(&[(&from_name, None)]);
        }
        Ok(())
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        let mut state = self.0.lock();
        state.powered()?;
        let id = state.find(path)?;
        state.file(id)?;
        let (parent, name) = state.parent(path)?;
        state.step()?;
        state.dir_mut(parent)?.change(&[(&name, None)]);
        Ok(())
    }

    fn remove_dir_all(&self, dir: &Path) -> io::Result<()> {
        let mut state = self.0.lock();
        state.powered()?;
        let id = state.find(dir)?;
        state.dir(id)?;
        let (parent, name) = state.parent(dir)?;
        state.step()?;
        state.dir_mut(parent)?.change(&[(&name, None)]);
        Ok(())
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        let mut state = self.0.lock();
        state.powered()?;
        let id = state.find(dir)?;
        if state.fault(dir, Fault::SyncError) {
            return Err(io::Error::other("fsync failed"));
        }
        state.step()?;
        state.dir_mut(id)?.sync();
        Ok(())
    }

    fn set_modified_ms(&self, path: &Path, ms: i64) -> io::Result<()> {
        let mut state = self.0.lock();
        state.powered()?;
        let id = state.find(path)?;
        state.file(id)?.modified_ms = ms;
        Ok(())
    }

    fn space(&self, _dir: &Path) -> io::Result<DiskSpace> {
        let state = self.0.lock();
        Ok(DiskSpace { total: state.capacity, usable: state.capacity.saturating_sub(state.used()) })
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn Send + Sync>> {
        self.open(path, Open::Create)?;
        let mut state = self.0.lock();
        let id = state.find(path)?;
        if !state.locked.insert(id) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        Ok(Box::new(SimLock { disk: self.clone(), id, life: state.life }))
    }
}

struct SimLock {
    disk: SimDisk,
    id: u64,
    life: u64,
}

impl Drop for SimLock {
    fn drop(&mut self) {
        let mut state = self.disk.0.lock();
        if state.life == self.life {
            state.locked.remove(&self.id);
        }
    }
}

struct SimFile {
    disk: SimDisk,
    id: u64,
    life: u64,
    path: PathBuf,
}

impl fmt::Debug for SimFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimFile").field("path", &self.path).finish()
    }
}

impl SimFile {
    fn with<T>(&self, act: impl FnOnce(&mut State) -> io::Result<T>) -> io::Result<T> {
        let mut state = self.disk.0.lock();
        state.powered()?;
        if state.life != self.life {
            return Err(io::Error::other("the file was opened before a crash"));
        }
        act(&mut state)
    }
}

impl DiskFile for SimFile {
    fn read_at(&self, buf: &mut [u8], position: u64) -> io::Result<usize> {
        self.with(|state| {
            if state.fault(&self.path, Fault::ReadError) {
                return Err(io::Error::other("read failed"));
            }
            let bytes = &state.file(self.id)?.live;
            let from = (position as usize).min(bytes.len());
            let n = buf.len().min(bytes.len() - from);
            buf[..n].copy_from_slice(&bytes[from..from + n]);
            Ok(n)
        })
    }

    fn write_all_at(&self, buf: &[u8], position: u64) -> io::Result<()> {
        self.with(|state| {
            let now_ms = state.clock.wall_ms();
            if state.fault(&self.path, Fault::WriteError) {
                return Err(io::Error::other("write failed"));
            }
            let mut written = buf.len();
            let mut failure = None;
            if state.fault(&self.path, Fault::ShortWrite) {
                written /= 2;
                failure = Some(io::Error::other("write failed half way"));
            }
            let len = state.file(self.id)?.live.len() as u64;
            let grows = (position + written as u64).saturating_sub(len);
            let room = state.capacity.saturating_sub(state.used());
            if grows > room {
                written -= ((grows - room) as usize).min(written);
                failure = Some(io::ErrorKind::StorageFull.into());
            }
            state.step()?;
            state.file(self.id)?.change(Change::Write(position, buf[..written].to_vec()), now_ms);
            failure.map_or(Ok(()), Err)
        })
    }

    fn len(&self) -> io::Result<u64> {
        self.with(|state| Ok(state.file(self.id)?.live.len() as u64))
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.with(|state| {
            let now_ms = state.clock.wall_ms();
            state.step()?;
            state.file(self.id)?.change(Change::Len(len), now_ms);
            Ok(())
        })
    }

    fn sync(&self) -> io::Result<()> {
        self.with(|state| {
            assert!(!state.fault(&self.path, Fault::SyncPanic), "a simulated panic");
            if state.fault(&self.path, Fault::SyncError) {
                state.file(self.id)?.unsynced.clear();
                return Err(io::Error::other("fsync failed"));
            }
            state.step()?;
            state.file(self.id)?.sync();
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::ManualClock;

    fn disk() -> SimDisk {
        SimDisk::new(Arc::new(ManualClock::at(0)))
    }

    fn write(disk: &SimDisk, path: &str, bytes: &[u8]) -> Arc<dyn DiskFile> {
        let file = disk.open(Path::new(path), Open::Create).unwrap();
        file.write_all_at(bytes, 0).unwrap();
        file
    }

    fn content(disk: &SimDisk, path: &str) -> Option<Vec<u8>> {
        let file = disk.open(Path::new(path), Open::Read).ok()?;
        let mut bytes = vec![0; file.len().unwrap() as usize];
        file.read_exact_at(&mut bytes, 0).unwrap();
        Some(bytes)
    }

    #[test]
    fn a_name_and_its_bytes_are_forgotten_separately() {
        let disk = disk();
        disk.create_dir_all(Path::new("/d")).unwrap();
        disk.sync_dir(Path::new("/")).unwrap();
        write(&disk, "/d/named", b"x");
        disk.sync_dir(Path::new("/d")).unwrap();
        write(&disk, "/d/synced", b"y").sync().unwrap();
        let both = write(&disk, "/d/both", b"old");
        both.sync().unwrap();
        disk.sync_dir(Path::new("/d")).unwrap();
        both.write_all_at(b"new", 0).unwrap();
        disk.remove_file(Path::new("/d/synced")).unwrap();
        disk.crash(Keep::Nothing);
        assert_eq!(content(&disk, "/d/named"), Some(vec![]));
        assert_eq!(content(&disk, "/d/synced"), Some(b"y".to_vec()), "the removal was not synced");
        assert_eq!(content(&disk, "/d/both"), Some(b"old".to_vec()));
        assert!(both.len().is_err(), "a file from before the crash is dead");
    }

    #[test]
    fn a_failed_fsync_does_not_succeed_the_second_time() {
        let disk = disk();
        let file = write(&disk, "/f", b"abc");
        disk.sync_dir(Path::new("/")).unwrap();
        disk.fail_next(Fault::SyncError, "/f");
        assert!(file.sync().is_err());
        file.sync().unwrap();
        assert_eq!(content(&disk, "/f"), Some(b"abc".to_vec()));
        disk.crash(Keep::Nothing);
        assert_eq!(content(&disk, "/f"), Some(vec![]));
    }

    #[test]
    fn locks_do_not_outlive_their_holder_or_a_crash() {
        let disk = disk();
        let held = disk.lock(Path::new("/.lock")).unwrap();
        assert!(disk.lock(Path::new("/.lock")).is_err());
        disk.crash(Keep::Everything);
        let again = disk.lock(Path::new("/.lock")).unwrap();
        drop(held);
        assert!(disk.lock(Path::new("/.lock")).is_err(), "the old holder does not free the new one's");
        drop(again);
        assert!(disk.lock(Path::new("/.lock")).is_ok());
    }
}
