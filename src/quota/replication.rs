//! How fast replicas may be copied (KIP-73): bytes per second of those partitions whose topic says so. Replicas in sync are
//! counted and never held up.
//!
//! Source: Kafka's `ReplicationQuotaManager` over `SimpleRate`.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use parking_lot::Mutex;

use super::rate::{Rate, Windows};
use crate::config::{BrokerConfig, ThrottledRates};
use crate::storage::manager::CopyLimit;

/// One direction.
#[derive(Debug)]
pub struct ReplicationQuota {
    windows: Windows,
    /// Bytes per second; `i64::MAX` without a limit.
    limit: AtomicI64,
    rate: Mutex<Rate>,
}

impl ReplicationQuota {
    /// Without a limit.
    pub fn new(windows: Windows) -> ReplicationQuota {
        ReplicationQuota { windows, limit: AtomicI64::new(i64::MAX), rate: Mutex::default() }
    }

    /// Bytes per second; `i64::MAX` for no limit.
    pub fn set_limit(&self, limit: i64) {
        self.limit.store(limit, Ordering::Relaxed);
    }

    /// Nothing is looked up or counted while there is no limit.
    pub fn is_set(&self) -> bool {
        self.limit.load(Ordering::Relaxed) != i64::MAX
    }

    /// Counts bytes of a throttled partition. Monotonic ms.
    pub fn record(&self, bytes: usize, now_ms: i64) {
        if self.is_set() {
            self.rate.lock().record(self.windows, bytes as f64, now_ms);
        }
    }

    /// Whether more went over than may. Monotonic ms.
    pub fn is_exceeded(&self, now_ms: i64) -> bool {
        let limit = self.limit.load(Ordering::Relaxed);
        limit != i64::MAX && self.rate.lock().so_far(self.windows, now_ms) > limit as f64
    }
}

impl CopyLimit for ReplicationQuota {
    fn copied(&self, bytes: usize, now_ms: i64) {
        self.record(bytes, now_ms);
    }

    fn is_exceeded(&self, now_ms: i64) -> bool {
        ReplicationQuota::is_exceeded(self, now_ms)
    }
}

/// Both directions between brokers, and what stays within this one.
#[derive(Debug)]
pub struct ReplicationQuotas {
    /// What this broker sends to followers.
    pub leader: ReplicationQuota,
    /// What it fetches from leaders.
    pub follower: Arc<ReplicationQuota>,
    /// What it copies between its log directories (KIP-113).
    pub log_dirs: Arc<ReplicationQuota>,
}

impl ReplicationQuotas {
    pub fn new(config: &BrokerConfig) -> ReplicationQuotas {
        let it = &config.replication;
        let windows = Windows::new(it.quota_window_num, it.quota_window_size_seconds);
        let of_log_dirs = Windows::new(it.log_dirs_quota_window_num, it.log_dirs_quota_window_size_seconds);
        ReplicationQuotas {
            leader: ReplicationQuota::new(windows),
            follower: Arc::new(ReplicationQuota::new(windows)),
            log_dirs: Arc::new(ReplicationQuota::new(of_log_dirs)),
        }
    }

    pub fn set_limits(&self, rates: ThrottledRates) {
        self.leader.set_limit(rates.leader);
        self.follower.set_limit(rates.follower);
        self.log_dirs.set_limit(rates.log_dirs);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_is_paid_for_and_without_a_limit_nothing_is_counted() {
        let quota = ReplicationQuota::new(Windows::new(11, 1));
        quota.record(1_000_000, 0);
        quota.set_limit(1_000);
        assert!(!quota.is_exceeded(0));
        quota.record(1_000, 0);
        assert!(!quota.is_exceeded(0), "a whole second's worth");
        quota.record(4_000, 500);
        assert!(quota.is_exceeded(500) && quota.is_exceeded(4_999));
        assert!(!quota.is_exceeded(5_000), "five seconds' worth in five seconds");
        quota.set_limit(0);
        assert!(quota.is_exceeded(5_000));
        quota.set_limit(i64::MAX);
        assert!(!quota.is_exceeded(5_000));
    }
}
