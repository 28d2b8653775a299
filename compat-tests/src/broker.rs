//! A broker as a process: the built klamm, or a real Kafka 3.9.1 in ZooKeeper mode.

use std::fs;
use std::io::Write as _;
use std::net::TcpListener;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::str::FromStr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail, ensure};
use kafka_protocol::messages::{ApiKey, FindCoordinatorRequest, MetadataRequest, RequestKind, ResponseKind};
use kafka_protocol::protocol::StrBytes;
use rustix::process::Signal;
use tempfile::TempDir;

use crate::cache;
use crate::daemon::Daemon;
use crate::network::Machine;
use crate::proc::{self, tail, tool};
use crate::raw::Connection;
use crate::wait::until;
use crate::zookeeper::Ensemble;

/// Which broker a lane is run on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum On {
    Klamm,
    Kafka,
    /// One that somebody else started; it cannot be stopped or killed.
    At(String),
}

impl FromStr for On {
    type Err = String;
    fn from_str(text: &str) -> Result<On, String> {
        match text {
            "klamm" => Ok(On::Klamm),
            "kafka" => Ok(On::Kafka),
            address if address.contains(':') => Ok(On::At(address.to_owned())),
            other => Err(format!("{other} is neither klamm, kafka nor HOST:PORT")),
        }
    }
}

/// The id every broker started here carries.
pub const BROKER_ID: i32 = 1;

/// Reached only by a broker that hangs: on two cores with a dozen other programs a real Kafka takes more than a minute to
/// start.
const PATIENCE: Duration = Duration::from_secs(180);

/// One broker on a free port with a directory of its own. Killed when dropped.
pub struct Broker {
    on: On,
    id: i32,
    machine: Machine,
    port: u16,
    dir: PathBuf,
    _temp: Option<TempDir>,
    process: Option<Daemon>,
    /// Variables it is started with.
    environment: Vec<(String, String)>,
    /// Its own, unless it is one of a cluster.
    _zookeeper: Option<Ensemble>,
}

impl Broker {
    /// Starts one and waits until it accepts connections. `settings` come after the common ones and win.
    pub fn start(on: &On, settings: &[(&str, &str)]) -> Result<Broker> {
        let temp = TempDir::with_prefix("compat-")?;
        let dir = temp.path().to_path_buf();
        Broker::start_in(on, &dir, Some(temp), settings)
    }

    /// As [`Broker::start`], on a port that clients will not be told.
    pub fn start_on(port: u16, on: &On, settings: &[(&str, &str)]) -> Result<Broker> {
        let temp = TempDir::with_prefix("compat-")?;
        let dir = temp.path().to_path_buf();
        Broker::start_at(port, on, &dir, Some(temp), settings)
    }

    /// As [`Broker::start`], in a directory that outlives the broker.
    pub fn start_in(on: &On, dir: &Path, temp: Option<TempDir>, settings: &[(&str, &str)]) -> Result<Broker> {
        Broker::start_at(free_port()?, on, dir, temp, settings)
    }

    fn start_at(port: u16, on: &On, dir: &Path, temp: Option<TempDir>, settings: &[(&str, &str)]) -> Result<Broker> {
        if let On::At(address) = on {
            let (host, port) = address.rsplit_once(':').ok_or_else(|| anyhow!("{address} has no port"))?;
            let port = port.parse().with_context(|| format!("port of {address}"))?;
            return Ok(Broker::new(on, BROKER_ID, Machine::at(host), port, dir, temp));
        }
        let mut broker = Broker::new(on, BROKER_ID, Machine::this(), port, dir, temp);
        let mut lines = Vec::new();
        if *on == On::Kafka {
            let zookeeper = Ensemble::start(dir, 1)?;
            lines.push(format!("zookeeper.connect={}", zookeeper.connect_string()));
            broker._zookeeper = Some(zookeeper);
            // What an embedded single node has by default.
            lines.push("offsets.topic.replication.factor=1".into());
            lines.push("transaction.state.log.replication.factor=1".into());
            lines.push("transaction.state.log.min.isr=1".into());
        }
        broker.configure(lines, settings)?;
        broker.start_again()?;
        Ok(broker)
    }

    /// A broker of a cluster on the ZooKeeper `connect`, ready to be started.
    pub fn of_cluster(on: &On, id: i32, dir: &Path, connect: &str, settings: &[(&str, &str)]) -> Result<Broker> {
        Broker::of_cluster_on(Machine::this(), on, id, dir, connect, settings)
    }

    /// As [`Broker::of_cluster`], on a machine of its own.
    pub fn of_cluster_on(
        machine: Machine,
        on: &On,
        id: i32,
        dir: &Path,
        connect: &str,
        settings: &[(&str, &str)],
    ) -> Result<Broker> {
        fs::create_dir_all(dir)?;
        let broker = Broker::new(on, id, machine, free_port()?, dir, None);
        broker.configure(vec![format!("zookeeper.connect={connect}")], settings)?;
        Ok(broker)
    }

