//! Connections to other brokers.
//!
//! What comes back is read as a client's requests are: no memory for a length that was only announced, large frames handed
//! out where they were read to.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use async_trait::async_trait;
use bytes::{Buf, Bytes, BytesMut};
use futures_util::future::join_all;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;

use super::listener::Stream;
use super::pool::BufferPool;
use super::reader::FrameReader;
use super::tcp::open_socket;
use crate::cluster::peer::{Connector, Link};
use crate::cluster::suspicion::{Ended, Outcome};
use crate::config::BrokerConfig;
use crate::types::Endpoint;
use crate::wire::frame::FrameError;

/// Opens TCP connections.
pub struct TcpConnector {
    config: Arc<BrokerConfig>,
    buffers: Arc<BufferPool>,
}

impl TcpConnector {
    pub fn new(config: Arc<BrokerConfig>) -> TcpConnector {
        TcpConnector { config, buffers: Arc::default() }
    }

    async fn open(&self, address: SocketAddr) -> io::Result<TcpStream> {
        let patience = Duration::from_millis(self.config.replication.socket_connection_setup_timeout_ms.unsigned_abs());
        let socket = open_socket(address, &self.config)?;
        timeout(patience, socket.connect(address)).await.unwrap_or_else(|_| {
            let text = format!("no answer within {} ms", patience.as_millis());
            Err(io::Error::new(io::ErrorKind::TimedOut, text))
        })
    }

    async fn probe_address(&self, address: SocketAddr) -> Outcome {
        let Ok(socket) = open_socket(address, &self.config) else { return Outcome::TimedOut };
        match timeout(PROBE, socket.connect(address)).await {
            Ok(Ok(_)) => Outcome::Accepted,
            Ok(Err(error)) => unconnected(&error),
            Err(_) => Outcome::TimedOut,
        }
    }
}

#[async_trait]
impl Connector for TcpConnector {
    /// Each address of the name is tried for `socket.connection.setup.timeout.ms`; the error is that of the last.
    async fn connect(&self, to: &Endpoint) -> io::Result<Box<dyn Link>> {
        let of = |error: io::Error| io::Error::new(error.kind(), format!("{}:{}: {error}", to.host, to.port));
        let mut failed = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
        for address in lookup_host((&*to.host, to.port)).await.map_err(of)? {
            match self.open(address).await {
                Ok(stream) => {
                    let limit = answer_limit(&self.config);
                    return Ok(Box::new(StreamLink::new(Box::new(stream), limit, self.buffers.clone())));
                }
                Err(error) => failed = error,
            }
        }
        Err(of(failed))
    }

    async fn probe(&self, at: &Endpoint) -> Vec<Outcome> {
        let addresses = match timeout(PROBE, lookup_host((&*at.host, at.port))).await {
            Ok(Ok(addresses)) => addresses,
            Ok(Err(error)) => return vec![unresolved(&error)],
            Err(_) => return vec![Outcome::TimedOut],
        };
        let probes: Vec<_> = addresses.map(|address| self.probe_address(address)).collect();
        let outcomes = join_all(probes).await;
        if outcomes.is_empty() { vec![Outcome::Unresolved] } else { outcomes }
    }
}

/// How long an attempt to find somebody there may take.
const PROBE: Duration = Duration::from_millis(900);

fn unconnected(error: &io::Error) -> Outcome {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => Outcome::Refused,
        io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable => Outcome::Unreachable,
        _ => Outcome::TimedOut,
    }
}

/// A resolver that could not ask says so in words alone, EAI_AGAIN's of glibc and of musl.
fn unresolved(error: &io::Error) -> Outcome {
    let text = error.to_string();
    match text.contains("Temporary failure") || text.contains("Try again") {
        true => Outcome::TimedOut,
        false => Outcome::Unresolved,
    }
}

/// Bytes an answer may have. The longest are of Fetch: as many as a follower asks for and at least one batch, which came to
/// its leader in one request.
pub fn answer_limit(config: &BrokerConfig) -> usize {
    let bytes = |bytes: i32| usize::try_from(bytes).unwrap_or(0);
    bytes(config.socket_request_max_bytes) + bytes(config.replication.fetch_response_max_bytes)
}

/// A [`Link`] over a stream.
pub struct StreamLink {
    stream: Box<dyn Stream>,
    reader: FrameReader,
    /// A call is under way, was given up or failed: what comes next would be the answer to another request.
    in_use: bool,
}

impl StreamLink {
    /// `limit` is in bytes, inclusive, of an answer without its length.
    pub fn new(stream: Box<dyn Stream>, limit: usize, buffers: Arc<BufferPool>) -> StreamLink {
        StreamLink { stream, reader: FrameReader::of_answers(limit, buffers), in_use: false }
    }

