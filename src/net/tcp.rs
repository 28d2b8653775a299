//! Listeners on TCP sockets.

use std::io::{self, IoSlice};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::os::fd::BorrowedFd;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};

use async_trait::async_trait;
use parking_lot::Mutex;
use rustix::net::{SendAncillaryBuffer, SendFlags, sendmsg};
use tokio::io::{Interest, ReadBuf};
use tokio::net::{TcpListener, TcpSocket, TcpStream};

use super::listener::{Incoming, Listener, OpenStream, Stream};
use crate::config::BrokerConfig;
use crate::config::Listener as ListenerConfig;

/// Why a listener cannot be opened. Each is one clear sentence.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    #[error("listener {name}: host {host} is unknown")]
    UnknownHost { name: String, host: String, source: io::Error },
    #[error("listener {name}: port {port} is in use on {address}")]
    InUse { name: String, address: String, port: u16 },
    #[error("listener {name}: {address} is no address of this machine")]
    NotLocal { name: String, address: String },
    #[error("listener {name}: cannot listen on {address}")]
    Io { name: String, address: String, source: io::Error },
}

/// A named listener. Bound when made, listening from [`Listener::start`] on.
#[derive(Debug)]
pub struct Tcp {
    name: Arc<str>,
    address: SocketAddr,
    backlog: u32,
    bound: Mutex<Option<TcpSocket>>,
    listening: OnceLock<TcpListener>,
}

impl Tcp {
    /// Binds without listening: a port in use is found out before anything else is done.
    pub fn bind(listener: &ListenerConfig, config: &BrokerConfig) -> Result<Tcp, BindError> {
        let wanted = resolve(listener)?;
        let failed = |source: io::Error| bind_error(listener, wanted, source);
        let socket = open_socket(wanted, config).and_then(|socket| socket.bind(wanted).map(|()| socket));
        let socket = match socket {
            // A machine without IPv6 has no wildcard of it.
            Err(error) if error.raw_os_error() == Some(rustix::io::Errno::AFNOSUPPORT.raw_os_error()) => {
                let wanted = SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), wanted.port());
                let socket = open_socket(wanted, config).map_err(failed)?;
                socket.bind(wanted).map_err(failed)?;
                socket
            }
            other => other.map_err(failed)?,
        };
        let address = socket.local_addr().map_err(failed)?;
        Ok(Tcp {
            name: listener.name.as_str().into(),
            address,
            backlog: u32::try_from(config.socket_listen_backlog_size).unwrap_or(50).max(1),
            bound: Mutex::new(Some(socket)),
            listening: OnceLock::new(),
        })
    }
}

fn resolve(listener: &ListenerConfig) -> Result<SocketAddr, BindError> {
    if listener.host.is_empty() {
        return Ok(SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), listener.port));
    }
    let unknown = |source| BindError::UnknownHost { name: listener.name.clone(), host: listener.host.clone(), source };
    let mut addresses = (listener.host.as_str(), listener.port).to_socket_addrs().map_err(unknown)?;
    addresses.next().ok_or_else(|| unknown(io::ErrorKind::NotFound.into()))
}

fn bind_error(listener: &ListenerConfig, wanted: SocketAddr, source: io::Error) -> BindError {
    let (name, address) = (listener.name.clone(), wanted.ip().to_string());
    match source.kind() {
        io::ErrorKind::AddrInUse => BindError::InUse { name, address, port: wanted.port() },
        io::ErrorKind::AddrNotAvailable => BindError::NotLocal { name, address },
        _ => BindError::Io { name, address: wanted.to_string(), source },
    }
}

/// A socket for `address`. Options set here are inherited by the accepted sockets of a listener.
pub(super) fn open_socket(address: SocketAddr, config: &BrokerConfig) -> io::Result<TcpSocket> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    socket.set_reuseaddr(true)?;
    socket.set_keepalive(true)?;
    socket.set_nodelay(true)?;
    // A fixed size switches the kernel's own sizing off, and Kafka's default of 100 KiB would halve what a connection
    // can carry: sizes are set only when the operator gave them.
    let given = |key: &str, bytes: i32| config.properties.contains_key(key).then_some(bytes).filter(|&b| b > 0);
    if let Some(bytes) = given("socket.send.buffer.bytes", config.socket_send_buffer_bytes) {
        socket.set_send_buffer_size(bytes.unsigned_abs())?;
    }
    if let Some(bytes) = given("socket.receive.buffer.bytes", config.socket_receive_buffer_bytes) {
        socket.set_recv_buffer_size(bytes.unsigned_abs())?;
    }
    Ok(socket)
}

#[async_trait]
impl Listener for Tcp {
    fn name(&self) -> Arc<str> {
        self.name.clone()
    }

    fn address(&self) -> String {
        self.address.to_string()
    }

    fn port(&self) -> u16 {
        self.address.port()
    }

    fn start(&self) -> io::Result<()> {
        if let Some(socket) = self.bound.lock().take() {
            let listening = socket.listen(self.backlog)?;
            // Filled once: `bound` is empty from here on.
            let _ = self.listening.set(listening);
        }
        Ok(())
    }