    fn new(on: &On, id: i32, machine: Machine, port: u16, dir: &Path, temp: Option<TempDir>) -> Broker {
        let dir = dir.to_path_buf();
        Broker {
            on: on.clone(),
            id,
            machine,
            port,
            dir,
            _temp: temp,
            process: None,
            environment: Vec::new(),
            _zookeeper: None,
        }
    }

    /// Writes its properties: the common ones, then `lines`, then `settings`, in whose values `{id}` is the broker's and
    /// `{port}` the one it is asked on. The last of a key counts.
    fn configure(&self, lines: Vec<String>, settings: &[(&str, &str)]) -> Result<()> {
        let mut all = vec![
            format!("broker.id={}", self.id),
            format!("listeners=PLAINTEXT://{}", self.address()),
            format!("log.dirs={}", self.log_dir().display()),
        ];
        all.extend(lines);
        let (id, port) = (self.id.to_string(), self.port.to_string());
        let own = |value: &str| value.replace("{id}", &id).replace("{port}", &port);
        all.extend(settings.iter().map(|(key, value)| format!("{key}={}", own(value))));
        Ok(fs::write(self.properties_file(), all.join("\n") + "\n")?)
    }

    /// One more line of its properties: what they said of `key` so far no longer counts from the next start on.
    pub fn set(&self, key: &str, value: &str) -> Result<()> {
        let mut file = fs::OpenOptions::new().append(true).open(self.properties_file())?;
        Ok(writeln!(file, "{key}={value}")?)
    }

    pub fn properties_file(&self) -> PathBuf {
        self.dir.join("server.properties")
    }

    /// `HOST:PORT`.
    pub fn address(&self) -> String {
        format!("{}:{}", self.machine.host(), self.port)
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn on(&self) -> &On {
        &self.on
    }

    /// Its one log directory.
    pub fn log_dir(&self) -> PathBuf {
        self.dir.join("data")
    }

    /// Starts the stopped or killed broker on the same directory and port, and waits until it serves.
    pub fn start_again(&mut self) -> Result<()> {
        self.spawn()?;
        self.await_listening()
    }

    /// As [`Broker::start_again`] without the wait.
    pub fn spawn(&mut self) -> Result<()> {
        let command = match self.on {
            On::Klamm => {
                let mut command = Command::new(klamm()?);
                command.arg(self.properties_file());
                command
            }
            On::Kafka => {
                let mut command = cache::java(&format!("{}/*", cache::jars("kafka-3.9.1")?.display()))?;
                command.arg("-Xmx384M").arg("kafka.Kafka").arg(self.properties_file());
                command
            }
            On::At(_) => bail!("a broker that somebody else started cannot be started again"),
        };
        let mut command = self.machine.run(command);
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        self.process = Some(Daemon::spawn(&mut command, &self.log_file())?);
        Ok(())
    }

    /// From the next start on it runs with these variables, in whose values `{id}` is the broker's.
    pub fn set_environment(&mut self, variables: &[(String, String)]) {
        let id = self.id.to_string();
        self.environment = variables.iter().map(|(name, value)| (name.clone(), value.replace("{id}", &id))).collect();
    }

    /// Waits until it serves.
    pub fn await_listening(&mut self) -> Result<()> {
        let address = self.address();
        let ended = until(&format!("a listener on {address}"), PATIENCE, || match self.exited()? {
            Some(status) => Ok(Some(status)),
            // A real Kafka listens before it is registered: serving means naming itself.
            None if self.names_itself() => Ok(None),
            None => bail!("{}", self.log_tail(12)),
        })?;
        match ended {
            Some(status) => bail!("the broker ended with {status} while starting: {}", self.log_tail(12)),
            None => Ok(()),
        }
    }

    fn names_itself(&self) -> bool {
        let request = RequestKind::Metadata(MetadataRequest::default().with_topics(Some(Vec::new())));
        let response = Connection::open(&self.address()).and_then(|mut c| c.ask(ApiKey::Metadata, 1, &request));
        matches!(response, Ok(ResponseKind::Metadata(metadata)) if !metadata.brokers.is_empty())
    }

    /// Waits until the broker coordinates groups: the first to ask has the topic of all of them made, and some tests give
    /// their first group a few seconds for everything.
    pub fn await_coordinator(&self) -> Result<()> {
        let keys = vec![StrBytes::from_static_str("none")];
        let request = RequestKind::FindCoordinator(FindCoordinatorRequest::default().with_coordinator_keys(keys));
        until("a coordinator", PATIENCE, || {
            let answer = Connection::open(&self.address())?.ask(ApiKey::FindCoordinator, 4, &request)?;
            let ResponseKind::FindCoordinator(answer) = answer else { bail!("another API's answer") };
            let error = answer.coordinators.first().map(|coordinator| coordinator.error_code);
            ensure!(error == Some(0), "error {error:?}");
            Ok(())
        })
    }

    /// How the process ended, if it has.
    pub fn exited(&mut self) -> Result<Option<ExitStatus>> {
        self.process.as_mut().map_or(Ok(None), Daemon::exited)
    }

    /// Whether it was started, and neither stopped nor killed since.
    pub fn runs(&self) -> bool {
        self.process.is_some()
    }

    pub fn pid(&self) -> Result<i32> {
        self.process.as_ref().map(Daemon::pid).ok_or_else(not_running)
    }

    /// A field of `/proc/PID/status` in bytes: `VmRSS:` is resident memory, `VmHWM:` its peak.
    pub fn status_bytes(&self, field: &str) -> Result<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid()?))?;
        let line = status.lines().find_map(|line| line.strip_prefix(field));
        let kib = line.and_then(|rest| rest.trim().trim_end_matches(" kB").parse::<u64>().ok());
        kib.map(|kib| kib * 1024).ok_or_else(|| anyhow!("no {field}"))
    }

    /// SIGKILL, and waits for the end.
    pub fn kill(&mut self) -> Result<()> {
        self.process.take().ok_or_else(not_running)?.kill()
    }

    /// SIGTERM, and waits for the end.
    pub fn stop(&mut self) -> Result<ExitStatus> {
        let mut process = self.process.take().ok_or_else(not_running)?;
        process.signal(Signal::TERM)?;
        let status = process.await_exit(PATIENCE)?;
        status.ok_or_else(|| anyhow!("the broker did not stop within {} s of SIGTERM", PATIENCE.as_secs()))
    }

    /// As [`Broker::stop`]; an error when it says that it did not end in order.
    pub fn stop_in_order(&mut self) -> Result<()> {
        let status = self.stop()?;
        // A JVM ends with 143 after SIGTERM.
        ensure!(status.success() || status.code() == Some(143), "ended with {status}");
        Ok(())
    }

    /// SIGSTOP: it does nothing any more until [`Broker::resume`].
    pub fn pause(&self) -> Result<()> {
        self.process.as_ref().ok_or_else(not_running)?.signal(Signal::STOP)
    }

    /// SIGCONT.
    pub fn resume(&self) -> Result<()> {
        self.process.as_ref().ok_or_else(not_running)?.signal(Signal::CONT)
    }

    /// Waits for an end nobody asked for.
    pub fn await_exit(&mut self, limit: Duration) -> Result<Option<ExitStatus>> {
        self.process.as_mut().ok_or_else(not_running)?.await_exit(limit)
    }

    /// What it says goes there.
    pub fn log_file(&self) -> PathBuf {
        self.dir.join("broker.log")
    }

    pub fn log_text(&self) -> String {
        fs::read(self.log_file()).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
    }

    pub fn log_tail(&self, lines: usize) -> String {
        tail(&self.log_text(), lines)
    }
}

