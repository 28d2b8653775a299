//! A broker as a process: the built klamm, or a real Kafka 3.9.1 in ZooKeeper mode.

use std::fs::{self, File};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::str::FromStr;
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use kafka_protocol::messages::{ApiKey, FindCoordinatorRequest, MetadataRequest, RequestKind, ResponseKind};
use kafka_protocol::protocol::StrBytes;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::cache;
use crate::proc::{self, tail, tool};
use crate::raw::Connection;

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

/// Long enough for a loaded machine; reached only by a broker that hangs.
const PATIENCE: Duration = Duration::from_secs(60);

/// One broker on a free port with a directory of its own. Killed when dropped.
pub struct Broker {
    on: On,
    host: String,
    port: u16,
    dir: PathBuf,
    _temp: Option<TempDir>,
    child: Option<Child>,
    zookeeper: Option<Child>,
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
            return Ok(Broker {
                on: on.clone(),
                host: host.to_owned(),
                port: port.parse().with_context(|| format!("port of {address}"))?,
                dir: dir.to_path_buf(),
                _temp: temp,
                child: None,
                zookeeper: None,
            });
        }
        let mut lines = vec![
            format!("broker.id={BROKER_ID}"),
            format!("listeners=PLAINTEXT://127.0.0.1:{port}"),
            format!("log.dirs={}", dir.join("data").display()),
        ];
        let mut broker = Broker {
            on: on.clone(),
            host: "127.0.0.1".into(),
            port,
            dir: dir.to_path_buf(),
            _temp: temp,
            child: None,
            zookeeper: None,
        };
        if *on == On::Kafka {
            let zookeeper_port = free_port()?;
            broker.zookeeper = Some(start_zookeeper(dir, zookeeper_port)?);
            lines.push(format!("zookeeper.connect=127.0.0.1:{zookeeper_port}"));
            // What an embedded single node has by default.
            lines.push("offsets.topic.replication.factor=1".into());
            lines.push("transaction.state.log.replication.factor=1".into());
            lines.push("transaction.state.log.min.isr=1".into());
        }
        lines.extend(settings.iter().map(|(key, value)| format!("{key}={value}")));
        fs::write(broker.properties_file(), lines.join("\n") + "\n")?;
        broker.start_again()?;
        Ok(broker)
    }

    pub fn properties_file(&self) -> PathBuf {
        self.dir.join("server.properties")
    }

    /// `HOST:PORT`.
    pub fn address(&self) -> String {
        format!("{}:{}", self.host, self.port)
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

    /// Starts the stopped or killed broker on the same directory and port.
    pub fn start_again(&mut self) -> Result<()> {
        let log = File::options().create(true).append(true).open(self.dir.join("broker.log"))?;
        let mut command = match self.on {
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
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let child = command.spawn().context("start the broker")?;
        self.child = Some(child);
        self.await_listening()
    }

    fn await_listening(&mut self) -> Result<()> {
        let until = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.exited()? {
                bail!("the broker ended with {status} while starting: {}", self.log_tail(12));
            }
            // A real Kafka listens before it is registered: serving means naming itself.
            if self.names_itself() {
                return Ok(());
            }
            if Instant::now() > until {
                bail!("no listener on {} after {} s: {}", self.address(), PATIENCE.as_secs(), self.log_tail(12));
            }
            thread::sleep(Duration::from_millis(5));
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
        let until = Instant::now() + PATIENCE;
        loop {
            let answer = Connection::open(&self.address())?.ask(ApiKey::FindCoordinator, 4, &request)?;
            let ResponseKind::FindCoordinator(answer) = answer else { bail!("another API's answer") };
            let error = answer.coordinators.first().map(|coordinator| coordinator.error_code);
            if error == Some(0) {
                return Ok(());
            }
            if Instant::now() > until {
                bail!("no coordinator after {} s: error {error:?}", PATIENCE.as_secs());
            }
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// How the process ended, if it has.
    pub fn exited(&mut self) -> Result<Option<ExitStatus>> {
        match &mut self.child {
            Some(child) => Ok(child.try_wait()?),
            None => Ok(None),
        }
    }

    pub fn pid(&self) -> Result<i32> {
        self.child.as_ref().map(|child| child.id() as i32).ok_or_else(|| anyhow!("the broker does not run"))
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
        let mut child = self.child.take().ok_or_else(|| anyhow!("the broker does not run"))?;
        child.kill()?;
        child.wait()?;
        Ok(())
    }

    /// SIGTERM, and waits for the end.
    pub fn stop(&mut self) -> Result<ExitStatus> {
        let mut child = self.child.take().ok_or_else(|| anyhow!("the broker does not run"))?;
        signal(&child, Signal::TERM)?;
        match proc::wait(&mut child, PATIENCE)? {
            Some(status) => Ok(status),
            None => {
                child.kill()?;
                child.wait()?;
                bail!("the broker did not stop within {} s of SIGTERM", PATIENCE.as_secs())
            }
        }
    }

    /// Waits for an end nobody asked for.
    pub fn await_exit(&mut self, limit: Duration) -> Result<Option<ExitStatus>> {
        match &mut self.child {
            Some(child) => proc::wait(child, limit),
            None => bail!("the broker does not run"),
        }
    }

    pub fn log_text(&self) -> String {
        fs::read(self.dir.join("broker.log"))
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
            .unwrap_or_default()
    }

    pub fn log_tail(&self, lines: usize) -> String {
        tail(&self.log_text(), lines)
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        for child in [&mut self.child, &mut self.zookeeper].into_iter().flatten() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn signal(child: &Child, signal: Signal) -> Result<()> {
    let pid = Pid::from_raw(child.id() as i32).ok_or_else(|| anyhow!("no process id"))?;
    kill_process(pid, signal).context("signal the broker")
}

fn start_zookeeper(dir: &Path, port: u16) -> Result<Child> {
    let properties = dir.join("zookeeper.properties");
    let text = format!(
        "dataDir={}\nclientPort={port}\nclientPortAddress=127.0.0.1\nmaxClientCnxns=0\nadmin.enableServer=false\n",
        dir.join("zookeeper").display()
    );
    fs::write(&properties, text)?;
    let log = File::create(dir.join("zookeeper.log"))?;
    let mut command = cache::java(&format!("{}/*", cache::jars("kafka-3.9.1")?.display()))?;
    command.arg("org.apache.zookeeper.server.quorum.QuorumPeerMain").arg(properties);
    command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
    let mut child = command.spawn().context("start ZooKeeper")?;
    let until = Instant::now() + PATIENCE;
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        if Instant::now() > until || child.try_wait()?.is_some() {
            let _ = child.kill();
            let _ = child.wait();
            bail!("ZooKeeper did not start: {}", fs::read_to_string(dir.join("zookeeper.log")).unwrap_or_default());
        }
        thread::sleep(Duration::from_millis(10));
    }
    Ok(child)
}

/// A port nobody listens on now. With `KLAMM_TEST_PORTS=FIRST-LAST` one of those.
pub fn free_port() -> Result<u16> {
    if let Ok(range) = std::env::var("KLAMM_TEST_PORTS") {
        let (first, last) = range.split_once('-').ok_or_else(|| anyhow!("KLAMM_TEST_PORTS is not FIRST-LAST"))?;
        let (first, last): (u16, u16) = (first.parse()?, last.parse()?);
        static NEXT: OnceLock<std::sync::atomic::AtomicU16> = OnceLock::new();
        let next = NEXT.get_or_init(|| std::sync::atomic::AtomicU16::new(std::process::id() as u16 % 64));
        for _ in first..=last {
            let port = first + next.fetch_add(1, std::sync::atomic::Ordering::Relaxed) % (last - first + 1);
            if TcpListener::bind(("127.0.0.1", port)).is_ok() {
                return Ok(port);
            }
        }
        bail!("no free port in {range}");
    }
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
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
