//! The tree of a world as a ZooKeeper that is reached over a network: answers and news take their time, in their order;
//! connections are lost while requests are under way; a client that is not heard of for its session's time has lost the
//! session, and learns of it from the server alone.
//!
//! ```text
//! cut, or the process stands ─┬─ the server: no ping for the session's time ──► the session ends
//!                             └─ the client: after up to two thirds of that ──► Disconnected: what was asked is unknown,
//!                                heard again ──► Connected, or Expired             what was watched is to be read again
//! ```

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::meddler::Meddling;
use super::process::Life;
use super::trace::Trace;
use super::traced::TracedSession;
use crate::metastore::embedded::EmbeddedStore;
use crate::metastore::{CreateMode, Error, Metastore, MultiError, Op, OpResult, SessionState, Sessions, Stat, Watch};
use crate::random::{Random, SeededRandom};

/// How long a client tries to open a session: Kafka's `zookeeper.connection.timeout.ms`.
const PATIENCE: Duration = Duration::from_secs(18);

/// The servers, and who reaches them.
pub struct SimZooKeeper {
    tree: Arc<EmbeddedStore>,
    trace: Trace,
    meddling: Meddling,
    random: SeededRandom,
    /// One way takes up to so many ms, exclusive.
    up_to_ms: u64,
    session: Duration,
    /// By broker: whether its machine is cut off.
    cut: Mutex<BTreeMap<i32, watch::Sender<bool>>>,
    /// Sessions that are open, with their brokers.
    open: Mutex<BTreeMap<i64, i32>>,
}

impl SimZooKeeper {
    /// Sessions last `session` after the last that was heard of their clients.
    pub(super) fn new(
        tree: Arc<EmbeddedStore>,
        trace: Trace,
        meddling: Meddling,
        random: SeededRandom,
        up_to_ms: u64,
        session: Duration,
    ) -> Arc<SimZooKeeper> {
        let (cut, open) = Default::default();
        Arc::new(SimZooKeeper { tree, trace, meddling, random, up_to_ms, session, cut, open })
    }

    fn machine(&self, broker: i32) -> watch::Sender<bool> {
        self.cut.lock().entry(broker).or_default().clone()
    }

    /// No byte passes between the servers and this broker's machine, until [`SimZooKeeper::heal`].
    pub fn cut(&self, broker: i32) {
        self.machine(broker).send_replace(true);
    }

    pub fn heal(&self, broker: i32) {
        self.machine(broker).send_replace(false);
    }

    /// The servers end all sessions of this broker. Answers how many.
    pub async fn expire(&self, broker: i32) -> usize {
        let sessions: Vec<i64> =
            self.open.lock().iter().filter(|(_, of)| **of == broker).map(|(session, _)| *session).collect();
        for session in &sessions {
            self.end(*session).await;
        }
        sessions.len()
    }

    async fn end(&self, session: i64) {
        if let Some(broker) = self.open.lock().remove(&session) {
            self.trace.note(format_args!("session {session} of {broker} expires"));
        }
        // An error means that it has ended before.
        let _ = self.tree.expire(session).await;
    }

    fn way(&self) -> Duration {
        Duration::from_millis(self.random.below(self.up_to_ms))
    }

    /// What a process of this broker opens sessions with.
    pub(super) fn of_process(self: &Arc<Self>, broker: i32, life: watch::Receiver<Life>) -> SimSessions {
        SimSessions { zookeeper: self.clone(), broker, heard: Heard { cut: self.machine(broker).subscribe(), life } }
    }
}

/// Whether a process is heard by the servers.
#[derive(Clone)]
struct Heard {
    cut: watch::Receiver<bool>,
    life: watch::Receiver<Life>,
}

impl Heard {
    fn is(&self) -> bool {
        !*self.cut.borrow() && *self.life.borrow() == Life::Runs
    }

    fn is_dead(&self) -> bool {
        *self.life.borrow() == Life::Dead
    }

    /// Until it is, or is not.
    async fn until(&mut self, wanted: bool) {
        while self.is() != wanted {
            tokio::select! {
                biased;
                // Errors mean that the world is over.
                Ok(()) = self.cut.changed() => {}
                Ok(()) = self.life.changed() => {}
                else => std::future::pending().await,
            }
        }
    }
}

/// Opens sessions of one process.
pub(super) struct SimSessions {
    zookeeper: Arc<SimZooKeeper>,
    broker: i32,
    heard: Heard,
}

