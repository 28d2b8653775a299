//! One session: calls on the client of the moment, and the task that replaces it.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::{Semaphore, SemaphorePermit, oneshot, watch};
use zookeeper_client as zk;

use super::convert;
use super::way::Way;
use crate::metastore::schema::paths::PRODUCER_ID_BLOCK;
use crate::metastore::{CreateMode, Error, Metastore, MultiError, Op, OpResult, SessionState, Stat, Watch, path};

/// A server's default `jute.maxbuffer`, in bytes: it hangs up on a request of this size.
const REQUEST_LIMIT: usize = 0xfffff;
/// Bytes of a request beside paths and data, at most: headers, lengths, the open ACL.
const OVERHEAD_PER_OPERATION: usize = 80;
/// Before a login is tried again that a server refused.
const LOGIN_AGAIN: Duration = Duration::from_secs(10);

/// What the calls and the supervisor share.
struct Link {
    /// `None` once the session is closed or refused.
    client: Mutex<Option<zk::Client>>,
    /// Counts clients: grows when one was replaced, or for the last time when the session was refused.
    generation: watch::Sender<u64>,
    states: watch::Sender<SessionState>,
}

pub(super) struct Session {
    link: Arc<Link>,
    id: i64,
    chroot_len: usize,
    in_flight: Semaphore,
    /// Dropping it ends the supervisor.
    _open: oneshot::Sender<()>,
}

impl Session {
    /// The session, and its supervisor to be spawned.
    pub fn new(
        client: zk::Client,
        way: Arc<Way>,
        max_in_flight_requests: usize,
    ) -> (Session, impl Future<Output = ()> + Send + 'static) {
        let (open, closed) = oneshot::channel();
        let supervised = Supervised { session: client.session().clone(), states: client.state_watcher(), way };
        let chroot_len = supervised.way.to.chroot.as_ref().map_or(0, String::len);
        let id = client.session_id().0;
        let link = Arc::new(Link {
            client: Mutex::new(Some(client)),
            generation: watch::Sender::new(0),
            states: watch::Sender::new(SessionState::Connected),
        });
        let in_flight = Semaphore::new(max_in_flight_requests.max(1));
        let supervisor = supervised.run(link.clone(), closed);
        (Session { link, id, chroot_len, in_flight, _open: open }, supervisor)
    }

    fn client(&self) -> Result<(zk::Client, u64), Error> {
        let client = self.link.client.lock();
        let generation = *self.link.generation.borrow();
        client.clone().map(|client| (client, generation)).ok_or(Error::SessionExpired)
    }

    /// Waits for one of the places in flight, in the order of the calls.
    async fn place(&self) -> Result<SemaphorePermit<'_>, Error> {
        self.in_flight.acquire().await.map_err(|_| Error::Unknown)
    }

    /// Asks until answered: a read may be repeated.
    async fn read<T, Asked>(&self, path: &str, ask: impl Fn(zk::Client, String) -> Asked) -> Result<T, Error>
    where
        Asked: Future<Output = Result<T, zk::Error>> + Send,
    {
        path::validate(path, false)?;
        let _place = self.place().await?;
        loop {
            let (client, generation) = self.client()?;
            let states = client.state_watcher();
            match ask(client, path.to_owned()).await {
                Ok(answer) => return Ok(answer),
                Err(error) if !convert::is_lost(&error) => return Err(convert::error(error, path)),
                // The client ended: its successor, or nobody, will answer.
                Err(_) if states.peek_state().is_terminated() => {
                    let mut generations = self.link.generation.subscribe();
                    let _ = generations.wait_for(|now| *now > generation).await;
                }
                // The client is reconnecting: it keeps the next request until it has.
                Err(_) => tokio::task::yield_now().await,
            }
        }
    }

    fn check_size(&self, path: &str, ops: &[Op]) -> Result<(), Error> {
        let of = |op: &Op| {
            OVERHEAD_PER_OPERATION + self.chroot_len + convert::path(op).len() + convert::data(op).map_or(0, Bytes::len)
        };
        let bytes = ops.iter().map(of).sum();
        if bytes < REQUEST_LIMIT {
            return Ok(());
        }
        Err(Error::TooLarge { path: path.to_owned(), bytes, limit: REQUEST_LIMIT })
    }

    /// What can be known to be wrong without asking.
    fn check(&self, op: &Op) -> Result<(), Error> {
        let sequential = matches!(op, Op::Create { mode: CreateMode::PersistentSequential, .. });
        let path = convert::path(op);
        path::validate(path, sequential)?;
        match op {
            Op::Create { path, .. } if path == "/" && !sequential => Err(Error::NodeExists(path.clone())),
            Op::Create { path, data: None, .. } if path == PRODUCER_ID_BLOCK => {
                Err(Error::Other(format!("{path} cannot be made without data: Kafka takes empty data for broken")))
            }
            Op::Delete { path, .. } if path == "/" => Err(Error::BadPath(path.clone())),
            _ => self.check_size(path, std::slice::from_ref(op)),
        }
    }

    /// Carries out a checked write.
    async fn write<T, Asked>(&self, path: &str, ask: impl FnOnce(zk::Client) -> Asked) -> Result<T, Error>
    where
        Asked: Future<Output = Result<T, zk::Error>> + Send,
    {
        let _place = self.place().await?;
        let (client, _) = self.client()?;
        ask(client).await.map_err(|error| convert::error(error, path))
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // The last client of a session closes it.
        self.link.client.lock().take();
    }
}

