//! Whole brokers in one current-thread runtime: disk, network, clock, randomness, metastore and threads are simulated,
//! everything else is the real thing. Run it with tokio's time paused, and a seed decides the whole run.

use std::fmt::Write as _;
use std::io;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Weak};

use async_trait::async_trait;
use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinHandle};
use tokio::time::Instant;

use super::disk::SimDisk;
use super::net::SimNet;
use crate::broker::{self, Parts, RunError, Store};
use crate::clock::Clock;
use crate::config::{BrokerConfig, ConfigError};
use crate::loggers::{Levels, Loggers};
use crate::metastore::embedded::EmbeddedStore;
use crate::metastore::{CreateMode, Error, Metastore, MultiError, Op, OpResult, SessionState, Sessions, Stat, Watch};
use crate::random::SeededRandom;
use crate::spawn::{Job, Shutdown, ShutdownTrigger, Spawner, Task};
use crate::storage::machine::Machine;
use crate::types::BrokerId;

/// tokio's time, from a fixed wall time on.
#[derive(Debug)]
pub struct SimClock {
    start: Instant,
    start_wall_ms: AtomicI64,
}

impl SimClock {
    pub fn at(start_wall_ms: i64) -> SimClock {
        SimClock { start: Instant::now(), start_wall_ms: AtomicI64::new(start_wall_ms) }
    }

    /// Sets the wall clock forward, or back, as an operator does.
    pub fn jump(&self, by_ms: i64) {
        self.start_wall_ms.fetch_add(by_ms, Ordering::Relaxed);
    }
}

impl Clock for SimClock {
    fn wall_ms(&self) -> i64 {
        self.start_wall_ms.load(Ordering::Relaxed) + self.monotonic_ms()
    }
    fn monotonic_ms(&self) -> i64 {
        i64::try_from(self.start.elapsed().as_millis()).unwrap_or(i64::MAX)
    }
}

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

/// As [`Inline`], for one process that can be killed.
#[derive(Clone, Debug, Default)]
struct Process(Arc<Mutex<Vec<AbortHandle>>>);

impl Process {
    fn run(&self, task: Task) {
        let mut tasks = self.0.lock();
        tasks.retain(|task| !task.is_finished());
        tasks.push(tokio::spawn(task).abort_handle());
    }

    /// Ends every task where it waits, as SIGKILL does.
    fn kill(&self) {
        self.0.lock().drain(..).for_each(|task| task.abort());
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
        job();
    }
}

/// What happened, in order, as text.
#[derive(Clone, Debug, Default)]
pub struct Trace(Arc<Mutex<String>>);

impl Trace {
    pub fn note(&self, line: impl std::fmt::Display) {
        // Writing to a string does not fail.
        let _ = writeln!(self.0.lock(), "{line}");
    }

    pub fn text(&self) -> String {
        self.0.lock().clone()
    }
}

/// Surroundings that several brokers share.
pub struct World {
    pub net: SimNet,
    pub tree: Arc<EmbeddedStore>,
    pub clock: Arc<SimClock>,
    pub trace: Trace,
    seed: u64,
}

/// A broker of a [`World`].
pub struct SimBroker {
    pub disk: SimDisk,
    stop: ShutdownTrigger,
    running: JoinHandle<Result<(), RunError>>,
    process: Process,
    /// Those it opened: they outlive a process that is killed.
    sessions: OpenSessions,
}

type OpenSessions = Arc<Mutex<Vec<Arc<dyn Metastore>>>>;

/// What a killed broker leaves. Its sessions are over when this is dropped.
pub struct Remains {
    /// As the next process finds it.
    pub disk: SimDisk,
    _sessions: OpenSessions,
}

impl World {
    pub fn new(seed: u64) -> World {
        // 2023-11-14, the wall time Kafka's own tests like.
        let clock = Arc::new(SimClock::at(1_700_000_000_000));
        let tree = EmbeddedStore::in_memory(clock.clone());
        World { net: SimNet::default(), tree, clock, trace: Trace::default(), seed }
    }

