//! The machine's own file system.

use std::collections::HashSet;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use parking_lot::Mutex;
use rustix::fs::{FlockOperation, fcntl_lock, statvfs};

use super::disk::{DirEntry, Disk, DiskFile, DiskSpace, FileIdentity, FileInfo, Open};

/// Files through the operating system's page cache.
#[derive(Debug, Default)]
pub struct RealDisk;

#[derive(Debug)]
struct RealFile(File);

impl Disk for RealDisk {
    fn open(&self, path: &Path, how: Open) -> io::Result<Arc<dyn DiskFile>> {
        let mut options = OpenOptions::new();
        options.read(true);
        match how {
            Open::Read => &mut options,
            Open::ReadWrite => options.write(true),
            Open::Create => options.write(true).create(true).truncate(false),
            Open::CreatePrivate => options.write(true).create(true).truncate(false).mode(0o600),
            Open::CreateNew => options.write(true).create_new(true),
        };
        Ok(Arc::new(RealFile(options.open(path)?)))
    }

    fn info(&self, path: &Path) -> io::Result<FileInfo> {
        let meta = fs::metadata(path)?;
        let modified_ms = match meta.modified()?.duration_since(UNIX_EPOCH) {
            Ok(after) => after.as_millis() as i64,
            Err(before) => -(before.duration().as_millis() as i64),
        };
        Ok(FileInfo { len: meta.len(), modified_ms, is_dir: meta.is_dir() })
    }

    fn identity(&self, path: &Path) -> io::Result<FileIdentity> {
        let meta = fs::metadata(path)?;
        Ok(FileIdentity { device: meta.dev(), inode: meta.ino() })
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<DirEntry>> {
        fs::read_dir(dir)?
            .map(|entry| {
                let entry = entry?;
                let kind = entry.file_type()?;
                // A link to a directory serves as one, as it does for Kafka.
                let is_dir = kind.is_dir() || kind.is_symlink() && entry.path().is_dir();
                Ok(DirEntry { name: entry.file_name().to_string_lossy().into_owned(), is_dir })
            })
            .collect()
    }

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        fs::create_dir_all(dir)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn remove_dir_all(&self, dir: &Path) -> io::Result<()> {
        fs::remove_dir_all(dir)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        File::open(dir)?.sync_all()
    }

    fn set_modified_ms(&self, path: &Path, ms: i64) -> io::Result<()> {
        let time = UNIX_EPOCH + Duration::from_millis(ms.max(0) as u64);
        OpenOptions::new().write(true).open(path)?.set_modified(time)
    }

    fn space(&self, dir: &Path) -> io::Result<DiskSpace> {
        let stat = statvfs(dir)?;
        Ok(DiskSpace {
            total: stat.f_blocks.saturating_mul(stat.f_frsize),
            usable: stat.f_bavail.saturating_mul(stat.f_frsize),
        })
    }

    fn concurrency(&self) -> usize {
        // fsyncs that meet share a commit of the journal; more threads than this gain little (see the module's notes).
        16
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn Send + Sync>> {
        let file = OpenOptions::new().write(true).create(true).truncate(false).open(path)?;
        let meta = file.metadata()?;
        let id = (meta.dev(), meta.ino());
        // Record locks belong to the process: only this set tells two holders inside one apart. It is asked before the
        // file could be closed again, since closing any descriptor of a file drops the process's locks on it.
        let mut held = HELD.lock();
        if held.as_ref().is_some_and(|held| held.contains(&id)) {
            LEAKED.lock().push(file);
            return Err(io::ErrorKind::WouldBlock.into());
        }
        match fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {
                held.get_or_insert_default().insert(id);
                Ok(Box::new(RealLock { _file: file, id }))
            }
            Err(rustix::io::Errno::ACCESS | rustix::io::Errno::AGAIN) => Err(io::ErrorKind::WouldBlock.into()),
            Err(e) => Err(e.into()),
        }
    }
}

/// Device and inode of every file this process holds a record lock on.
static HELD: Mutex<Option<HashSet<(u64, u64)>>> = Mutex::new(None);
/// Descriptors that must stay open: closing them would drop the lock another part of this process holds.
static LEAKED: Mutex<Vec<File>> = Mutex::new(Vec::new());

struct RealLock {
    _file: File,
    id: (u64, u64),
}

impl Drop for RealLock {
    fn drop(&mut self) {
        if let Some(held) = HELD.lock().as_mut() {
            held.remove(&self.id);
        }
    }
}

impl DiskFile for RealFile {
    fn read_at(&self, buf: &mut [u8], position: u64) -> io::Result<usize> {
        loop {
            match self.0.read_at(buf, position) {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                other => return other,
            }
        }
    }

    #[cfg(target_os = "linux")]
    fn read_at_nowait(&self, buf: &mut [u8], position: u64) -> io::Result<Option<usize>> {
        use rustix::io::{Errno, ReadWriteFlags, preadv2};
        match preadv2(&self.0, &mut [io::IoSliceMut::new(buf)], position, ReadWriteFlags::NOWAIT) {
            // The end of the file, or of what is in the page cache: a read that may wait tells which.
            Ok(0) | Err(Errno::AGAIN) => Ok(None),
            Ok(n) => Ok(Some(n)),
            // Not every file system knows it.
            Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL | Errno::INTR) => self.read_at(buf, position).map(Some),
            Err(error) => Err(error.into()),
        }
    }

    fn write_all_at(&self, buf: &[u8], position: u64) -> io::Result<()> {
        self.0.write_all_at(buf, position)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.0.as_fd())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_that_does_not_wait_gives_what_is_cached_and_never_less_than_a_byte() {
        let dir = tempfile::tempdir().unwrap();
        let file = RealDisk.open(&dir.path().join("f"), Open::CreateNew).unwrap();
        file.write_all_at(b"just written", 0).unwrap();
        let mut bytes = [0; 7];
        match file.read_at_nowait(&mut bytes, 5).unwrap() {
            Some(read) => assert_eq!(bytes[..read], b"written"[..read]),
            None => panic!("just written and not in the page cache"),
        }
        // At the end nothing can be told from the cache alone.
        assert!(matches!(file.read_at_nowait(&mut bytes, 12).unwrap(), None | Some(0)));
    }
}