    async fn accept(&self) -> io::Result<Incoming> {
        let Some(listening) = self.listening.get() else { return std::future::pending().await };
        let (stream, peer) = listening.accept().await?;
        Ok(Incoming {
            peer: canonical(peer.ip()),
            peer_name: SocketAddr::new(canonical(peer.ip()), peer.port()).to_string(),
            open: Box::new(stream).leave()?,
        })
    }
}

impl Stream for TcpStream {
    fn leave(self: Box<Self>) -> io::Result<OpenStream> {
        let stream = self.into_std()?;
        Ok(Box::new(move || Ok(Box::new(TcpStream::from_std(stream)?) as Box<dyn Stream>)))
    }

    fn poll_send_file(
        &mut self,
        cx: &mut Context<'_>,
        file: BorrowedFd<'_>,
        position: u64,
        len: usize,
    ) -> Option<Poll<io::Result<usize>>> {
        let sent = poll_send(self, cx, || Ok(rustix::fs::sendfile(&*self, file, Some(&mut { position }), len)?));
        match sent {
            // A file system without it.
            Poll::Ready(Err(error)) if error.kind() == io::ErrorKind::InvalidInput => None,
            other => Some(other),
        }
    }

    fn poll_read_ready(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        // An error is the read's to tell.
        TcpStream::poll_read_ready(self, cx).map(drop)
    }

    fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<()>>> {
        let mut byte = [0];
        Poll::Ready(match ready!(self.poll_peek(cx, &mut ReadBuf::new(&mut byte))) {
            Ok(1..) => None,
            Ok(0) => Some(Ok(())),
            Err(error) => Some(Err(error)),
        })
    }

    fn try_write(&mut self, bytes: &[IoSlice<'_>]) -> io::Result<usize> {
        self.try_write_vectored(bytes)
    }

    fn poll_write_more(&mut self, cx: &mut Context<'_>, bytes: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        let flags = SendFlags::MORE | SendFlags::NOSIGNAL;
        poll_send(self, cx, || Ok(sendmsg(&*self, bytes, &mut SendAncillaryBuffer::default(), flags)?))
    }
}

/// `send` once the socket takes something.
fn poll_send(
    stream: &TcpStream,
    cx: &mut Context<'_>,
    send: impl Fn() -> io::Result<usize>,
) -> Poll<io::Result<usize>> {
    loop {
        ready!(stream.poll_write_ready(cx))?;
        match stream.try_io(Interest::WRITABLE, &send) {
            // Not ready after all; asked again, which leaves the waker.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            other => return Poll::Ready(other),
        }
    }
}

/// An IPv4 peer of a dual-stack socket is an IPv4 peer.
fn canonical(ip: IpAddr) -> IpAddr {
    ip.to_canonical()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::SecurityProtocol;

    fn listener(host: &str, port: u16) -> ListenerConfig {
        ListenerConfig { name: "L".into(), protocol: SecurityProtocol::Plaintext, host: host.into(), port }
    }

    #[tokio::test]
    async fn refuses_until_started_then_accepts() {
        let tcp = Tcp::bind(&listener("127.0.0.1", 0), &BrokerConfig::default()).expect("bound");
        let address = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), tcp.port());
        let refused = TcpStream::connect(address).await.expect_err("not listening yet");
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
        tcp.start().expect("listening");
        let client = TcpStream::connect(address).await.expect("connected");
        let incoming = tcp.accept().await.expect("accepted");
        assert_eq!(incoming.peer_name, client.local_addr().expect("address").to_string());
        (incoming.open)().expect("a stream");
    }

    #[tokio::test]
    async fn an_ipv4_peer_of_a_listener_on_every_address_is_an_ipv4_peer() {
        let tcp = Tcp::bind(&listener("", 0), &BrokerConfig::default()).expect("bound");
        tcp.start().expect("listening");
        let client = TcpStream::connect((Ipv4Addr::LOCALHOST, tcp.port())).await.expect("connected");
        let incoming = tcp.accept().await.expect("accepted");
        assert_eq!(incoming.peer, Ipv4Addr::LOCALHOST);
        assert_eq!(incoming.peer_name, client.local_addr().expect("address").to_string());
    }

    #[tokio::test]
    async fn says_what_is_wrong_with_an_address() {
        let config = BrokerConfig::default();
        let tcp = Tcp::bind(&listener("", 0), &config).expect("bound");
        tcp.start().expect("listening");
        let error = Tcp::bind(&listener("", tcp.port()), &config).expect_err("in use").to_string();
        assert!(error.contains(&format!("port {} is in use", tcp.port())), "{error}");
        let error = Tcp::bind(&listener("no-such-host.invalid", 0), &config).expect_err("unknown").to_string();
        assert!(error.starts_with("listener L: host no-such-host.invalid is unknown"), "{error}");
        let error = Tcp::bind(&listener("192.0.2.1", 0), &config).expect_err("not local").to_string();
        assert_eq!(error, "listener L: 192.0.2.1 is no address of this machine");
    }
}
