//! Composition root: builds the parts, starts them in order, stops them in order. Nobody imports it.
//!
//! ```text
//! start  lock log directories ─ metastore session ─ cluster id ─ broker id ─ claim directories ─ former lives ended
//!        ─ overrides and topics ─ load logs ─ register ─ controller ─ timers ─ listeners
//! stop   others lead ─ listeners and connections ─ fetchers ─ controller ─ logs flushed, clean marker ─ session closed
//! ```
//!
//! The order is that of a Kafka 3.9 broker in ZooKeeper mode, ports last included: a broker may be registered, and even
//! be the controller, while its port still refuses.
//!
//! A broker that loses what it cannot do without (its last log directory, its own metastore, a background task) halts:
//! nothing is closed in order, no clean marker is written, and [`run`] says why.

mod advertised;
mod cleaning;
mod failover;
mod halt;
mod identity;
mod live;
mod lives;
mod log_dirs;
mod passwords;
mod replication;
mod stored;
mod timers;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use parking_lot::Mutex;
use tokio::sync::oneshot;

use self::halt::Halt;
use self::live::Live;
use self::lives::Lives;

use crate::api::Services;
use crate::api::fetch_session::FetchSessions;
use crate::api::telltale::Telltales;
use crate::clock::Clock;
use crate::cluster::peer::{Connector, ToController};
use crate::cluster::{
    Cluster, DynamicConfigs, Registrar, RegistrationError, Replicas, Session, SessionNotes, Snapshot, absence,
};
use crate::config::BrokerConfig;
use crate::controller::admin::Admin;
use crate::controller::driver;
use crate::controller::leave::{Leaving, leave};
use crate::controller::producer_ids::{Blocks, ProducerIds};
use crate::controller::receiver::ControlReceiver;
use crate::controller::rpc::remote::ClusterPeers;
use crate::controller::serving::Serving;
use crate::controller::to_controller::ControllerChannel;
use crate::controller::{self, ControllerHandle};
use crate::coordinator::group_coordinator::{self, GroupCoordinator};
use crate::coordinator::markers::MarkerWriter;
use crate::coordinator::transaction_coordinator::{self, TransactionCoordinator};
use crate::loggers::Loggers;
use crate::metastore::embedded::{EmbeddedStore, OpenError};
use crate::metastore::schema::paths;
use crate::metastore::{self, Sessions};
use crate::net::{ConnectionLimits, ConnectionQuotas, Listener, Server};
use crate::quota::Quotas;
use crate::random::Random;
use crate::replication::fetcher::Fetchers;
use crate::replication::table::{PartitionTable, Surroundings, TopicConfigs};
use crate::spawn::{Job, Scope, Shutdown, ShutdownTrigger, Spawner};
use crate::storage::disk::Disk;
use crate::storage::machine::Machine;
use crate::storage::manager::{LogManager, ManagerError};
use crate::types::BrokerId;

/// Which metastore: our own in the first log directory, or one that is reached through sessions.
pub enum Store {
    Embedded,
    Sessions(Arc<dyn Sessions>),
}

/// Everything a broker is made of that is not the broker: the process gives the real ones, a simulation its own.
pub struct Parts {
    pub config: BrokerConfig,
    pub listeners: Vec<Box<dyn Listener>>,
    /// How other brokers are reached.
    pub connector: Arc<dyn Connector>,
    pub disk: Arc<dyn Disk>,
    pub machine: Machine,
    pub clock: Arc<dyn Clock>,
    pub store: Store,
    pub random: Arc<dyn Random>,
    pub spawner: Arc<dyn Spawner>,
    pub shutdown: Shutdown,
    pub loggers: Arc<Loggers>,
    /// What is advertised for a listener without a host.
    pub host_name: String,
}