    /// Port of broker `id`.
    pub fn port(id: i32) -> u16 {
        9000 + u16::try_from(id).unwrap_or(0)
    }

    /// Starts broker `id` on a disk of its own, or on one it had before.
    pub fn start(&self, id: i32, disk: Option<SimDisk>, overrides: &[String]) -> Result<SimBroker, ConfigError> {
        self.start_at(World::machine(id), id, disk, overrides)
    }

    /// The machine on which broker `id` starts, if nothing else is said.
    pub fn machine(id: i32) -> Machine {
        Machine { boot: Some(format!("boot-{id}")), id: Some(format!("machine-{id}")) }
    }

    /// As [`World::start`], on another machine.
    pub fn start_at(
        &self,
        machine: Machine,
        id: i32,
        disk: Option<SimDisk>,
        overrides: &[String],
    ) -> Result<SimBroker, ConfigError> {
        let open = OpenSessions::default();
        let sessions =
            Traced { who: id, inner: self.tree.clone(), trace: self.trace.clone(), open: Arc::downgrade(&open) };
        self.start_on(Store::Sessions(Arc::new(sessions)), open, machine, id, disk, overrides)
    }

    /// Starts a broker alone, with its metastore in its first log directory.
    pub fn start_alone(&self, id: i32, disk: Option<SimDisk>, overrides: &[String]) -> Result<SimBroker, ConfigError> {
        self.start_on(Store::Embedded, OpenSessions::default(), World::machine(id), id, disk, overrides)
    }

    /// Starts a broker on a metastore that is not this world's own.
    pub fn start_with(
        &self,
        store: Store,
        id: i32,
        disk: Option<SimDisk>,
        overrides: &[String],
    ) -> Result<SimBroker, ConfigError> {
        self.start_on(store, OpenSessions::default(), World::machine(id), id, disk, overrides)
    }

    fn start_on(
        &self,
        store: Store,
        sessions: OpenSessions,
        machine: Machine,
        id: i32,
        disk: Option<SimDisk>,
        overrides: &[String],
    ) -> Result<SimBroker, ConfigError> {
        let process = Process::default();
        let disk = disk.unwrap_or_else(|| SimDisk::new(self.clock.clone()));
        let (stop, shutdown) = Shutdown::new();
        let parts = Parts { machine, ..self.parts(store, id, &disk, overrides, Arc::new(process.clone()), shutdown)? };
        Ok(SimBroker { disk, stop, running: tokio::spawn(broker::run(parts)), process, sessions })
    }

    /// What broker `id` is made of, to be run by the caller.
    pub fn parts(
        &self,
        store: Store,
        id: i32,
        disk: &SimDisk,
        overrides: &[String],
        spawner: Arc<dyn Spawner>,
        shutdown: Shutdown,
    ) -> Result<Parts, ConfigError> {
        let port = World::port(id);
        let own = [
            format!("broker.id={id}"),
            format!("listeners=PLAINTEXT://broker{id}:{port}"),
            format!("log.dirs=/broker{id}"),
        ];
        let (config, _) = BrokerConfig::load(&[], &[&own[..], overrides].concat())?;
        Ok(Parts {
            config,
            listeners: vec![Box::new(self.net.listener("PLAINTEXT", port))],
            connector: Arc::new(self.net.connector(BrokerId(id))),
            disk: Arc::new(disk.clone()),
            machine: World::machine(id),
            clock: self.clock.clone(),
            store,
            random: Arc::new(SeededRandom::new(self.seed.wrapping_add(u64::from(id.unsigned_abs())))),
            spawner,
            shutdown,
            loggers: Arc::new(Loggers::new(Levels::default(), drop)),
            host_name: format!("broker{id}"),
        })
    }
}

