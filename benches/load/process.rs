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
use crate::zookeeper::ZooKeeper;

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

impl Program {
    pub fn name(&self) -> &'static str {
        match self {
            Program::Limit(_) => "limit",
            Program::Klamm(_) | Program::Counted(_) => "klamm",
            Program::Kafka(_) => "kafka",
        }
    }
}

/// A directory with a server's data and configuration, and its process while it runs.
pub struct Server {
    program: Program,
    dir: PathBuf,
    pub addr: String,
    broker: Option<Child>,
    /// One that is nobody else's.
    zookeeper: Option<ZooKeeper>,
    member: Option<Member>,
    /// When the process was started last.
    pub started: Instant,
}

/// A broker's place in a cluster.
#[derive(Clone, Debug)]
pub struct Member {
    pub id: i32,
    /// Where the ensemble is.
    pub zookeeper: String,
}

impl Server {
    /// Starts over an empty directory below `parent`. Returns at once; nothing may be listening yet.
    pub fn start(program: &Program, parent: &Path) -> Outcome<Server> {
        Server::begin(program, parent, None)
    }

    /// The same, as a broker among others, with Kafka's own session timeout.
    pub fn join(program: &Program, parent: &Path, member: Member) -> Outcome<Server> {
        Server::begin(program, parent, Some(member))
    }

    fn begin(program: &Program, parent: &Path, member: Option<Member>) -> Outcome<Server> {
        let port = free_port()?;
        let dir = parent.join(format!("klamm-load-{}-{port}", std::process::id()));
        std::fs::create_dir_all(&dir)?;
        let addr = format!("127.0.0.1:{port}");
        let mut server = Server {
            program: program.clone(),
            dir,
            addr,
            broker: None,
            zookeeper: None,
            member,
            started: Instant::now(),
        };
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
        let broker = !matches!(self.program, Program::Limit(_));
        Peer { addr: self.addr.clone(), pid: self.pid(), paying: vec![self.pid()], broker }
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

    /// Sends a signal and returns at once.
    pub fn signal(&self, signal: Signal) -> Outcome<()> {
        Ok(self.broker.as_ref().map_or(Ok(()), |child| kill_process(Pid::from_child(child), signal))?)
    }

    /// Ends the process with a signal and waits for its end.
    pub fn stop(&mut self, signal: Signal) -> Outcome<()> {
        self.signal(signal)?;
        self.ended()?;
        if signal == Signal::KILL && self.zookeeper.is_some() {
            // Its ephemeral nodes keep a new process out until the session is over.
            std::thread::sleep(Duration::from_millis(SESSION_MS + 2000));
        }
        Ok(())
    }

    /// Waits for its end, which somebody has asked it for.
    pub fn ended(&mut self) -> Outcome<()> {
        if let Some(mut child) = self.broker.take() {
            child.wait()?;
            orphans::forget(child.id());
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
            "broker.id={}\nlog.dirs={}\nlisteners=PLAINTEXT://{}\nlog.segment.delete.delay.ms=1000\n\
             auto.create.topics.enable=false\ngroup.initial.rebalance.delay.ms=0\n",
            self.member.as_ref().map_or(1, |member| member.id),
            self.dir.join("data").display(),
            self.addr
        );
        if let Program::Kafka(jars) = &self.program
            && self.member.is_none()
        {
            let zookeeper = ZooKeeper::start(jars, &self.dir)?;
            text += &format!(
                "zookeeper.connect={}\nzookeeper.session.timeout.ms={SESSION_MS}\noffsets.topic.replication.factor=1\n",
                zookeeper.connect
            );
            self.zookeeper = Some(zookeeper);
        }
        if let Some(Member { zookeeper, .. }) = &self.member {
            text += &format!("zookeeper.connect={zookeeper}\n");
            if matches!(self.program, Program::Klamm(_)) {
                text += "klamm.fast.failover.enable=true\n";
            }
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
        self.broker.take().into_iter().for_each(end);
        self.zookeeper = None;
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

pub fn end(mut child: Child) {
    let _ = child.kill();
    let _ = child.wait();
    orphans::forget(child.id());
}

pub fn java(jars: &Path, heap: &str, main: &str, argument: &Path) -> Command {
    let mut c = Command::new("java");
    let heap = [format!("-Xmx{heap}"), format!("-Xms{heap}")];
    c.args(heap).args(["-XX:+UseG1GC", "-cp", &format!("{}/*", jars.display()), main]).arg(argument);
    c
}

pub fn log_to(command: &mut Command, log: &Path) -> std::io::Result<()> {
    let log = File::options().create(true).append(true).open(log)?;
    command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
    Ok(())
}

pub fn free_port() -> std::io::Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}
