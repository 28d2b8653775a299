//! `partition.metadata`: the topic id a partition directory belongs to.
//!
//! ```text
//! version: 0
//! topic_id: 9wm9ak3XSjqeUQZtbxRlYA     (no newline at the end)
//! ```

use std::io;
use std::path::Path;

use super::atomic_file;
use super::disk::Disk;
use crate::types::TopicId;

pub const NAME: &str = "partition.metadata";

/// The id; `None` when there is no file (topics born before ids), or an empty one: a power loss can leave the name of a file
/// without its bytes, and the next fsync of the log writes it again.
pub fn read(disk: &dyn Disk, dir: &Path) -> io::Result<Option<TopicId>> {
    let path = dir.join(NAME);
    let bytes = atomic_file::read_if_there(disk, &path)?.unwrap_or_default();
    if bytes.is_empty() {
        return Ok(None);
    }
    let bad = || io::Error::new(io::ErrorKind::InvalidData, format!("malformed {}", path.display()));
    let text = std::str::from_utf8(&bytes).map_err(|_| bad())?;
    let mut lines = text.lines();
    let version = lines.next().and_then(|line| line.strip_prefix("version: "));
    let id = lines.next().and_then(|line| line.strip_prefix("topic_id: "));
    match (version, id.and_then(|id| id.parse::<TopicId>().ok())) {
        (Some("0"), Some(id)) if !id.is_zero() => Ok(Some(id)),
        _ => Err(bad()),
    }
}

/// Replaces the file; its name is durable after the caller's `sync_dir`.
pub fn write(disk: &dyn Disk, dir: &Path, id: TopicId) -> io::Result<()> {
    atomic_file::replace_unsynced_dir(disk, &dir.join(NAME), format!("version: 0\ntopic_id: {id}").as_bytes())
}
