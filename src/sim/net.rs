//! A network in memory: listeners by port, connections as pairs of streams. Refuses like a real one, and on the way of one
//! broker or client to a port refuses, breaks and stalls as a test says, in one direction if need be. Bytes may take their
//! time.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use tokio::io::{
    AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, ReadBuf, ReadHalf, WriteHalf, duplex, split,
};
use tokio::sync::mpsc;
use tokio::time::sleep;

use super::meddler::{Meddled, Meddler, Meddling};
use crate::cluster::peer::{Connector, Link};
use crate::cluster::suspicion::Outcome;
use crate::net::outgoing::StreamLink;
use crate::net::{Incoming, Listener, OpenStream, Stream};
use crate::random::{Random, SeededRandom};
use crate::types::{BrokerId, Endpoint};

/// Bytes under way in each direction before a writer waits.
const IN_FLIGHT: usize = 256 << 10;

/// Bytes that are carried at once.
const CARRIED: usize = 64 << 10;

/// Bytes an answer to a broker may have.
const ANSWER_LIMIT: usize = 64 << 20;

/// By who connects, and where to.
type Ways = HashMap<(BrokerId, u16), Arc<Way>>;

/// Connections with their peers.
type Waiting = mpsc::UnboundedSender<(IpAddr, SimStream)>;

/// The network; clones share it.
#[derive(Clone, Debug, Default)]
pub struct SimNet {
    listening: Arc<Mutex<HashMap<u16, Waiting>>>,
    ways: Arc<Mutex<Ways>>,
    delay: Option<Arc<Delay>>,
    meddling: Meddling,
}

/// What is under way arrives after up to so many ms, exclusive.
#[derive(Debug)]
struct Delay {
    random: SeededRandom,
    up_to_ms: u64,
}

/// A listener on it.
#[derive(Debug)]
pub struct SimListener {
    name: Arc<str>,
    port: u16,
    net: SimNet,
    waiting: tokio::sync::Mutex<Option<mpsc::UnboundedReceiver<(IpAddr, SimStream)>>>,
}

impl SimNet {
    /// One on which everything takes up to `up_to_ms`, exclusive.
    pub fn with_delays(up_to_ms: u64, random: SeededRandom) -> SimNet {
        SimNet { delay: Some(Arc::new(Delay { random, up_to_ms })), ..SimNet::default() }
    }

    /// The same network with somebody on every connection of brokers.
    pub fn with_meddler(self, meddler: Arc<dyn Meddler>) -> SimNet {
        SimNet { meddling: Meddling(meddler), ..self }
    }

    pub fn listener(&self, name: &str, port: u16) -> SimListener {
        SimListener { name: name.into(), port, net: self.clone(), waiting: tokio::sync::Mutex::new(None) }
    }

    /// From the machine on which all brokers are.
    pub fn connect(&self, port: u16) -> io::Result<DuplexStream> {
        self.connect_from(Ipv4Addr::LOCALHOST.into(), port)
    }

    pub fn connect_from(&self, peer: IpAddr, port: u16) -> io::Result<DuplexStream> {
        let (ours, theirs) = duplex(IN_FLIGHT);
        let listening = self.listening.lock().get(&port).cloned();
        listening
            .and_then(|waiting| waiting.send((peer, theirs.into())).ok())
            .map(|()| ours)
            .ok_or_else(|| io::ErrorKind::ConnectionRefused.into())
    }

    /// A connection on the way of `from`, which may be a client that no broker's id names.
    pub fn connect_on_way(&self, from: BrokerId, port: u16) -> io::Result<DuplexStream> {
        let way = self.way(from, port);
        let cuts = way.enter()?;
        let inner = self.connect(port)?;
        let (ours, outer) = duplex(IN_FLIGHT);
        tokio::spawn(carry(outer, inner, way, cuts, self.delay.clone()));
        Ok(ours)
    }

    /// What broker `from` reaches others with.
    pub fn connector(&self, from: BrokerId) -> SimConnector {
        SimConnector { from, net: self.clone() }
    }

    /// How the connections stand that broker `from` makes to `port`; those of the other direction are another way.
    pub fn way(&self, from: BrokerId, port: u16) -> Arc<Way> {
        self.ways.lock().entry((from, port)).or_default().clone()
    }
}

/// What happens to the connections that one broker makes to one port.
#[derive(Debug, Default)]
pub struct Way(Mutex<WayState>);

