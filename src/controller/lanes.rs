//! What is done to log directories on the controller's word: in order for each, and none waits for another.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, timeout_at};

use crate::spawn::{Job, Spawner};

/// A queue for each log directory, and one for what has none. A directory that does not answer holds one job of the
/// blocking pool, however much is queued behind it.
pub(super) struct Lanes {
    spawner: Arc<dyn Spawner>,
    open: Mutex<HashMap<Option<PathBuf>, Lane>>,
}

struct Lane {
    queue: mpsc::UnboundedSender<Job>,
    late: Late,
}

/// Whether somebody waited in vain for a lane, and none of its jobs has ended since.
type Late = Arc<Mutex<bool>>;

/// Work that is queued.
pub(super) struct Queued<T> {
    outcome: oneshot::Receiver<T>,
    late: Late,
}

/// The work panicked, or the pool is gone.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Lost;

impl<T> Queued<T> {
    /// Its outcome; `None` when there is none by `deadline`, or when somebody waited in vain for this directory already:
    /// nobody else waits as long. The work is done nevertheless, when its turn comes. Without a deadline it is waited for.
    pub async fn by(mut self, deadline: Option<Instant>) -> Option<Result<T, Lost>> {
        let Some(deadline) = deadline else { return Some(self.outcome.await.map_err(|_| Lost)) };
        let deadline = if *self.late.lock() { Instant::now() } else { deadline };
        if let Ok(outcome) = timeout_at(deadline, &mut self.outcome).await {
            return Some(outcome.map_err(|_| Lost));
        }
        // Under the lock: it may have ended just now, and then nothing would call the lane punctual again.
        let mut late = self.late.lock();
        match self.outcome.try_recv() {
            Ok(outcome) => Some(Ok(outcome)),
            Err(oneshot::error::TryRecvError::Closed) => Some(Err(Lost)),
            Err(oneshot::error::TryRecvError::Empty) => {
                *late = true;
                None
            }
        }
    }
}

impl Lanes {
    pub fn new(spawner: Arc<dyn Spawner>) -> Lanes {
        Lanes { spawner, open: Mutex::default() }
    }

    /// Queues `work`.
    pub fn push<T: Send + 'static>(
        &self,
        dir: Option<PathBuf>,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Queued<T> {
        let (done, outcome) = oneshot::channel();
        let job: Job = Box::new(move || {
            // Nobody asks any more when its controller went away or was answered.
            let _ = done.send(work());
        });
        let mut open = self.open.lock();
        let lane = open.entry(dir).or_insert_with(|| {
            let (queue, jobs) = mpsc::unbounded_channel();
            let late = Late::default();
            self.spawner.control(Box::pin(run(jobs, Arc::clone(&self.spawner), Arc::clone(&late))));
            Lane { queue, late }
        });
        // Without a bound: what controllers ask of a directory that stands still is little, and is kept in order.
        let _ = lane.queue.send(job);
        Queued { outcome, late: Arc::clone(&lane.late) }
    }
}

async fn run(mut jobs: mpsc::UnboundedReceiver<Job>, spawner: Arc<dyn Spawner>, late: Late) {
    while let Some(job) = jobs.recv().await {
        let (done, over) = oneshot::channel::<()>();
        spawner.blocking(Box::new(move || {
            let _dropped_at_the_end = done;
            job();
        }));
        // An error is its end.
        let _ = over.await;
        *late.lock() = false;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc as std_mpsc;
    use std::time::Duration;

    use super::*;
    use crate::spawn::Task;

    struct Pool;

    impl Spawner for Pool {
        fn data(&self, task: Task) {
            tokio::spawn(task);
        }
        fn control(&self, task: Task) {
            tokio::spawn(task);
        }
        fn blocking(&self, job: Job) {
            tokio::task::spawn_blocking(job);
        }
    }

    /// Longer than any test takes.
    fn at_last() -> Option<Instant> {
        Some(Instant::now() + Duration::from_secs(600))
    }

    #[tokio::test]
    async fn a_directory_that_stands_still_holds_up_no_other_and_keeps_its_order() {
        let lanes = Lanes::new(Arc::new(Pool));
        let (release, stall) = std_mpsc::channel::<()>();
        let order = Arc::new(Mutex::new(Vec::new()));
        let note = |n: i32| {
            let order = Arc::clone(&order);
            move || order.lock().push(n)
        };
        let (slow, fast) = (Some(PathBuf::from("/slow")), Some(PathBuf::from("/fast")));
        let first = {
            let note = note(1);
            lanes.push(slow.clone(), move || {
                let _ = stall.recv();
                note();
            })
        };
        let second = lanes.push(slow, note(2));
        assert_eq!(lanes.push(fast, note(3)).by(at_last()).await, Some(Ok(())));
        assert_eq!(lanes.push(None, note(4)).by(at_last()).await, Some(Ok(())));
        assert_eq!(*order.lock(), [3, 4]);
        drop(release);
        assert_eq!(second.by(None).await, Some(Ok(())));
        assert_eq!(first.by(at_last()).await, Some(Ok(())));
        assert_eq!(*order.lock(), [3, 4, 1, 2]);
    }

    #[tokio::test]
    async fn who_comes_after_one_that_waited_in_vain_does_not_wait_until_the_directory_goes_on() {
        let lanes = Lanes::new(Arc::new(Pool));
        let (release, stall) = std_mpsc::channel::<()>();
        let slow = || Some(PathBuf::from("/slow"));
        let first = lanes.push(slow(), move || stall.recv().is_err());
        assert_eq!(first.by(Some(Instant::now())).await, None);
        assert_eq!(lanes.push(slow(), || ()).by(at_last()).await, None);
        let last = lanes.push(slow(), || ());
        assert!(*last.late.lock());
        drop(release);
        assert_eq!(last.outcome.await, Ok(()));
        // The lane is told of an end after who waits for it.
        while *last.late.lock() {
            tokio::task::yield_now().await;
        }
        assert_eq!(lanes.push(slow(), || ()).by(at_last()).await, Some(Ok(())));
        assert_eq!(lanes.push(slow(), || panic!("as it may")).by(at_last()).await, Some(Err::<(), _>(Lost)));
    }
}
