//! Cutting a log's end, as replication asks when a leader's log differs.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::log::{Log, Writer};
use super::segment::Segment;
use super::view::LogView;
use crate::types::Offset;

impl Log {
    /// Removes every record at or past `to`. A batch that spans it goes whole, and the log then ends where that batch
    /// began: a log has no gaps that cleaning did not make, and what a leader has there is fetched again. (Kafka's log
    /// would end at `to`; epochs begin with a batch, so that leaders do not ask for it.)
    pub fn truncate_to(&self, to: Offset) -> io::Result<()> {
        if to.0 < 0 {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("cannot truncate to offset {to}")));
        }
        let _cleaning = self.cleaning.lock();
        let mut writer = self.writer.lock();
        self.online()?;
        let cut = self.cut(&mut writer, to);
        self.or_offline(cut)
    }

    /// Removes everything; the log starts again, empty, at `at`.
    pub fn truncate_fully_and_start_at(&self, at: Offset) -> io::Result<()> {
        let _cleaning = self.cleaning.lock();
        let mut writer = self.writer.lock();
        self.online()?;
        let now_ms = self.log_dir().now_ms();
        let restarted = self.restart_at(&mut writer, at, now_ms);
        self.or_offline(restarted)
    }

    fn cut(&self, writer: &mut Writer, to: Offset) -> io::Result<()> {
        if to >= self.log_end() {
            // Nothing to remove; an epoch that begins at the end has no record.
            if self.epochs.write().truncate_from_end(to) {
                self.write_epochs_later();
            }
            return Ok(());
        }
        let view = self.view.load_full();
        if to < view.first_base() {
            self.promise_no_more_than(to)?;
            return self.restart_at(writer, to, self.log_dir().now_ms());
        }
        writer.truncations += 1;
        let keep = view.segments.partition_point(|segment| segment.base() <= to).max(1);
        let (kept, gone) = view.segments.split_at(keep);
        let active = kept.last().cloned().ok_or_else(|| io::Error::other("a log without segments"))?;
        let to = active.batch_start(to)?.unwrap_or(to);
        // Readers lose sight of the end before it goes.
        self.recovery_point.fetch_min(to.0, Ordering::AcqRel);
        self.log_dir().checkpoints().recovery_points.lower(&self.tp, to)?;
        self.log_dir().checkpoints().cleaned.lower(&self.tp, to)?;
        self.promise_no_more_than(to)?;
        self.lower_end(to);
        self.view.store(Arc::new(LogView { segments: kept.to_vec() }));
        for segment in gone {
            segment.rename_to_deleted()?;
            writer.snapshots.remove(&segment.base());
            segment.remove()?;
        }
        if !gone.is_empty() {
            // A name that came back would bring old records back behind new ones.
            let home = self.home();
            home.disk.sync_dir(&home.path())?;
        }
        active.truncate(to)?;
        writer.names_unsynced = true;
        if self.epochs.write().truncate_from_end(to) {
            self.write_epochs_later();
        }
        writer.drop_snapshots_past(&self.home(), to)?;
        self.rebuild_producers(writer, to)?;
        self.publish_first_unstable(&writer.producers);
        Ok(())
    }

    /// A leader has other records from `to` on: what was committed there was so in a history that is not the partition's.
    fn promise_no_more_than(&self, to: Offset) -> io::Result<()> {
        self.promised.fetch_min(to.0, Ordering::AcqRel);
        self.log_dir().checkpoints().high_watermarks.lower(&self.tp, to)
    }

    fn lower_end(&self, to: Offset) {
        for offset in [&self.log_start, &self.high_watermark, &self.log_end] {
            offset.fetch_min(to.0, Ordering::AcqRel);
        }
    }

    /// With the append lock held: everything goes, one empty segment at `at` comes.
    pub(super) fn restart_at(&self, writer: &mut Writer, at: Offset, now_ms: i64) -> io::Result<()> {
        writer.truncations += 1;
        let view = self.view.load_full();
        let config = self.config.load();
        self.recovery_point.store(at.0, Ordering::Release);
        for offset in [&self.log_start, &self.high_watermark, &self.log_end] {
            offset.store(at.0, Ordering::Release);
        }
        let log_dir = self.log_dir();
        let checkpoints = log_dir.checkpoints();
        checkpoints.recovery_points.lower(&self.tp, at)?;
        checkpoints.log_starts.lower(&self.tp, at)?;
        checkpoints.cleaned.lower(&self.tp, at)?;
        for segment in &view.segments {
            segment.rename_to_deleted()?;
            segment.remove()?;
        }
        let preallocate = config.preallocate.then_some(config.segment_bytes.max(0) as u64);
        let segment =
            Segment::create(&self.home(), at, preallocate, config.index_interval_bytes.max(0) as u64, now_ms)?;
        self.view.store(Arc::new(LogView { segments: vec![Arc::new(segment)] }));
        writer.names_unsynced = true;
        self.forget_epochs()?;
        writer.drop_snapshots_past(&self.home(), Offset::NONE)?;
        writer.producers.clear();
        self.publish_first_unstable(&writer.producers);
        Ok(())
    }
}
