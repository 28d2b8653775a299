//! A real ZooKeeper in a directory of its own, and a proxy in front of it that misbehaves when told.
//!
//! The server's classes come from the directory of jars that `KLAMM_ZOOKEEPER_JARS` names, or else from Debian's package
//! `zookeeper`.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

const DEBIAN: &str = "/usr/share/java/zookeeper.jar";

pub struct Server {
    dir: TempDir,
    class_path: String,
    port: u16,
    process: Option<Child>,
}

impl Server {
    /// `None`, having said so, where there is no ZooKeeper; that is a failure when `KLAMM_REQUIRE_LANES` is 1.
    pub async fn start() -> Option<Server> {
        let class_path = match std::env::var("KLAMM_ZOOKEEPER_JARS") {
            Ok(dir) => format!("{dir}/*"),
            Err(_) if Path::new(DEBIAN).exists() => DEBIAN.to_owned(),
            Err(_) => {
                println!("skipped: no ZooKeeper (package zookeeper, or jars named by KLAMM_ZOOKEEPER_JARS)");
                assert_ne!(std::env::var("KLAMM_REQUIRE_LANES").as_deref(), Ok("1"), "this lane is required");
                return None;
            }
        };
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut server = Server { dir: tempfile::tempdir().unwrap(), class_path, port, process: None };
        server.run().await;
        Some(server)
    }

    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Starts the process on the data it has, and returns when it serves.
    pub async fn run(&mut self) {
        let config = self.write_config();
        let log = std::fs::File::create(self.dir.path().join("out")).unwrap();
        let process = Command::new("java")
            .args(["-Xmx128m", "-XX:+UseSerialGC", "-Dzookeeper.admin.enableServer=false", "-cp", &self.class_path])
            .arg("org.apache.zookeeper.server.quorum.QuorumPeerMain")
            .arg(config)
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .expect("java starts");
        self.process = Some(process);
        let deadline = Instant::now() + Duration::from_secs(60);
        while !self.serves().await {
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
            "dataDir={dir}/data\nclientPort={}\nclientPortAddress=127.0.0.1\ntickTime=500\nforceSync=no\n",
            self.port
        );
        std::fs::write(&path, config).unwrap();
        path
    }

    async fn serves(&self) -> bool {
        let ask = async {
            let mut stream = TcpStream::connect(self.address()).await?;
            stream.write_all(b"srvr").await?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await?;
            std::io::Result::Ok(answer.contains("Mode: standalone"))
        };
        // While it starts, the server may take the question and forget it.
        matches!(tokio::time::timeout(Duration::from_millis(500), ask).await, Ok(Ok(true)))
    }

    /// As a crash would.
    pub fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill().unwrap();
            process.wait().unwrap();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Mode {
    /// Answers stay in the proxy.
    hold: bool,
    /// New connections are closed at once.
    refuse: bool,
    /// Grows when all connections are to be closed.
    cuts: u64,
}

/// Between a client and the server.
pub struct Proxy {
    port: u16,
    mode: watch::Sender<Mode>,
    requests: Arc<AtomicUsize>,
}

impl Proxy {
    pub async fn before(server: &Server) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let proxy = Proxy {
            port: listener.local_addr().unwrap().port(),
            mode: watch::Sender::new(Mode::default()),
            requests: Arc::default(),
        };
        let (to, mode, requests) = (server.address(), proxy.mode.clone(), proxy.requests.clone());
        tokio::spawn(async move {
            loop {
                let (client, _) = listener.accept().await.unwrap();
                if mode.borrow().refuse {
                    continue;
                }
                if let Ok(server) = TcpStream::connect(&to).await {
                    tokio::spawn(serve(client, server, mode.subscribe(), requests.clone()));
                }
            }
        });
        proxy
    }

    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Keeps answers back, requests pass.
    pub fn hold(&self) {
        self.mode.send_modify(|mode| mode.hold = true);
    }

    /// Closes every connection, with what it held back, and lets no other through until [`Proxy::heal`].
    pub fn cut(&self) {
        self.mode.send_modify(|mode| *mode = Mode { refuse: true, hold: false, cuts: mode.cuts + 1 });
    }

    pub fn heal(&self) {
        self.mode.send_modify(|mode| *mode = Mode { cuts: mode.cuts, ..Mode::default() });
    }

    /// Requests that passed, without connects, pings and the like.
    pub fn requests(&self) -> usize {
        self.requests.load(Ordering::SeqCst)
    }
}

async fn serve(client: TcpStream, server: TcpStream, mut mode: watch::Receiver<Mode>, requests: Arc<AtomicUsize>) {
    let cuts = mode.borrow().cuts;
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let answers = pass_answers(from_server, to_client, mode.clone(), cuts);
    tokio::select! {
        _ = pass_requests(from_client, to_server, requests) => {}
        _ = answers => {}
        _ = mode.wait_for(|mode| mode.cuts > cuts) => {}
    }
}

async fn pass_requests(
    mut client: OwnedReadHalf,
    mut server: OwnedWriteHalf,
    requests: Arc<AtomicUsize>,
) -> std::io::Result<()> {
    let mut first = true;
    loop {
        let mut frame = vec![0; 4];
        client.read_exact(&mut frame).await?;
        let len = u32::from_be_bytes([frame[0], frame[1], frame[2], frame[3]]) as usize;
        frame.resize(4 + len, 0);
        client.read_exact(&mut frame[4..]).await?;
        // After the connect: an id, negative for what a client does by itself.
        if !std::mem::take(&mut first) && frame[4] & 0x80 == 0 {
            requests.fetch_add(1, Ordering::SeqCst);
        }
        server.write_all(&frame).await?;
    }
}

async fn pass_answers(
    mut server: OwnedReadHalf,
    mut client: OwnedWriteHalf,
    mut mode: watch::Receiver<Mode>,
    cuts: u64,
) -> std::io::Result<()> {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let n = server.read(&mut buffer).await?;
        let cut = mode.wait_for(|mode| !mode.hold || mode.cuts > cuts).await.map_or(true, |mode| mode.cuts > cuts);
        if n == 0 || cut {
            return Ok(());
        }
        client.write_all(&buffer[..n]).await?;
    }
}
