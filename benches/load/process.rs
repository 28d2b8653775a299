//! Processes under test: the limit program, Klamm, or Apache Kafka from a directory of jars.

use std::fs::File;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::connection::wait_for;
use crate::drive::{Outcome, Peer};
use crate::machine::server::Mode;
use crate::orphans;

/// What is started.
#[derive(Clone, Debug)]
pub enum Program {
    Limit(Mode),
    Klamm(PathBuf),
    /// Klamm, its instructions counted by valgrind.
    Counted(PathBuf),
    /// A directory of jars of Kafka 3.9 with its tools.
    Kafka(PathBuf),
}

/// A directory with a server's data and configuration, and its process while it runs.
pub struct Server {
    program: Program,
    dir: PathBuf,
    pub addr: String,
    broker: Option<Child>,
    zookeeper: Option<Child>,
    /// When the process was started last.
    pub started: Instant,
}

impl Server {
    /// Starts over an empty directory below `parent`. Returns at once; nothing may be listening yet.
    pub fn start(program: &Program, parent: &Path) -> Outcome<Server> {
        let port = free_port()?;
        let dir = parent.join(format!("klamm-load-{}-{port}", std::process::id()));
        std::fs::create_dir_all(&dir)?;
        let addr = format!("127.0.0.1:{port}");
        let mut server =
            Server { program: program.clone(), dir, addr, broker: None, zookeeper: None, started: Instant::now() };
        server.configure()?;
        server.again()?;
        Ok(server)
    }

    /// Starts the process over the same directory. Returns at once.
    pub fn again(&mut self) -> Outcome<()> {
        let properties = self.dir.join("server.properties");
        let mut command = match &self.program {
            Program::Limit(mode) => {
                let mut c = Command::new(std::env::current_exe()?);
                c.args(["limit-server", &self.addr]).arg(&self.dir).arg(mode.name());
                c
            }
            Program::Klamm(binary) => {
                let mut c = Command::new(binary);
                c.arg(properties);
                c
            }
            Program::Counted(binary) => {
                let mut c = Command::new("valgrind");
                let out = format!("--callgrind-out-file={}", self.dir.join(COUNTS).display());
                c.args(["--tool=callgrind", &out]).arg(binary).arg(properties);
                c
            }
            Program::Kafka(jars) => java(jars, "1G", "kafka.Kafka", &properties),
        };
        log_to(&mut command, &self.dir.join("log"))?;
        self.started = Instant::now();
        self.broker = Some(orphans::start(&mut command, &self.dir)?);
        Ok(())
    }

    /// Whether the process is still there.
    pub fn alive(&mut self) -> bool {
        self.broker.as_mut().is_some_and(|child| matches!(child.try_wait(), Ok(None)))
    }

    pub fn peer(&self) -> Peer {
        Peer { addr: self.addr.clone(), pid: self.pid(), broker: !matches!(self.program, Program::Limit(_)) }
    }

    /// Process id; 0 when stopped.
    pub fn pid(&self) -> u32 {
        self.broker.as_ref().map_or(0, Child::id)
    }

    pub fn listening(&self) -> Outcome<()> {
        wait_for(&self.addr, Duration::from_secs(60))
            .map(|_| ())
            .map_err(|why| format!("does not listen: {why}").into())
    }

    /// Ends the process with a signal and waits for its end.
    pub fn stop(&mut self, signal: Signal) -> Outcome<()> {
        let Some(mut child) = self.broker.take() else { return Ok(()) };
        let pid = Pid::from_child(&child);
        kill_process(pid, signal)?;
        child.wait()?;
        orphans::forget(child.id());
        if signal == Signal::KILL && matches!(self.program, Program::Kafka(_)) {
            // Its ephemeral nodes keep a new process out until the session is over.
            std::thread::sleep(Duration::from_millis(SESSION_MS + 2000));
        }
        Ok(())
    }

    /// Instructions of the process in user space, when it was [`Program::Counted`] and has been stopped.
    pub fn instructions(&self) -> Outcome<f64> {
        let text = std::fs::read_to_string(self.dir.join(COUNTS))?;
        let total = text.lines().find_map(|line| line.strip_prefix("totals: ")?.trim().parse().ok());
        total.ok_or_else(|| "no totals in callgrind's output".into())
    }

    fn configure(&mut self) -> Outcome<()> {
        let mut text = format!(
            "broker.id=1\nlog.dirs={}\nlisteners=PLAINTEXT://{}\nlog.segment.delete.delay.ms=1000\n\
             auto.create.topics.enable=false\ngroup.initial.rebalance.delay.ms=0\n",
            self.dir.join("data").display(),
            self.addr
        );
        if let Program::Kafka(jars) = &self.program {
            let port = free_port()?;
            let zookeeper = self.dir.join("zookeeper.properties");
            std::fs::write(
                &zookeeper,
                format!(
                    "dataDir={}\nclientPort={port}\nclientPortAddress=127.0.0.1\nadmin.enableServer=false\n\
                     maxClientCnxns=0\ntickTime=1000\n",
                    self.dir.join("zookeeper").display()
                ),
            )?;
            let mut c = java(jars, "256M", "org.apache.zookeeper.server.quorum.QuorumPeerMain", &zookeeper);
            log_to(&mut c, &self.dir.join("zookeeper.log"))?;
            self.zookeeper = Some(orphans::start(&mut c, &self.dir)?);
            wait_for(&format!("127.0.0.1:{port}"), Duration::from_secs(30))?;
            text += &format!(
                "zookeeper.connect=127.0.0.1:{port}\nzookeeper.session.timeout.ms={SESSION_MS}\n\
                 offsets.topic.replication.factor=1\n"
            );
        }
        std::fs::write(self.dir.join("server.properties"), text)?;
        Ok(())
    }
}

/// What callgrind writes at the end.
const COUNTS: &str = "callgrind.out";

/// Kafka's ZooKeeper session, short so that a killed broker can be started again soon.
const SESSION_MS: u64 = 4000;

impl Drop for Server {
    fn drop(&mut self) {
        for child in [self.broker.take(), self.zookeeper.take()].into_iter().flatten() {
            end(child);
        }
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

fn end(mut child: Child) {
    let _ = child.kill();
    let _ = child.wait();
    orphans::forget(child.id());
}

fn java(jars: &Path, heap: &str, main: &str, argument: &Path) -> Command {
    let mut c = Command::new("java");
    let heap = [format!("-Xmx{heap}"), format!("-Xms{heap}")];
    c.args(heap).args(["-XX:+UseG1GC", "-cp", &format!("{}/*", jars.display()), main]).arg(argument);
    c
}

fn log_to(command: &mut Command, log: &Path) -> std::io::Result<()> {
    let log = File::options().create(true).append(true).open(log)?;
    command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
    Ok(())
}

fn free_port() -> std::io::Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}
