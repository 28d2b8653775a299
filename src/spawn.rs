//! Where work runs, as a value: threads in production, one current-thread runtime in a simulation.
//!
//! ```text
//! main thread    control runtime: accepting, metastore session, controller and what it says, timers
//! replicas       one current-thread runtime, in a cluster: connections of followers, who read and never append
//! data-0..n      one current-thread runtime each ([`runtimes`]): connections of clients, and what this broker fetches
//! follow-0..n    one current-thread runtime for each of several log directories, once something is fetched into it
//! lengthy        one current-thread runtime, once there is a use for it: connections whose request takes the processor for long
//! blocking-0..m  plain threads, started when there is work, gone when idle: fsync, cold reads, recovery, deletion
//! heavy-0..m     the same, for what takes the processor for long and holds nothing meanwhile: decompression
//! quiet          plain threads with a low priority, one for a job: compaction
//! ```
//! `lengthy`, `heavy` and `quiet` have a lower priority than the others: a few bytes of one client can be work for seconds,
//! and the kernel takes a processor from a thread that others are equal to only at its next tick.

use std::any::Any;
use std::collections::{HashMap, VecDeque};
use std::future::Future;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use futures_util::FutureExt;
use parking_lot::{Condvar, Mutex};
use tokio::runtime::{Builder, Handle};
use tokio::sync::{oneshot, watch};
use tokio::time::sleep;

mod priority;
mod runtimes;

use self::priority::Priority;
pub use self::priority::give_way;
use self::runtimes::Runtimes;

/// A task that owns what it needs.
pub type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A job that may block.
pub type Job = Box<dyn FnOnce() + Send>;

/// Places work. Tasks may use tokio's timers and primitives; only `net` uses its sockets.
pub trait Spawner: Send + Sync {
    /// On one of the data runtimes (connections).
    fn data(&self, task: Task);
    /// On the runtime of the followers' connections.
    fn replicas(&self, task: Task) {
        self.data(task);
    }
    /// What is fetched into `dir`, one of several log directories: one that stands still holds up no other, and no client.
    fn following(&self, dir: &Path, task: Task) {
        let _ = dir;
        self.data(task);
    }
    /// On the control thread: metastore session, controller, timers. Never blocks on file I/O.
    fn control(&self, task: Task);
    /// Connections whose next request takes the processor for long: they wait for each other, and nobody for them.
    fn lengthy(&self, task: Task) {
        self.data(task);
    }
    /// On the bounded pool for what may block: fsync, cold reads, recovery, deletion.
    fn blocking(&self, job: Job);
    /// On a bounded pool of its own, for what takes the processor for long. A job holds no lock.
    fn heavy(&self, job: Job) {
        self.blocking(job);
    }
    /// As [`Spawner::blocking`], for long work that is to yield to all other: on a thread of its own with a low priority.
    /// Without a thread to be had the job is dropped, undone.
    fn quiet(&self, job: Job) {
        self.blocking(job);
    }
    /// How many threads each of the pools may have from now on; those beyond end when they are idle.
    fn set_blocking_threads(&self, _threads: usize) {}
}

/// Tells everything that it is time to end; cloned freely.
#[derive(Clone, Debug)]
pub struct Shutdown(watch::Receiver<bool>);

/// The other end of a [`Shutdown`]. Dropping it asks for the end too.
#[derive(Debug)]
pub struct ShutdownTrigger(watch::Sender<bool>);

impl Shutdown {
    pub fn new() -> (ShutdownTrigger, Shutdown) {
        let (trigger, shutdown) = watch::channel(false);
        (ShutdownTrigger(trigger), Shutdown(shutdown))
    }

    pub fn is_requested(&self) -> bool {
        *self.0.borrow() || self.0.has_changed().is_err()
    }

    pub async fn requested(&self) {
        // An error means that the trigger is gone, which asks for the end as well.
        let _ = self.0.clone().wait_for(|requested| *requested).await;
    }
}

