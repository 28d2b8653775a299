//! Accepts on every listener and looks after the connections until the broker stops.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;
use std::{fmt, io};

use futures_util::FutureExt;
use parking_lot::Mutex;

use super::budget::RequestBudget;
use super::connection::{self, End, Held, Shared};
use super::ebb::{self, Ebb};
use super::listener::{Incoming, Listener, OpenStream};
use super::quotas::{ConnectionQuotas, Place};
use super::stranger::{self, LogLimiter};
use super::thread::Thread;
use crate::api::{Connection, Services};
use crate::spawn::{Shutdown, ShutdownTrigger, Spawner, panic_text};

/// How long accepting rests after an error that is not one connection's (no descriptors left).
const REST: Duration = Duration::from_millis(100);

/// Between two looks for connections that are idle: each looks at all of them.
const LOOK_MS: i64 = 100;

/// Connections that are held until they are closed; further ones are closed at once.
const TURNED_AWAY_MOST: usize = 1_000;

/// How long requests under way may take once the broker stops.
const STOP_LIMIT: Duration = Duration::from_secs(3);

/// All listeners of a broker and their connections.
pub struct Server {
    shared: Shared,
    quotas: Arc<ConnectionQuotas>,
    /// Connections that wait to be closed.
    turned_away: AtomicUsize,
    ebb: Arc<Ebb>,
    spawner: Arc<dyn Spawner>,
    stop: Mutex<Option<ShutdownTrigger>>,
    next_id: AtomicU64,
    panics: AtomicU64,
    strangers: LogLimiter,
    refusals: LogLimiter,
}

/// A connection on its way to a thread, beside its stream. Boxed: a future has each of its arguments twice.
struct Visit {
    connection: Connection,
    /// As logged.
    peer: String,
    held: Held,
    place: Place,
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Server({} connections)", self.quotas.connections())
    }
}

impl Server {
    pub fn new(services: Arc<Services>, quotas: Arc<ConnectionQuotas>, spawner: Arc<dyn Spawner>) -> Arc<Server> {
        let (trigger, shutdown) = Shutdown::new();
        let budget = RequestBudget::new(services.config.queued_max_request_bytes);
        Arc::new(Server {
            shared: Shared { services, read_buffers: Arc::default(), file_buffers: Arc::default(), budget, shutdown },
            quotas,
            turned_away: AtomicUsize::new(0),
            ebb: Arc::default(),
            spawner,
            stop: Mutex::new(Some(trigger)),
            next_id: AtomicU64::new(0),
            panics: AtomicU64::new(0),
            strangers: LogLimiter::new(),
            refusals: LogLimiter::new(),
        })
    }

    /// Starts accepting on every listener.
    pub fn start(self: &Arc<Self>, listeners: Vec<Box<dyn Listener>>) -> io::Result<()> {
        for listener in &listeners {
            listener.start()?;
        }
        for listener in listeners {
            let server = self.clone();
            self.spawner.control(Box::pin(async move { server.accept(listener).await }));
        }
        let server = self.clone();
        self.spawner.control(Box::pin(async move { server.close_idle().await }));
        Ok(())
    }

    /// Connections open now.
    pub fn connections(&self) -> usize {
        self.quotas.connections()
    }

    /// Handlers that panicked; each cost one connection.
    pub fn panics(&self) -> u64 {
        self.panics.load(Ordering::Relaxed)
    }

    /// Stops accepting, lets requests under way be answered, closes. Does not wait for any of it.
    pub fn begin_stop(&self) {
        drop(self.stop.lock().take());
    }

    /// [`Server::begin_stop`], and returns when all is closed or after a few seconds.
    pub async fn stop(&self) {
        self.begin_stop();
        if tokio::time::timeout(STOP_LIMIT, self.quotas.none_left()).await.is_err() {
            tracing::warn!(connections = self.connections(), "requests are still under way and are cut off");
        }
    }

