//! `klamm [server.properties]` and `klamm server`: the process around a broker.
//!
//! The main thread becomes the control thread. SIGTERM and SIGINT stop the broker in order; a second one ends the
//! process at once.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::{fs, panic, process, thread};

use anyhow::Context;
use clap::{Parser, ValueEnum};
use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{fmt, reload};

use super::{container, zookeeper_login};
use crate::broker::{self, Parts, Store};
use crate::clock::SystemClock;
use crate::config::{BrokerConfig, Warning};
use crate::loggers::{Levels, Loggers};
use crate::metastore::zookeeper::{ZooKeeper, ZooKeeperConfig};
use crate::net::Listener;
use crate::net::outgoing::TcpConnector;
use crate::net::tcp::Tcp;
use crate::random::SystemRandom;
use crate::spawn::{OnPanic, Shutdown, ShutdownTrigger, Spawner, Threads};
use crate::storage::disk_real::RealDisk;
use crate::storage::machine::Machine;

/// The release of Kafka that this is in place of.
pub const KAFKA: &str = "3.9.1";

/// How log lines look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum LogFormat {
    /// One line per event, coloured on a terminal
    Human,
    /// One JSON object per line
    Json,
}

/// Flags of the broker.
#[derive(Debug, Parser)]
pub struct Args {
    /// Kafka's server.properties; without one every key has its default
    #[arg(value_name = "server.properties")]
    file: Option<PathBuf>,
    /// The same, as a flag
    #[arg(long, value_name = "FILE", conflicts_with = "file")]
    config: Option<PathBuf>,
    /// Reads the variables that images of Kafka are configured by (KAFKA_*, KAFKA_CFG_* and others) and the files that are
    /// mounted for them, as those images do
    #[arg(long, conflicts_with_all = ["file", "config"])]
    from_environment: bool,
    /// Sets one key over the file's; may be repeated
    #[arg(long = "override", value_name = "KEY=VALUE")]
    overrides: Vec<String>,
    #[arg(long, value_enum, default_value = "human")]
    log_format: LogFormat,
    /// What is logged, as in RUST_LOG: a level, or target=level,...
    #[arg(long, value_name = "FILTER", env = "KLAMM_LOG", default_value = "info")]
    log_level: String,
}

