//! Group commit: one fsync for everything that arrived while the last one ran (`flush.messages`).
//!
//! ```text
//! append ── GroupCommit: wanted rises ── FlushQueue of the log directory ── worker: fsync ── durable rises, waiters go on
//!                   ▲                                                         │
//!                   └──── more was wanted meanwhile: to the end of the queue ─┘
//! ```
//! Per partition at most one fsync runs. Per log directory several do: a file system puts those that meet into one
//! commit of its journal, so that sixteen at once take little longer than one.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use super::partition::Partition;
use crate::spawn::Spawner;
use crate::types::Offset;

#[derive(Debug)]
struct State {
    running: bool,
    /// Log end that some append asked to be durable; exclusive.
    wanted: Offset,
    /// What an fsync is known to have covered; exclusive.
    durable: Offset,
}

/// What is to be made durable and what is.
#[derive(Debug)]
pub struct GroupCommit(Mutex<State>);

impl GroupCommit {
    /// What stands in the log at the start counts as durable: recovery made it so.
    pub fn new(log_end: Offset) -> GroupCommit {
        GroupCommit(Mutex::new(State { running: false, wanted: log_end, durable: log_end }))
    }

    /// Asks that everything below `end` become durable. True when the caller must start a run.
    pub fn want(&self, end: Offset) -> bool {
        let mut state = self.0.lock();
        state.wanted = state.wanted.max(end);
        let start = !state.running && state.wanted > state.durable;
        state.running |= start;
        start
    }

    /// An fsync that began after the log had reached `end` is done. True when the run must go round once more.
    pub fn flushed(&self, end: Offset) -> bool {
        let mut state = self.0.lock();
        state.durable = state.durable.max(end);
        state.running = state.wanted > state.durable;
        state.running
    }

    /// The fsync failed: the run is over, and nothing more becomes durable.
    pub fn failed(&self) {
        self.0.lock().running = false;
    }

    pub fn durable(&self) -> Offset {
        self.0.lock().durable
    }

    /// Whether `offset` (exclusive) lies in what was asked for and is not there yet.
    pub fn owes(&self, offset: Offset) -> bool {
        let state = self.0.lock();
        state.durable < offset && offset <= state.wanted
    }

    /// The log was cut.
    pub fn truncated(&self, end: Offset) {
        let mut state = self.0.lock();
        state.wanted = state.wanted.min(end);
        state.durable = state.durable.min(end);
    }
}

/// Fsyncs of one log directory that run at once. The pool they run on has more threads: a metastore that commits, or a
/// cold read, finds one free.
const AT_ONCE: usize = 8;
/// Fsyncs after which a worker makes room for other jobs of the pool.
const TURN: usize = 64;

/// The partitions of one log directory that await their fsync, first come first served.
pub struct FlushQueue {
    spawner: Arc<dyn Spawner>,
    waiting: Mutex<Waiting>,
}

#[derive(Default)]
struct Waiting {
    partitions: VecDeque<Weak<Partition>>,
    workers: usize,
}

impl fmt::Debug for FlushQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FlushQueue").finish_non_exhaustive()
    }
}

impl FlushQueue {
    pub fn new(spawner: Arc<dyn Spawner>) -> Arc<FlushQueue> {
        Arc::new(FlushQueue { spawner, waiting: Mutex::default() })
    }

    /// Queues a partition. Its group commit sees to it that it is not queued already.
    pub fn add(self: &Arc<FlushQueue>, partition: Weak<Partition>) {
        let another_worker = {
            let mut waiting = self.waiting.lock();
            waiting.partitions.push_back(partition);
            let another = waiting.workers < AT_ONCE;
            waiting.workers += usize::from(another);
            another
        };
        if another_worker {
            self.start_worker();
        }
    }

    fn start_worker(self: &Arc<FlushQueue>) {
        let queue = Arc::clone(self);
        self.spawner.blocking(Box::new(move || queue.work()));
    }

    fn work(self: &Arc<FlushQueue>) {
        for _ in 0..TURN {
            let next = {
                let mut waiting = self.waiting.lock();
                let next = waiting.partitions.pop_front();
                waiting.workers -= usize::from(next.is_none());
                next
            };
            let Some(next) = next else { return };
            if next.upgrade().is_some_and(|partition| partition.flush_once()) {
                self.waiting.lock().partitions.push_back(next);
            }
        }
        self.start_worker();
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::bench;
    use super::*;
    use crate::config::TopicConfig;

    #[test]
    fn a_directory_has_a_bounded_number_of_workers_and_they_leave_nothing_behind() {
        let bench = bench(TopicConfig::default());
        let partition = bench.leader(&[1]);
        let queue = FlushQueue::new(bench.pool.clone());
        (0..3 * TURN).for_each(|_| queue.add(Arc::downgrade(&partition)));
        assert_eq!(bench.pool.run(), AT_ONCE);
        assert!(queue.waiting.lock().partitions.is_empty());
        while bench.pool.run() > 0 {}
        assert_eq!(queue.waiting.lock().workers, 0);
        queue.add(Weak::new());
        assert_eq!(bench.pool.run(), 1, "a partition that is gone meanwhile is passed over");
    }

    #[test]
    fn appends_during_a_run_share_the_next_one() {
        let commit = GroupCommit::new(Offset(0));
        assert!(commit.want(Offset(1)));
        assert!(!commit.want(Offset(2)));
        assert!(!commit.want(Offset(3)));
        assert!(commit.owes(Offset(3)));
        assert!(commit.flushed(Offset(1)), "two more wait");
        assert!(!commit.flushed(Offset(3)));
        assert_eq!(commit.durable(), Offset(3));
        assert!(!commit.owes(Offset(3)));
        assert!(commit.want(Offset(4)));
    }

    #[test]
    fn a_failed_run_makes_nothing_durable() {
        let commit = GroupCommit::new(Offset(5));
        assert!(commit.want(Offset(6)));
        commit.failed();
        assert_eq!(commit.durable(), Offset(5));
        assert!(commit.owes(Offset(6)));
    }
}
