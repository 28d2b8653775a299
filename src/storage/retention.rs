//! What old segments wait for: the log start passing them, too many bytes, too much time.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::log::Log;
use super::segment::Segment;
use super::view::LogView;
use crate::types::Offset;

impl Log {
    /// Takes the segments out that retention allows to go, oldest first, each wholly below the high watermark. Their
    /// files have their `.deleted` names already; the caller removes them after `file.delete.delay.ms`.
    pub(super) fn apply_retention(&self, now_ms: i64) -> io::Result<Vec<Arc<Segment>>> {
        self.online()?;
        let config = self.config.load();
        let mut gone = self.delete_oldest(now_ms, "below the log start", |_, next, log_start| next <= log_start)?;
        if !config.cleanup_delete {
            return Ok(gone);
        }
        if config.retention_bytes >= 0 {
            let mut excess = self.size() as i64 - config.retention_bytes;
            gone.extend(self.delete_oldest(now_ms, "over retention.bytes", |segment, _, _| {
                let len = segment.len() as i64;
                let goes = excess - len >= 0;
                excess -= len;
                goes
            })?);
        }
        if config.retention_ms >= 0 {
            let mut failure = None;
            gone.extend(self.delete_oldest(now_ms, "over retention.ms", |segment, _, _| {
                match segment.retention_timestamp() {
                    Ok(timestamp) => now_ms.saturating_sub(timestamp) > config.retention_ms,
                    Err(e) => {
                        failure = Some(e);
                        false
                    }
                }
            })?);
            if let Some(e) = failure {
                return Err(e);
            }
        }
        Ok(gone)
    }

    /// Removes the longest prefix of segments for which `goes` holds, given the segment, the offset after it and the
    /// log start.
    fn delete_oldest(
        &self,
        now_ms: i64,
        why: &str,
        mut goes: impl FnMut(&Segment, Offset, Offset) -> bool,
    ) -> io::Result<Vec<Arc<Segment>>> {
        let _cleaning = self.cleaning.lock();
        let mut writer = self.writer.lock();
        let view = self.view.load_full();
        let (log_start, high_watermark, log_end) = (self.log_start(), self.high_watermark(), self.log_end());
        let mut count = 0;
        for (at, segment) in view.segments.iter().enumerate() {
            let next = view.segments.get(at + 1).map(|next| next.base());
            // An empty last segment stays: a log has one.
            if next.is_none() && segment.is_empty() {
                break;
            }
            let next = next.unwrap_or(log_end);
            if next > high_watermark || !goes(segment, next, log_start) {
                break;
            }
            count += 1;
        }
        if count == 0 {
            return Ok(Vec::new());
        }
        if count == view.segments.len() {
            let config = self.config.load();
            let rolled = self.roll(&mut writer, &config, log_end, now_ms);
            self.or_offline(rolled)?;
        }
        let view = self.view.load_full();
        let (gone, kept) = view.segments.split_at(count);
        let start = kept.first().map_or(log_end, |segment| segment.base()).max(log_start);
        // The log start moves before any file goes.
        self.log_start.store(start.0, Ordering::Release);
        if self.high_watermark() < start {
            self.high_watermark.store(start.0, Ordering::Release);
        }
        self.recovery_point.fetch_max(start.0, Ordering::AcqRel);
        self.view.store(Arc::new(LogView { segments: kept.to_vec() }));
        for segment in gone {
            tracing::info!("deleting segment {} of {}: {why}", segment.base(), self.tp);
            self.or_offline(segment.rename_to_deleted())?;
            writer.snapshots.remove(&segment.base());
        }
        if self.epochs.write().truncate_from_start(start) {
            self.write_epochs_later();
        }
        self.publish_first_unstable(&writer.producers);
        Ok(gone.to_vec())
    }
}