/// Runs a broker until it is told to stop. 0 after an orderly end, 1 when it could not start or halted.
pub fn main(args: Args) -> ExitCode {
    let loggers = match start_logging(&args) {
        Ok(loggers) => loggers,
        Err(error) => {
            eprintln!("klamm: {error:#}");
            return ExitCode::FAILURE;
        }
    };
    match run(&args, loggers) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

fn start_logging(args: &Args) -> anyhow::Result<Loggers> {
    let levels: Levels = args.log_level.parse().context("--log-level")?;
    let (filter, altered) = reload::Layer::new(levels.targets());
    let filtered = tracing_subscriber::registry().with(filter);
    let lines = fmt::layer().with_writer(std::io::stderr).with_target(false);
    match args.log_format {
        LogFormat::Json => filtered.with(lines.json().flatten_event(true).with_target(true)).init(),
        LogFormat::Human => filtered.with(lines.with_ansi(std::io::stderr().is_terminal())).init(),
    }
    panic::set_hook(Box::new(|panic| {
        let thread = thread::current();
        let backtrace = std::backtrace::Backtrace::capture();
        tracing::error!(thread = thread.name().unwrap_or("unnamed"), %backtrace, "{panic}");
    }));
    Ok(Loggers::new(levels, move |targets| {
        if let Err(error) = altered.reload(targets) {
            tracing::error!(%error, "levels of loggers cannot be changed");
        }
    }))
}

fn run(args: &Args, loggers: Loggers) -> anyhow::Result<()> {
    let clock = Arc::new(SystemClock::default());
    let host_name = host_name();
    let config = load(args, &host_name)?;
    let control = Builder::new_current_thread().enable_all().build().context("the control runtime")?;
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let data_threads = usize::try_from(config.num_network_threads).unwrap_or(1).clamp(1, cores);
    let in_cluster = config.zookeeper_connect.is_some();
    let blocking_threads = usize::try_from(config.background_threads).unwrap_or(1);
    let halt: OnPanic = Arc::new(|text| {
        tracing::error!("{text}; what it looked after cannot be trusted any more, the broker halts");
        process::exit(1);
    });
    let threads = Threads::start(control.handle().clone(), data_threads, in_cluster, blocking_threads, halt)
        .context("the broker's threads")?;
    let threads = Arc::new(threads);
    let (trigger, shutdown) = Shutdown::new();

    let result = control.block_on(async {
        let listeners: Vec<Box<dyn Listener>> = config
            .listeners
            .iter()
            .map(|listener| Tcp::bind(listener, &config).map(|tcp| Box::new(tcp) as Box<dyn Listener>))
            .collect::<Result<_, _>>()?;
        stop_on_signals(trigger)?;
        let store = store(&config, threads.clone())?;
        let parts = Parts {
            listeners,
            connector: Arc::new(TcpConnector::new(Arc::new(config.clone()))),
            disk: Arc::new(RealDisk),
            machine: Machine::this(),
            clock,
            store,
            random: Arc::new(SystemRandom),
            spawner: threads.clone(),
            shutdown,
            loggers: Arc::new(loggers),
            host_name,
            config,
        };
        match broker::run(parts).await {
            Ok(()) | Err(broker::RunError::Stopped) => Ok(()),
            Err(halted @ broker::RunError::Halted(_)) => {
                tracing::error!("{halted}");
                // A disk that failed may hold up whoever waits for it: nothing is waited for.
                process::exit(1);
            }
            Err(error) => Err(anyhow::Error::from(error)),
        }
    });
    // Tasks of the control runtime hold the threads too.
    drop(control);
    if let Some(threads) = Arc::into_inner(threads) {
        threads.stop();
    }
    result
}

/// Reads the configuration; the first lines of the log say what was read.
fn load(args: &Args, host_name: &str) -> anyhow::Result<BrokerConfig> {
    if args.from_environment {
        let setup = container::setup(host_name)?;
        let (config, warnings) = container::configuration(&setup, &args.overrides)?;
        introduce("the environment", &config);
        container::tell(&setup, &config, host_name);
        warn(&warnings);
        if let Some(topics) = setup.topics {
            container::make_topics(topics, &config)?;
        }
        return Ok(config);
    }
    let file = args.file.as_ref().or(args.config.as_ref());
    let bytes = match file {
        Some(path) => fs::read(path).with_context(|| path.display().to_string())?,
        None => Vec::new(),
    };
    let (config, warnings) = BrokerConfig::load(&bytes, &args.overrides)?;
    introduce(&file.map_or_else(|| "defaults".to_owned(), |path| path.display().to_string()), &config);
    warn(&warnings);
    Ok(config)
}

fn introduce(properties: &str, config: &BrokerConfig) {
    let log_dirs = config.log_dirs.iter().map(|dir| dir.display().to_string()).collect::<Vec<_>>().join(",");
    tracing::info!(config = properties, "klamm {}", env!("CARGO_PKG_VERSION"));
    tracing::info!("data in {log_dirs}");
}

fn warn(warnings: &[Warning]) {
    for warning in warnings {
        match warning {
            Warning::NoEffect { .. } => tracing::debug!("{warning}"),
            _ => tracing::warn!("{warning}"),
        }
    }
}

/// Our own metastore unless `zookeeper.connect` names an ensemble.
fn store(config: &BrokerConfig, spawner: Arc<dyn Spawner>) -> anyhow::Result<Store> {
    let Some(connect) = config.zookeeper_connect.clone() else { return Ok(Store::Embedded) };
    let in_flight = config.properties.get("zookeeper.max.in.flight.requests").and_then(|text| text.trim().parse().ok());
    let zookeeper = ZooKeeperConfig {
        connect,
        session_timeout_ms: config.zookeeper_session_timeout_ms.unsigned_abs(),
        connection_timeout_ms: config.zookeeper_connection_timeout_ms.unsigned_abs(),
        max_in_flight_requests: in_flight.unwrap_or(10),
        login: zookeeper_login::of_environment()?,
    };
    Ok(Store::Sessions(Arc::new(ZooKeeper::new(zookeeper, spawner)?)))
}

fn stop_on_signals(trigger: ShutdownTrigger) -> anyhow::Result<()> {
    let mut terminate = signal(SignalKind::terminate()).context("SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("SIGINT")?;
    tokio::spawn(async move {
        for again in [false, true] {
            let name = tokio::select! {
                _ = terminate.recv() => "SIGTERM",
                _ = interrupt.recv() => "SIGINT",
            };
            tracing::info!("{name} received");
            if again {
                process::exit(1);
            }
            trigger.request();
        }
    });
    Ok(())
}

/// This machine's name.
pub fn node_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// This machine's name if it can be looked up, as clients will have to; else `localhost`, which only local ones reach.
fn host_name() -> String {
    let name = node_name();
    match std::net::ToSocketAddrs::to_socket_addrs(&(name.as_str(), 0)) {
        Ok(_) => name,
        Err(error) => {
            tracing::warn!(%error, "this machine's name {name} is unknown: set advertised.listeners for other machines");
            "localhost".to_owned()
        }
    }
}
