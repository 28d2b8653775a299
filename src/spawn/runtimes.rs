//! The data runtimes, and which of them begins a task.
//!
//! A thread whose write waits for a disk runs nothing else meanwhile. One that has not begun a task for [`STILL`] stands
//! still: it gets no more while another goes on, and what it has not begun, that one does. What has begun stays: its
//! sockets belong to its runtime.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::time::{Instant, sleep};

use super::{OnPanic, Task, watched};

/// How long a task may wait for its thread before others are asked.
const STILL: Duration = Duration::from_secs(1);

/// At least one.
pub(super) struct Runtimes {
    all: Vec<Runtime>,
    next: AtomicUsize,
    /// Where it is noticed that one stands still.
    control: Handle,
    on_panic: OnPanic,
}

struct Runtime {
    handle: Handle,
    waiting: Mutex<Waiting>,
}

/// What a thread was told to begin and has not begun.
#[derive(Default)]
struct Waiting {
    /// When it was told, oldest first. It answers each in turn, also when its task went elsewhere.
    told: VecDeque<Instant>,
    tasks: VecDeque<Task>,
    /// Somebody looks again later.
    watched: bool,
}

impl Waiting {
    fn stands_still(&self, now: Instant) -> bool {
        self.told.front().is_some_and(|since| now.saturating_duration_since(*since) >= STILL)
    }
}

impl Runtimes {
    pub fn new(handles: Vec<Handle>, control: Handle, on_panic: OnPanic) -> Arc<Runtimes> {
        let all = handles.into_iter().map(|handle| Runtime { handle, waiting: Mutex::default() }).collect();
        Arc::new(Runtimes { all, next: AtomicUsize::new(0), control, on_panic })
    }

    pub fn spawn(self: &Arc<Self>, task: Task) {
        let now = Instant::now();
        let at = self.choose(now);
        let Some(runtime) = self.all.get(at) else { return };
        let watch = {
            let mut waiting = runtime.waiting.lock();
            waiting.told.push_back(now);
            waiting.tasks.push_back(task);
            !std::mem::replace(&mut waiting.watched, true)
        };
        let me = Arc::clone(self);
        runtime.handle.spawn(async move {
            let (task, on_panic) = (me.begin(at), me.on_panic.clone());
            drop(me);
            if let Some(task) = task {
                watched(task, on_panic).await;
            }
        });
        if watch {
            self.watch(at);
        }
    }

    /// The next in turn that goes on; the next in turn if none does.
    fn choose(&self, now: Instant) -> usize {
        let next = self.next.fetch_add(1, Ordering::Relaxed) % self.all.len().max(1);
        let in_turn = self.all.iter().enumerate().cycle().skip(next).take(self.all.len());
        let mut going_on = in_turn.filter(|(_, runtime)| !runtime.waiting.lock().stands_still(now));
        going_on.next().map_or(next, |(at, _)| at)
    }

    /// On the thread itself.
    fn begin(&self, at: usize) -> Option<Task> {
        let mut waiting = self.all.get(at)?.waiting.lock();
        waiting.told.pop_front();
        waiting.tasks.pop_front()
    }

    /// Until it has begun everything.
    fn watch(self: &Arc<Self>, at: usize) {
        let me = Arc::clone(self);
        self.control.spawn(async move {
            loop {
                sleep(STILL).await;
                match me.look_after(at, Instant::now()) {
                    Some(tasks) => tasks.into_iter().for_each(|task| me.spawn(task)),
                    None => return,
                }
            }
        });
    }

    /// What others are to do in its place; `None` when it has begun everything.
    fn look_after(&self, at: usize, now: Instant) -> Option<VecDeque<Task>> {
        let mut others = self.all.iter().enumerate().filter(|(other, _)| *other != at);
        let helped = others.any(|(_, other)| !other.waiting.lock().stands_still(now));
        let mut waiting = self.all.get(at)?.waiting.lock();
        if waiting.told.is_empty() {
            waiting.watched = false;
            return None;
        }
        let gives = helped && waiting.stands_still(now);
        Some(if gives { std::mem::take(&mut waiting.tasks) } else { VecDeque::new() })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;

    use tokio::sync::mpsc as async_mpsc;

    use super::super::Threads;
    use super::*;
    use crate::spawn::Spawner;

    #[test]
    fn a_thread_that_stands_still_keeps_no_task_that_another_can_do() {
        let control = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let halt: OnPanic = Arc::new(|text| panic!("{text}"));
        let threads = Threads::start(control.handle().clone(), 2, false, 1, halt).expect("threads");
        let (go_on, stall) = mpsc::channel::<()>();
        let (stalled, is_stalled) = mpsc::channel();
        threads.data(Box::pin(async move {
            stalled.send(thread::current().name().map(str::to_owned)).expect("a receiver");
            // The end of the sender.
            let _ = stall.recv();
        }));
        let still = is_stalled.recv().expect("it has begun");
        let (send, mut names) = async_mpsc::unbounded_channel();
        control.block_on(async {
            // Some before anybody can know, some after.
            for round in 0..2 {
                for _ in 0..4 {
                    let send = send.clone();
                    threads.data(Box::pin(async move {
                        let _ = send.send(thread::current().name().map(str::to_owned));
                    }));
                }
                for _ in 0..4 {
                    let name = tokio::time::timeout(Duration::from_secs(60), names.recv()).await;
                    let name = name.unwrap_or_else(|_| panic!("round {round}: a task waits for {still:?}"));
                    assert!(name.is_some() && name != Some(still.clone()));
                }
            }
        });
        drop(go_on);
        // It takes part again.
        let served = || {
            let (send, name) = mpsc::channel();
            threads.data(Box::pin(async move {
                let _ = send.send(thread::current().name().map(str::to_owned));
            }));
            name.recv().expect("a name")
        };
        let deadline = Instant::now() + Duration::from_secs(60);
        while served() != still {
            assert!(Instant::now() < deadline, "{still:?} has gone on and gets nothing");
        }
        threads.stop();
    }

    #[test]
    fn who_stands_still_is_passed_over_unless_all_do() {
        let control = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let handles = vec![control.handle().clone(); 3];
        let runtimes = Runtimes::new(handles, control.handle().clone(), Arc::new(|_| {}));
        let begun = Instant::now();
        let chosen = |now: Instant| (0..3).map(|_| runtimes.choose(now)).collect::<Vec<_>>();
        assert_eq!(chosen(begun + STILL), [0, 1, 2]);
        let told = |at: usize| runtimes.all[at].waiting.lock().told.push_back(begun);
        told(1);
        assert_eq!(chosen(begun), [0, 1, 2], "it may just be busy");
        assert_eq!(chosen(begun + STILL), [0, 2, 2]);
        told(0);
        told(2);
        assert_eq!(chosen(begun + STILL), [0, 1, 2]);
        assert!(runtimes.begin(1).is_none(), "its task went elsewhere");
        assert_eq!(chosen(begun + STILL), [1, 1, 1]);
    }
}
