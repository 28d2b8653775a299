//! The queue, the committer and the end of the store when its disk fails.

use std::collections::{HashMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use parking_lot::Mutex;
use tokio::sync::{oneshot, watch};

use crate::clock::Clock;
use crate::metastore::{Error, Metastore, MultiError, Op, OpResult, SessionState, Sessions};
use crate::spawn::Spawner;
use crate::storage::disk::Disk;

use super::codec::{ChangeRef, put_transaction};
use super::files::{Files, OpenError, encode_snapshot};
use super::session::Session;
use super::tree::Tree;
use super::watches::WatchId;

/// Something to do with the tree, then something to do when what it saw is durable (or, `Err`, will never be).
type Job = Box<dyn FnOnce(&mut State, &mut Batch) -> Finish + Send>;
type Finish = Box<dyn FnOnce(Result<(), Error>) + Send>;

/// What one fsync makes durable.
#[derive(Default)]
pub(super) struct Batch {
    now_ms: i64,
    transactions: Vec<u8>,
    /// Watches to complete once it is.
    triggered: Vec<oneshot::Sender<()>>,
}

/// Behind the lock, which is never held across I/O.
pub(super) struct State {
    pub tree: Tree,
    pub watchers: HashMap<WatchId, oneshot::Sender<()>>,
    sessions: HashMap<i64, watch::Sender<SessionState>>,
    queue: VecDeque<Job>,
    /// A committer is queued or running: jobs wait for it.
    committing: bool,
    /// Set for good when the journal failed.
    failed: Option<Arc<str>>,
}

/// The store. Open it once per directory; each user of it opens a session.
pub struct EmbeddedStore {
    state: Mutex<State>,
    clock: Arc<dyn Clock>,
    durable: Option<Durable>,
    /// Why the journal failed, once it has.
    end: watch::Sender<Option<Arc<str>>>,
}

struct Durable {
    files: Mutex<Files>,
    spawner: Arc<dyn Spawner>,
}

/// What a simulation may want otherwise.
#[derive(Clone, Copy, Debug)]
pub struct OpenOptions {
    /// Bytes of journal that are worth a new snapshot, if they are also twice the old one's.
    pub compact_above: u64,
    /// Bytes of zeros that the journal is made longer by when it is full.
    pub grow_by: usize,
}

impl Default for OpenOptions {
    fn default() -> OpenOptions {
        OpenOptions { compact_above: 4 << 20, grow_by: 256 << 10 }
    }
}

impl EmbeddedStore {
    /// A store that lives in memory alone.
    pub fn in_memory(clock: Arc<dyn Clock>) -> Arc<EmbeddedStore> {
        let mut tree = Tree::default();
        tree.begin_epoch();
        Arc::new(EmbeddedStore::new(tree, clock, None))
    }

    /// Whether a store lies in `dir`.
    pub fn exists(disk: &dyn Disk, dir: &Path) -> Result<bool, OpenError> {
        Files::exist(disk, dir)
    }

    /// Opens the store in the first of `log_dirs`, whose lock the caller holds, or makes it when none of them holds data
    /// yet. Blocks: it reads and syncs files.
    pub fn open(
        disk: Arc<dyn Disk>,
        log_dirs: &[PathBuf],
        clock: Arc<dyn Clock>,
        spawner: Arc<dyn Spawner>,
    ) -> Result<Arc<EmbeddedStore>, OpenError> {
        EmbeddedStore::open_with(disk, log_dirs, clock, spawner, OpenOptions::default())
    }

    /// [`EmbeddedStore::open`], tuned.
    pub fn open_with(
        disk: Arc<dyn Disk>,
        log_dirs: &[PathBuf],
        clock: Arc<dyn Clock>,
        spawner: Arc<dyn Spawner>,
        options: OpenOptions,
    ) -> Result<Arc<EmbeddedStore>, OpenError> {
        let Some(dir) = log_dirs.first() else {
            return Err(OpenError::Foreign("no log directory to keep the metastore in".to_owned()));
        };
        if !Files::exist(&*disk, dir)? {
            for dir in log_dirs {
                super::files::refuse_foreign(&*disk, dir)?;
            }
        }
        let (files, tree) = Files::open(disk, dir, clock.wall_ms(), options)?;
        Ok(Arc::new(EmbeddedStore::new(tree, clock, Some(Durable { files: Mutex::new(files), spawner }))))
    }

    fn new(tree: Tree, clock: Arc<dyn Clock>, durable: Option<Durable>) -> EmbeddedStore {
        let state = State {
            tree,
            watchers: HashMap::new(),
            sessions: HashMap::new(),
            queue: VecDeque::new(),
            committing: false,
            failed: None,
        };
        EmbeddedStore { state: Mutex::new(state), clock, durable, end: watch::Sender::new(None) }
    }

    /// Completes with the reason when the store has ended for good: its journal failed.
    pub async fn failed(&self) -> Arc<str> {
        let mut end = self.end.subscribe();
        match end.wait_for(Option::is_some).await.map(|why| why.clone()) {
            Ok(Some(why)) => why,
            // The sender is this store's.
            _ => std::future::pending().await,
        }
    }

    /// A new session.
    pub fn session(self: &Arc<EmbeddedStore>) -> Arc<dyn Metastore> {
        let mut state = self.state.lock();
        let id = state.tree.open_session();
        let first = if state.failed.is_some() { SessionState::Disconnected } else { SessionState::Connected };
        let states = watch::Sender::new(first);
        state.sessions.insert(id, states.clone());
        Arc::new(Session::new(self.clone(), id, states))
    }

    /// Ends a session as ZooKeeper does when its client was silent too long: its ephemerals vanish and its calls fail
    /// with [`Error::SessionExpired`]. For simulations.
    pub async fn expire(self: &Arc<EmbeddedStore>, session: i64) -> Result<(), Error> {
        self.submit(true, move |state, batch| state.close_session(session, batch)).await
    }

    /// Closes without waiting, when the session's handle is dropped.
    pub(super) fn close(self: &Arc<EmbeddedStore>, session: i64) {
        self.enqueue(
            true,
            Box::new(move |state, batch| {
                state.close_session(session, batch);
                Box::new(|_| ())
            }),
        );
    }

    /// Runs `work` on the tree after everything submitted before, and returns when what it saw is durable.
    pub(super) async fn submit<T: Send + 'static>(
        self: &Arc<EmbeddedStore>,
        writes: bool,
        work: impl FnOnce(&mut State, &mut Batch) -> T + Send + 'static,
    ) -> Result<T, Error> {
        let (reply, answer) = oneshot::channel();
        self.enqueue(
            writes,
            Box::new(move |state, batch| {
                let result = work(state, batch);
                Box::new(move |durable| {
                    let _ = reply.send(durable.map(|()| result));
                })
            }),
        );
        answer.await.unwrap_or(Err(Error::Unknown))
    }

    pub(super) fn unwatch(&self, id: WatchId) {
        let mut state = self.state.lock();
        state.watchers.remove(&id);
        state.tree.unwatch(id);
    }

    fn enqueue(self: &Arc<EmbeddedStore>, writes: bool, job: Job) {
        let mut state = self.state.lock();
        if let Some(why) = state.failed.clone() {
            drop(state);
            let (mut state, mut batch) = (State::failed(why.clone()), Batch::default());
            return job(&mut state, &mut batch)(Err(Error::Other(why.to_string())));
        }
        match &self.durable {
            Some(durable) if writes || state.committing => {
                state.queue.push_back(job);
                if !std::mem::replace(&mut state.committing, true) {
                    drop(state);
                    let store = self.clone();
                    durable.spawner.blocking(Box::new(move || store.commit()));
                }
            }
            _ => {
                let mut batch = Batch { now_ms: self.clock.wall_ms(), ..Batch::default() };
                let finish = job(&mut state, &mut batch);
                drop(state);
                batch.finish([finish], Ok(()));
            }
        }
    }

    /// The committer: one batch after another until the queue is empty.
    fn commit(&self) {
        let Some(durable) = &self.durable else { return };
        let mut files = durable.files.lock();
        loop {
            let mut batch = Batch { now_ms: self.clock.wall_ms(), ..Batch::default() };
            let finishes: Vec<Finish> = {
                let mut state = self.state.lock();
                let jobs = std::mem::take(&mut state.queue);
                if jobs.is_empty() {
                    state.committing = false;
                    return;
                }
                jobs.into_iter().map(|job| job(&mut state, &mut batch)).collect()
            };
            let result = match batch.transactions.as_slice() {
                [] => Ok(()),
                transactions => files.append(transactions).map_err(|error| error.to_string()),
            };
            match result {
                Ok(()) => batch.finish(finishes, Ok(())),
                Err(why) => {
                    self.fail(&why);
                    return batch.finish(finishes, Err(Error::Unknown));
                }
            }
            if files.wants_compaction() {
                let (snapshot, zxid) = {
                    let state = self.state.lock();
                    (encode_snapshot(&state.tree), state.tree.zxid())
                };
                if let Err(error) = files.compact(&snapshot, zxid) {
                    return self.fail(&error.to_string());
                }
            }
        }
    }

    /// The journal cannot be trusted any more: every call from now on fails, those queued too.
    fn fail(&self, why: &str) {
        let why: Arc<str> = format!("the metastore's journal failed: {why}").into();
        tracing::error!("{why}");
        let (jobs, mut dead) = {
            let mut state = self.state.lock();
            let jobs = std::mem::take(&mut state.queue);
            let dead = std::mem::replace(&mut *state, State::failed(why.clone()));
            (jobs, dead)
        };
        for states in dead.sessions.values() {
            states.send_replace(SessionState::Disconnected);
        }
        for job in jobs {
            job(&mut dead, &mut Batch::default())(Err(Error::Other(why.to_string())));
        }
        self.end.send_replace(Some(why));
    }
}