impl ShutdownTrigger {
    pub fn request(&self) {
        self.0.send_replace(true);
    }
}

/// The tasks of one broker: its control tasks end with it, wherever they wait, and what they hold is dropped. Their
/// panics, and those of its blocking jobs, are told to the broker.
pub struct Scope {
    inner: Arc<dyn Spawner>,
    on_panic: OnPanic,
    ended: Shutdown,
    end: ShutdownTrigger,
    /// Each running task holds a receiver.
    running: watch::Sender<()>,
}

impl Scope {
    pub fn new(inner: Arc<dyn Spawner>, on_panic: OnPanic) -> Scope {
        let (end, ended) = Shutdown::new();
        Scope { inner, on_panic, ended, end, running: watch::Sender::new(()) }
    }

    /// Ends the control tasks and returns when the last is gone.
    pub async fn end(&self) {
        self.end.request();
        self.running.closed().await;
    }
}

impl Spawner for Scope {
    fn data(&self, task: Task) {
        self.inner.data(task);
    }

    fn replicas(&self, task: Task) {
        self.inner.replicas(task);
    }

    fn following(&self, dir: &Path, task: Task) {
        self.inner.following(dir, task);
    }

    fn control(&self, task: Task) {
        let (ended, running) = (self.ended.clone(), self.running.subscribe());
        let task = watched(task, self.on_panic.clone());
        self.inner.control(Box::pin(async move {
            tokio::select! {
                biased;
                () = ended.requested() => {}
                () = task => {}
            }
            drop(running);
        }));
    }

    fn lengthy(&self, task: Task) {
        self.inner.lengthy(task);
    }

    fn blocking(&self, job: Job) {
        let on_panic = self.on_panic.clone();
        self.inner.blocking(Box::new(move || watched_job(job, &on_panic)));
    }

    fn heavy(&self, job: Job) {
        let on_panic = self.on_panic.clone();
        self.inner.heavy(Box::new(move || watched_job(job, &on_panic)));
    }

    fn quiet(&self, job: Job) {
        let on_panic = self.on_panic.clone();
        self.inner.quiet(Box::new(move || watched_job(job, &on_panic)));
    }

    fn set_blocking_threads(&self, threads: usize) {
        self.inner.set_blocking_threads(threads);
    }
}

/// Runs `work`, which belongs to one request, on the blocking pool. Its panic is the caller's, not the broker's: what it
/// looked after is that request alone. `None` when the pool is gone.
pub async fn for_request<T: Send + 'static>(
    spawner: &dyn Spawner,
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    outcome_of(|job| spawner.blocking(job), true, work).await
}

/// As [`for_request`], on the pool for what takes the processor for long. Not begun for a request whose connection has gone
/// meanwhile.
pub async fn heavy_for_request<T: Send + 'static>(
    spawner: &dyn Spawner,
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    outcome_of(|job| spawner.heavy(job), false, work).await
}

/// Whether the work is done when its turn comes, `even_if_gone` who asked for it.
async fn outcome_of<T: Send + 'static>(
    run: impl FnOnce(Job),
    even_if_gone: bool,
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let (done, outcome) = oneshot::channel();
    run(Box::new(move || {
        if even_if_gone || !done.is_closed() {
            // Nobody listens any more when the connection went away.
            let _ = done.send(catch_unwind(AssertUnwindSafe(work)));
        }
    }));
    match outcome.await {
        Ok(Ok(outcome)) => Some(outcome),
        Ok(Err(panic)) => resume_unwind(panic),
        Err(_) => None,
    }
}

/// The longest pause of [`again`].
const AGAIN: Duration = Duration::from_millis(50);