/// What keeps the session alive.
struct Supervised {
    session: zk::SessionInfo,
    states: zk::StateWatcher,
    way: Arc<Way>,
}

impl Supervised {
    /// Until the session is dropped or refused.
    async fn run(mut self, link: Arc<Link>, mut closed: oneshot::Receiver<()>) {
        loop {
            let state = self.states.state();
            match state {
                zk::SessionState::Disconnected => link.state(SessionState::Disconnected),
                zk::SessionState::SyncConnected | zk::SessionState::ConnectedReadOnly => {
                    link.state(SessionState::Connected);
                }
                zk::SessionState::AuthFailed | zk::SessionState::Expired | zk::SessionState::Closed => {
                    link.state(SessionState::Disconnected);
                    let client = tokio::select! {
                        biased;
                        _ = &mut closed => return,
                        client = self.reopen() => client,
                    };
                    match client {
                        Some(client) => {
                            self.states = client.state_watcher();
                            if !link.replace(client, &mut closed) {
                                return;
                            }
                            link.state(SessionState::Connected);
                            if self.states.peek_state() != zk::SessionState::SyncConnected {
                                continue;
                            }
                        }
                        None => {
                            tracing::warn!(session = %self.session.id(), "ZooKeeper refused the session: it has expired");
                            return link.refuse();
                        }
                    }
                }
            }
            tokio::select! {
                _ = self.states.changed() => {}
                _ = &mut closed => return,
            }
        }
    }

    /// A new client with the old session; `None` when a server says that it is gone.
    async fn reopen(&self) -> Option<zk::Client> {
        loop {
            match self.way.resume(&self.session).await {
                Ok(client) => {
                    // The server may lag behind the one before: what was seen must stay seen.
                    let _ = catch_up(client.clone()).await;
                    return Some(client);
                }
                Err(zk::Error::SessionExpired) => return None,
                Err(error) => {
                    tracing::error!(session = %self.session.id(), %error, "ZooKeeper refuses to go on with the session");
                    tokio::time::sleep(LOGIN_AGAIN).await;
                }
            }
        }
    }
}

impl Link {
    fn state(&self, state: SessionState) {
        self.states.send_if_modified(|now| std::mem::replace(now, state) != state);
    }

    /// False when the session was closed meanwhile.
    fn replace(&self, client: zk::Client, closed: &mut oneshot::Receiver<()>) -> bool {
        let mut current = self.client.lock();
        if current.is_none() || !matches!(closed.try_recv(), Err(oneshot::error::TryRecvError::Empty)) {
            return false;
        }
        *current = Some(client);
        self.generation.send_modify(|generation| *generation += 1);
        true
    }

    fn refuse(&self) {
        let mut current = self.client.lock();
        *current = None;
        self.generation.send_modify(|generation| *generation += 1);
        self.state(SessionState::Expired);
    }
}

/// Returns when this client's server has all that was committed before: behind a transaction that changes nothing. A `sync`
/// is not enough: the leader does not let it wait for what followers have applied and it has not (seen on a 3.8).
async fn catch_up(client: zk::Client) -> Result<(), zk::Error> {
    let mut nothing = client.new_multi_writer();
    nothing.add_check_version("/", -1)?;
    match nothing.commit().await {
        // Refused, it has its place among the transactions all the same.
        Ok(_) | Err(zk::MultiWriteError::OperationFailed { .. }) => Ok(()),
        Err(zk::MultiWriteError::RequestFailed { source }) => Err(source),
    }
}

fn watch(watcher: zk::OneshotWatcher) -> Watch {
    Box::pin(async move {
        watcher.changed().await;
    })
}