fn not_running() -> anyhow::Error {
    anyhow!("the broker does not run")
}

/// Where ports are looked for: below those from which outgoing connections get theirs, so that nobody's connection sits on
/// the port of a broker that is down and will be back.
const PORTS: RangeInclusive<u16> = 12_000..=19_999;

/// A port nobody listens on now. With `KLAMM_TEST_PORTS=FIRST-LAST` one of those.
pub fn free_port() -> Result<u16> {
    let ports = match std::env::var("KLAMM_TEST_PORTS") {
        Ok(range) => {
            let (first, last) = range.split_once('-').ok_or_else(|| anyhow!("KLAMM_TEST_PORTS is not FIRST-LAST"))?;
            first.parse()?..=last.parse()?
        }
        Err(_) => PORTS,
    };
    // Programs that run at once begin at different places.
    static NEXT: OnceLock<AtomicU32> = OnceLock::new();
    let next = NEXT.get_or_init(|| AtomicU32::new(std::process::id().wrapping_mul(97)));
    let count = u32::from(ports.end().saturating_sub(*ports.start())) + 1;
    for _ in 0..count {
        let port = ports.start() + (next.fetch_add(1, Ordering::Relaxed) % count) as u16;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return Ok(port);
        }
    }
    bail!("no free port in {ports:?}");
}

/// The broker's binary, built once per run in the profile of this program. `KLAMM_BIN` names another.
pub fn klamm() -> Result<PathBuf> {
    static BUILT: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let built = BUILT.get_or_init(|| build().map_err(|error| format!("{error:#}")));
    built.clone().map_err(|reason| anyhow!("{reason}"))
}

fn build() -> Result<PathBuf> {
    if let Some(path) = std::env::var_os("KLAMM_BIN") {
        return Ok(path.into());
    }
    let release = !cfg!(debug_assertions);
    let cargo = std::env::var("CARGO").map_or_else(|_| tool("cargo"), Ok)?;
    let mut command = Command::new(cargo);
    command.args(["build", "--quiet", "--package", "klamm", "--bin", "klamm", "--target-dir"]);
    command.arg(cache::target_dir()).current_dir(cache::sources());
    if release {
        command.arg("--release");
    }
    proc::run(&mut command, b"", Duration::from_secs(1200))?.ok().context("build klamm")?;
    Ok(cache::target_dir().join(if release { "release" } else { "debug" }).join("klamm"))
}
