//! A disk that stops at a chosen write and then shows what might be left: synced bytes surely, the rest perhaps.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

use crate::storage::disk::{DirEntry, Disk, DiskFile, DiskSpace, FileInfo, Open};

/// What became of bytes and names that were not synced when the power went.
#[derive(Clone, Copy, Debug)]
pub enum Unsynced {
    Lost,
    Kept,
    /// The file is as long as it would be, but holds zeros.
    Zeroed,
    /// Names were kept, bytes lost.
    NamesKept,
}

#[derive(Debug, Default)]
struct Inode {
    synced: Vec<u8>,
    current: Vec<u8>,
}

type Names = BTreeMap<PathBuf, usize>;

#[derive(Debug, Default)]
struct Inner {
    inodes: Vec<Inode>,
    synced_names: Names,
    names: Names,
    /// Changes made so far.
    changes: usize,
    syncs: usize,
    /// The change that is cut short; it and all later calls fail.
    stop_at: Option<usize>,
    stopped: bool,
}

#[derive(Clone, Debug, Default)]
pub struct CrashDisk(Arc<Mutex<Inner>>);

#[derive(Debug)]
struct CrashFile {
    disk: CrashDisk,
    inode: usize,
}

impl CrashDisk {
    pub fn stop_at(&self, change: usize) {
        self.0.lock().stop_at = Some(change);
    }

    pub fn changes(&self) -> usize {
        self.0.lock().changes
    }

    pub fn syncs(&self) -> usize {
        self.0.lock().syncs
    }

    pub fn has_stopped(&self) -> bool {
        self.0.lock().stopped
    }

    /// The disk as the next process finds it.
    pub fn after_crash(&self, unsynced: Unsynced) -> CrashDisk {
        let inner = self.0.lock();
        let names = match unsynced {
            Unsynced::Lost => &inner.synced_names,
            _ => &inner.names,
        };
        let bytes = |inode: &Inode| match unsynced {
            Unsynced::Lost | Unsynced::NamesKept => inode.synced.clone(),
            Unsynced::Kept => inode.current.clone(),
            Unsynced::Zeroed => {
                let mut bytes = inode.synced.clone();
                bytes.resize(inode.current.len(), 0);
                bytes
            }
        };
        let inodes = inner.inodes.iter().map(|inode| Inode { synced: bytes(inode), current: bytes(inode) }).collect();
        CrashDisk(Arc::new(Mutex::new(Inner {
            inodes,
            synced_names: names.clone(),
            names: names.clone(),
            ..Inner::default()
        })))
    }

    /// Bytes of a file, to damage them.
    pub fn edit(&self, path: &Path, edit: impl FnOnce(&mut Vec<u8>)) {
        let mut inner = self.0.lock();
        let inode = inner.names[path];
        edit(&mut inner.inodes[inode].current);
        inner.inodes[inode].synced = inner.inodes[inode].current.clone();
    }

    pub fn remove(&self, path: &Path) {
        let mut inner = self.0.lock();
        inner.names.remove(path);
        inner.synced_names.remove(path);
    }

    fn change<T>(&self, whole: impl FnOnce(&mut Inner) -> io::Result<T>) -> io::Result<T> {
        self.change_or(whole, |_| ())
    }

    /// Counts a change; `part` is what is left of the one that is cut short.
    fn change_or<T>(
        &self,
        whole: impl FnOnce(&mut Inner) -> io::Result<T>,
        part: impl FnOnce(&mut Inner),
    ) -> io::Result<T> {
        let mut inner = self.0.lock();
        if inner.stop_at == Some(inner.changes) && !inner.stopped {
            inner.stopped = true;
            part(&mut inner);
        }
        if inner.stopped {
            return Err(io::Error::other("no power"));
        }
        inner.changes += 1;
        whole(&mut inner)
    }
}

fn missing() -> io::Error {
    io::ErrorKind::NotFound.into()
}