    async fn answer(&mut self) -> io::Result<BytesMut> {
        let refused = |error: FrameError| io::Error::new(io::ErrorKind::InvalidData, error);
        loop {
            // The buffer that a large one lies in is the next one's, once the caller has let go of it.
            if let Some(frame) = self.reader.take_frame().map_err(refused)? {
                return Ok(frame);
            }
            if self.reader.fill(&mut *self.stream).await? == 0 {
                let text = if self.reader.held().is_empty() { "closed by the peer" } else { "closed inside an answer" };
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, text));
            }
        }
    }
}

#[async_trait]
impl Link for StreamLink {
    async fn ask(&mut self, request: Bytes) -> io::Result<BytesMut> {
        if std::mem::replace(&mut self.in_use, true) {
            return Err(io::Error::new(io::ErrorKind::NotConnected, "the connection failed before"));
        }
        if !self.reader.held().is_empty() {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "an answer came that nobody asked for"));
        }
        let size = i32::try_from(request.len()).map_err(|_| {
            io::Error::new(io::ErrorKind::InvalidInput, format!("a request of {} bytes has no frame", request.len()))
        })?;
        let size = size.to_be_bytes();
        self.stream.write_all_buf(&mut size.as_slice().chain(request)).await?;
        let answer = self.answer().await?;
        self.in_use = false;
        Ok(answer)
    }

    fn poll_ended(&mut self, cx: &mut Context<'_>) -> Poll<Ended> {
        match ready!(self.stream.poll_gone(cx)) {
            Some(gone) => Poll::Ready(gone.err().map_or(Ended::Fin, |error| Ended::by(&error))),
            // What it sent is for the next call to read.
            None => Poll::Pending,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use futures_util::FutureExt;
    use tokio::io::{AsyncReadExt, DuplexStream, duplex};
    use tokio::net::TcpListener;

    use super::*;

    fn link(limit: usize) -> (StreamLink, DuplexStream) {
        let (ours, theirs) = duplex(64 << 10);
        (StreamLink::new(Box::new(ours), limit, Arc::default()), theirs)
    }

    fn local() -> TcpConnector {
        TcpConnector::new(Arc::default())
    }

    #[tokio::test]
    async fn a_link_that_ends_while_it_is_idle_tells_how() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("bound");
        let at = Endpoint { host: "127.0.0.1".into(), port: listener.local_addr().expect("an address").port() };
        for (lingers, how) in [(None, Ended::Fin), (Some(Duration::ZERO), Ended::Reset)] {
            let mut link = local().connect(&at).await.expect("connected");
            let (accepted, _) = listener.accept().await.expect("a connection");
            let mut ended = Box::pin(std::future::poll_fn(|cx| link.poll_ended(cx)));
            assert!((&mut ended).now_or_never().is_none(), "it is there");
            rustix::net::sockopt::set_socket_linger(&accepted, lingers).expect("a socket");
            drop(accepted);
            assert_eq!(ended.await, how);
        }
    }

    #[tokio::test]
    async fn a_probe_tells_who_is_there() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("bound");
        let port = listener.local_addr().expect("an address").port();
        let at = |host: &str| Endpoint { host: host.into(), port };
        assert_eq!(local().probe(&at("127.0.0.1")).await, [Outcome::Accepted]);
        drop(listener);
        assert_eq!(local().probe(&at("127.0.0.1")).await, [Outcome::Refused]);
        assert!(!local().probe(&at("localhost")).await.is_empty());
        let nobody = io::Error::other("failed to lookup address information: Name or service not known");
        let no_resolver =
            io::Error::other("failed to lookup address information: Temporary failure in name resolution");
        assert_eq!((unresolved(&nobody), unresolved(&no_resolver)), (Outcome::Unresolved, Outcome::TimedOut));
        assert_eq!(unconnected(&io::ErrorKind::HostUnreachable.into()), Outcome::Unreachable);
        assert_eq!(unconnected(&io::ErrorKind::OutOfMemory.into()), Outcome::TimedOut, "this side's own failure");
    }

    async fn request(peer: &mut DuplexStream) -> Vec<u8> {
        let size = peer.read_u32().await.expect("a length");
        let mut request = vec![0; size as usize];
        peer.read_exact(&mut request).await.expect("a request");
        request
    }

    #[tokio::test]
    async fn one_request_after_the_other_is_answered() {
        let (mut link, mut peer) = link(1 << 20);
        let large = vec![7; 300_000];
        for answer in [&b"first"[..], &large, b"third"] {
            let serve = async {
                assert_eq!(request(&mut peer).await, b"asked");
                peer.write_u32(answer.len() as u32).await.expect("room");
                peer.write_all(answer).await.expect("room");
            };
            let (got, ()) = tokio::join!(link.ask("asked".into()), serve);
            assert_eq!(got.expect("an answer"), answer);
        }
    }

    /// What `answer` is for, and the next request on the same link.
    async fn fails(limit: usize, answer: &[u8]) -> io::Error {
        let (mut link, mut peer) = link(limit);
        peer.write_all(answer).await.expect("room");
        drop(peer.shutdown().await);
        let error = link.ask("asked".into()).await.expect_err("no answer");
        let again = link.ask("asked".into()).await.expect_err("of no use any more");
        assert_eq!(again.kind(), io::ErrorKind::NotConnected);
        error
    }

    #[tokio::test]
    async fn a_peer_that_does_not_answer_properly_is_an_error_and_the_link_is_of_no_use() {
        use io::ErrorKind::{InvalidData, UnexpectedEof};
        let cases: [(&[u8], io::ErrorKind, &str); 6] = [
            (b"", UnexpectedEof, "closed by the peer"),
            (&[0, 0], UnexpectedEof, "closed inside an answer"),
            (&[0, 0, 0, 9, 1, 2, 3], UnexpectedEof, "closed inside an answer"),
            (&[0, 0, 0, 0], InvalidData, "a frame of 0 bytes was announced"),
            (&[0xff, 0xff, 0xff, 0xff], InvalidData, "a frame of -1 bytes was announced"),
            (b"HTTP/1.1 400 Bad Request", InvalidData, "the limit is 1000"),
        ];
        for (answer, kind, text) in cases {
            let error = fails(1000, answer).await;
            assert_eq!(error.kind(), kind, "{error}");
            assert!(error.to_string().contains(text), "{error}");
        }
    }

    /// A correlation id is no api key: Metadata has a lower limit than others among requests.
    #[tokio::test]
    async fn the_limit_of_an_answer_does_not_depend_on_how_it_begins() {
        let (mut link, mut peer) = link(40 << 20);
        let mut answer = vec![0; 20 << 20];
        answer[..4].copy_from_slice(&[0, 3, 0, 0]);
        let serve = async {
            peer.write_u32(answer.len() as u32).await.expect("room");
            peer.write_all(&answer).await.expect("room");
        };
        let (got, ()) = tokio::join!(link.ask("asked".into()), serve);
        assert_eq!(got.expect("an answer").len(), answer.len());
    }

    #[tokio::test]
    async fn an_answer_that_comes_late_is_not_the_next_ones() {
        let (mut link, mut peer) = link(1000);
        assert!(link.ask("first".into()).now_or_never().is_none(), "given up");
        peer.write_all(&[0, 0, 0, 1, 1]).await.expect("room");
        let error = link.ask("second".into()).await.expect_err("of no use any more");
        assert_eq!(error.kind(), io::ErrorKind::NotConnected);

        let (mut link, mut peer) = self::link(1000);
        peer.write_all(&[0, 0, 0, 1, 1, 0, 0, 0, 1, 2]).await.expect("room");
        assert_eq!(link.ask("first".into()).await.expect("an answer")[..], [1]);
        let error = link.ask("second".into()).await.expect_err("two answers to one request");
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
    }

    fn connector() -> TcpConnector {
        TcpConnector::new(Arc::new(BrokerConfig::default()))
    }

    fn endpoint(host: &str, port: u16) -> Endpoint {
        Endpoint { host: host.into(), port }
    }

    /// `localhost` has an IPv6 address too on most machines, where nobody listens.
    #[tokio::test]
    async fn every_address_of_a_name_is_tried() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("bound");
        let port = listener.local_addr().expect("an address").port();
        let serve = async {
            let (mut stream, _) = listener.accept().await.expect("a connection");
            assert_eq!(stream.read_u32().await.expect("a length"), 5);
            let mut asked = [0; 5];
            stream.read_exact(&mut asked).await.expect("a request");
            stream.write_all(&[0, 0, 0, 2, 8, 9]).await.expect("sent");
            asked
        };
        let ask = async {
            let mut link = connector().connect(&endpoint("localhost", port)).await.expect("connected");
            link.ask("asked".into()).await
        };
        let (answer, asked) = tokio::join!(ask, serve);
        assert_eq!((&answer.expect("an answer")[..], &asked), (&[8, 9][..], b"asked"));
    }

    #[tokio::test]
    async fn says_whom_it_could_not_reach() {
        let port = {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("bound");
            listener.local_addr().expect("an address").port()
        };
        let failed =
            |host| async move { connector().connect(&endpoint(host, port)).await.err().expect("nobody there") };
        let refused = failed("127.0.0.1").await;
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
        assert!(refused.to_string().starts_with(&format!("127.0.0.1:{port}: ")), "{refused}");
        let unknown = failed("no-such-host.invalid").await;
        assert!(unknown.to_string().starts_with(&format!("no-such-host.invalid:{port}: ")), "{unknown}");
    }
}
