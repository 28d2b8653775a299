//! What is done to log directories on the controller's word: in order for each, and none waits for another.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot};

use crate::spawn::{Job, Spawner};

/// A queue for each log directory, and one for what has none yet. A directory that does not answer holds one job of the
/// blocking pool, however much is queued behind it.
pub(super) struct Lanes {
    spawner: Arc<dyn Spawner>,
    open: Mutex<HashMap<Option<PathBuf>, mpsc::UnboundedSender<Job>>>,
}

impl Lanes {
    pub fn new(spawner: Arc<dyn Spawner>) -> Lanes {
        Lanes { spawner, open: Mutex::default() }
    }

    /// Queues `work`. Its outcome is not sent when it panicked or the pool is gone.
    pub fn push<T: Send + 'static>(
        &self,
        dir: Option<PathBuf>,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> oneshot::Receiver<T> {
        let (done, outcome) = oneshot::channel();
        let job: Job = Box::new(move || {
            // Nobody asks any more when its controller went away.
            let _ = done.send(work());
        });
        let mut open = self.open.lock();
        let lane = open.entry(dir).or_insert_with(|| {
            let (queue, jobs) = mpsc::unbounded_channel();
            self.spawner.control(Box::pin(run(jobs, Arc::clone(&self.spawner))));
            queue
        });
        // Without a bound: the controller has one request under way to a broker.
        let _ = lane.send(job);
        outcome
    }
}

async fn run(mut jobs: mpsc::UnboundedReceiver<Job>, spawner: Arc<dyn Spawner>) {
    while let Some(job) = jobs.recv().await {
        let (done, over) = oneshot::channel::<()>();
        spawner.blocking(Box::new(move || {
            let _dropped_at_the_end = done;
            job();
        }));
        // An error is its end.
        let _ = over.await;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc as std_mpsc;

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
        lanes.push(fast, note(3)).await.expect("done");
        lanes.push(None, note(4)).await.expect("done");
        assert_eq!(*order.lock(), [3, 4]);
        drop(release);
        second.await.expect("done");
        first.await.expect("done");
        assert_eq!(*order.lock(), [3, 4, 1, 2]);
    }
}