impl Disk for CrashDisk {
    fn open(&self, path: &Path, how: Open) -> io::Result<Arc<dyn DiskFile>> {
        let found = self.0.lock().names.get(path).copied();
        let inode = match (found, how) {
            (Some(_), Open::CreateNew) => return Err(io::ErrorKind::AlreadyExists.into()),
            (None, Open::Read | Open::ReadWrite) => return Err(missing()),
            (Some(inode), _) => inode,
            (None, _) => self.change(|inner| {
                inner.inodes.push(Inode::default());
                let inode = inner.inodes.len() - 1;
                inner.names.insert(path.to_owned(), inode);
                Ok(inode)
            })?,
        };
        Ok(Arc::new(CrashFile { disk: self.clone(), inode }))
    }

    fn info(&self, path: &Path) -> io::Result<FileInfo> {
        let inner = self.0.lock();
        let inode = inner.names.get(path).ok_or_else(missing)?;
        Ok(FileInfo { len: inner.inodes[*inode].current.len() as u64, modified_ms: 0, is_dir: false })
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<DirEntry>> {
        let inner = self.0.lock();
        let below = inner.names.keys().filter_map(|path| path.strip_prefix(dir).ok());
        let mut entries: Vec<DirEntry> = below
            .filter_map(|path| {
                let mut parts = path.iter();
                let name = parts.next()?.to_string_lossy().into_owned();
                Some(DirEntry { name, is_dir: parts.next().is_some() })
            })
            .collect();
        entries.dedup();
        Ok(entries)
    }

    fn create_dir_all(&self, _: &Path) -> io::Result<()> {
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.change(|inner| {
            let inode = inner.names.remove(from).ok_or_else(missing)?;
            inner.names.insert(to.to_owned(), inode);
            Ok(())
        })
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.change(|inner| inner.names.remove(path).map(|_| ()).ok_or_else(missing))
    }

    fn remove_dir_all(&self, _: &Path) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn sync_dir(&self, _: &Path) -> io::Result<()> {
        self.change(|inner| {
            inner.synced_names = inner.names.clone();
            Ok(())
        })
    }

    fn set_modified_ms(&self, _: &Path, _: i64) -> io::Result<()> {
        Ok(())
    }

    fn space(&self, _: &Path) -> io::Result<DiskSpace> {
        Ok(DiskSpace { total: 0, usable: 0 })
    }

    fn lock(&self, _: &Path) -> io::Result<Box<dyn Send + Sync>> {
        Ok(Box::new(()))
    }
}

impl DiskFile for CrashFile {
    fn read_at(&self, buf: &mut [u8], position: u64) -> io::Result<usize> {
        let inner = self.disk.0.lock();
        let bytes = inner.inodes[self.inode].current.get(position as usize..).unwrap_or_default();
        let n = bytes.len().min(buf.len());
        buf[..n].copy_from_slice(&bytes[..n]);
        Ok(n)
    }

    fn write_all_at(&self, buf: &[u8], position: u64) -> io::Result<()> {
        let write = |inner: &mut Inner, buf: &[u8]| {
            let current = &mut inner.inodes[self.inode].current;
            let end = position as usize + buf.len();
            current.resize(current.len().max(end), 0);
            current[position as usize..end].copy_from_slice(buf);
        };
        let half = &buf[..buf.len() / 2];
        self.disk.change_or(
            |inner| {
                write(inner, buf);
                Ok(())
            },
            |inner| write(inner, half),
        )
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.disk.0.lock().inodes[self.inode].current.len() as u64)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.disk.change(|inner| {
            inner.inodes[self.inode].current.resize(len as usize, 0);
            Ok(())
        })
    }

    fn sync(&self) -> io::Result<()> {
        self.disk.change(|inner| {
            let inode = &mut inner.inodes[self.inode];
            inode.synced = inode.current.clone();
            inner.syncs += 1;
            Ok(())
        })
    }
}
