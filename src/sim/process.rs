//! Where a simulated broker's work runs: on the current runtime, as a process that can be killed, or stopped for a while.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::task::AbortHandle;

use crate::random::{Random, SeededRandom};
use crate::spawn::{Job, Spawner, Task};

/// Everything on the current runtime; what may block is done at once.
#[derive(Debug)]
pub struct Inline;

impl Spawner for Inline {
    fn data(&self, task: Task) {
        tokio::spawn(task);
    }
    fn control(&self, task: Task) {
        tokio::spawn(task);
    }
    fn blocking(&self, job: Job) {
        job();
    }
}

/// How a process is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Life {
    #[default]
    Runs,
    /// As after SIGSTOP.
    Stands,
    Dead,
}

/// As [`Inline`], for one process.
#[derive(Clone, Debug, Default)]
pub(super) struct Process(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    tasks: Mutex<Vec<AbortHandle>>,
    life: watch::Sender<Life>,
    /// Tasks that were woken while the process stood.
    woken: Mutex<Vec<Waker>>,
    jobs: Option<Jobs>,
}

/// How long what may block takes: up to so many ms, exclusive.
struct Jobs {
    random: SeededRandom,
    up_to_ms: u64,
}

impl fmt::Debug for Jobs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Jobs").field("up_to_ms", &self.up_to_ms).finish_non_exhaustive()
    }
}

impl Process {
    /// What may block takes up to `up_to_ms`, exclusive, and is done meanwhile by nobody else.
    pub fn with_slow_jobs(up_to_ms: u64, random: SeededRandom) -> Process {
        Process(Arc::new(Inner { jobs: Some(Jobs { random, up_to_ms }), ..Inner::default() }))
    }

    pub fn life(&self) -> watch::Receiver<Life> {
        self.0.life.subscribe()
    }

    /// `work` as a part of this process, which the caller spawns and aborts.
    pub fn part<F: Future>(&self, work: F) -> Part<F> {
        Part { work: Box::pin(work), process: self.clone() }
    }

    fn run(&self, task: Task) {
        let mut tasks = self.0.tasks.lock();
        tasks.retain(|task| !task.is_finished());
        tasks.push(tokio::spawn(self.part(task)).abort_handle());
    }

    /// Ends every task where it waits, as SIGKILL does.
    pub fn kill(&self) {
        self.0.life.send_replace(Life::Dead);
        self.0.tasks.lock().drain(..).for_each(|task| task.abort());
    }

    /// No task goes on until [`Process::go_on`], as after SIGSTOP: what it has open stays open, and time passes.
    pub fn stand(&self) {
        self.0.life.send_replace(Life::Stands);
    }

    pub fn go_on(&self) {
        self.0.life.send_replace(Life::Runs);
        let woken = std::mem::take(&mut *self.0.woken.lock());
        woken.into_iter().for_each(Waker::wake);
    }
}

impl Spawner for Process {
    fn data(&self, task: Task) {
        self.run(task);
    }
    fn control(&self, task: Task) {
        self.run(task);
    }
    fn blocking(&self, job: Job) {
        let takes_ms = self.0.jobs.as_ref().map_or(0, |jobs| jobs.random.below(jobs.up_to_ms));
        if takes_ms == 0 {
            return job();
        }
        self.run(Box::pin(async move {
            tokio::time::sleep(Duration::from_millis(takes_ms)).await;
            job();
        }));
    }
}

/// A task of a process.
pub(super) struct Part<F> {
    work: Pin<Box<F>>,
    process: Process,
}

impl<F: Future> Future for Part<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        if *self.process.0.life.borrow() == Life::Stands {
            self.process.0.woken.lock().push(cx.waker().clone());
            return Poll::Pending;
        }
        self.work.as_mut().poll(cx)
    }
}
