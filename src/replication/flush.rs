//! Group commit: one fsync for everything that arrived while the last one ran (`flush.messages`).
//!
//! A pure core; the partition runs the fsync on the blocking pool and reports back. At most one runs per partition.

use parking_lot::Mutex;

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

#[cfg(test)]
mod tests {
    use super::*;

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