#[async_trait]
impl Sessions for Arc<EmbeddedStore> {
    async fn open_session(&self) -> Result<Arc<dyn Metastore>, Error> {
        Ok(self.session())
    }
}

impl Batch {
    /// Watches first: whoever sees the new state has been told of the change.
    fn finish(self, finishes: impl IntoIterator<Item = Finish>, result: Result<(), Error>) {
        for watcher in self.triggered {
            let _ = watcher.send(());
        }
        for finish in finishes {
            finish(result.clone());
        }
    }
}

impl State {
    fn failed(why: Arc<str>) -> State {
        State {
            tree: Tree::default(),
            watchers: HashMap::new(),
            sessions: HashMap::new(),
            queue: VecDeque::new(),
            committing: false,
            failed: Some(why),
        }
    }

    pub fn apply(&mut self, session: i64, ops: &[Op], batch: &mut Batch) -> Result<Vec<OpResult>, MultiError> {
        let applied = self.tree.apply(session, ops, batch.now_ms)?;
        put_transaction(&mut batch.transactions, self.tree.zxid(), batch.now_ms, session, ChangeRef::Multi(ops));
        self.trigger(applied.triggered, batch);
        Ok(applied.results)
    }

    fn close_session(&mut self, session: i64, batch: &mut Batch) {
        if !self.tree.has_session(session) {
            return;
        }
        let triggered = self.tree.close_session(session);
        put_transaction(&mut batch.transactions, self.tree.zxid(), batch.now_ms, session, ChangeRef::SessionClosed);
        self.trigger(triggered, batch);
        if let Some(states) = self.sessions.remove(&session) {
            states.send_replace(SessionState::Expired);
        }
    }

    fn trigger(&mut self, triggered: Vec<WatchId>, batch: &mut Batch) {
        batch.triggered.extend(triggered.iter().filter_map(|id| self.watchers.remove(id)));
    }
}