#[async_trait]
impl Sessions for SimSessions {
    async fn open_session(&self) -> Result<Arc<dyn Metastore>, Error> {
        if timeout(PATIENCE, self.heard.clone().until(true)).await.is_err() {
            return Err(Error::Other(format!("no ZooKeeper within {} ms", PATIENCE.as_millis())));
        }
        sleep(self.zookeeper.way()).await;
        let inner = self.zookeeper.tree.session();
        let id = inner.session_id();
        self.zookeeper.open.lock().insert(id, self.broker);
        let ended = inner.session_states();
        let (trace, meddling) = (self.zookeeper.trace.clone(), self.zookeeper.meddling.clone());
        let server = TracedSession { who: self.broker, inner, trace, meddling };
        let session = Arc::new(Connected {
            zookeeper: self.zookeeper.clone(),
            id,
            heard: self.heard.clone(),
            server: Mutex::new(Some(Arc::new(server))),
            states: watch::Sender::new(SessionState::Connected),
            losses: watch::Sender::new(0),
            closed: watch::Sender::new(false),
            order: tokio::sync::Mutex::new(()),
            last: Mutex::new(Instant::now()),
        });
        tokio::spawn(serve(session.clone()));
        tokio::spawn(stay(session.clone(), ended));
        Ok(Arc::new(SimSession(session)))
    }
}

/// What client and server know of a session.
struct Connected {
    zookeeper: Arc<SimZooKeeper>,
    id: i64,
    heard: Heard,
    /// The server's end; dropping it closes the session.
    server: Mutex<Option<Arc<TracedSession>>>,
    /// As the client knows it.
    states: watch::Sender<SessionState>,
    /// How often it has lost its connection.
    losses: watch::Sender<u64>,
    /// By the client.
    closed: watch::Sender<bool>,
    /// Requests reach the server in their order.
    order: tokio::sync::Mutex<()>,
    /// When the last answer or news arrives: none overtakes another.
    last: Mutex<Instant>,
}

/// Until something is so, or nobody is left to say it.
async fn becomes<T: PartialEq>(told: &mut watch::Receiver<T>, wanted: T) {
    let _ = told.wait_for(|now| *now == wanted).await;
}

/// The server's side.
async fn serve(session: Arc<Connected>) {
    let (mut heard, mut closed) = (session.heard.clone(), session.closed.subscribe());
    loop {
        tokio::select! {
            biased;
            () = becomes(&mut closed, true) => break,
            () = heard.until(false) => {}
        }
        if timeout(session.zookeeper.session, heard.until(true)).await.is_err() {
            session.zookeeper.end(session.id).await;
            session.server.lock().take();
            return;
        }
    }
    if heard.is() {
        session.zookeeper.open.lock().remove(&session.id);
    } else {
        // Nobody was told: it is silent.
        sleep(session.zookeeper.session).await;
        session.zookeeper.end(session.id).await;
    }
    session.server.lock().take();
}

/// The client's side.
async fn stay(session: Arc<Connected>, mut ended: watch::Receiver<SessionState>) {
    let (mut heard, mut closed) = (session.heard.clone(), session.closed.subscribe());
    loop {
        let zookeeper = &session.zookeeper;
        tokio::select! {
            biased;
            () = becomes(&mut closed, true) => return,
            // The server hangs up.
            () = becomes(&mut ended, SessionState::Expired) => sleep(zookeeper.way()).await,
            () = heard.until(false) => {
                let unnoticed_ms = u64::try_from(zookeeper.session.as_millis()).unwrap_or(0) * 2 / 3;
                let unnoticed = Duration::from_millis(zookeeper.random.below(unnoticed_ms + 1));
                if timeout(unnoticed, heard.until(true)).await.is_ok() {
                    continue;
                }
            }
        }
        if heard.is_dead() {
            return;
        }
        session.states.send_replace(SessionState::Disconnected);
        session.losses.send_modify(|losses| *losses += 1);
        heard.until(true).await;
        sleep(zookeeper.way()).await;
        if *ended.borrow() == SessionState::Expired {
            session.states.send_replace(SessionState::Expired);
            return;
        }
        session.states.send_replace(SessionState::Connected);
    }
}

/// A connection was lost before the answer came.
struct Lost;

impl Connected {
    /// Until its connection after `losses` losses is lost.
    async fn is_lost(&self, losses: u64) {
        // An error means that nobody is left to ask.
        let _ = self.losses.subscribe().wait_for(|now| *now != losses).await;
    }

    /// Waits until what is sent now, one way, has arrived.
    async fn pass(&self, losses: u64, arrives: Instant) -> Result<(), Lost> {
        let mut heard = self.heard.clone();
        let passes = async {
            sleep_until(arrives).await;
            heard.until(true).await;
        };
        tokio::select! {
            biased;
            () = self.is_lost(losses) => Err(Lost),
            () = passes => Ok(()),
        }
    }

    /// As [`Connected::pass`], from the server and behind what it sent before.
    async fn arrive(&self, losses: u64) -> Result<(), Lost> {
        // News that the same change makes come first.
        tokio::task::yield_now().await;
        let arrives = {
            let mut last = self.last.lock();
            *last = (*last).max(Instant::now() + self.zookeeper.way());
            *last
        };
        self.pass(losses, arrives).await
    }

