//! Checkpoint files: a version line, a count line, then one entry a line, as Kafka's `CheckpointFile` writes them.
//!
//! ```text
//! 0                  0
//! 2                  1
//! orders 0 4711      3 128        (leader-epoch-checkpoint: epoch, start offset)
//! orders 1 90
//! ```
//! An empty file has no entries. Anything else that deviates is an error: the caller decides whether it is fatal.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::io;
use std::path::Path;

use super::atomic_file;
use super::disk::Disk;
use crate::types::{LeaderEpoch, Offset, TopicPartition};

pub const RECOVERY_POINT: &str = "recovery-point-offset-checkpoint";
pub const LOG_START_OFFSET: &str = "log-start-offset-checkpoint";
pub const REPLICATION_OFFSET: &str = "replication-offset-checkpoint";
pub const CLEANER_OFFSET: &str = "cleaner-offset-checkpoint";
pub const LEADER_EPOCH: &str = "leader-epoch-checkpoint";

/// Reads offsets per partition; no file is no entry.
pub fn read_offsets(disk: &dyn Disk, path: &Path) -> io::Result<BTreeMap<TopicPartition, Offset>> {
    let mut offsets = BTreeMap::new();
    for line in lines(disk, path)?.unwrap_or_default() {
        let mut fields = line.split(' ');
        let entry = (|| {
            let topic = fields.next()?;
            let partition = fields.next()?.parse().ok()?;
            let offset = fields.next()?.parse().ok()?;
            fields.next().is_none().then_some((TopicPartition::new(topic, partition), Offset(offset)))
        })();
        let (tp, offset) = entry.ok_or_else(|| malformed(path, &line))?;
        offsets.insert(tp, offset);
    }
    Ok(offsets)
}

pub fn write_offsets<'a>(
    disk: &dyn Disk,
    path: &Path,
    offsets: impl Iterator<Item = (&'a TopicPartition, Offset)>,
) -> io::Result<()> {
    write(disk, path, offsets.map(|(tp, offset)| (format!("{} {}", tp.topic, tp.partition), offset)))
}

/// Reads (epoch, start offset) pairs; `None` when there is no file.
pub fn read_epochs(disk: &dyn Disk, path: &Path) -> io::Result<Option<Vec<(LeaderEpoch, Offset)>>> {
    let Some(lines) = lines(disk, path)? else { return Ok(None) };
    let entries = lines
        .iter()
        .map(|line| {
            let (epoch, start) = line.split_once(' ').ok_or_else(|| malformed(path, line))?;
            match (epoch.parse(), start.parse()) {
                (Ok(epoch), Ok(start)) if epoch >= 0 && start >= 0 => Ok((LeaderEpoch(epoch), Offset(start))),
                _ => Err(malformed(path, line)),
            }
        })
        .collect::<io::Result<_>>()?;
    Ok(Some(entries))
}

pub fn write_epochs(disk: &dyn Disk, path: &Path, epochs: &[(LeaderEpoch, Offset)]) -> io::Result<()> {
    write(disk, path, epochs.iter().map(|(epoch, start)| (epoch.to_string(), *start)))
}

fn write(disk: &dyn Disk, path: &Path, entries: impl Iterator<Item = (String, Offset)>) -> io::Result<()> {
    let mut body = String::new();
    let mut count = 0;
    for (key, offset) in entries {
        count += 1;
        let _ = writeln!(body, "{key} {offset}");
    }
    atomic_file::replace(disk, path, format!("0\n{count}\n{body}").as_bytes())
}

fn lines(disk: &dyn Disk, path: &Path) -> io::Result<Option<Vec<String>>> {
    let Some(bytes) = atomic_file::read_if_there(disk, path)? else { return Ok(None) };
    let text = String::from_utf8(bytes).map_err(|_| malformed(path, "bytes that are no UTF-8"))?;
    let mut lines = text.lines();
    let Some(version) = lines.next() else { return Ok(Some(Vec::new())) };
    if version != "0" {
        return Err(malformed(path, version));
    }
    let count = lines.next().unwrap_or_default();
    let entries: Vec<String> = lines.filter(|line| !line.is_empty()).map(str::to_owned).collect();
    if count.parse() != Ok(entries.len()) {
        return Err(malformed(path, count));
    }
    Ok(Some(entries))
}

fn malformed(path: &Path, line: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("malformed line in checkpoint {}: {line}", path.display()))
}
