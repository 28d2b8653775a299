//! A process under test: the limit program, Klamm, or Apache Kafka from a directory of jars.

use std::error::Error;
use std::fs::File;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::connection::wait_for;

/// What is started.
#[derive(Clone, Debug)]
pub enum Kind {
    Limit {
        send: String,
    },
    Klamm(PathBuf),
    /// A directory of jars of Kafka 3.9 with its tools.
    Kafka(PathBuf),
}

impl Kind {
    pub fn name(&self) -> &'static str {
        match self {
            Kind::Limit { .. } => "P",
            Kind::Klamm(_) => "Klamm",
            Kind::Kafka(_) => "Kafka",
        }
    }
}

/// A running process on a port of its own, over an empty directory. Killed when dropped.
pub struct Target {
    children: Vec<Child>,
    dir: PathBuf,
    pub pid: u32,
    pub addr: String,
    /// False for the limit program: no topics, no answers to read.
    pub broker: bool,
    pub started: Instant,
    pub started_ms: i64,
}

impl Target {
    /// Returns at once; nothing may be listening yet.
    pub fn start(kind: &Kind) -> Result<Target, Box<dyn Error>> {
        let port = free_port()?;
        let started_ms = SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis() as i64;
        let dir = std::env::temp_dir().join(format!("klamm-load-{}-{port}", std::process::id()));
        std::fs::create_dir_all(&dir)?;
        let addr = format!("127.0.0.1:{port}");
        let mut children = Vec::new();
        let mut command = match kind {
            Kind::Limit { send } => {
                let mut c = Command::new(std::env::current_exe()?);
                c.args(["limit-server", &addr]).arg(&dir).arg(send);
                c
            }
            Kind::Klamm(binary) => {
                let mut c = Command::new(binary);
                c.arg(properties(&dir, &addr, None)?);
                c
            }
            Kind::Kafka(jars) => {
                let zookeeper = free_port()?;
                std::fs::write(
                    dir.join("zookeeper.properties"),
                    format!(
                        "dataDir={}\nclientPort={zookeeper}\nclientPortAddress=127.0.0.1\nadmin.enableServer=false\n",
                        dir.join("zookeeper").display()
                    ),
                )?;
                let main = "org.apache.zookeeper.server.quorum.QuorumPeerMain";
                let mut c = java(jars, "256M", main, &dir.join("zookeeper.properties"));
                children.push(quiet(&mut c, &dir.join("zookeeper.log"))?.spawn()?);
                wait_for(&format!("127.0.0.1:{zookeeper}"), Duration::from_secs(30))?;
                java(jars, "1G", "kafka.Kafka", &properties(&dir, &addr, Some(zookeeper))?)
            }
        };
        let started = Instant::now();
        let child = quiet(&mut command, &dir.join("log"))?.spawn()?;
        let pid = child.id();
        children.push(child);
        Ok(Target { children, dir, pid, addr, broker: !matches!(kind, Kind::Limit { .. }), started, started_ms })
    }

    pub fn fresh_topic(&self) -> String {
        format!("bench-{}", self.started.elapsed().as_nanos())
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        for child in self.children.iter_mut().rev() {
            let _ = child.kill();
            let _ = child.wait();
        }
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

fn properties(dir: &Path, addr: &str, zookeeper: Option<u16>) -> std::io::Result<PathBuf> {
    let path = dir.join("server.properties");
    let mut text = format!(
        "broker.id=1\nlog.dirs={}\nlisteners=PLAINTEXT://{addr}\nlog.segment.delete.delay.ms=1000\n",
        dir.join("data").display()
    );
    if let Some(port) = zookeeper {
        text += &format!("zookeeper.connect=127.0.0.1:{port}\noffsets.topic.replication.factor=1\n");
    }
    std::fs::write(&path, text)?;
    Ok(path)
}

fn java(jars: &Path, heap: &str, main: &str, argument: &Path) -> Command {
    let mut c = Command::new("java");
    c.args([&format!("-Xmx{heap}"), "-XX:+UseG1GC", "-cp", &format!("{}/*", jars.display()), main]).arg(argument);
    c
}

fn quiet<'a>(command: &'a mut Command, log: &Path) -> std::io::Result<&'a mut Command> {
    let log = File::create(log)?;
    Ok(command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log))
}

fn free_port() -> std::io::Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}
