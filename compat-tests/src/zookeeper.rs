//! A ZooKeeper of one or three real servers.
//!
//! Their classes come from the directory of jars that `KLAMM_ZOOKEEPER_JARS` names, else from Debian's package
//! `zookeeper`, else from the jars of Kafka 3.9.1.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use rustix::process::Signal;

use crate::broker::free_port;
use crate::cache;
use crate::daemon::Daemon;
use crate::network::Machine;
use crate::proc::tail;
use crate::wait::until;

const DEBIAN: &str = "/usr/share/java/zookeeper.jar";
/// Long enough for a loaded machine; reached only by a server that hangs.
const PATIENCE: Duration = Duration::from_secs(60);
/// In ms. Sessions last two of it or longer.
const TICK: u32 = 500;
/// The longest session that is granted.
const LONGEST: Duration = Duration::from_secs(60);

/// The servers, numbered from 1. Killed when dropped.
pub struct Ensemble {
    servers: Vec<Server>,
}

struct Server {
    machine: Machine,
    dir: PathBuf,
    port: u16,
    process: Option<Daemon>,
}

impl Ensemble {
    /// Starts `count` servers in folders below `dir` and waits until they serve.
    pub fn start(dir: &Path, count: usize) -> Result<Ensemble> {
        Ensemble::start_on(&vec![Machine::this(); count], dir)
    }

    /// As [`Ensemble::start`], each server on its machine.
    pub fn start_on(machines: &[Machine], dir: &Path) -> Result<Ensemble> {
        let mut ensemble = Ensemble::prepare_on(machines, dir)?;
        for server in &mut ensemble.servers {
            server.spawn()?;
        }
        for server in &mut ensemble.servers {
            server.await_serving()?;
        }
        Ok(ensemble)
    }

    /// As [`Ensemble::start`], without starting any.
    pub fn prepare(dir: &Path, count: usize) -> Result<Ensemble> {
        Ensemble::prepare_on(&vec![Machine::this(); count], dir)
    }

    fn prepare_on(machines: &[Machine], dir: &Path) -> Result<Ensemble> {
        let mut ensemble = Ensemble { servers: Vec::new() };
        let mut members = String::new();
        for (number, machine) in (1..).zip(machines) {
            let (port, quorum, election) = (free_port()?, free_port()?, free_port()?);
            let dir = dir.join(format!("zookeeper-{number}"));
            ensemble.servers.push(Server { machine: machine.clone(), dir, port, process: None });
            if machines.len() > 1 {
                members += &format!("server.{number}={}:{quorum}:{election}\n", machine.host());
            }
        }
        for (number, server) in (1..).zip(&ensemble.servers) {
            fs::create_dir_all(server.data())?;
            fs::write(server.data().join("myid"), format!("{number}\n"))?;
            let text = format!(
                "dataDir={}\nclientPort={}\nclientPortAddress={}\ntickTime={TICK}\ninitLimit=20\nsyncLimit=10\n\
                 maxSessionTimeout={}\nmaxClientCnxns=0\nadmin.enableServer=false\n{members}",
                server.data().display(),
                server.port,
                server.machine.host(),
                LONGEST.as_millis()
            );
            fs::write(server.properties(), text)?;
        }
        Ok(ensemble)
    }

    /// The folder of a server's log of transactions.
    pub fn log_of(&mut self, number: usize) -> Result<PathBuf> {
        Ok(self.server(number)?.data().join("version-2"))
    }

    pub fn connect_string(&self) -> String {
        self.servers.iter().map(Server::address).collect::<Vec<_>>().join(",")
    }

    /// The number of the server that leads the others; of a single one, its own.
    pub fn leader(&self) -> Result<usize> {
        let leads = |server: &Server| matches!(server.mode(), Ok(mode) if mode == "leader" || mode == "standalone");
        self.servers.iter().position(leads).map(|index| index + 1).context("no ZooKeeper server leads")
    }

    /// How many servers serve: without a quorum none does.
    pub fn serving(&self) -> usize {
        self.servers.iter().filter(|server| server.mode().is_ok()).count()
    }

