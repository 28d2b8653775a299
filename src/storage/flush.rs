//! fsync of a log: everything up to the log end, then the recovery point.

use std::io;
use std::sync::atomic::Ordering;

use super::log::{Log, Writer};
use super::partition_metadata;
use crate::types::Offset;

impl Log {
    /// fsyncs up to the log end and raises the recovery point. Appends go on meanwhile.
    pub fn flush(&self) -> io::Result<()> {
        self.flush_to(self.log_end())
    }

    /// fsyncs the segments that hold anything in [recovery point, `to`).
    pub(super) fn flush_to(&self, to: Offset) -> io::Result<()> {
        let _flushing = self.flushing.lock();
        self.online()?;
        let flushed = self.settle().and_then(|()| match to <= self.recovery_point() {
            true => Ok(()),
            false => self.sync_files(to),
        });
        self.or_offline(flushed)
    }

    /// Makes durable what records need beside themselves: the directory with its name and `partition.metadata`, and the
    /// epochs. Without records there is nothing to do. Appends go on meanwhile; `flushing` is held.
    fn settle(&self) -> io::Result<()> {
        let (home, epochs) = {
            let mut writer = self.writer.lock();
            let settled = writer.home_durable && !writer.epochs_unwritten;
            if settled || self.size() == 0 {
                return Ok(());
            }
            let home = !std::mem::replace(&mut writer.home_durable, true);
            let epochs = std::mem::take(&mut writer.epochs_unwritten);
            writer.names_unsynced &= !(home || epochs);
            (home, epochs)
        };
        match home {
            true => self.keep_home(epochs),
            false if epochs => self.write_epochs(),
            false => Ok(()),
        }
    }

    /// Makes the directory durable with its name, its files' names and `partition.metadata`.
    fn keep_home(&self, epochs: bool) -> io::Result<()> {
        let home = self.home();
        let (disk, path) = (home.disk.as_ref(), home.path());
        if !self.topic_id.is_zero() {
            partition_metadata::write(disk, &path, self.topic_id)?;
        }
        match epochs {
            // This syncs the directory too.
            true => self.write_epochs()?,
            false => disk.sync_dir(&path)?,
        }
        disk.sync_dir(self.log_dir().path())
    }

    /// With both locks held: the directory survives a power loss, and the names of its files, with records or without.
    pub(super) fn settle_home(&self, writer: &mut Writer) -> io::Result<()> {
        if !writer.home_durable || writer.names_unsynced {
            self.keep_home(false)?;
            (writer.home_durable, writer.names_unsynced) = (true, false);
        }
        Ok(())
    }

    fn sync_files(&self, to: Offset) -> io::Result<()> {
        while !self.synced_once(to)? {}
        Ok(())
    }

    /// False when a segment was sealed meanwhile: its indexes are then not synced yet, and a start that trusts the
    /// recovery point does not build them again.
    fn synced_once(&self, to: Offset) -> io::Result<bool> {
        let (view, names_unsynced, truncations) = {
            let mut writer = self.writer.lock();
            (self.view.load_full(), std::mem::take(&mut writer.names_unsynced), writer.truncations)
        };
        let first = view.index_of(self.recovery_point()).unwrap_or(0);
        let active = view.segments.len().saturating_sub(1);
        for (at, segment) in view.segments.iter().enumerate().skip(first) {
            if segment.base() >= to && at > first {
                break;
            }
            segment.sync(at < active)?;
        }
        if names_unsynced {
            let home = self.home();
            home.disk.sync_dir(&home.path())?;
        }
        self.last_flush_ms.store(self.log_dir.load().monotonic_ms(), Ordering::Relaxed);
        let writer = self.writer.lock();
        if writer.truncations != truncations {
            return Ok(true);
        }
        let sealed_meanwhile =
            self.view.load().active().map(|active| active.base()) != view.active().map(|active| active.base());
        if !sealed_meanwhile {
            self.recovery_point.fetch_max(to.0, Ordering::AcqRel);
        }
        Ok(!sealed_meanwhile)
    }

    /// With the append lock held: what lies before a gap between two segments survives a power loss, so that recovery need
    /// not ask what was there.
    pub(super) fn sync_before_gap(&self) -> io::Result<()> {
        let view = self.view.load();
        let first = view.index_of(self.recovery_point()).unwrap_or(0);
        view.segments.iter().skip(first).try_for_each(|segment| segment.sync(false))?;
        let home = self.home();
        home.disk.sync_dir(&home.path())
    }

    /// Whether `flush.messages` asks for an fsync before what was just appended is acknowledged.
    /// `flush.ms` needs no caller: the manager's timer looks after it.
    pub fn needs_flush(&self, _now_ms: i64) -> bool {
        let messages = self.config.load().flush_messages;
        messages != i64::MAX && self.log_end() - self.recovery_point() >= messages
    }

    /// Whether `flush.ms` has passed since the last fsync of a log with unflushed records.
    pub(super) fn flush_is_due(&self, now_ms: i64) -> bool {
        let flush_ms = self.config.load().flush_ms;
        flush_ms != i64::MAX
            && self.log_end() > self.recovery_point()
            && now_ms.saturating_sub(self.last_flush_ms.load(Ordering::Relaxed)) >= flush_ms
    }
}
