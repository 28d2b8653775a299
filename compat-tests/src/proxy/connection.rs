//! One connection through the proxy, from its making to its end.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::ledger::Ledger;
use super::order::{Order, Side};
use super::queue::Queue;

/// Bytes read at once.
const READ: usize = 32 << 10;
/// For a newer connection to say as much as an old one has to deliver.
const PATIENCE: Duration = Duration::from_secs(10);
/// A server that was given everything of a connection whose client is gone may speak for so long.
const FAREWELL: Duration = Duration::from_secs(10);

pub struct Connection {
    client: TcpStream,
    orders: watch::Receiver<Order>,
    ledger: Arc<Ledger>,
    number: u64,
    /// What was ordered when it began: older resets and closings are not meant for it.
    first: Order,
}

/// Why bytes are no longer carried.
enum End {
    /// Both sides have said everything and were told so.
    Closed,
    /// One side is gone, or it was ordered.
    Reset,
    Parted,
}

impl Connection {
    pub fn new(client: TcpStream, orders: watch::Receiver<Order>, ledger: Arc<Ledger>) -> Connection {
        let (first, number) = (*orders.borrow(), ledger.connected());
        Connection { client, orders, ledger, number, first }
    }

    pub async fn carry(mut self, to: SocketAddr) {
        let _ = self.client.set_nodelay(true);
        let Ok(mut server) = TcpStream::connect(to).await else {
            return reset(self.client);
        };
        let _ = server.set_nodelay(true);
        let (there, back) = (Queue::default(), Queue::default());
        let end = {
            let (from_client, to_client) = self.client.split();
            let (from_server, to_server) = server.split();
            let way = Carrier { orders: &self.orders, ledger: &self.ledger, number: self.number, first: &self.first };
            let directions = async {
                tokio::try_join!(
                    way.read(from_client, &there, Side::Server),
                    way.write(&there, to_server, Side::Server),
                    way.read(from_server, &back, Side::Client),
                    way.write(&back, to_client, Side::Client),
                )
            };
            tokio::select! {
                // What is ordered together with an end is not meant for who ends.
                biased;
                end = way.ordered_end() => end,
                ended = directions => if ended.is_ok() { End::Closed } else { End::Reset },
            }
        };
        match end {
            End::Closed => {}
            End::Reset => {
                reset(self.client);
                reset(server);
            }
            End::Parted => {
                reset(self.client);
                there.end();
                // Whoever tries again has said by then what is late here, or gives up.
                let _ = timeout(PATIENCE, self.ledger.newer_said(self.number, there.held() as u64)).await;
                let way =
                    Carrier { orders: &self.orders, ledger: &self.ledger, number: self.number, first: &self.first };
                let (mut answers, to_server) = server.split();
                let delivered = way.write(&there, to_server, Side::Server).await;
                // Nobody hears what it answers; that it is heard keeps the connection whole for the server.
                if delivered.is_ok() {
                    let _ = timeout(FAREWELL, tokio::io::copy(&mut answers, &mut tokio::io::sink())).await;
                }
            }
        }
        self.ledger.dropped((there.held() + back.held()) as u64);
    }
}

/// Its peer learns at once that it is over.
fn reset(stream: TcpStream) {
    let _ = stream.set_zero_linger();
}

struct Carrier<'a> {
    orders: &'a watch::Receiver<Order>,
    ledger: &'a Ledger,
    number: u64,
    first: &'a Order,
}

impl Carrier<'_> {
    async fn ordered_end(&self) -> End {
        let mut orders = self.orders.clone();
        let due = |order: &Order| order.resets > self.first.resets || order.partings > self.first.partings;
        let Ok(order) = orders.wait_for(due).await.map(|order| *order) else {
            return End::Reset;
        };
        if order.resets > self.first.resets {
            self.ledger.reset();
            return End::Reset;
        }
        self.ledger.parted();
        End::Parted
    }

    fn closed(&self, order: &Order, to: Side) -> bool {
        order.closings(to) > self.first.closings(to)
    }

    /// Until `to` is to be told that nothing comes any more, though its peer has not said so.
    async fn closing(&self, to: Side) {
        let mut orders = self.orders.clone();
        if orders.wait_for(|order| self.closed(order, to)).await.is_err() {
            std::future::pending::<Infallible>().await;
        }
    }

    async fn read(&self, mut from: ReadHalf<'_>, queue: &Queue, to: Side) -> io::Result<()> {
        let mut buffer = BytesMut::with_capacity(READ);
        loop {
            queue.room().await;
            let read = tokio::select! {
                read = from.read_buf(&mut buffer) => read?,
                () = self.closing(to) => {
                    queue.end();
                    self.ledger.half_closed();
                    return swallow(from).await;
                }
            };
            if read == 0 {
                let other = match to {
                    Side::Server => Side::Client,
                    Side::Client => Side::Server,
                };
                if self.closed(&self.orders.borrow(), other) {
                    // A farewell to somebody who is to believe that all is as ever.
                    return std::future::pending().await;
                }
                queue.end();
                return Ok(());
            }
            let pace = *self.orders.borrow().pace(to);
            if pace.loses_one_in.is_some_and(|one_in| self.ledger.loses(one_in)) {
                return Err(io::ErrorKind::ConnectionReset.into());
            }
            self.ledger.took(read as u64);
            queue.push(buffer.split().freeze(), pace.delay);
            buffer.reserve(READ);
        }
    }

    async fn write(&self, queue: &Queue, mut into: WriteHalf<'_>, to: Side) -> io::Result<()> {
        let mut orders = self.orders.clone();
        // How long what is written was held up by orders, and by nothing else.
        let mut stood = Duration::ZERO;
        while let Some(chunk) = queue.front().await {
            let now = Instant::now();
            if chunk.due > now {
                sleep_until(chunk.due).await;
                continue;
            }
            let pace = *orders.borrow_and_update().pace(to);
            if pace.stalled {
                let _ = orders.changed().await;
                stood += now.elapsed();
                continue;
            }
            let piece = pace.trickle.map_or(chunk.bytes.len(), |trickle| trickle.bytes.min(chunk.bytes.len()));
            let written = into.write(&chunk.bytes[..piece]).await?;
            queue.advance(written);
            let pause = pace.trickle.map_or(Duration::ZERO, |trickle| trickle.pause);
            self.ledger.gave(self.number, to, written as u64, stood + pause + (chunk.due - chunk.read));
            stood = Duration::ZERO;
            if !pause.is_zero() {
                sleep(pause).await;
            }
        }
        into.shutdown().await
    }
}

/// Until its sender gives the connection up.
async fn swallow(mut from: ReadHalf<'_>) -> io::Result<()> {
    tokio::io::copy(&mut from, &mut tokio::io::sink()).await?;
    Err(io::ErrorKind::ConnectionReset.into())
}