    fn server(&mut self, number: usize) -> Result<&mut Server> {
        number.checked_sub(1).and_then(|index| self.servers.get_mut(index)).context("no such ZooKeeper server")
    }

    /// SIGKILL, and waits for the end.
    pub fn kill(&mut self, number: usize) -> Result<()> {
        self.server(number)?.process.take().ok_or_else(|| anyhow!("ZooKeeper {number} does not run"))?.kill()
    }

    /// Starts a server that is killed, or prepared, on the data it has, and waits until it serves.
    pub fn start_again(&mut self, number: usize) -> Result<()> {
        let server = self.server(number)?;
        server.spawn()?;
        server.await_serving()
    }

    /// As [`Ensemble::start_again`], all that have ended at once: alone none of them serves.
    pub fn start_dead(&mut self) -> Result<()> {
        for server in &mut self.servers {
            if server.process.as_mut().map_or(Ok(None), Daemon::exited)?.is_some() {
                server.process = None;
            }
            if server.process.is_none() {
                server.spawn()?;
            }
        }
        self.servers.iter_mut().try_for_each(Server::await_serving)
    }

    /// SIGSTOP, or SIGCONT.
    pub fn signal(&mut self, number: usize, signal: Signal) -> Result<()> {
        self.server(number)?
            .process
            .as_ref()
            .with_context(|| format!("ZooKeeper {number} does not run"))?
            .signal(signal)
    }
}

impl Server {
    /// `HOST:PORT`.
    fn address(&self) -> String {
        format!("{}:{}", self.machine.host(), self.port)
    }

    fn data(&self) -> PathBuf {
        self.dir.join("data")
    }

    fn properties(&self) -> PathBuf {
        self.dir.join("zookeeper.properties")
    }

    fn log(&self) -> PathBuf {
        self.dir.join("zookeeper.log")
    }

    fn spawn(&mut self) -> Result<()> {
        let mut command = cache::java(&class_path()?)?;
        // No power is lost here, and a sync per write would make every step wait for the machine's disk.
        command
            .arg("-Dzookeeper.forceSync=no")
            .arg("org.apache.zookeeper.server.quorum.QuorumPeerMain")
            .arg(self.properties());
        self.process = Some(Daemon::spawn(&mut self.machine.run(command), &self.log())?);
        Ok(())
    }

    fn await_serving(&mut self) -> Result<()> {
        let said = |server: &Server| tail(&fs::read_to_string(server.log()).unwrap_or_default(), 12);
        until("ZooKeeper serves", PATIENCE, || match self.process.as_mut().map(Daemon::exited).transpose()?.flatten() {
            // It will not come any more: no complaint that waiting could mend.
            Some(status) => Ok(Err(anyhow!("ZooKeeper ended with {status}: {}", said(self)))),
            None => self.mode().map(|_| Ok(())),
        })
        .with_context(|| said(self))?
    }

    /// `standalone`, `leader` or `follower`; an error while it does not serve.
    fn mode(&self) -> Result<String> {
        let address: SocketAddr = self.address().parse()?;
        let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(1))?;
        // While it starts, a server may take the question and forget it.
        stream.set_read_timeout(Some(Duration::from_millis(500)))?;
        stream.write_all(b"srvr")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        let mode = answer.lines().find_map(|line| line.strip_prefix("Mode: "));
        mode.map(str::to_owned).with_context(|| format!("answers {answer:?}"))
    }
}

fn class_path() -> Result<String> {
    if let Ok(dir) = std::env::var("KLAMM_ZOOKEEPER_JARS") {
        ensure!(Path::new(&dir).is_dir(), "KLAMM_ZOOKEEPER_JARS names {dir}, which is no directory");
        return Ok(format!("{dir}/*"));
    }
    if Path::new(DEBIAN).exists() {
        return Ok(DEBIAN.to_owned());
    }
    Ok(format!("{}/*", cache::jars("kafka-3.9.1")?.display()))
}