    /// Waits until the client is connected, and answers its losses so far.
    async fn connection(&self) -> Result<u64, Error> {
        let mut states = self.states.subscribe();
        match states.wait_for(|state| *state != SessionState::Disconnected).await {
            Ok(state) if *state == SessionState::Connected => Ok(*self.losses.borrow()),
            _ => Err(Error::SessionExpired),
        }
    }

    /// Asks once: `Lost` where it is not known whether that was carried out.
    async fn ask<T, Asked>(&self, ask: impl FnOnce(Arc<TracedSession>) -> Asked) -> Result<Result<T, Lost>, Error>
    where
        Asked: Future<Output = T>,
    {
        let order = self.order.lock().await;
        let losses = self.connection().await?;
        if self.pass(losses, Instant::now() + self.zookeeper.way()).await.is_err() {
            return Ok(Err(Lost));
        }
        let server = self.server.lock().clone().ok_or(Error::SessionExpired)?;
        let answer = ask(server).await;
        drop(order);
        Ok(self.arrive(losses).await.map(|()| answer))
    }

    async fn read<T, Asked>(&self, ask: impl Fn(Arc<TracedSession>) -> Asked) -> Result<T, Error>
    where
        Asked: Future<Output = Result<T, Error>>,
    {
        loop {
            if let Ok(answer) = self.ask(&ask).await? {
                return answer;
            }
        }
    }

    async fn write<T, Asked>(&self, ask: impl FnOnce(Arc<TracedSession>) -> Asked) -> Result<T, Error>
    where
        Asked: Future<Output = Result<T, Error>>,
    {
        self.ask(ask).await?.unwrap_or(Err(Error::Unknown))
    }
}

/// The client's handle.
struct SimSession(Arc<Connected>);

impl SimSession {
    fn watch(&self, watch: Watch) -> Watch {
        let session = self.0.clone();
        let losses = *session.losses.borrow();
        Box::pin(async move {
            tokio::select! {
                biased;
                () = session.is_lost(losses) => {}
                () = watch => {
                    // Lost or arrived: to be read again.
                    let _ = session.arrive(losses).await;
                }
            }
        })
    }
}

impl Drop for SimSession {
    fn drop(&mut self) {
        self.0.closed.send_replace(true);
    }
}

#[async_trait]
impl Metastore for SimSession {
    async fn create(&self, path: &str, data: Option<Bytes>, mode: CreateMode) -> Result<String, Error> {
        self.0.write(|server| async move { server.create(path, data, mode).await }).await
    }
    async fn get(&self, path: &str) -> Result<(Bytes, Stat), Error> {
        self.0.read(|server| async move { server.get(path).await }).await
    }
    async fn get_watch(&self, path: &str) -> Result<(Bytes, Stat, Watch), Error> {
        let (data, stat, watch) = self.0.read(|server| async move { server.get_watch(path).await }).await?;
        Ok((data, stat, self.watch(watch)))
    }
    async fn exists(&self, path: &str) -> Result<Option<Stat>, Error> {
        self.0.read(|server| async move { server.exists(path).await }).await
    }
    async fn exists_watch(&self, path: &str) -> Result<(Option<Stat>, Watch), Error> {
        let (stat, watch) = self.0.read(|server| async move { server.exists_watch(path).await }).await?;
        Ok((stat, self.watch(watch)))
    }
    async fn children(&self, path: &str) -> Result<Vec<String>, Error> {
        self.0.read(|server| async move { server.children(path).await }).await
    }
    async fn children_watch(&self, path: &str) -> Result<(Vec<String>, Watch), Error> {
        let (names, watch) = self.0.read(|server| async move { server.children_watch(path).await }).await?;
        Ok((names, self.watch(watch)))
    }
    async fn set(&self, path: &str, data: Bytes, version: i32) -> Result<Stat, Error> {
        self.0.write(|server| async move { server.set(path, data, version).await }).await
    }
    async fn delete(&self, path: &str, version: i32) -> Result<(), Error> {
        self.0.write(|server| async move { server.delete(path, version).await }).await
    }
    async fn multi(&self, ops: Vec<Op>) -> Result<Vec<OpResult>, MultiError> {
        let asked = self.0.ask(|server| async move { server.multi(ops).await }).await;
        let unknown = |error| MultiError { index: 0, error };
        asked.map_err(unknown)?.unwrap_or(Err(unknown(Error::Unknown)))
    }
    async fn sync(&self, path: &str) -> Result<(), Error> {
        self.0.read(|server| async move { server.sync(path).await }).await
    }
    fn session_id(&self) -> i64 {
        self.0.id
    }
    fn session_states(&self) -> watch::Receiver<SessionState> {
        self.0.states.subscribe()
    }
}
