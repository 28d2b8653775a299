//! Transactional ids that nobody has used for long.

use std::sync::Arc;

use super::entry::Entry;
use super::{State, Transactions};
use crate::coordinator::cores::Now;
use crate::wire::error_code::ErrorCode;

/// Bytes of ids that go into one batch of tombstones, as in Kafka.
const BATCH: usize = 16_384;

impl Transactions {
    /// Takes away the ids that are idle for `transactional.id.expiration.ms`.
    pub fn expire(&mut self, now: Now) {
        self.desk.now = now;
        let oldest_ms = now.wall_ms.saturating_sub(self.desk.settings.id_expiration_ms);
        let is_over =
            |entry: &&mut Entry| entry.pending.is_none() && entry.state.is_idle() && entry.updated_ms <= oldest_ms;
        let over = self.by_id.values_mut().filter(is_over).map(|entry| {
            entry.pending = Some(State::Dead);
            entry.id.clone()
        });
        let mut over: Vec<Arc<str>> = over.collect();
        over.sort_unstable();
        let (mut batch, mut bytes) = (Vec::new(), 0);
        for id in over {
            bytes += id.len();
            batch.push(id);
            if bytes >= BATCH {
                self.desk.append_tombstones(std::mem::take(&mut batch));
                bytes = 0;
            }
        }
        if !batch.is_empty() {
            self.desk.append_tombstones(batch);
        }
    }

    pub(super) fn forgotten(&mut self, ids: &[Arc<str>], outcome: Result<(), ErrorCode>) {
        for id in ids {
            let Some(entry) = self.by_id.get_mut(id).filter(|entry| entry.pending == Some(State::Dead)) else {
                continue;
            };
            match outcome {
                Ok(()) => drop(self.by_id.remove(id)),
                Err(error) => {
                    entry.pending = None;
                    tracing::warn!(transactional_id = &**id, %error, "it is not forgotten");
                }
            }
        }
    }
}