/// Why a broker did not start, or halted. Each is one clear sentence.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    #[error(transparent)]
    LogDirs(#[from] ManagerError),
    #[error(transparent)]
    Embedded(#[from] OpenError),
    #[error("the metastore failed while {doing}: {error}")]
    Metastore { doing: &'static str, error: metastore::Error },
    #[error(transparent)]
    Malformed(#[from] metastore::schema::Malformed),
    #[error(transparent)]
    Registration(#[from] RegistrationError),
    #[error("{0}")]
    Refused(String),
    #[error("cannot listen: {0}")]
    Listen(io::Error),
    #[error("stopped while starting")]
    Stopped,
    /// What it cannot do without is gone. Whoever runs it ends the process at once.
    #[error("{0}")]
    Halted(String),
}

impl RunError {
    fn metastore(doing: &'static str) -> impl Fn(metastore::Error) -> RunError {
        move |error| RunError::Metastore { doing, error }
    }
}

/// Runs a broker until `parts.shutdown`. Everything acknowledged is on disk as its topics ask when this returns.
pub async fn run(parts: Parts) -> Result<(), RunError> {
    let begun_ms = parts.clock.monotonic_ms();
    let (shutdown, halt) = (parts.shutdown.clone(), Halt::new());
    let running = tokio::select! {
        biased;
        () = shutdown.requested() => return Err(RunError::Stopped),
        reason = halt.asked() => return Err(RunError::Halted(reason)),
        running = start(parts, begun_ms, &halt) => running?,
    };
    tokio::select! {
        biased;
        reason = halt.asked() => {
            running.halt().await;
            return Err(RunError::Halted(reason));
        }
        () = shutdown.requested() => running.stop().await,
    }
    // A directory may fail while it is closed: its marker is missing, and the next start checks it.
    halt.asked().now_or_never().map_or(Ok(()), |reason| Err(RunError::Halted(reason)))
}

/// How long a metastore that does not answer holds up the end.
const SIGN_OFF_LIMIT: Duration = Duration::from_secs(2);

/// A started broker.
struct Running {
    broker_id: BrokerId,
    server: Arc<Server>,
    logs: Arc<LogManager>,
    session: Arc<Session>,
    controller: ControllerHandle,
    fetchers: Arc<Fetchers>,
    leaving: Leaving,
    /// Until then all go on as before, though the end was asked for: others are to lead first.
    ending: ShutdownTrigger,
    spawner: Arc<dyn Spawner>,
    scope: Arc<Scope>,
    clock: Arc<dyn Clock>,
}

async fn start(parts: Parts, begun_ms: i64, halt: &Halt) -> Result<Running, RunError> {
    let Parts {
        config, listeners, connector, disk, machine, clock, store, random, spawner, loggers, host_name, ..
    } = parts;
    let (ending, shutdown) = Shutdown::new();
    let config = Arc::new(config);
    let on_panic = {
        let halt = halt.clone();
        move |text: &str| {
            halt.because(format!("{text}: what it looked after cannot be trusted any more, the broker halts"))
        }
    };
    let scope = Arc::new(Scope::new(spawner, Arc::new(on_panic)));
    let spawner: Arc<dyn Spawner> = scope.clone();
    let advertised = advertised::listeners(&config, &listeners, &host_name);

    let logs = {
        let (disk, clock, random, config) = (disk.clone(), clock.clone(), random.clone(), config.clone());
        Arc::new(blocking(&spawner, move || LogManager::open(disk, clock, random, config)).await??)
    };
    let embedded = matches!(store, Store::Embedded);
    let metastore_dir = config.log_dirs.first().filter(|_| embedded);
    let failures = log_dirs::watch(&logs, metastore_dir.cloned(), halt.clone());
    let sessions: Arc<dyn Sessions> = match store {
        Store::Sessions(sessions) => sessions,
        Store::Embedded => {
            let (dirs, clock, for_store) = (config.log_dirs.clone(), clock.clone(), spawner.clone());
            let disk = disk.clone();
            let store = blocking(&spawner, move || EmbeddedStore::open(disk, &dirs, clock, for_store)).await??;
            let (watched, halt) = (store.clone(), halt.clone());
            spawner.control(Box::pin(async move {
                halt.because(format!("{}: the broker halts", watched.failed().await));
            }));
            Arc::new(store)
        }
    };
    let opened = Session::open(sessions).await.map_err(RunError::metastore("a session was opened"))?;
    let session = Arc::new(opened);
    let metastore = session.store();

    identity::make_startup_nodes(&*metastore).await?;
    let given = config.cluster_id.as_deref().filter(|_| embedded);
    let cluster_id = identity::cluster_id(&*metastore, given, &*random).await?;
    if let Some(given) = given.filter(|given| *given != cluster_id) {
        tracing::warn!(cluster_id, "klamm.cluster.id={given} is not taken: the data is of a cluster that has an id");
    }
    let broker_id = identity::broker_id(&*metastore, &config, logs.stored_broker_id()).await?;
    {
        let (logs, cluster_id) = (logs.clone(), cluster_id.clone());
        blocking(&spawner, move || logs.claim(broker_id, &cluster_id)).await??;
    }
    tracing::info!(broker_id = broker_id.0, cluster_id, "identity");
    let lives = (!embedded).then(|| Lives { logs: logs.clone(), machine, spawner: spawner.clone() });
    if let Some(lives) = &lives {
        lives.end_former_ones(&*metastore, broker_id).await?;
    }

    passwords::renew(&*metastore, broker_id, &config, &random, &*spawner).await?;
    let absence = absence(&*metastore, broker_id).await;
    let absence = absence.map_err(RunError::metastore("registrations of this broker were looked for"))?;
    let mut stored = stored::read(&*metastore, &config, broker_id).await?;
    let partitions = std::mem::take(&mut stored.replicated);
    let read = absence.map(|registered| Replicas { partitions, registered });
    let stored = Arc::new(stored);
    let configs = Arc::new(DynamicConfigs::default());
    configs.update(|configs| *configs = stored.configs.clone());
    let live = Live {
        broker: broker_id,
        fixed: config.clone(),
        configs: configs.clone(),
        logs: logs.clone(),
        connections: {
            let config = config.clone();
            blocking(&spawner, move || ConnectionQuotas::new(ConnectionLimits::of(&config))).await?
        },
        quotas: Arc::new(Quotas::new(&config)),
        fetchers: None,
        spawner: spawner.clone(),
    };
    logs.limit_copies_with(live.quotas.replication.log_dirs.clone());
    live.begin(&stored.quotas);
    {
        let (logs, stored) = (logs.clone(), stored.clone());
        blocking(&spawner, move || logs.load(&|topic| stored.topics.get(topic).cloned())).await??;
    }

    let (connector, failover) = match config.fast_failover_enable && !embedded {
        true => {
            let (connector, failover) = failover::begin(connector, &cluster_id, &clock);
            (connector, Some(failover))
        }
        false => (connector, None),
    };
    let contacts = failover.as_ref().map(|failover| failover.contacts.clone());

    let first = Snapshot { cluster_id: cluster_id.as_str().into(), ..Snapshot::default() };
    let cluster = Arc::new(Cluster::new(first));
    cluster.expect_topics(!stored.topics.is_empty());
    let around = Surroundings {
        broker: broker_id,
        clock: clock.clone(),
        spawner: spawner.clone(),
        cluster: cluster.clone(),
        replica_lag_time_max_ms: config.replica_lag_time_max_ms,
        flush_queues: Default::default(),
        isr_changes: Default::default(),
        leader_checks: Default::default(),
    };
    let partitions = Arc::new(PartitionTable::new(around, logs.clone(), topic_configs(&config, &configs, broker_id)));

    let groups = GroupCoordinator::new(group_coordinator::Surroundings {
        config: config.clone(),
        cluster: cluster.clone(),
        clock: clock.clone(),
        spawner: spawner.clone(),
        shutdown: shutdown.clone(),
    });
    let markers = MarkerWriter {
        partitions: Arc::downgrade(&partitions),
        groups: groups.clone(),
        clock: clock.clone(),
        timeout: Duration::from_millis(u64::try_from(config.request_timeout_ms).unwrap_or(0)),
    };
    let transactions = TransactionCoordinator::new(transaction_coordinator::Surroundings {
        broker: broker_id,
        config: config.clone(),
        cluster: cluster.clone(),
        connector: connector.clone(),
        writer: markers.clone(),
        clock: clock.clone(),
        spawner: spawner.clone(),
        shutdown: shutdown.clone(),
    });
    partitions.tell(vec![groups.clone(), transactions.clone()]);
    groups.start();
    transactions.start();

    drop(metastore);

    let receiver = Arc::new(ControlReceiver::new(
        partitions.clone(),
        cluster.clone(),
        configs.clone(),
        session.clone(),
        spawner.clone(),
        {
            let groups = groups.clone();
            Arc::new(move |topics| groups.topics_deleted(topics))
        },
    ));
    let serving = Arc::new(Serving::new(cluster.clone(), session.clone()));
    let to_controller: Arc<dyn ToController> = Arc::new(ControllerChannel::new(
        broker_id,
        serving.clone(),
        cluster.clone(),
        connector.clone(),
        config.clone(),
        spawner.clone(),
    ));
    let fetchers = replication::begin(
        &replication::Around {
            broker: broker_id,
            config: &config,
            receiver: &receiver,
            cluster: &cluster,
            session: &session,
            connector: &connector,
            to_controller: &to_controller,
            clock: &clock,
            spawner: &spawner,
            shutdown: &shutdown,
            quotas: &live.quotas,
            checks_leaders: failover.is_some(),
        },
        &partitions,
    );
    let live = live.with(fetchers.clone());
    let registrar = Registrar {
        broker: broker_id,
        advertised,
        rack: config.rack.clone(),
        session_timeout: Duration::from_millis(u64::try_from(config.zookeeper_session_timeout_ms).unwrap_or(0)),
        notes: lives.map(|lives| Arc::new(lives) as Arc<dyn SessionNotes>),
    };
    let parts = driver::Parts {
        broker: broker_id,
        session: session.clone(),
        registrar,
        receiver: receiver.clone(),
        peers: Box::new(ClusterPeers {
            broker: broker_id,
            receiver: receiver.clone(),
            connector: connector.clone(),
            config: config.clone(),
            spawner: spawner.clone(),
        }),
        config: config.clone(),
        configs: configs.clone(),
        clock: clock.clone(),
        random: random.clone(),
        spawner: spawner.clone(),
        failover,
    };
    let controller =
        controller::start(parts, read, configs.clone(), partitions.clone(), live.clone().on_change()).await?;
    serving.begin(controller.clone());
    failures.handle(&*spawner, partitions.clone(), session.clone(), broker_id);
    let admin = Admin::new(
        controller.clone(),
        session.clone(),
        cluster.clone(),
        configs.clone(),
        broker_id,
        config.clone(),
        random.clone(),
    );

    let blocks = match config.inter_broker_protocol.allocates_producer_ids {
        true => Blocks::Controller(to_controller, receiver.epoch_source()),
        false => Blocks::Metastore(session.clone()),
    };
    let slots = usize::try_from(config.max_incremental_fetch_session_cache_slots).unwrap_or(0);
    let services = Arc::new(Services {
        broker_id,
        config: config.clone(),
        cluster: cluster.clone(),
        contacts,
        configs,
        partitions,
        admin: Arc::new(admin),
        producer_ids: ProducerIds::new(broker_id, blocks, spawner.clone()),
        receiver: receiver.clone(),
        serving,
        groups,
        transactions,
        markers,
        fetch_sessions: FetchSessions::new(slots),
        telltales: Telltales::default(),
        quotas: live.quotas.clone(),
        loggers,
        spawner: spawner.clone(),
        clock: clock.clone(),
        random,
        shutdown: shutdown.clone(),
    });
    timers::start(&spawner, &logs, &shutdown);
    cleaning::start(&spawner, &logs, &shutdown);
    let server = Server::new(services, live.connections.clone(), spawner.clone());
    let addresses: Vec<String> = listeners.iter().map(|l| format!("{}://{}", l.name(), l.address())).collect();
    server.start(listeners).map_err(RunError::Listen)?;
    let leaving = Leaving {
        broker: broker_id,
        config: config.clone(),
        cluster,
        controller: controller.clone(),
        receiver,
        connector,
    };
    let started_ms = clock.monotonic_ms() - begun_ms;
    tracing::info!(listeners = addresses.join(","), "started in {started_ms} ms");
    Ok(Running { broker_id, server, logs, session, controller, fetchers, leaving, ending, spawner, scope, clock })
}

impl Running {
    async fn stop(self) {
        let begun_ms = self.clock.monotonic_ms();
        tracing::info!("stopping");
        leave(&self.leaving).await;
        self.ending.request();
        self.server.stop().await;
        self.fetchers.stop();
        self.controller.stop();
        let logs = self.logs.clone();
        if let Err(error) = blocking(&self.spawner, move || logs.close()).await {
            tracing::error!(%error, "logs were not closed");
        }
        self.scope.end().await;
        self.sign_off().await;
        drop((self.session, self.server, self.leaving));
        tracing::info!("stopped in {} ms", self.clock.monotonic_ms() - begun_ms);
    }
}

impl Running {
    /// Ends without order: requests and tasks end where they are.
    async fn halt(self) {
        self.ending.request();
        self.logs.stop_cleaning();
        self.server.begin_stop();
        self.fetchers.stop();
        self.controller.stop();
        self.scope.end().await;
    }

    /// Takes this broker's ephemerals back. The end of the session would do it too, but news of it may get lost with the
    /// process, and the next start would have to wait for the session timeout.
    async fn sign_off(&self) {
        let store = self.session.store();
        let delete = async {
            for path in [paths::broker(self.broker_id), paths::CONTROLLER.to_owned()] {
                if store.exists(&path).await?.is_some_and(|stat| stat.ephemeral_owner == store.session_id()) {
                    store.delete(&path, -1).await?;
                }
            }
            Ok::<_, metastore::Error>(())
        };
        match tokio::time::timeout(SIGN_OFF_LIMIT, delete).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(%error, "the registration stays until the session times out"),
            Err(_) => {
                tracing::warn!("no metastore to sign off from: the registration stays until the session times out")
            }
        }
    }
}

/// A topic's configuration by name, from the overrides last read: its own over the broker's over the file's.
fn topic_configs(config: &Arc<BrokerConfig>, configs: &Arc<DynamicConfigs>, broker_id: BrokerId) -> TopicConfigs {
    let (config, configs) = (config.clone(), configs.clone());
    Box::new(move |topic| {
        let configs = configs.load();
        let defaults = configs.topic_defaults(&config, broker_id);
        Arc::new(match configs.topics.get(topic) {
            Some(overrides) => stored::resolve(&defaults, topic, overrides),
            None => defaults,
        })
    })
}

/// Runs `job` on the blocking pool.
async fn blocking<T: Send + 'static>(
    spawner: &Arc<dyn Spawner>,
    job: impl FnOnce() -> T + Send + 'static,
) -> Result<T, RunError> {
    let (job, result) = answered(job);
    spawner.blocking(job);
    result.await.map_err(|_| RunError::Stopped)
}

/// The same with a low priority.
async fn quiet<T: Send + 'static>(
    spawner: &Arc<dyn Spawner>,
    job: impl FnOnce() -> T + Send + 'static,
) -> Result<T, RunError> {
    let (job, result) = answered(job);
    spawner.quiet(job);
    result.await.map_err(|_| RunError::Stopped)
}

fn answered<T: Send + 'static>(job: impl FnOnce() -> T + Send + 'static) -> (Job, oneshot::Receiver<T>) {
    let (done, result) = oneshot::channel();
    let done = Mutex::new(Some(done));
    let job = move || {
        let result = job();
        if let Some(done) = done.lock().take() {
            // Nobody waits any more when the broker was stopped meanwhile.
            let _ = done.send(result);
        }
    };
    (Box::new(job), result)
}
