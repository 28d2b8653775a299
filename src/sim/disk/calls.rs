//! The simulated disk as storage calls it.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::node::{DirNode, FileChange, FileNode, Node};
use super::{Change, Fault, ROOT, SimDisk, State};
use crate::storage::disk::{DirEntry, Disk, DiskFile, DiskSpace, FileIdentity, FileInfo, Open};

impl Disk for SimDisk {
    fn open(&self, path: &Path, how: Open) -> io::Result<Arc<dyn DiskFile>> {
        if matches!(how, Open::Create | Open::CreateNew) {
            self.1.pass(path);
        }
        let mut state = self.0.lock();
        state.powered()?;
        let id = match (state.find(path), how) {
            (Ok(_), Open::CreateNew) => return Err(io::ErrorKind::AlreadyExists.into()),
            (Ok(id), _) => id,
            (Err(e), Open::Create | Open::CreatePrivate | Open::CreateNew) if e.kind() == io::ErrorKind::NotFound => {
                let (parent, name) = state.parent(path)?;
                let file = FileNode::new(state.clock.wall_ms());
                state.add(path, parent, &name, Node::File(file))?
            }
            (Err(e), _) => return Err(e),
        };
        state.file(id)?;
        Ok(Arc::new(SimFile { disk: self.clone(), id, life: state.life, path: path.to_path_buf() }))
    }

    fn info(&self, path: &Path) -> io::Result<FileInfo> {
        self.1.pass(path);
        let state = self.0.lock();
        state.powered()?;
        match state.nodes.get(&state.find(path)?) {
            Some(Node::File(file)) => {
                Ok(FileInfo { len: file.live.len() as u64, modified_ms: file.modified_ms, is_dir: false })
            }
            _ => Ok(FileInfo { len: 0, modified_ms: 0, is_dir: true }),
        }
    }

    fn identity(&self, path: &Path) -> io::Result<FileIdentity> {
        let state = self.0.lock();
        state.powered()?;
        Ok(FileIdentity { device: state.device, inode: state.find(path)? })
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
        self.1.pass(dir);
        let mut state = self.0.lock();
        state.powered()?;
        let mut at = ROOT;
        for name in State::names(dir) {
            at = match state.dir(at)?.live.get(&name) {
                Some(id) => *id,
                None => state.add(dir, at, &name, Node::Dir(DirNode::default()))?,
            };
        }
        state.dir(at).map(|_| ())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.1.pass(to);
        let mut state = self.0.lock();
        state.powered()?;
        let id = state.find(from)?;
        let (from_dir, from_name) = state.parent(from)?;
        let (to_dir, to_name) = state.parent(to)?;
        let (added, removed) = ((to_name, Some(id)), (from_name, None));
        if from_dir == to_dir {
            return state.change(to, Change::Names(to_dir, vec![added, removed]));
        }
        state.change(to, Change::Names(to_dir, vec![added]))?;
        state.change(from, Change::Names(from_dir, vec![removed]))
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.1.pass(path);
        let mut state = self.0.lock();
        state.powered()?;
        let id = state.find(path)?;
        state.file(id)?;
        state.remove(path)
    }

    fn remove_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.1.pass(dir);
        let mut state = self.0.lock();
        state.powered()?;
        state.remove_below(dir)?;
        state.remove(dir)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.1.pass(dir);
        let mut state = self.0.lock();
        state.powered()?;
        let id = state.find(dir)?;
        state.dir(id)?;
        state.change(dir, Change::SyncDir(id))
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

impl State {
    fn remove(&mut self, path: &Path) -> io::Result<()> {
        let (parent, name) = self.parent(path)?;
        self.change(path, Change::Names(parent, vec![(name, None)]))
    }

    /// One name after the other, as a real disk does it: a crash can come between any two.
    fn remove_below(&mut self, path: &Path) -> io::Result<()> {
        let names: Vec<String> = self.dir(self.find(path)?)?.live.keys().cloned().collect();
        for name in names {
            let path = path.join(name);
            if self.dir(self.find(&path)?).is_ok() {
                self.remove_below(&path)?;
            }
            self.remove(&path)?;
        }
        Ok(())
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
            if state.fault(&self.path, Fault::ReadError).is_some() {
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
        let change = Change::File(self.id, FileChange::Write(position, buf.to_vec()));
        self.disk.1.pass_write(&self.path);
        self.with(|state| state.change(&self.path, change))
    }

    fn len(&self) -> io::Result<u64> {
        self.with(|state| Ok(state.file(self.id)?.live.len() as u64))
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.disk.1.pass(&self.path);
        self.with(|state| state.change(&self.path, Change::File(self.id, FileChange::Len(len))))
    }

    fn sync(&self) -> io::Result<()> {
        self.disk.1.pass(&self.path);
        self.with(|state| state.change(&self.path, Change::SyncFile(self.id)))
    }
}
