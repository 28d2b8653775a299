//! Files of partition directories, opened on first use behind a bound on open descriptors.
//!
//! A broker holds far more files than it may hold descriptors: a [`LazyFile`] knows where its file is and opens it when
//! asked. The [`FileCache`] closes the ones not used lately (a clock hand over the open ones: each use sets a mark, the
//! hand clears marks and closes what it finds unmarked). A reader that still holds the file keeps that descriptor until
//! it is done. Renames go through here, so that an open never meets the file between its two names.

use std::collections::VecDeque;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Weak};

use arc_swap::ArcSwapOption;
use parking_lot::{Mutex, RwLock};

use super::disk::{Disk, DiskFile, Open};
use crate::types::Offset;

/// Bounds the descriptors that log files hold.
#[derive(Debug)]
pub struct FileCache {
    capacity: usize,
    /// Files that were opened, oldest first; dropped ones are met as dead references.
    open: Mutex<VecDeque<Weak<LazyFile>>>,
}

impl FileCache {
    /// At most about `capacity` files are kept open.
    pub fn new(capacity: usize) -> Arc<FileCache> {
        Arc::new(FileCache { capacity: capacity.max(1), open: Mutex::default() })
    }

    fn opened(&self, file: &Arc<LazyFile>) {
        let mut open = self.open.lock();
        open.push_back(Arc::downgrade(file));
        // Two rounds at most: the first clears marks, the second finds them cleared.
        let mut steps = 2 * open.len();
        while open.len() > self.capacity && steps > 0 {
            steps -= 1;
            let Some(candidate) = open.pop_front() else { break };
            let Some(candidate) = candidate.upgrade() else { continue };
            if candidate.used.swap(false, Ordering::Relaxed) {
                open.push_back(Arc::downgrade(&candidate));
            } else {
                candidate.file.store(None);
            }
        }
    }

    /// Files held open now.
    pub fn len(&self) -> usize {
        self.open.lock().iter().filter(|file| file.upgrade().is_some_and(|file| file.file.load().is_some())).count()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A partition's directory: its path, which changes when the partition is deleted, and how to reach it.
#[derive(Debug)]
pub struct FileHome {
    pub disk: Arc<dyn Disk>,
    pub cache: Arc<FileCache>,
    path: RwLock<PathBuf>,
}

impl FileHome {
    pub fn new(disk: Arc<dyn Disk>, cache: Arc<FileCache>, path: PathBuf) -> Arc<FileHome> {
        Arc::new(FileHome { disk, cache, path: RwLock::new(path) })
    }

    pub fn path(&self) -> PathBuf {
        self.path.read().clone()
    }

    pub fn rename_dir(&self, to: PathBuf) -> io::Result<()> {
        let mut path = self.path.write();
        self.disk.rename(&path, &to)?;
        *path = to;
        Ok(())
    }
}

/// Which of a segment's files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    Log,
    OffsetIndex,
    TimeIndex,
    TxnIndex,
}

impl FileKind {
    pub const ALL: [FileKind; 4] = [FileKind::Log, FileKind::OffsetIndex, FileKind::TimeIndex, FileKind::TxnIndex];

    pub fn extension(self) -> &'static str {
        match self {
            FileKind::Log => "log",
            FileKind::OffsetIndex => "index",
            FileKind::TimeIndex => "timeindex",
            FileKind::TxnIndex => "txnindex",
        }
    }
}

/// Appended to the files of a segment that await removal.
pub const DELETED: &str = ".deleted";

/// What the name of a segment's file ends in while it is not the log's, or not any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Suffix {
    None,
    /// Being written, to take the place of others.
    Cleaned,
    /// Whole, about to take the place of others.
    Swap,
    /// Awaits removal.
    Deleted,
}

impl Suffix {
    const ALL: [Suffix; 4] = [Suffix::None, Suffix::Cleaned, Suffix::Swap, Suffix::Deleted];

    pub fn text(self) -> &'static str {
        match self {
            Suffix::None => "",
            Suffix::Cleaned => ".cleaned",
            Suffix::Swap => ".swap",
            Suffix::Deleted => DELETED,
        }
    }
}

/// `00000000000000000042.log` and its like.
pub fn file_name(base: Offset, extension: &str) -> String {
    format!("{:020}.{extension}", base.0)
}

