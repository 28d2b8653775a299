//! What lies in a partition directory, and the end of file changes that a crash interrupted.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use super::atomic_file;
use super::disk::Open;
use super::entry::HeadScanner;
use super::file_cache::{DELETED, FileHome, FileKind, file_name};
use crate::types::Offset;

/// The files of a partition directory, by what they are.
#[derive(Debug, Default)]
pub struct PartitionFiles {
    /// Base → bytes.
    pub logs: BTreeMap<Offset, u64>,
    others: BTreeSet<(Offset, &'static str)>,
    pub snapshots: BTreeSet<Offset>,
    /// Names with a suffix that says a change was under way.
    deleted: Vec<String>,
    cleaned: Vec<(Offset, String)>,
    swap: Vec<(Offset, String)>,
}

impl PartitionFiles {
    pub fn list(home: &FileHome) -> io::Result<PartitionFiles> {
        let mut files = PartitionFiles::default();
        let dir = home.path();
        for entry in home.disk.list(&dir)? {
            if entry.is_dir {
                continue;
            }
            if entry.name.ends_with(DELETED) {
                files.deleted.push(entry.name);
            } else if let Some(front) = entry.name.strip_suffix(".cleaned") {
                files.cleaned.extend(split_name(front).map(|(base, _)| (base, entry.name.clone())));
            } else if let Some(front) = entry.name.strip_suffix(".swap") {
                files.swap.extend(split_name(front).map(|(base, _)| (base, entry.name.clone())));
            } else if let Some((base, extension)) = split_name(&entry.name) {
                match extension {
                    "log" => {
                        files.logs.insert(base, home.disk.info(&dir.join(&entry.name))?.len);
                    }
                    "snapshot" => {
                        files.snapshots.insert(base);
                    }
                    _ => {
                        let kind = FileKind::ALL.iter().find(|kind| kind.extension() == extension);
                        files.others.extend(kind.map(|kind| (base, kind.extension())));
                    }
                }
            }
        }
        Ok(files)
    }

    pub fn has(&self, base: Offset, kind: FileKind) -> bool {
        self.others.contains(&(base, kind.extension()))
    }

    /// Ends what a crash interrupted: removals, and replacements of segments by cleaned ones (log-format §8).
    pub fn finish_changes(&mut self, home: &FileHome) -> io::Result<()> {
        let dir = home.path();
        let disk = home.disk.as_ref();
        let remove = |name: &str| atomic_file::remove_if_there(disk, &dir.join(name));
        self.deleted.iter().try_for_each(|name| remove(name))?;
        // A `.cleaned` beside means the set of `.swap` files from there on is not complete: the originals still are.
        if let Some(first_cleaned) = self.cleaned.iter().map(|(base, _)| *base).min() {
            let before = self.swap.len();
            for (_, name) in self.swap.iter().filter(|(base, _)| *base >= first_cleaned) {
                remove(name)?;
            }
            self.swap.retain(|(base, _)| *base < first_cleaned);
            if self.swap.len() < before {
                // One that came back without a `.cleaned` beside would take an original's place.
                disk.sync_dir(&dir)?;
            }
        }
        self.cleaned.iter().try_for_each(|(_, name)| remove(name))?;
        let swapped = !self.swap.is_empty();
        for (base, name) in self.swap.iter().filter(|(_, name)| name.ends_with(".log.swap")) {
            let file = disk.open(&dir.join(name), Open::Read)?;
            let mut heads = HeadScanner::new(file.as_ref(), 0, file.len()?);
            let mut end = *base;
            while let Some((_, entry)) = heads.next_entry()? {
                end = entry.last_offset + 1;
            }
            // What it replaces: every normal segment that lies in its range.
            let replaced: Vec<Offset> = self.logs.range(*base..end.max(*base + 1)).map(|(base, _)| *base).collect();
            for base in replaced {
                for kind in FileKind::ALL {
                    remove(&file_name(base, kind.extension()))?;
                }
            }
        }
        if swapped {
            // The old names are gone before the new files get them: a start after this one would remove those.
            disk.sync_dir(&dir)?;
        }
        for (_, name) in &self.swap {
            disk.rename(&dir.join(name), &dir.join(name.trim_end_matches(".swap")))?;
        }
        if swapped {
            disk.sync_dir(&dir)?;
            *self = PartitionFiles::list(home)?;
        }
        let orphans: Vec<_> = self.others.iter().copied().filter(|(base, _)| !self.logs.contains_key(base)).collect();
        for (base, extension) in orphans {
            tracing::warn!("removing {} without a log beside it", dir.join(file_name(base, extension)).display());
            remove(&file_name(base, extension))?;
            self.others.remove(&(base, extension));
        }
        Ok(())
    }
}

/// `00000000000000000042.log` → (42, "log").
fn split_name(name: &str) -> Option<(Offset, &str)> {
    let (base, extension) = name.split_once('.')?;
    (base.len() == 20 && base.bytes().all(|b| b.is_ascii_digit()))
        .then(|| base.parse().ok())?
        .map(|base| (Offset(base), extension))
}