/// Attempts until there is an outcome, and leaves the thread to others in between: for what is nearly always free, and may
/// be held for as long as a disk stands still.
pub async fn again<T>(mut attempt: impl FnMut() -> Option<T>) -> T {
    let mut pause = Duration::from_millis(1);
    loop {
        if let Some(outcome) = attempt() {
            return outcome;
        }
        sleep(pause).await;
        pause = (2 * pause).min(AGAIN);
    }
}

/// Called with a sentence when a task or job that is no request's panicked: what it looked after can no longer be
/// trusted. The broker halts.
pub type OnPanic = Arc<dyn Fn(&str) + Send + Sync>;

/// The text of a caught panic.
pub fn panic_text(panic: &(dyn Any + Send)) -> &str {
    match (panic.downcast_ref::<&str>(), panic.downcast_ref::<String>()) {
        (Some(text), _) => text,
        (_, Some(text)) => text,
        _ => "no message",
    }
}

/// Real threads.
pub struct Threads {
    control: Handle,
    replicas: Option<Handle>,
    data: Arc<Runtimes>,
    following: Mutex<HashMap<PathBuf, Handle>>,
    lengthy: Mutex<Option<Handle>>,
    stopped: Shutdown,
    blocking: Arc<Pool>,
    heavy: Arc<Pool>,
    on_panic: OnPanic,
    stop: Option<ShutdownTrigger>,
    joins: Mutex<Vec<JoinHandle<()>>>,
}

impl Threads {
    /// `control` is the runtime of the thread that runs the broker; `data` runtimes, one for followers `in_cluster`, and at
    /// most `blocking` further threads in each pool are made here.
    pub fn start(
        control: Handle,
        data: usize,
        in_cluster: bool,
        blocking: usize,
        on_panic: OnPanic,
    ) -> io::Result<Threads> {
        let (stop, stopped) = Shutdown::new();
        let mut threads = Threads {
            data: Runtimes::new(Vec::new(), control.clone(), on_panic.clone()),
            control,
            replicas: None,
            following: Mutex::default(),
            lengthy: Mutex::default(),
            stopped,
            blocking: Arc::new(Pool::new("blocking", Priority::Normal, blocking.max(1), on_panic.clone())),
            heavy: Arc::new(Pool::new("heavy", Priority::Low, blocking.max(1), on_panic.clone())),
            on_panic,
            stop: Some(stop),
            joins: Mutex::default(),
        };
        let runtimes: io::Result<Vec<Handle>> =
            (0..data.max(1)).map(|n| threads.run(format!("data-{n}"), Priority::Normal)).collect();
        threads.data = Runtimes::new(runtimes?, threads.control.clone(), threads.on_panic.clone());
        if in_cluster {
            threads.replicas = Some(threads.run("replicas".to_owned(), Priority::Normal)?);
        }
        Ok(threads)
    }

    /// Starts a thread with a runtime.
    fn run(&self, name: String, priority: Priority) -> io::Result<Handle> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let stopped = self.stopped.clone();
        let run = move || {
            priority.take();
            runtime.block_on(stopped.requested());
        };
        self.joins.lock().push(thread::Builder::new().name(name).spawn(run)?);
        Ok(handle)
    }

    /// Ends the data runtimes with whatever still runs on them, and waits for blocking jobs under way or queued.
    pub fn stop(mut self) {
        self.stop.take();
        for join in self.joins.lock().drain(..) {
            // A panic there was reported where it was caught.
            let _ = join.join();
        }
        self.blocking.drain();
        self.heavy.drain();
    }
}

impl Spawner for Threads {
    fn data(&self, task: Task) {
        self.data.spawn(task);
    }

    fn replicas(&self, task: Task) {
        match &self.replicas {
            Some(runtime) => drop(runtime.spawn(watched(task, self.on_panic.clone()))),
            None => self.data(task),
        }
    }