/// One file, open or not.
#[derive(Debug)]
pub struct LazyFile {
    home: Arc<FileHome>,
    base: Offset,
    kind: FileKind,
    /// A [`Suffix`].
    suffix: AtomicU8,
    file: ArcSwapOption<Opened>,
    used: AtomicBool,
}

#[derive(Debug)]
struct Opened(Arc<dyn DiskFile>);

impl LazyFile {
    pub fn new(home: Arc<FileHome>, base: Offset, kind: FileKind) -> Arc<LazyFile> {
        LazyFile::with_suffix(home, base, kind, Suffix::None)
    }

    pub fn with_suffix(home: Arc<FileHome>, base: Offset, kind: FileKind, suffix: Suffix) -> Arc<LazyFile> {
        Arc::new(LazyFile {
            home,
            base,
            kind,
            suffix: AtomicU8::new(suffix as u8),
            file: ArcSwapOption::empty(),
            used: AtomicBool::new(false),
        })
    }

    pub fn path(&self) -> PathBuf {
        self.path_in(self.home.path())
    }

    fn path_in(&self, dir: PathBuf) -> PathBuf {
        dir.join(file_name(self.base, self.kind.extension()) + self.suffix().text())
    }

    /// The file, which must exist.
    pub fn get(self: &Arc<LazyFile>) -> io::Result<Arc<dyn DiskFile>> {
        self.open(Open::ReadWrite)
    }

    /// The file, made when absent.
    pub fn create(self: &Arc<LazyFile>) -> io::Result<Arc<dyn DiskFile>> {
        self.open(Open::Create)
    }

    fn open(self: &Arc<LazyFile>, how: Open) -> io::Result<Arc<dyn DiskFile>> {
        if let Some(open) = self.file.load().as_ref() {
            if !self.used.load(Ordering::Relaxed) {
                self.used.store(true, Ordering::Relaxed);
            }
            return Ok(open.0.clone());
        }
        let opened = {
            let dir = self.home.path.read();
            self.home.disk.open(&self.path_in(dir.clone()), how)?
        };
        self.file.store(Some(Arc::new(Opened(opened.clone()))));
        self.home.cache.opened(self);
        Ok(opened)
    }

    /// Gives the file its name with another suffix. An absent file is left absent.
    pub fn rename(&self, suffix: Suffix) -> io::Result<()> {
        let dir = self.home.path.write();
        let from = self.path_in(dir.clone());
        let to = dir.join(file_name(self.base, self.kind.extension()) + suffix.text());
        match self.home.disk.rename(&from, &to) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            other => other?,
        }
        self.suffix.store(suffix as u8, Ordering::Release);
        Ok(())
    }

    pub fn suffix(&self) -> Suffix {
        Suffix::ALL.get(usize::from(self.suffix.load(Ordering::Acquire))).copied().unwrap_or(Suffix::None)
    }

    pub fn is_deleted(&self) -> bool {
        self.suffix() == Suffix::Deleted
    }

    /// fsync of what was written, if anything ever was.
    pub fn sync_if_there(self: &Arc<LazyFile>) -> io::Result<()> {
        match self.get() {
            Ok(file) => file.sync(),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(e) => Err(e),
        }
    }

    pub fn remove(&self) -> io::Result<()> {
        let path = self.path();
        self.close();
        super::atomic_file::remove_if_there(self.home.disk.as_ref(), &path)
    }

    pub fn close(&self) {
        self.file.store(None);
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::clock::ManualClock;
    use crate::sim::disk::SimDisk;

    #[test]
    fn no_more_than_the_capacity_stay_open_and_those_in_use_stay() {
        let disk = Arc::new(SimDisk::new(Arc::new(ManualClock::at(0))));
        disk.create_dir_all(Path::new("/d")).unwrap();
        let cache = FileCache::new(10);
        let home = FileHome::new(disk, cache.clone(), "/d".into());
        let files: Vec<_> = (0..100).map(|base| LazyFile::new(home.clone(), Offset(base), FileKind::Log)).collect();
        for file in &files {
            file.create().unwrap().write_all_at(b"x", 0).unwrap();
            files[0].get().unwrap();
            assert!(cache.len() <= 10);
        }
        assert!(files[0].file.load().is_some(), "used between all the others");
        for file in &files {
            assert_eq!(file.get().unwrap().len().unwrap(), 1);
        }
        files[3].rename(Suffix::Deleted).unwrap();
        files[3].close();
        assert!(files[3].get().is_ok(), "found under its new name");
        drop(files);
        assert!(cache.is_empty());
    }
}
