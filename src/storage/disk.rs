//! The few things storage asks of a file system, so that tests can put a forgetting one in its place.

use std::fmt::Debug;
use std::io;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::Arc;

/// How a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Open {
    /// Must exist; for reading alone.
    Read,
    /// Must exist.
    ReadWrite,
    /// Made when absent.
    Create,
    /// As `Create`; one that is made is its owner's alone (0600).
    CreatePrivate,
    /// Must not exist.
    CreateNew,
}

/// A name in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirEntry {
    pub name: String,
    pub is_dir: bool,
}

/// What `stat` tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileInfo {
    /// Bytes.
    pub len: u64,
    /// Milliseconds since the Unix epoch.
    pub modified_ms: i64,
    pub is_dir: bool,
}

/// Which file it is, whatever its name: a copy is another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileIdentity {
    pub device: u64,
    pub inode: u64,
}

/// Bytes of the file system a directory lies on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskSpace {
    pub total: u64,
    /// Usable by an unprivileged process.
    pub usable: u64,
}

/// A file system. All calls block; page-cache writes are made in line, the rest on a bounded pool.
pub trait Disk: Send + Sync + Debug {
    fn open(&self, path: &Path, how: Open) -> io::Result<Arc<dyn DiskFile>>;
    fn info(&self, path: &Path) -> io::Result<FileInfo>;
    /// Without opening it: to close a file drops the process's locks on it.
    fn identity(&self, path: &Path) -> io::Result<FileIdentity>;
    fn list(&self, dir: &Path) -> io::Result<Vec<DirEntry>>;
    fn create_dir_all(&self, dir: &Path) -> io::Result<()>;
    /// Replaces `to` when it is there. Durable after `sync_dir` of the parent.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    fn remove_file(&self, path: &Path) -> io::Result<()>;
    fn remove_dir_all(&self, dir: &Path) -> io::Result<()>;
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;
    fn set_modified_ms(&self, path: &Path, ms: i64) -> io::Result<()>;
    fn space(&self, dir: &Path) -> io::Result<DiskSpace>;
    /// Calls it serves at once to advantage; with 1 no thread is started for its sake.
    fn concurrency(&self) -> usize {
        1
    }
    /// Takes an exclusive lock on `path` (made when absent) for as long as the value lives.
    /// A lock held elsewhere is `ErrorKind::WouldBlock`. On a real disk: a POSIX record lock, as Java takes.
    fn lock(&self, path: &Path) -> io::Result<Box<dyn Send + Sync>>;
}

/// An open file. Reads and writes name their position; there is no cursor.
pub trait DiskFile: Send + Sync + Debug {
    /// Bytes read; 0 at the end of the file.
    fn read_at(&self, buf: &mut [u8], position: u64) -> io::Result<usize>;
    /// Reads what can be had without waiting for a device; `None` when that is nothing.
    fn read_at_nowait(&self, buf: &mut [u8], position: u64) -> io::Result<Option<usize>> {
        self.read_at(buf, position).map(Some)
    }
    /// Writes all of `buf`.
    fn write_all_at(&self, buf: &[u8], position: u64) -> io::Result<()>;
    fn len(&self) -> io::Result<u64>;
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }
    fn set_len(&self, len: u64) -> io::Result<()>;
    /// `fdatasync`.
    fn sync(&self) -> io::Result<()>;

    /// The descriptor, for `sendfile` and the like; a simulated file has none.
    fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Fills `buf` or fails with `UnexpectedEof`.
    fn read_exact_at(&self, buf: &mut [u8], position: u64) -> io::Result<()> {
        let mut done = 0;
        while done < buf.len() {
            match self.read_at(&mut buf[done..], position + done as u64)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                n => done += n,
            }
        }
        Ok(())
    }
}
