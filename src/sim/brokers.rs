//! Whole brokers in one current-thread runtime: disk, network, clock, randomness, metastore and threads are simulated,
//! everything else is the real thing. Run it with tokio's time paused, and a seed decides the whole run.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::disk::SimDisk;
use super::meddler::{Meddler, Meddling};
use super::net::SimNet;
pub use super::process::Inline;
use super::process::Process;
pub use super::trace::Trace;
use super::traced::{OpenSessions, Traced};
use super::zookeeper::SimZooKeeper;
use crate::broker::{self, Parts, RunError, Store};
use crate::clock::Clock;
use crate::config::{BrokerConfig, ConfigError};
use crate::loggers::{Levels, Loggers};
use crate::metastore::Sessions;
use crate::metastore::embedded::EmbeddedStore;
use crate::random::SeededRandom;
use crate::spawn::{Shutdown, ShutdownTrigger, Spawner};
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

/// Surroundings that several brokers share.
pub struct World {
    pub net: SimNet,
    pub tree: Arc<EmbeddedStore>,
    pub clock: Arc<SimClock>,
    pub trace: Trace,
    /// Where it is none, the tree is everybody's own and answers at once.
    pub zookeeper: Option<Arc<SimZooKeeper>>,
    delays: Delays,
    seed: u64,
    /// Of all brokers so far: no two draw the same numbers.
    lives: AtomicU64,
}

/// How long things take: up to so many ms each, exclusive.
#[derive(Clone, Copy, Debug, Default)]
pub struct Delays {
    /// Bytes that are under way.
    pub net_ms: u64,
    /// One way to ZooKeeper.
    pub zookeeper_ms: u64,
    /// What may block.
    pub jobs_ms: u64,
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
        let (net, trace, delays, zookeeper) = Default::default();
        World { net, tree, clock, trace, zookeeper, delays, seed, lives: AtomicU64::new(0) }
    }

    /// A world in which everything takes its time, and sessions with ZooKeeper end `session` after the last sign of life.
    /// Somebody may be between them all.
    pub fn with_delays(seed: u64, delays: Delays, session: Duration, meddler: Option<Arc<dyn Meddler>>) -> World {
        let mut world = World { delays, ..World::new(seed) };
        world.net = SimNet::with_delays(delays.net_ms, SeededRandom::new(seed ^ 1 << 32));
        let meddling = meddler.map(Meddling).unwrap_or_default();
        world.net = world.net.with_meddler(meddling.0.clone());
        let random = SeededRandom::new(seed ^ 2 << 32);
        let (tree, trace) = (world.tree.clone(), world.trace.clone());
        world.zookeeper = Some(SimZooKeeper::new(tree, trace, meddling, random, delays.zookeeper_ms, session));
        world
    }

    /// Random numbers of a broker's next life.
    fn next_life(&self, id: i32) -> SeededRandom {
        let life = self.lives.fetch_add(1, Ordering::Relaxed);
        SeededRandom::new(self.seed.wrapping_add(u64::from(id.unsigned_abs())) ^ life << 40)
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
        let process = match self.delays.jobs_ms {
            0 => Process::default(),
            up_to_ms => Process::with_slow_jobs(up_to_ms, self.next_life(id)),
        };
        let sessions: Arc<dyn Sessions> = match &self.zookeeper {
            Some(zookeeper) => Arc::new(zookeeper.of_process(id, process.life())),
            None => {
                let (inner, trace, open) = (self.tree.clone(), self.trace.clone(), Arc::downgrade(&open));
                Arc::new(Traced { who: id, inner, trace, open })
            }
        };
        self.start_process(process, Store::Sessions(sessions), open, machine, id, disk, overrides)
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
        self.start_process(Process::default(), store, sessions, machine, id, disk, overrides)
    }

    #[expect(clippy::too_many_arguments)]
    fn start_process(
        &self,
        process: Process,
        store: Store,
        sessions: OpenSessions,
        machine: Machine,
        id: i32,
        disk: Option<SimDisk>,
        overrides: &[String],
    ) -> Result<SimBroker, ConfigError> {
        let disk = disk.unwrap_or_else(|| SimDisk::new(self.clock.clone()));
        let (stop, shutdown) = Shutdown::new();
        let parts = Parts { machine, ..self.parts(store, id, &disk, overrides, Arc::new(process.clone()), shutdown)? };
        let running = tokio::spawn(process.part(broker::run(parts)));
        Ok(SimBroker { disk, stop, running, process, sessions })
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
            random: Arc::new(self.next_life(id)),
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

    /// Whether it has ended, by itself or because it was asked to.
    pub fn has_ended(&self) -> bool {
        self.running.is_finished()
    }

    /// Holds it up where it is, as SIGSTOP does, until [`SimBroker::go_on`].
    pub fn stand(&self) {
        self.process.stand();
    }

    pub fn go_on(&self) {
        self.process.go_on();
    }

    /// Asks it to end in order, and does not wait.
    pub fn ask_to_stop(&self) {
        self.stop.request();
    }

    /// Ends it as SIGKILL does: what it wrote is on its disk, synced or not, and nobody was told.
    pub async fn kill(self) -> Remains {
        self.process.kill();
        self.running.abort();
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
