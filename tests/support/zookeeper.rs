//! A real ZooKeeper in a directory of its own.
//!
//! The server's classes come from the directory of jars that `KLAMM_ZOOKEEPER_JARS` names, or else from Debian's package
//! `zookeeper`.

#![allow(dead_code)]

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const DEBIAN: &str = "/usr/share/java/zookeeper.jar";

pub struct Server {
    dir: TempDir,
    class_path: String,
    port: u16,
    /// Further lines of its configuration.
    lines: String,
    /// Flags of its JVM.
    flags: Vec<String>,
    process: Option<Child>,
}

impl Server {
    /// `None`, having said so, where there is no ZooKeeper; that is a failure when `KLAMM_REQUIRE_LANES` is 1.
    pub async fn start() -> Option<Server> {
        let mut server = Server::prepare()?;
        server.run().await;
        Some(server)
    }

    /// One that serves nobody who has not logged in as `kafka` with this password.
    pub async fn with_login(password: &str) -> Option<Server> {
        let mut server = Server::prepare()?;
        let jaas = server.dir.path().join("jaas");
        let module = "org.apache.zookeeper.server.auth.DigestLoginModule";
        std::fs::write(&jaas, format!("Server {{ {module} required user_kafka=\"{password}\"; }};")).unwrap();
        server.lines = "authProvider.sasl=org.apache.zookeeper.server.auth.SASLAuthenticationProvider\n\
                        sessionRequireClientSASLAuth=true\n"
            .to_owned();
        server.flags = vec![format!("-Djava.security.auth.login.config={}", jaas.display())];
        server.run().await;
        Some(server)
    }

    /// Three that make a quorum, of which none runs yet.
    pub fn prepare_three() -> Option<Vec<Server>> {
        let mut servers = vec![Server::prepare()?, Server::prepare()?, Server::prepare()?];
        let members: Vec<String> =
            (1..=3).map(|id| format!("server.{id}=127.0.0.1:{}:{}\n", free_port(), free_port())).collect();
        for (id, server) in (1..).zip(&mut servers) {
            server.lines = format!("initLimit=20\nsyncLimit=10\n{}", members.concat());
            let data = server.dir.path().join("data");
            std::fs::create_dir(&data).unwrap();
            std::fs::write(data.join("myid"), format!("{id}\n")).unwrap();
        }
        Some(servers)
    }

    fn prepare() -> Option<Server> {
        let class_path = match std::env::var("KLAMM_ZOOKEEPER_JARS") {
            Ok(dir) => format!("{dir}/*"),
            Err(_) if Path::new(DEBIAN).exists() => DEBIAN.to_owned(),
            Err(_) => {
                println!("skipped: no ZooKeeper (package zookeeper, or jars named by KLAMM_ZOOKEEPER_JARS)");
                assert_ne!(std::env::var("KLAMM_REQUIRE_LANES").as_deref(), Ok("1"), "this lane is required");
                return None;
            }
        };
        let dir = tempfile::tempdir().unwrap();
        Some(Server { dir, class_path, port: free_port(), lines: String::new(), flags: Vec::new(), process: None })
    }

    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Starts the process on the data it has, and returns when it serves.
    pub async fn run(&mut self) {
        self.spawn();
        self.serving().await;
    }

    /// Starts the process.
    pub fn spawn(&mut self) {
        let config = self.write_config();
        let log = std::fs::File::create(self.dir.path().join("out")).unwrap();
        let process = Command::new("java")
            .args(["-Xmx128m", "-XX:+UseSerialGC", "-Dzookeeper.admin.enableServer=false"])
            .args(&self.flags)
            .args(["-cp", &self.class_path, "org.apache.zookeeper.server.quorum.QuorumPeerMain"])
            .arg(config)
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .expect("java starts");
        self.process = Some(process);
    }

    /// Returns when it serves.
    pub async fn serving(&mut self) {
        let deadline = Instant::now() + Duration::from_secs(60);
        while self.mode().await.is_none() {
            let exited = self.process.as_mut().and_then(|process| process.try_wait().unwrap());
            if exited.is_some() || Instant::now() > deadline {
                let said = std::fs::read_to_string(self.dir.path().join("out")).unwrap();
                panic!("ZooKeeper does not serve ({exited:?}): {said}");
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    fn write_config(&self) -> PathBuf {
        let dir = self.dir.path().display();
        let path = self.dir.path().join("zoo.cfg");
        let config = format!(
            "dataDir={dir}/data\nclientPort={}\nclientPortAddress=127.0.0.1\ntickTime=500\nforceSync=no\n{}",
            self.port, self.lines
        );
        std::fs::write(&path, config).unwrap();
        path
    }

    /// `standalone`, `leader` or `follower`; `None` while it does not serve.
    pub async fn mode(&self) -> Option<String> {
        let ask = async {
            let mut stream = TcpStream::connect(self.address()).await?;
            stream.write_all(b"srvr").await?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await?;
            std::io::Result::Ok(answer)
        };
        // While it starts, the server may take the question and forget it.
        let answer = tokio::time::timeout(Duration::from_millis(500), ask).await.ok()?.ok()?;
        answer.lines().find_map(|line| line.strip_prefix("Mode: ")).map(str::to_owned)
    }

    /// As a crash would.
    pub fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill().unwrap();
            process.wait().unwrap();
        }
    }
}

fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

impl Drop for Server {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let said = std::fs::read_to_string(self.dir.path().join("out")).unwrap_or_default();
            let lines: Vec<&str> = said.lines().collect();
            println!("-- what ZooKeeper said last\n{}", lines[lines.len().saturating_sub(40)..].join("\n"));
        }
        self.kill();
    }
}
