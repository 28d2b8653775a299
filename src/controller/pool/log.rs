//! A log of one-record batches, as far as it matters here: what of it is synced, and what a checkpoint says.

use crate::replication::follower::{FollowerLog, Held};
use crate::storage::epoch_cache::EpochCache;
use crate::types::{LeaderEpoch, Offset};

/// A record is its leader epoch and a value of its own.
pub type Record = (LeaderEpoch, u64);

#[derive(Clone, Debug, Default)]
pub struct ModelLog {
    pub records: Vec<Record>,
    pub epochs: EpochCache,
    pub mark: Offset,
    /// Records that survive a power loss.
    pub synced: usize,
    /// `replication-offset-checkpoint`; beyond the log end: what was lost.
    pub checkpoint: Offset,
    /// It was made once and not wiped since.
    pub is_there: bool,
    /// Records that were looked at since they were written.
    pub checked: usize,
}

impl ModelLog {
    pub fn end(&self) -> Offset {
        Offset(self.records.len() as i64)
    }

    pub fn append(&mut self, record: Record) {
        self.epochs.assign(record.0, self.end());
        self.records.push(record);
    }

    pub fn truncate(&mut self, to: Offset) {
        self.epochs.truncate_from_end(to);
        if to >= self.end() {
            return;
        }
        self.records.truncate(to.0 as usize);
        self.checked = self.checked.min(self.records.len());
        self.synced = self.synced.min(self.records.len());
        self.mark = self.mark.min(self.end());
        self.checkpoint = self.checkpoint.min(to);
    }

    pub fn is_short(&self) -> bool {
        self.checkpoint > self.end()
    }

    /// Writes the checkpoint. What is missing stays in it.
    pub fn write_checkpoint(&mut self) {
        if !self.is_short() {
            self.checkpoint = self.mark;
        }
    }

    /// The process is gone; `kept` records are left.
    pub fn crash(&mut self, kept: usize) {
        self.records.truncate(kept);
        self.checked = self.checked.min(kept);
        self.synced = self.records.len();
        // Of epochs without a record nothing may have been written.
        self.epochs.truncate_from_end(self.end());
        self.mark = self.checkpoint.min(self.end());
    }

    pub fn wipe(&mut self) {
        *self = ModelLog::default();
    }
}

impl FollowerLog for ModelLog {
    fn held(&self) -> Held {
        Held {
            log_start: Offset::ZERO,
            high_watermark: self.mark,
            log_end: self.end(),
            last_epoch: self.epochs.latest().unwrap_or(LeaderEpoch::NONE),
        }
    }

    fn end_offset_for_epoch(&self, epoch: LeaderEpoch) -> Option<(LeaderEpoch, Offset)> {
        self.epochs.end_offset_for(epoch, self.end())
    }
}