    async fn accept(self: Arc<Self>, listener: Box<dyn Listener>) {
        let name = listener.name();
        let shutdown = self.shared.shutdown.clone();
        let mut stopped = std::pin::pin!(shutdown.requested());
        loop {
            let accepted = tokio::select! {
                biased;
                () = &mut stopped => return,
                accepted = async {
                    self.quotas.below_max(&name).await;
                    let accepted = listener.accept().await?;
                    self.pace(&name).await;
                    // Another listener may have given the last place away meanwhile.
                    self.quotas.below_max(&name).await;
                    Ok::<_, io::Error>(accepted)
                } => accepted,
            };
            match accepted {
                Ok(incoming) => self.admit(incoming, &name),
                Err(error) => {
                    if let Some(held_back) = self.refusals.pass(self.now_ms()) {
                        tracing::error!(listener = %name, %error, held_back, "cannot accept connections");
                    }
                    tokio::time::sleep(REST).await;
                }
            }
        }
    }

    /// Tells connections to leave that have been idle for `connections.max.idle.ms`, until none is left of a broker that
    /// stops. One timer for all: with one of its own for each, every sleep of their threads would set one in the kernel.
    async fn close_idle(&self) {
        let limit_ms = self.shared.services.config.connections_max_idle_ms;
        if limit_ms <= 0 {
            return;
        }
        let mut done = std::pin::pin!(async {
            self.shared.shutdown.requested().await;
            self.quotas.none_left().await;
        });
        loop {
            let wait_ms = self.quotas.expire(limit_ms, self.now_ms()).max(LOOK_MS);
            tokio::select! {
                biased;
                () = &mut done => return,
                () = tokio::time::sleep(Duration::from_millis(wait_ms.unsigned_abs())) => {}
            }
        }
    }

    /// Holds a new connection, and its listener, back for as long as `max.connection.creation.rate` asks.
    async fn pace(&self, listener: &Arc<str>) {
        let wait_ms = self.quotas.came(listener, self.now_ms());
        if wait_ms > 0 {
            tokio::time::sleep(Duration::from_millis(wait_ms)).await;
        }
    }

    /// Whether the address has used up its `connection_creation_rate`: its new connection is closed when the rate allows
    /// for it again, so that it does not come back at once.
    fn turns_away(self: &Arc<Self>, incoming: Incoming, listener: &Arc<str>) -> Option<Incoming> {
        let wait_ms = self.shared.services.quotas.ips.connected(incoming.peer, self.now_ms());
        if wait_ms == 0 {
            return Some(incoming);
        }
        self.quotas.was_turned_away(listener, self.now_ms());
        if self.turned_away.fetch_add(1, Ordering::Relaxed) >= TURNED_AWAY_MOST {
            self.turned_away.fetch_sub(1, Ordering::Relaxed);
            return None;
        }
        let server = self.clone();
        self.spawner.data(Box::pin(async move {
            tokio::time::sleep(Duration::from_millis(wait_ms)).await;
            drop(incoming);
            server.turned_away.fetch_sub(1, Ordering::Relaxed);
        }));
        None
    }

    fn admit(self: &Arc<Self>, incoming: Incoming, listener: &Arc<str>) {
        let Some(incoming) = self.turns_away(incoming, listener) else { return };
        match self.quotas.take(incoming.peer, listener, self.now_ms()) {
            Ok(place) => {
                let id = self.next_id.fetch_add(1, Ordering::Relaxed);
                let of_controller =
                    self.shared.services.config.control_plane_listener_name.as_deref() == Some(&**listener);
                let visit = Visit {
                    connection: Connection::new(id, listener.clone(), incoming.peer, of_controller),
                    peer: incoming.peer_name,
                    held: Held::new(&self.shared),
                    place,
                };
                self.visit(Thread::Control, incoming.open, Box::new(visit));
            }
            Err(error) => {
                if let Some(held_back) = self.refusals.pass(self.now_ms()) {
                    tracing::info!(%listener, peer = incoming.peer_name, held_back, "connection rejected: {error}");
                }
            }
        }
    }

