//! What connections come out of: real sockets in production, in-memory streams in a simulation.

use std::fmt;
use std::io::{self, IoSlice};
use std::net::IpAddr;
use std::os::fd::BorrowedFd;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use async_trait::async_trait;
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream};

/// Both directions of a connection.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {
    /// Sends up to `len` bytes of `file` from `position` on without copying them through this process. Ready with the
    /// bytes sent, 0 at the end of the file; `None` where the kernel does not do that.
    fn poll_send_file(
        &mut self,
        _cx: &mut Context<'_>,
        _file: BorrowedFd<'_>,
        _position: u64,
        _len: usize,
    ) -> Option<Poll<io::Result<usize>>> {
        None
    }

    /// Pending while a read would find nothing. Ready may be wrong.
    fn poll_read_ready(&mut self, _cx: &mut Context<'_>) -> Poll<()> {
        Poll::Ready(())
    }

    /// Ready once the connection has ended, with an error unless the peer closed it in order, or with `None` when that
    /// cannot be told any more without reading what it sent.
    fn poll_gone(&mut self, _cx: &mut Context<'_>) -> Poll<Option<io::Result<()>>> {
        Poll::Ready(None)
    }

    /// Writes what can be written now. `WouldBlock`, also when that is not known: then it has to be waited for.
    fn try_write(&mut self, _bytes: &[IoSlice<'_>]) -> io::Result<usize> {
        Err(io::ErrorKind::WouldBlock.into())
    }

    /// Writes what more follows upon at once: the kernel may hold it back until then.
    fn poll_write_more(&mut self, cx: &mut Context<'_>, bytes: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        Pin::new(self).poll_write_vectored(cx, bytes)
    }

    /// Leaves its runtime, to be opened on another.
    fn leave(self: Box<Self>) -> io::Result<OpenStream>;
}

/// What a simulation and tests connect with.
impl Stream for DuplexStream {
    fn leave(self: Box<Self>) -> io::Result<OpenStream> {
        Ok(Box::new(move || Ok(self as Box<dyn Stream>)))
    }

    fn try_write(&mut self, bytes: &[IoSlice<'_>]) -> io::Result<usize> {
        match Pin::new(self).poll_write_vectored(&mut Context::from_waker(Waker::noop()), bytes) {
            Poll::Ready(written) => written,
            Poll::Pending => Err(io::ErrorKind::WouldBlock.into()),
        }
    }
}

/// Makes the stream of a connection. Called on the runtime that will serve it, whose reactor it then uses.
pub type OpenStream = Box<dyn FnOnce() -> io::Result<Box<dyn Stream>> + Send>;

/// An accepted connection.
pub struct Incoming {
    /// Of an IPv4 peer its IPv4 address, also where the socket is one of IPv6.
    pub peer: IpAddr,
    /// As logged: address and port.
    pub peer_name: String,
    pub open: OpenStream,
}

impl fmt::Debug for Incoming {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Incoming({})", self.peer_name)
    }
}

/// A named listener. Its address is taken when it is made; connections are refused until [`Listener::start`].
#[async_trait]
pub trait Listener: Send + Sync {
    /// The listener's name, upper case.
    fn name(&self) -> Arc<str>;
    /// Where it is bound, as logged.
    fn address(&self) -> String;
    /// The port it is bound to; for a configured port of 0 the one the system chose.
    fn port(&self) -> u16;
    /// From now on connections are taken.
    fn start(&self) -> io::Result<()>;
    /// The next connection. Safe to drop while waiting. An error concerns one connection or passes with time.
    async fn accept(&self) -> io::Result<Incoming>;
}