    fn following(&self, dir: &Path, task: Task) {
        let mut following = self.following.lock();
        let runtime = match following.get(dir) {
            Some(runtime) => Ok(runtime.clone()),
            None => self.run(format!("follow-{}", following.len()), Priority::Normal),
        };
        match runtime {
            Ok(runtime) => {
                runtime.spawn(watched(task, self.on_panic.clone()));
                following.insert(dir.to_path_buf(), runtime);
            }
            // The machine has no thread left: better among the clients than not at all.
            Err(_) => self.data(task),
        }
    }

    fn control(&self, task: Task) {
        self.control.spawn(watched(task, self.on_panic.clone()));
    }

    fn lengthy(&self, task: Task) {
        let mut lengthy = self.lengthy.lock();
        if lengthy.is_none() {
            *lengthy = self.run("lengthy".to_owned(), Priority::Low).ok();
        }
        match &*lengthy {
            Some(runtime) => drop(runtime.spawn(watched(task, self.on_panic.clone()))),
            // The machine has no thread left: better among the others than not at all.
            None => self.data(task),
        }
    }

    fn blocking(&self, job: Job) {
        Pool::run(&self.blocking, job);
    }

    fn heavy(&self, job: Job) {
        Pool::run(&self.heavy, job);
    }

    fn quiet(&self, job: Job) {
        let on_panic = self.on_panic.clone();
        let run = move || {
            Priority::Low.take();
            watched_job(job, &on_panic);
        };
        if let Ok(join) = thread::Builder::new().name("quiet".to_owned()).spawn(run) {
            let mut joins = self.joins.lock();
            joins.retain(|join| !join.is_finished());
            joins.push(join);
        }
    }

    fn set_blocking_threads(&self, threads: usize) {
        for pool in [&self.blocking, &self.heavy] {
            pool.state.lock().max_threads = threads.max(1);
        }
    }
}

/// `task`, with its panic reported. Connections catch theirs before it comes this far.
pub async fn watched(task: Task, on_panic: OnPanic) {
    if let Err(panic) = AssertUnwindSafe(task).catch_unwind().await {
        on_panic(&format!("a background task panicked: {}", panic_text(panic.as_ref())));
    }
}

/// Runs `job`, with its panic reported.
fn watched_job(job: Job, on_panic: &OnPanic) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(job)) {
        on_panic(&format!("a background job panicked: {}", panic_text(panic.as_ref())));
    }
}

/// How long an idle blocking thread waits for another job.
const IDLE: Duration = Duration::from_secs(5);

/// A bounded pool of threads. Its queue has no bound of its own: whoever queues a job waits for it, so there are never
/// more jobs than waiting owners.
struct Pool {
    name: &'static str,
    priority: Priority,
    state: Mutex<PoolState>,
    /// A job was queued; wakes one idle thread.
    queued: Condvar,
    /// A thread has nothing to do any more.
    done: Condvar,
    on_panic: OnPanic,
}

#[derive(Default)]
struct PoolState {
    queue: VecDeque<Job>,
    threads: usize,
    max_threads: usize,
    idle: usize,
}

impl Pool {
    fn new(name: &'static str, priority: Priority, max_threads: usize, on_panic: OnPanic) -> Pool {
        let state = PoolState { max_threads, ..PoolState::default() };
        Pool { name, priority, state: Mutex::new(state), queued: Condvar::new(), done: Condvar::new(), on_panic }
    }

    fn run(pool: &Arc<Pool>, job: Job) {
        let mut state = pool.state.lock();
        state.queue.push_back(job);
        if state.idle >= state.queue.len() || state.threads >= state.max_threads {
            pool.queued.notify_one();
            return;
        }
        let (worker, name) = (pool.clone(), format!("{}-{}", pool.name, state.threads));
        match thread::Builder::new().name(name).spawn(move || worker.work()) {
            Ok(_) => state.threads += 1,
            // Others will get to it; without any it is done here, late rather than never.
            Err(_) if state.threads > 0 => {}
            Err(_) => {
                let job = state.queue.pop_back();
                drop(state);
                job.into_iter().for_each(|job| job());
            }
        }
    }