    /// Has the connection served on that thread, and on those it moves to.
    fn visit(self: &Arc<Self>, at: Thread, open: OpenStream, mut visit: Box<Visit>) {
        let server = self.clone();
        let task = Box::pin(async move {
            if let Some((to, open)) = server.serve(at, open, &mut visit).await {
                return server.visit(to, open, visit);
            }
            drop(visit);
            if server.ebb.went() {
                // It may end meanwhile, and its ports and threads with it.
                let there = Arc::downgrade(&server);
                drop(server);
                tokio::time::sleep(ebb::PAUSE).await;
                if let Some(server) = there.upgrade() {
                    let ebb = server.ebb.clone();
                    server.spawner.blocking(Box::new(move || ebb.look()));
                }
            }
        });
        match at {
            Thread::Control => self.spawner.control(task),
            Thread::Replicas => self.spawner.replicas(task),
            Thread::Lengthy => self.spawner.lengthy(task),
            Thread::Data => self.spawner.data(task),
        }
    }

    /// Answers where the connection goes on, if it does.
    async fn serve(&self, at: Thread, open: OpenStream, visit: &mut Visit) -> Option<(Thread, OpenStream)> {
        let Visit { connection, peer, held, place } = visit;
        let cannot = |error: io::Error| {
            tracing::warn!(listener = %connection.listener, peer, %error, "cannot serve a connection");
        };
        let mut stream = open().map_err(cannot).ok()?;
        let serving = connection::serve(&self.shared, connection, place.activity(), &mut stream, held, at);
        match AssertUnwindSafe(serving).catch_unwind().await {
            Ok(End::Moves(to)) => {
                return Some((to, stream.leave().map_err(cannot).ok()?));
            }
            Ok(end) => {
                let how = end.how();
                if let Some(follower) = connection.caller.ended(how)
                    && how.is_its_own()
                    && connection.of_follower.get() == Some(&true)
                {
                    self.shared.services.partitions.follower_left(follower);
                }
                self.report(connection, peer, end);
            }
            Err(panic) => {
                self.panics.fetch_add(1, Ordering::Relaxed);
                let panic = panic_text(panic.as_ref());
                tracing::error!(listener = %connection.listener, peer, "a request handler panicked: {panic}");
            }
        }
        None
    }

    /// One line where an operator or a client's developer needs one.
    fn report(&self, connection: &Connection, peer: &str, end: End) {
        let listener = &connection.listener;
        match end {
            End::Frame { error, begins, first } => {
                let Some(held_back) = self.strangers.pass(self.now_ms()) else { return };
                match stranger::likely_cause(&begins, listener).filter(|_| first) {
                    Some(cause) => tracing::warn!(%listener, peer, held_back, "connection closed: {cause}"),
                    None => tracing::warn!(%listener, peer, held_back, "connection closed: {error}"),
                }
            }
            End::Refused(reason) => {
                let Some(held_back) = self.strangers.pass(self.now_ms()) else { return };
                tracing::info!(%listener, peer, held_back, "connection closed: {reason}");
            }
            End::Displaced => {
                let Some(held_back) = self.refusals.pass(self.now_ms()) else { return };
                tracing::info!(%listener, peer, held_back, "connection closed: {end}");
            }
            End::TooLong(error) => tracing::error!(%listener, peer, "connection closed: {error}"),
            End::Io(_) | End::Idle(_) | End::Peer | End::PeerInsideRequest | End::Stopping | End::Moves(_) => {
                tracing::debug!(%listener, peer, "connection closed: {end}");
            }
        }
    }

    fn now_ms(&self) -> i64 {
        self.shared.services.clock.monotonic_ms()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size_of_future<'a, F>(_: impl FnOnce(&'a Server, Thread, OpenStream, &'a mut Visit) -> F) -> usize {
        size_of::<F>()
    }

    /// Thousands of connections wait inside it.
    #[test]
    fn what_serves_an_idle_connection_is_small() {
        let bytes = size_of_future(Server::serve);
        assert!(bytes <= 1_280, "{bytes} bytes");
    }
}
