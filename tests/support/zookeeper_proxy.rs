//! A proxy before a ZooKeeper, which misbehaves when told.

#![allow(dead_code)]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

#[derive(Clone, Copy, Debug, Default)]
struct Mode {
    /// Answers stay in the proxy.
    hold: bool,
    /// New connections are closed at once.
    refuse: bool,
    /// Grows when all connections are to be closed.
    cuts: u64,
}

/// A session as the server granted it: id and password.
type Granted = Arc<Mutex<Option<(i64, Vec<u8>)>>>;

/// Between a client and the server.
pub struct Proxy {
    port: u16,
    server: String,
    mode: watch::Sender<Mode>,
    requests: Arc<AtomicUsize>,
    granted: Granted,
}

impl Proxy {
    pub async fn before(server: String) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let proxy = Proxy {
            port: listener.local_addr().unwrap().port(),
            server,
            mode: watch::Sender::new(Mode::default()),
            requests: Arc::default(),
            granted: Arc::default(),
        };
        let (to, mode) = (proxy.server.clone(), proxy.mode.clone());
        let (requests, granted) = (proxy.requests.clone(), proxy.granted.clone());
        tokio::spawn(async move {
            loop {
                let (client, _) = listener.accept().await.unwrap();
                if mode.borrow().refuse {
                    continue;
                }
                if let Ok(server) = TcpStream::connect(&to).await {
                    tokio::spawn(serve(client, server, mode.subscribe(), requests.clone(), granted.clone()));
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

    /// Ends the session that was granted last, as somebody would who knows its password. The client, which is cut off
    /// meanwhile (a session has one connection, the later one), hears of it from the server.
    pub async fn expire(&self) {
        self.cut();
        let (id, password) = self.granted.lock().unwrap().clone().expect("a session");
        let mut stream = TcpStream::connect(&self.server).await.unwrap();
        let mut connect = Vec::new();
        connect.extend(0_i32.to_be_bytes());
        connect.extend(0_i64.to_be_bytes());
        connect.extend(6_000_i32.to_be_bytes());
        connect.extend(id.to_be_bytes());
        connect.extend(u32::try_from(password.len()).unwrap().to_be_bytes());
        connect.extend(&password);
        write_frame(&mut stream, &connect).await.unwrap();
        let answer = read_frame(&mut stream).await.unwrap();
        assert_eq!(granted(&answer).map(|(id, _)| id), Some(id), "the server knows the session");
        let (xid, close_session) = (1_i32, -11_i32);
        write_frame(&mut stream, &[xid.to_be_bytes(), close_session.to_be_bytes()].concat()).await.unwrap();
        // Some servers answer, all hang up when it is done.
        while read_frame(&mut stream).await.is_ok() {}
        self.heal();
    }

    /// Requests that passed, without connects, pings and the like.
    pub fn requests(&self) -> usize {
        self.requests.load(Ordering::SeqCst)
    }
}

async fn serve(
    client: TcpStream,
    server: TcpStream,
    mut mode: watch::Receiver<Mode>,
    requests: Arc<AtomicUsize>,
    session: Granted,
) {
    let cuts = mode.borrow().cuts;
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let answers = pass_answers(from_server, to_client, mode.clone(), cuts, session);
    tokio::select! {
        _ = pass_requests(from_client, to_server, requests) => {}
        _ = answers => {}
        _ = mode.wait_for(|mode| mode.cuts > cuts) => {}
    }
}

/// Without its length.
async fn read_frame(stream: &mut (impl AsyncReadExt + Unpin)) -> std::io::Result<Vec<u8>> {
    let mut frame = vec![0; stream.read_u32().await? as usize];
    stream.read_exact(&mut frame).await?;
    Ok(frame)
}

async fn write_frame(stream: &mut (impl AsyncWriteExt + Unpin), frame: &[u8]) -> std::io::Result<()> {
    stream.write_all(&[&u32::try_from(frame.len()).unwrap().to_be_bytes(), frame].concat()).await
}

/// What the server's answer to a connect grants; `None` when it refuses the session.
fn granted(answer: &[u8]) -> Option<(i64, Vec<u8>)> {
    let id = i64::from_be_bytes(answer.get(8..16)?.try_into().ok()?);
    (id != 0).then(|| (id, answer[20..36].to_vec()))
}

async fn pass_requests(
    mut client: OwnedReadHalf,
    mut server: OwnedWriteHalf,
    requests: Arc<AtomicUsize>,
) -> std::io::Result<()> {
    let mut first = true;
    loop {
        let frame = read_frame(&mut client).await?;
        // After the connect: an id, negative for what a client does by itself.
        if !std::mem::take(&mut first) && frame[0] & 0x80 == 0 {
            requests.fetch_add(1, Ordering::SeqCst);
        }
        write_frame(&mut server, &frame).await?;
    }
}

async fn pass_answers(
    mut server: OwnedReadHalf,
    mut client: OwnedWriteHalf,
    mut mode: watch::Receiver<Mode>,
    cuts: u64,
    session: Granted,
) -> std::io::Result<()> {
    let mut first = true;
    loop {
        let frame = read_frame(&mut server).await?;
        if mode.wait_for(|mode| !mode.hold || mode.cuts > cuts).await.map_or(true, |mode| mode.cuts > cuts) {
            return Ok(());
        }
        if std::mem::take(&mut first)
            && let Some(granted) = granted(&frame)
        {
            *session.lock().unwrap() = Some(granted);
        }
        write_frame(&mut client, &frame).await?;
    }
}