    fn work(&self) {
        self.priority.take();
        let mut state = self.state.lock();
        loop {
            if let Some(job) = state.queue.pop_front() {
                drop(state);
                watched_job(job, &self.on_panic);
                state = self.state.lock();
                continue;
            }
            state.idle += 1;
            self.done.notify_all();
            let timed_out = self.queued.wait_for(&mut state, IDLE).timed_out();
            state.idle -= 1;
            if timed_out && state.queue.is_empty() {
                state.threads -= 1;
                self.done.notify_all();
                return;
            }
        }
    }

    /// Until no job is queued or under way.
    fn drain(&self) {
        let mut state = self.state.lock();
        while !state.queue.is_empty() || state.threads > state.idle {
            self.done.wait(&mut state);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;

    fn threads(blocking: usize) -> (tokio::runtime::Runtime, Threads, mpsc::Receiver<String>) {
        let control = Builder::new_current_thread().enable_all().build().expect("runtime");
        let (send, panics) = mpsc::channel();
        let send = Mutex::new(send);
        let on_panic: OnPanic = Arc::new(move |text| {
            let _ = send.lock().send(text.to_owned());
        });
        let threads = Threads::start(control.handle().clone(), 2, true, blocking, on_panic).expect("threads");
        (control, threads, panics)
    }

    struct Here;

    impl Spawner for Here {
        fn data(&self, _: Task) {}
        fn control(&self, task: Task) {
            tokio::spawn(task);
        }
        fn blocking(&self, job: Job) {
            job();
        }
    }

    #[test]
    fn data_tasks_go_round_robin() {
        let (_control, threads, _) = threads(1);
        let (send, names) = mpsc::channel();
        for _ in 0..4 {
            let send = send.clone();
            threads.data(Box::pin(async move {
                let _ = send.send(thread::current().name().unwrap_or_default().to_owned());
            }));
        }
        let mut names: Vec<String> = (0..4).map(|_| names.recv().expect("a name")).collect();
        names.sort();
        assert_eq!(names, ["data-0", "data-0", "data-1", "data-1"]);
        threads.stop();
    }

    #[test]
    fn the_pool_is_bounded_and_does_every_job() {
        let (_control, threads, _) = threads(2);
        let (running, most, done) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)), mpsc::channel());
        for _ in 0..50 {
            let (running, most, send) = (running.clone(), most.clone(), done.0.clone());
            threads.blocking(Box::new(move || {
                let now = running.fetch_add(1, Ordering::SeqCst) + 1;
                most.fetch_max(now, Ordering::SeqCst);
                thread::yield_now();
                running.fetch_sub(1, Ordering::SeqCst);
                let _ = send.send(());
            }));
        }
        (0..50).for_each(|_| done.1.recv().expect("a job done"));
        assert!(most.load(Ordering::SeqCst) <= 2);
        threads.stop();
    }

    #[test]
    fn what_takes_long_is_in_nobodys_way() {
        let (control, threads, _) = threads(2);
        let niceness = || rustix::process::getpriority_process(None).expect("a niceness");
        let (here, (send, said)) = (niceness(), mpsc::channel());
        let tell = |who: &'static str| {
            let send = send.clone();
            move || drop(send.send((who, thread::current().name().unwrap_or_default().to_owned(), niceness())))
        };
        let (data, lengthy) = (tell("data"), tell("lengthy"));
        threads.data(Box::pin(async move { data() }));
        threads.lengthy(Box::pin(async move { lengthy() }));
        threads.blocking(Box::new(tell("blocking")));
        threads.heavy(Box::new(tell("heavy")));
        let mut said: Vec<_> = (0..4).map(|_| said.recv().expect("a niceness")).collect();
        said.sort();
        let names = [("blocking", "blocking-0"), ("data", "data-0"), ("heavy", "heavy-0"), ("lengthy", "lengthy")];
        for ((who, name, niceness), expected) in said.into_iter().zip(names) {
            assert_eq!((who, &*name), expected);
            let is_lower = niceness > here || here == 19;
            assert_eq!(is_lower, matches!(who, "heavy" | "lengthy") || here == 19, "{who}: {niceness}, here {here}");
        }
        // Nobody waits for it any more when its turn comes.
        let (go_on, stall) = mpsc::channel::<()>();
        let stall = Arc::new(Mutex::new(stall));
        threads.set_blocking_threads(1);
        control.block_on(async {
            let waits = stall.clone();
            let mut first = Box::pin(heavy_for_request(&threads, move || waits.lock().recv().is_ok()));
            assert!((&mut first).now_or_never().is_none());
            let begun = Arc::new(AtomicUsize::new(0));
            let count = |begun: &Arc<AtomicUsize>| {
                let begun = begun.clone();
                move || begun.fetch_add(1, Ordering::SeqCst)
            };
            assert!(heavy_for_request(&threads, count(&begun)).now_or_never().is_none());
            drop(go_on);
            assert_eq!(heavy_for_request(&threads, count(&begun)).await, Some(0), "the one before was not begun");
            first.await;
        });
        threads.stop();
    }

    #[test]
    fn panics_are_reported_and_the_pool_goes_on() {
        let (control, threads, panics) = threads(1);
        threads.blocking(Box::new(|| panic!("first")));
        assert_eq!(panics.recv().as_deref(), Ok("a background job panicked: first"));
        let (send, done) = mpsc::channel();
        threads.blocking(Box::new(move || send.send(1).expect("a receiver")));
        assert_eq!(done.recv(), Ok(1));
        threads.control(Box::pin(async { panic!("{}", 2) }));
        control.block_on(tokio::task::yield_now());
        assert_eq!(panics.recv().as_deref(), Ok("a background task panicked: 2"));
        threads.stop();
    }

    #[tokio::test]
    async fn a_scope_ends_its_control_tasks_and_drops_what_they_hold() {
        let scope = Scope::new(Arc::new(Here), Arc::new(|_| {}));
        let held = Arc::new(());
        let in_task = held.clone();
        scope.control(Box::pin(async move {
            std::future::pending::<()>().await;
            drop(in_task);
        }));
        tokio::task::yield_now().await;
        assert_eq!(Arc::strong_count(&held), 2);
        scope.end().await;
        assert_eq!(Arc::strong_count(&held), 1);
    }

    #[tokio::test]
    async fn a_scope_tells_of_panics_but_not_of_a_requests() {
        let (send, panics) = mpsc::channel();
        let send = Mutex::new(send);
        let on_panic = move |text: &str| send.lock().send(text.to_owned()).expect("a receiver");
        let scope = Scope::new(Arc::new(Here), Arc::new(on_panic));
        scope.blocking(Box::new(|| panic!("a job")));
        scope.control(Box::pin(async { panic!("a task") }));
        tokio::task::yield_now().await;
        let of_request = AssertUnwindSafe(for_request(&scope, || panic!("a request"))).catch_unwind().await;
        let panic: Box<dyn Any + Send> = of_request.map(|_: Option<()>| ()).expect_err("the caller's");
        assert_eq!(panic_text(panic.as_ref()), "a request");
        assert_eq!(for_request(&scope, || 5).await, Some(5));
        scope.end().await;
        drop(scope);
        let told: Vec<String> = panics.iter().collect();
        assert_eq!(told, ["a background job panicked: a job", "a background task panicked: a task"]);
    }

    #[tokio::test]
    async fn a_dropped_trigger_asks_for_the_end() {
        let (trigger, shutdown) = Shutdown::new();
        assert!(!shutdown.is_requested());
        drop(trigger);
        assert!(shutdown.is_requested());
        shutdown.requested().await;
    }
}