#[derive(Debug, Default)]
struct WayState {
    refuses: bool,
    /// By direction: there, and back.
    stalls: [bool; 2],
    /// Connections made before the last cut are broken.
    cuts: u64,
    wakers: Vec<Waker>,
}

impl Way {
    /// From now on nobody is let in; connections that stand go on.
    pub fn refuse(&self) {
        self.0.lock().refuses = true;
    }

    /// No byte passes either way until [`Way::heal`]; new connections are made and stall too.
    pub fn stall(&self) {
        self.0.lock().stalls = [true; 2];
    }

    /// As [`Way::stall`], in one direction: what was asked arrives and no answer comes back, or the other way round. Of
    /// bytes that are carried, as they are where they take time.
    pub fn stall_one_way(&self, back: bool) {
        self.0.lock().stalls[usize::from(back)] = true;
    }

    /// Connections that stand break, with what was under way on them.
    pub fn cut(&self) {
        self.change(|state| state.cuts += 1);
    }

    /// Lets connections in and bytes pass. What was cut stays cut.
    pub fn heal(&self) {
        self.change(|state| (state.refuses, state.stalls) = (false, [false; 2]));
    }

    fn change(&self, change: impl FnOnce(&mut WayState)) {
        let wakers = {
            let mut state = self.0.lock();
            change(&mut state);
            std::mem::take(&mut state.wakers)
        };
        wakers.into_iter().for_each(Waker::wake);
    }

    /// The number of cuts a new connection has behind it.
    fn enter(&self) -> io::Result<u64> {
        let state = self.0.lock();
        if state.refuses { Err(io::ErrorKind::ConnectionRefused.into()) } else { Ok(state.cuts) }
    }