impl SimBroker {
    /// Waits until it ends by itself.
    pub async fn ended(self) -> io::Result<Result<(), RunError>> {
        Ok(self.running.await?)
    }

    /// Ends it as SIGKILL does: what it wrote is on its disk, synced or not, and nobody was told.
    pub async fn kill(self) -> Remains {
        self.running.abort();
        self.process.kill();
        // An error says that it was aborted.
        let _ = self.running.await;
        // What a task held when it was aborted goes with its next turn.
        tokio::task::yield_now().await;
        Remains { disk: self.disk.fork(), _sessions: self.sessions }
    }

    /// Stops it in order.
    pub async fn stop(self) -> io::Result<Result<(), RunError>> {
        self.stop.request();
        Ok(self.running.await?)
    }
}

/// Sessions whose writes go into the trace.
struct Traced {
    who: i32,
    inner: Arc<EmbeddedStore>,
    trace: Trace,
    /// Theirs who hold the broker: a process that ends in order closes its sessions, one that is killed does not.
    open: Weak<Mutex<Vec<Arc<dyn Metastore>>>>,
}

#[async_trait]
impl Sessions for Traced {
    async fn open_session(&self) -> Result<Arc<dyn Metastore>, Error> {
        let inner = self.inner.session();
        if let Some(open) = self.open.upgrade() {
            open.lock().push(inner.clone());
        }
        Ok(Arc::new(TracedSession { who: self.who, inner, trace: self.trace.clone() }))
    }
}

struct TracedSession {
    who: i32,
    inner: Arc<dyn Metastore>,
    trace: Trace,
}

impl TracedSession {
    fn note(&self, what: impl std::fmt::Debug, outcome: impl std::fmt::Debug) {
        self.trace.note(format_args!("znode {}: {what:?} -> {outcome:?}", self.who));
    }
}

#[async_trait]
impl Metastore for TracedSession {
    async fn create(&self, path: &str, data: Option<Bytes>, mode: CreateMode) -> Result<String, Error> {
        let outcome = self.inner.create(path, data.clone(), mode).await;
        self.note(("create", path, data, mode), &outcome);
        outcome
    }
    async fn get(&self, path: &str) -> Result<(Bytes, Stat), Error> {
        self.inner.get(path).await
    }
    async fn get_watch(&self, path: &str) -> Result<(Bytes, Stat, Watch), Error> {
        self.inner.get_watch(path).await
    }
    async fn exists(&self, path: &str) -> Result<Option<Stat>, Error> {
        self.inner.exists(path).await
    }
    async fn exists_watch(&self, path: &str) -> Result<(Option<Stat>, Watch), Error> {
        self.inner.exists_watch(path).await
    }
    async fn children(&self, path: &str) -> Result<Vec<String>, Error> {
        self.inner.children(path).await
    }
    async fn children_watch(&self, path: &str) -> Result<(Vec<String>, Watch), Error> {
        self.inner.children_watch(path).await
    }
    async fn set(&self, path: &str, data: Bytes, version: i32) -> Result<Stat, Error> {
        let outcome = self.inner.set(path, data.clone(), version).await;
        self.note(("set", path, data, version), &outcome);
        outcome
    }
    async fn delete(&self, path: &str, version: i32) -> Result<(), Error> {
        let outcome = self.inner.delete(path, version).await;
        self.note(("delete", path, version), &outcome);
        outcome
    }
    async fn multi(&self, ops: Vec<Op>) -> Result<Vec<OpResult>, MultiError> {
        let outcome = self.inner.multi(ops.clone()).await;
        self.note(("multi", ops), &outcome);
        outcome
    }
    async fn sync(&self, path: &str) -> Result<(), Error> {
        self.inner.sync(path).await
    }
    fn session_id(&self) -> i64 {
        self.inner.session_id()
    }
    fn session_states(&self) -> watch::Receiver<SessionState> {
        self.inner.session_states()
    }
}
