//! How a partition's role changes.
//!
//! ```text
//! leads: fence appends (write lock) ─► note where the epoch begins (append lock, no role lock) ─► lead (write lock)
//! ```
//! Whoever appends holds the role, and the append lock is held over file I/O: a role that were held alone meanwhile would
//! keep everybody waiting who reads the partition or asks about it, and with them what else their threads serve. Between
//! the two steps reads are answered in the old role, as if they had come a moment earlier; appends of a leader wait
//! ([`Partition::settled`]), those of a follower are no longer asked for.

use parking_lot::RwLockWriteGuard;

use super::{NotCommitted, Partition};
use crate::replication::table::LeaderAndIsr;
use crate::wire::error_code::ErrorCode;

impl Partition {
    /// Takes the lead as `change` says. The log's directory failing meanwhile is KAFKA_STORAGE_ERROR.
    ///
    /// Blocks on the append lock. One change of a partition at a time is the caller's part.
    pub(in crate::replication) fn make_leader(&self, change: &LeaderAndIsr) -> Result<(), ErrorCode> {
        let log = self.online_log()?;
        let rises = {
            let mut role = self.role.write();
            role.change();
            change.leader_epoch > role.leader_epoch
        };
        if rises && let Err(error) = log.assign_epoch(change.leader_epoch) {
            // An epoch that is not noted could be missed by a truncation later: the partition must not lead.
            tracing::error!(partition = %self.tp, %error, "leader epoch not noted, directory taken as failed");
            {
                let mut role = self.role.write();
                role.leading = None;
                role.keep();
            }
            self.settled.notify_waiters();
            self.go_offline();
            return Err(ErrorCode::KafkaStorageError);
        }
        let log_end = log.offsets().log_end;
        let mut role = self.role.write();
        role.lead(self.around.broker, change, log_end, self.around.clock.monotonic_ms());
        // Which may wait for the append lock.
        let role = RwLockWriteGuard::downgrade(role);
        self.advance(&role, log, &log.config());
        drop(role);
        self.settled.notify_waiters();
        self.fetches.wake_all();
        Ok(())
    }

    /// Follows as `change` says; requests that wait learn it at once.
    pub(in crate::replication) fn make_follower(&self, change: &LeaderAndIsr) {
        self.role.write().follow(change);
        self.stop_waiting(NotCommitted::NotLeader);
    }

    /// Serves no longer: the replica is stopped or deleted.
    pub(in crate::replication) fn stop(&self) {
        self.role.write().leading = None;
        self.stop_waiting(NotCommitted::NotLeader);
    }

    /// Completes when no leader epoch is about to begin.
    pub async fn settled(&self) {
        loop {
            // Before the look: a change that ends in between is not missed.
            let settled = self.settled.notified();
            if !self.role().is_changing() {
                return;
            }
            settled.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, mpsc};
    use std::thread;
    use std::time::Duration;

    use futures_util::FutureExt;

    use super::*;
    use crate::clock::ManualClock;
    use crate::replication::partition::{PartitionRead, Reader};
    use crate::replication::testing::{bench_on, change, fetch, fetched};
    use crate::sim::disk::SimDisk;
    use crate::storage::log::AppendError;
    use crate::storage::testing::{batch, client};
    use crate::types::{Acks, IsolationLevel, LeaderEpoch, Offset};

    const CONSUMER: Reader = Reader::Consumer(IsolationLevel::ReadUncommitted);

    fn append(partition: &Partition) -> Result<Offset, AppendError> {
        let appended = partition.append_to_leader(&mut batch(1), Acks::Leader, client(-1, 1_000))?;
        Ok(appended.info.first_offset)
    }

    /// Whoever holds the append lock waits for a disk, and a change of role for the append lock: what else is asked of the
    /// partition is answered, all but an append, which is told to wait without its thread.
    #[test]
    fn a_change_of_role_that_stands_still_holds_up_no_thread() {
        let disk = SimDisk::new(Arc::new(ManualClock::at(1_000)));
        let bench = bench_on(Arc::new(disk.clone()));
        let partition = bench.leader(&[1, 2]);
        append(&partition).expect("it leads");
        fetched(&partition, 2, -1, 1).expect("a replica");
        disk.stall(bench.dir());
        let file = bench.dir().join("t-0/00000000000000000000.log");
        thread::scope(|scope| {
            let log = partition.log().expect("online");
            // Not as an append of the partition: this one holds no role.
            let stalled = scope.spawn(move || log.append_as_leader(&mut batch(1), client(0, 1_000)).map(drop));
            disk.until_a_write_waits(&file);
            let changing = scope.spawn(|| bench.table.apply_leader_and_isr(&[change(1, 1, &[1, 2])]));
            let (asked, answers) = mpsc::channel();
            let probe = Arc::clone(&partition);
            scope.spawn(move || {
                while !probe.role().is_changing() {
                    thread::yield_now();
                }
                let read = probe.read(fetch(CONSUMER, 0)).map(|read: PartitionRead| read.slice.is_some());
                let follows = fetched(&probe, 2, -1, 1);
                let asked_for = (read, follows, probe.upper_bound(CONSUMER), probe.check(LeaderEpoch(0), true));
                let _ = asked.send((asked_for, append(&probe).map_err(|error| matches!(error, AppendError::Changing))));
            });
            let answer = answers.recv_timeout(Duration::from_secs(60));
            let unsettled = answer.is_ok() && partition.settled().now_or_never().is_none();
            disk.go_on();
            let (asked_for, appended) = answer.expect("a thread waits for a disk that is not its own");
            assert_eq!(asked_for, (Ok(true), Ok(()), Ok(Offset(1)), Ok(())));
            assert_eq!((appended, unsettled), (Err(true), true));
            stalled.join().expect("no panic").expect("the disk goes on");
            assert_eq!(changing.join().expect("no panic"), [ErrorCode::None]);
        });
        assert_eq!(partition.settled().now_or_never(), Some(()));
        assert_eq!(append(&partition).expect("it leads on"), Offset(2));
        // The append of before the epoch is before it: nothing of the old one came behind its begin.
        assert_eq!(partition.end_offset_for_epoch(LeaderEpoch(0)), Ok(Some((LeaderEpoch(0), Offset(2)))));
    }

    #[test]
    fn who_waits_for_a_change_learns_when_it_is_over_and_when_it_failed() {
        let bench = crate::replication::testing::bench(Default::default());
        let partition = bench.leader(&[1, 2]);
        partition.role.write().change();
        let mut waits = Box::pin(partition.settled());
        assert_eq!((&mut waits).now_or_never(), None);
        assert!(matches!(append(&partition), Err(AppendError::Changing)));
        partition.make_leader(&change(1, 1, &[1, 2])).expect("online");
        assert_eq!(waits.now_or_never(), Some(()));
        append(&partition).expect("it leads");
        partition.role.write().change();
        let waits = Box::pin(partition.settled());
        partition.make_follower(&change(2, 2, &[1, 2]));
        assert_eq!(waits.now_or_never(), Some(()));
        assert!(matches!(append(&partition), Err(AppendError::Refused { code: ErrorCode::NotLeaderOrFollower, .. })));
    }
}