    /// Ready when a byte may pass. A connection that waits for bytes is woken by a cut, too.
    fn poll_pass(&self, cuts: u64, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut state = self.0.lock();
        if state.cuts != cuts {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        if !state.wakers.iter().any(|waker| waker.will_wake(cx.waker())) {
            state.wakers.push(cx.waker().clone());
        }
        if state.stalls == [true; 2] { Poll::Pending } else { Poll::Ready(Ok(())) }
    }

    /// Until a byte may pass in a direction. An error when the connection was cut.
    async fn pass(&self, cuts: u64, back: bool) -> io::Result<()> {
        std::future::poll_fn(|cx| {
            std::task::ready!(self.poll_pass(cuts, cx))?;
            if self.0.lock().stalls[usize::from(back)] { Poll::Pending } else { Poll::Ready(Ok(())) }
        })
        .await
    }

    /// Until a connection is cut.
    async fn is_cut(&self, cuts: u64) {
        std::future::poll_fn(|cx| match self.poll_pass(cuts, cx) {
            Poll::Ready(Err(_)) => Poll::Ready(()),
            _ => Poll::Pending,
        })
        .await;
    }
}

/// Carries bytes between the two ends of a connection until both have ended, or it is cut, with what is under way.
async fn carry(from: DuplexStream, to: DuplexStream, way: Arc<Way>, cuts: u64, delay: Option<Arc<Delay>>) {
    let ((from_read, from_write), (to_read, to_write)) = (split(from), split(to));
    let there = carry_one_way(from_read, to_write, &way, (cuts, false), delay.as_deref());
    let back = carry_one_way(to_read, from_write, &way, (cuts, true), delay.as_deref());
    tokio::select! {
        biased;
        () = way.is_cut(cuts) => {}
        _ = async { tokio::join!(there, back) } => {}
    }
}

async fn carry_one_way(
    mut from: ReadHalf<DuplexStream>,
    mut to: WriteHalf<DuplexStream>,
    way: &Way,
    (cuts, back): (u64, bool),
    delay: Option<&Delay>,
) -> io::Result<()> {
    let mut bytes = vec![0; CARRIED];
    loop {
        let n = from.read(&mut bytes).await?;
        match delay.map_or(0, |delay| delay.random.below(delay.up_to_ms)) {
            0 => {}
            ms => sleep(Duration::from_millis(ms)).await,
        }
        way.pass(cuts, back).await?;
        if n == 0 {
            return to.shutdown().await;
        }
        to.write_all(&bytes[..n]).await?;
    }
}

/// One end of a connection, which can tell that the other was dropped without having what it sent read.
#[derive(Debug)]
struct SimStream {
    stream: DuplexStream,
    /// Read to see whether there is anything.
    ahead: Option<u8>,
}

impl From<DuplexStream> for SimStream {
    fn from(stream: DuplexStream) -> SimStream {
        SimStream { stream, ahead: None }
    }
}

impl AsyncRead for SimStream {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if buf.remaining() > 0
            && let Some(byte) = self.ahead.take()
        {
            buf.put_slice(&[byte]);
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for SimStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

impl Stream for SimStream {
    fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<()>>> {
        if self.ahead.is_some() {
            return Poll::Ready(None);
        }
        let mut byte = [0];
        let mut buf = ReadBuf::new(&mut byte);
        let read = std::task::ready!(Pin::new(&mut self.stream).poll_read(cx, &mut buf));
        self.ahead = buf.filled().first().copied();
        Poll::Ready(match (read, self.ahead) {
            (Ok(()), Some(_)) => None,
            (read, _) => Some(read),
        })
    }

    fn leave(self: Box<Self>) -> io::Result<OpenStream> {
        Ok(Box::new(move || Ok(self as Box<dyn Stream>)))
    }
}

/// A broker's end of a connection it made.
struct OnWay {
    stream: SimStream,
    way: Arc<Way>,
    cuts: u64,
}

impl AsyncRead for OnWay {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        std::task::ready!(self.way.poll_pass(self.cuts, cx))?;
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for OnWay {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        std::task::ready!(self.way.poll_pass(self.cuts, cx))?;
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

impl Stream for OnWay {
    fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<()>>> {
        match self.way.poll_pass(self.cuts, cx) {
            Poll::Ready(Ok(())) => self.stream.poll_gone(cx),
            Poll::Ready(Err(cut)) => Poll::Ready(Some(Err(cut))),
            Poll::Pending => Poll::Pending,
        }
    }

    fn leave(self: Box<Self>) -> io::Result<OpenStream> {
        Ok(Box::new(move || Ok(self as Box<dyn Stream>)))
    }
}

/// Connects one broker to others, by port: every host is here.
#[derive(Clone, Debug)]
pub struct SimConnector {
    from: BrokerId,
    net: SimNet,
}

#[async_trait]
impl Connector for SimConnector {
    async fn connect(&self, to: &Endpoint) -> io::Result<Box<dyn Link>> {
        let way = self.net.way(self.from, to.port);
        let cuts = way.enter()?;
        let connected = match self.net.delay {
            Some(_) => self.net.connect_on_way(self.from, to.port)?,
            None => self.net.connect(to.port)?,
        };
        let stream = OnWay { stream: connected.into(), way, cuts };
        let link = Box::new(StreamLink::new(Box::new(stream), ANSWER_LIMIT, Arc::default()));
        Ok(Box::new(Meddled { link, with: self.net.meddling.clone() }))
    }

    async fn probe(&self, at: &Endpoint) -> Vec<Outcome> {
        vec![match self.connect(at).await {
            Ok(_) => Outcome::Accepted,
            Err(_) => Outcome::Refused,
        }]
    }
}

#[async_trait]
impl Listener for SimListener {
    fn name(&self) -> Arc<str> {
        self.name.clone()
    }

    fn address(&self) -> String {
        format!("sim:{}", self.port)
    }

    fn port(&self) -> u16 {
        self.port
    }

    fn start(&self) -> io::Result<()> {
        let (waiting, accepting) = mpsc::unbounded_channel();
        let mut slot = self.waiting.try_lock().map_err(|_| io::ErrorKind::AddrInUse)?;
        *slot = Some(accepting);
        self.net.listening.lock().insert(self.port, waiting);
        Ok(())
    }

    async fn accept(&self) -> io::Result<Incoming> {
        let mut waiting = self.waiting.lock().await;
        let (peer, stream) = match waiting.as_mut() {
            Some(waiting) => waiting.recv().await.ok_or(io::ErrorKind::NotConnected)?,
            None => std::future::pending().await,
        };
        Ok(Incoming {
            peer,
            peer_name: "sim".to_owned(),
            open: Box::new(move || Ok(Box::new(stream) as Box<dyn Stream>)),
        })
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use futures_util::FutureExt;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;
    use crate::cluster::suspicion::Ended;

    const PORT: u16 = 9002;

    /// A network where `PORT` answers each request with its own bytes.
    async fn echoing() -> SimNet {
        let net = SimNet::default();
        let listener = net.listener("L", PORT);
        listener.start().expect("listening");
        tokio::spawn(async move {
            loop {
                let mut stream = (listener.accept().await.expect("a connection").open)().expect("a stream");
                tokio::spawn(async move {
                    while let Ok(size) = stream.read_u32().await {
                        let mut bytes = vec![0; size as usize];
                        stream.read_exact(&mut bytes).await.expect("a request");
                        stream.write_u32(size).await.expect("read");
                        stream.write_all(&bytes).await.expect("read");
                    }
                });
            }
        });
        net
    }

    async fn connect(net: &SimNet) -> io::Result<Box<dyn Link>> {
        net.connector(BrokerId(1)).connect(&Endpoint { host: "b".into(), port: PORT }).await
    }

    const HI: Bytes = Bytes::from_static(b"hi");

    #[tokio::test]
    async fn a_cut_breaks_what_stands_and_lets_new_connections_in() {
        let net = echoing().await;
        let mut link = connect(&net).await.expect("connected");
        assert_eq!(link.ask(HI).await.expect("an answer"), HI);
        net.way(BrokerId(2), PORT).cut();
        assert_eq!(link.ask(HI).await.expect("another broker's way"), HI);
        net.way(BrokerId(1), PORT).cut();
        assert_eq!(link.ask(HI).await.expect_err("cut").kind(), io::ErrorKind::ConnectionReset);
        assert_eq!(connect(&net).await.expect("connected").ask(HI).await.expect("an answer"), HI);
    }

    #[tokio::test]
    async fn a_cut_reaches_who_waits() {
        let net = echoing().await;
        let mut link = connect(&net).await.expect("connected");
        let way = net.way(BrokerId(1), PORT);
        way.stall();
        let waiting = tokio::spawn(async move { link.ask(HI).await });
        tokio::task::yield_now().await;
        way.cut();
        assert_eq!(waiting.await.expect("no panic").expect_err("cut").kind(), io::ErrorKind::ConnectionReset);
    }

    #[tokio::test]
    async fn a_stall_holds_bytes_back_until_it_is_healed() {
        let net = echoing().await;
        let mut link = connect(&net).await.expect("connected");
        let way = net.way(BrokerId(1), PORT);
        way.stall();
        let waiting = tokio::spawn(async move { link.ask(HI).await });
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
        assert!(!waiting.is_finished());
        way.heal();
        assert_eq!(waiting.await.expect("no panic").expect("an answer"), HI);
    }

    #[tokio::test]
    async fn who_is_idle_finds_out_that_the_other_end_is_gone() {
        let net = SimNet::default();
        let listener = net.listener("L", PORT);
        listener.start().expect("listening");
        for is_cut in [false, true] {
            let mut link = connect(&net).await.expect("connected");
            let mut accepted = (listener.accept().await.expect("a connection").open)().expect("a stream");
            let mut ended = Box::pin(std::future::poll_fn(move |cx| link.poll_ended(cx)));
            assert!((&mut ended).now_or_never().is_none(), "both are there");
            let mut gone = Box::pin(std::future::poll_fn(|cx| accepted.poll_gone(cx)));
            assert!((&mut gone).now_or_never().is_none(), "both are there");
            drop(gone);
            if is_cut {
                net.way(BrokerId(1), PORT).cut();
            } else {
                drop(accepted);
            }
            assert_eq!(ended.await, if is_cut { Ended::Reset } else { Ended::Fin });
        }
    }

    #[tokio::test]
    async fn what_was_looked_at_is_read_all_the_same() {
        let (mut client, server) = duplex(100);
        let mut server = SimStream::from(server);
        client.write_all(b"abc").await.expect("room");
        assert!(std::future::poll_fn(|cx| server.poll_gone(cx)).await.is_none(), "there is something to read");
        let mut bytes = [0; 3];
        server.read_exact(&mut bytes).await.expect("all of it");
        assert_eq!(&bytes, b"abc");
        drop(client);
        assert!(std::future::poll_fn(|cx| server.poll_gone(cx)).await.is_some_and(|gone| gone.is_ok()));
    }

    #[tokio::test]
    async fn who_is_refused_finds_what_stands_going_on() {
        let net = echoing().await;
        let mut link = connect(&net).await.expect("connected");
        let way = net.way(BrokerId(1), PORT);
        way.refuse();
        assert_eq!(connect(&net).await.err().expect("refused").kind(), io::ErrorKind::ConnectionRefused);
        assert_eq!(link.ask(HI).await.expect("an answer"), HI);
        way.heal();
        connect(&net).await.expect("connected");
    }
}
