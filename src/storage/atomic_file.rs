//! Small files that are read whole and replaced whole: written beside, synced, renamed, directory synced.

use std::io;
use std::path::{Path, PathBuf};

use super::disk::{Disk, Open};

/// Small files here are a few kilobytes; a checkpoint of 100,000 partitions with long names is 30 MB.
const MAX_LEN: u64 = 64 << 20;

/// Whole content of `path`.
pub fn read(disk: &dyn Disk, path: &Path) -> io::Result<Vec<u8>> {
    let file = disk.open(path, Open::Read)?;
    let len = file.len()?;
    if len > MAX_LEN {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!("{} has {len} bytes, more than {MAX_LEN}", path.display()),
        ));
    }
    let mut bytes = vec![0; len as usize];
    file.read_exact_at(&mut bytes, 0)?;
    Ok(bytes)
}

/// Like [`read`], `None` when there is no such file.
pub fn read_if_there(disk: &dyn Disk, path: &Path) -> io::Result<Option<Vec<u8>>> {
    match read(disk, path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(e),
    }
}

/// Puts `bytes` in place of `path`, durably: after a crash the old or the new content is there, never a mixture.
pub fn replace(disk: &dyn Disk, path: &Path, bytes: &[u8]) -> io::Result<()> {
    replace_unsynced_dir(disk, path, bytes)?;
    sync_parent(disk, path)
}

/// Like [`replace`]; nobody but the owner may read it.
pub fn replace_private(disk: &dyn Disk, path: &Path, bytes: &[u8]) -> io::Result<()> {
    replace_by(disk, path, bytes, Open::CreatePrivate)?;
    sync_parent(disk, path)
}

fn sync_parent(disk: &dyn Disk, path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(dir) => disk.sync_dir(dir),
        None => Ok(()),
    }
}

/// Like [`replace`]; the new name is durable only after the caller's `sync_dir`.
pub fn replace_unsynced_dir(disk: &dyn Disk, path: &Path, bytes: &[u8]) -> io::Result<()> {
    replace_by(disk, path, bytes, Open::Create)
}

fn replace_by(disk: &dyn Disk, path: &Path, bytes: &[u8], how: Open) -> io::Result<()> {
    let temporary = with_suffix(path, ".tmp");
    let file = disk.open(&temporary, how)?;
    file.set_len(0)?;
    file.write_all_at(bytes, 0)?;
    file.sync()?;
    drop(file);
    disk.rename(&temporary, path)
}

/// `path` with `suffix` after its last character.
pub fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// Removes a file that may be gone already.
pub fn remove_if_there(disk: &dyn Disk, path: &Path) -> io::Result<()> {
    match disk.remove_file(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
        _ => Ok(()),
    }
}