#[async_trait]
impl Metastore for Session {
    async fn create(&self, path: &str, data: Option<Bytes>, mode: CreateMode) -> Result<String, Error> {
        self.check(&Op::Create { path: path.to_owned(), data: data.clone(), mode })?;
        let owned = path.to_owned();
        let data = data.unwrap_or_default();
        let (_, sequence) =
            self.write(path, |client| async move { client.create(&owned, &data, &convert::mode(mode)).await }).await?;
        match mode {
            CreateMode::PersistentSequential => Ok(format!("{path}{sequence}")),
            _ => Ok(path.to_owned()),
        }
    }

    async fn get(&self, path: &str) -> Result<(Bytes, Stat), Error> {
        let (data, stat) = self.read(path, |client, path| async move { client.get_data(&path).await }).await?;
        Ok((data.into(), convert::stat(stat)))
    }

    async fn get_watch(&self, path: &str) -> Result<(Bytes, Stat, Watch), Error> {
        let read = self.read(path, |client, path| async move { client.get_and_watch_data(&path).await });
        let (data, stat, watcher) = read.await?;
        Ok((data.into(), convert::stat(stat), watch(watcher)))
    }

    async fn exists(&self, path: &str) -> Result<Option<Stat>, Error> {
        let stat = self.read(path, |client, path| async move { client.check_stat(&path).await }).await?;
        Ok(stat.map(convert::stat))
    }

    async fn exists_watch(&self, path: &str) -> Result<(Option<Stat>, Watch), Error> {
        let read = self.read(path, |client, path| async move { client.check_and_watch_stat(&path).await });
        let (stat, watcher) = read.await?;
        Ok((stat.map(convert::stat), watch(watcher)))
    }

    async fn children(&self, path: &str) -> Result<Vec<String>, Error> {
        self.read(path, |client, path| async move { client.list_children(&path).await }).await
    }

    async fn children_watch(&self, path: &str) -> Result<(Vec<String>, Watch), Error> {
        let read = self.read(path, |client, path| async move { client.list_and_watch_children(&path).await });
        let (names, watcher) = read.await?;
        Ok((names, watch(watcher)))
    }

    async fn set(&self, path: &str, data: Bytes, version: i32) -> Result<Stat, Error> {
        self.check(&Op::Set { path: path.to_owned(), data: data.clone(), version })?;
        let owned = path.to_owned();
        self.write(path, |client| async move { client.set_data(&owned, &data, convert::version(version)).await })
            .await
            .map(convert::stat)
    }

    async fn delete(&self, path: &str, version: i32) -> Result<(), Error> {
        self.check(&Op::Delete { path: path.to_owned(), version })?;
        let owned = path.to_owned();
        self.write(path, |client| async move { client.delete(&owned, convert::version(version)).await }).await
    }

    async fn multi(&self, ops: Vec<Op>) -> Result<Vec<OpResult>, MultiError> {
        let Some(first) = ops.first() else { return Ok(Vec::new()) };
        let at = |index: usize| move |error| MultiError { index, error };
        self.check_size(convert::path(first), &ops).map_err(at(0))?;
        for (index, op) in ops.iter().enumerate() {
            match self.check(op) {
                // Whether it exists is for the server to say, after the operations before.
                Err(Error::NodeExists(_)) | Ok(()) => {}
                Err(error) => return Err(MultiError { index, error }),
            }
        }
        let _place = self.place().await.map_err(at(0))?;
        let (client, _) = self.client().map_err(at(0))?;
        let mut writer = client.new_multi_writer();
        for (index, op) in ops.iter().enumerate() {
            let added = match op {
                Op::Check { path, version } => writer.add_check_version(path, *version),
                Op::Create { path, data, mode } => {
                    writer.add_create(path, data.as_deref().unwrap_or_default(), &convert::mode(*mode))
                }
                Op::Set { path, data, version } => writer.add_set_data(path, data, convert::version(*version)),
                Op::Delete { path, version } => writer.add_delete(path, convert::version(*version)),
            };
            added.map_err(|error| MultiError { index, error: convert::error(error, convert::path(op)) })?;
        }
        let committed = writer.commit().await;
        match committed {
            Ok(results) => Ok(results.into_iter().map(convert::result).collect()),
            Err(zk::MultiWriteError::OperationFailed { index, source }) => {
                let path = ops.get(index).map_or("", convert::path);
                Err(MultiError { index, error: convert::error(source, path) })
            }
            Err(zk::MultiWriteError::RequestFailed { source }) => {
                Err(MultiError { index: 0, error: convert::error(source, convert::path(first)) })
            }
        }
    }

    async fn sync(&self, path: &str) -> Result<(), Error> {
        self.read(path, |client, _| catch_up(client)).await
    }

    fn session_id(&self) -> i64 {
        self.id
    }

    fn session_states(&self) -> watch::Receiver<SessionState> {
        self.link.states.subscribe()
    }

    fn keeps_null(&self) -> bool {
        false
    }
}
