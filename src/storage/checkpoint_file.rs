//! The offset checkpoints of a log directory, and what each says now.
//!
//! What a checkpoint says beyond the truth is believed by the next start: an offset that goes back is lowered in the
//! file before anything is written in its place.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

use super::checkpoint::{self, CLEANER_OFFSET, LOG_START_OFFSET, RECOVERY_POINT, REPLICATION_OFFSET};
use super::disk::Disk;
use crate::types::{Offset, TopicPartition};

/// Offsets by partition.
pub type Offsets = BTreeMap<TopicPartition, Offset>;

/// The four of them.
#[derive(Debug)]
pub struct Checkpoints {
    pub recovery_points: CheckpointFile,
    pub log_starts: CheckpointFile,
    pub high_watermarks: CheckpointFile,
    /// Below it every key of a compacted log is there once.
    pub cleaned: CheckpointFile,
}

impl Checkpoints {
    pub fn new(disk: &Arc<dyn Disk>, dir: &Path) -> Checkpoints {
        let file = |name| CheckpointFile { disk: disk.clone(), path: dir.join(name), says: Mutex::default() };
        Checkpoints {
            recovery_points: file(RECOVERY_POINT),
            log_starts: file(LOG_START_OFFSET),
            high_watermarks: file(REPLICATION_OFFSET),
            cleaned: file(CLEANER_OFFSET),
        }
    }

    /// Whether any of them tells of `tp`.
    pub fn name(&self, tp: &TopicPartition) -> bool {
        let files = [&self.recovery_points, &self.log_starts, &self.high_watermarks, &self.cleaned];
        files.into_iter().any(|file| file.get(tp).is_some())
    }
}

/// One checkpoint file.
#[derive(Debug)]
pub struct CheckpointFile {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    /// What the file says. Held while it is written, so that nothing older follows something newer.
    says: Mutex<Offsets>,
}

impl CheckpointFile {
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Takes what the file says; no file says nothing. After an error it counts as saying nothing.
    pub fn read(&self) -> io::Result<()> {
        let mut says = self.says.lock();
        says.clear();
        *says = checkpoint::read_offsets(self.disk.as_ref(), &self.path)?;
        Ok(())
    }

    pub fn get(&self, tp: &TopicPartition) -> Option<Offset> {
        self.says.lock().get(tp).copied()
    }

    /// Writes what `now` makes of what the file says, unless that is the same.
    pub fn update(&self, now: impl FnOnce(&Offsets) -> Offsets) -> io::Result<()> {
        let mut says = self.says.lock();
        let now = now(&says);
        if now == *says {
            return Ok(());
        }
        self.write(&now)?;
        *says = now;
        Ok(())
    }

    /// Has the file say `at` of a partition, or nothing.
    pub fn set(&self, tp: &TopicPartition, at: Option<Offset>) -> io::Result<()> {
        self.update(|says| {
            let mut now = says.clone();
            match at {
                Some(at) => now.insert(tp.clone(), at),
                None => now.remove(tp),
            };
            now
        })
    }

    /// Has the file say no more than `to` of a partition it knows.
    pub fn lower(&self, tp: &TopicPartition, to: Offset) -> io::Result<()> {
        let mut says = self.says.lock();
        if says.get(tp).is_none_or(|said| *said <= to) {
            return Ok(());
        }
        says.insert(tp.clone(), to);
        self.write(&says)
    }

    fn write(&self, offsets: &Offsets) -> io::Result<()> {
        checkpoint::write_offsets(self.disk.as_ref(), &self.path, offsets.iter().map(|(tp, at)| (tp, *at)))
    }
}
