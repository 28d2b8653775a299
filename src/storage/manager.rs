//! All logs of a broker over all its log directories: load, create, delete, checkpoints, retention, offline directories.
//!
//! Loading and the orderly stop live in `loading`, what the timer asks for in `due`, compaction in `cleaning`, moves between
//! directories in `moves`, where new logs go in `places`, which lives of the broker are over in `sessions`.

mod cleaning;
mod due;
mod loading;
mod moves;
mod places;
mod sessions;

pub use self::cleaning::CleanOutcome;
pub use moves::{CopyLimit, MoveError};

use std::collections::{BTreeMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwap;
use parking_lot::{Mutex, RwLock, RwLockReadGuard};

use self::cleaning::Cleaning;
use self::due::Due;
use self::moves::Moves;
use self::places::Places;
use super::disk::{Disk, DiskSpace};
use super::file_cache::{FileCache, FileHome};
use super::log::Log;
use super::log_dir::{LogDir, OfflineWatcher, Surroundings};
use super::meta_properties::MetaProperties;
use super::one_at_a_time::{Held, OneAtATime};
use super::partition_dir::{self, PartitionDirName};
use super::partition_metadata;
use super::recovery::{self, LoadParams};
use super::segment::Segment;
use crate::clock::Clock;
use crate::config::{BrokerConfig, TopicConfig};
use crate::random::Random;
use crate::types::{BrokerId, TopicId, TopicPartition};

/// Descriptors that segment files may hold at most.
const OPEN_FILES_MAX: u64 = 3_500;

/// Three quarters of what the process may hold: the rest is for connections.
fn open_files() -> usize {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current.unwrap_or(u64::MAX);
    (limit / 4).saturating_mul(3).min(OPEN_FILES_MAX) as usize
}

/// Why the broker cannot start on, or go on with, its directories. Each is one clear sentence.
#[derive(Debug, thiserror::Error)]
pub enum ManagerError {
    #[error("{0}")]
    Refused(String),
    #[error("{path}: {source}")]
    Io { path: PathBuf, source: io::Error },
}

/// One log directory as DescribeLogDirs shows it.
#[derive(Clone, Debug)]
pub struct LogDirInfo {
    pub path: PathBuf,
    /// As clients see and name it: absolute.
    pub shown: PathBuf,
    pub online: bool,
    pub space: Option<DiskSpace>,
}

/// Owner of every [`Log`].
pub struct LogManager {
    around: Surroundings,
    config: ArcSwap<BrokerConfig>,
    dirs: Vec<DirState>,
    stored: Mutex<MetaProperties>,
    logs: RwLock<BTreeMap<TopicPartition, Arc<Log>>>,
    /// A partition's creation, deletion or move is one at a time, and waits for no other's: that may wait for its disk.
    changing: OneAtATime,
    /// Held shared by a change, alone by the orderly stop.
    closing: RwLock<()>,
    moves: Mutex<Moves>,
    copy_limit: OnceLock<Arc<dyn CopyLimit>>,
    places: Mutex<Places>,
    cleaning: Cleaning,
}

impl std::fmt::Debug for LogManager {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LogManager").field("dirs", &self.dirs).field("logs", &self.logs.read().len()).finish()
    }
}

/// What the manager keeps for each directory.
#[derive(Debug)]
struct DirState {
    dir: Arc<LogDir>,
    /// Logs served from it, and those that are to be made in it.
    logs: AtomicUsize,
    kept: Mutex<Kept>,
    /// Held while its tasks run.
    due: Mutex<Due>,
    removals: Mutex<Vec<Removal>>,
}

#[derive(Debug, Default)]
struct Kept {
    loaded: bool,
    was_clean: bool,
    /// Partition directories that nobody asked for; their entries stay in the checkpoints.
    left_alone: HashSet<TopicPartition>,
}

impl DirState {
    /// Whether it has a directory for `tp` that nobody asked for so far. It is online.
    fn left_alone(&self, tp: &TopicPartition) -> bool {
        self.dir.is_online() && self.kept.lock().left_alone.contains(tp)
    }
}

/// A change of one partition; both go when it is dropped.
struct Changing<'a> {
    _partition: Held<'a>,
    _open: RwLockReadGuard<'a, ()>,
}

/// Files that go later.
#[derive(Debug)]
struct Removal {
    /// Monotonic.
    due_ms: i64,
    what: Gone,
}

#[derive(Debug)]
enum Gone {
    Directory(PathBuf),
    Segments(Vec<Arc<Segment>>),
}

fn refused<T>(sentence: String) -> Result<T, ManagerError> {
    Err(ManagerError::Refused(sentence))
}

impl LogManager {
    /// What it goes by from now on: when producers are forgotten, how many threads load. What has begun goes on as it is.
    pub fn set_config(&self, config: Arc<BrokerConfig>) {
        self.config.store(config);
        self.tell_cleaners();
    }

    /// Locks the directories and reads `meta.properties`; loads nothing yet. The ids are `None` on fresh directories.
    pub fn open(
        disk: Arc<dyn Disk>,
        clock: Arc<dyn Clock>,
        random: Arc<dyn Random>,
        config: Arc<BrokerConfig>,
    ) -> Result<LogManager, ManagerError> {
        let cache = FileCache::new(open_files());
        let around = Surroundings { disk, clock, random, cache };
        let mut dirs: Vec<DirState> = Vec::new();
        let mut stored: Option<(PathBuf, MetaProperties)> = None;
        let mut failures = Vec::new();
        for path in &config.log_dirs {
            if dirs.iter().any(|state| state.dir.path() == path) {
                return refused(format!("log.dirs names {} twice", path.display()));
            }
            let dir = LogDir::new(path.clone(), around.clone());
            match prepare(&dir) {
                Ok(None) => {}
                Ok(Some(meta)) => match &stored {
                    None => stored = Some((path.clone(), meta)),
                    Some((first, known)) => {
                        if known.cluster_id != meta.cluster_id || known.broker_id != meta.broker_id {
                            return refused(format!(
                                "log directories {} and {} belong to different brokers: {} and {}",
                                first.display(),
                                path.display(),
                                owner(known),
                                owner(&meta)
                            ));
                        }
                    }
                },
                Err(ManagerError::Io { path, source }) => {
                    failures.push(format!("log directory {} cannot be used: {source}", path.display()));
                    dir.fail(&source, "it cannot be used");
                }
                Err(refused) => return Err(refused),
            }
            let due = Mutex::new(Due::new(&config, around.clock.monotonic_ms()));
            dirs.push(DirState {
                dir,
                logs: AtomicUsize::new(0),
                kept: Mutex::default(),
                due,
                removals: Mutex::default(),
            });
        }
        if dirs.iter().all(|state| !state.dir.is_online()) {
            return refused(match failures.is_empty() {
                true => "log.dirs names no directory".into(),
                false => failures.join("; "),
            });
        }
        Ok(LogManager {
            around,
            config: ArcSwap::new(config),
            dirs,
            stored: Mutex::new(stored.map(|(_, meta)| meta).unwrap_or_default()),
            logs: RwLock::default(),
            changing: OneAtATime::default(),
            closing: RwLock::default(),
            moves: Mutex::default(),
            copy_limit: OnceLock::new(),
            places: Mutex::default(),
            cleaning: Cleaning::default(),
        })
    }

    /// `broker.id` of `meta.properties`.
    pub fn stored_broker_id(&self) -> Option<BrokerId> {
        self.stored.lock().broker_id
    }

    /// `cluster.id` of `meta.properties`.
    pub fn stored_cluster_id(&self) -> Option<String> {
        self.stored.lock().cluster_id.clone()
    }

    /// Writes `meta.properties` where it is missing; refuses, naming both, where ids differ.
    pub fn claim(&self, broker: BrokerId, cluster_id: &str) -> Result<(), ManagerError> {
        let mut stored = self.stored.lock();
        let first = self.dirs.first().map(|state| state.dir.path().display().to_string()).unwrap_or_default();
        if let Some(known) = &stored.cluster_id
            && known != cluster_id
        {
            self.unlock();
            return refused(format!(
                "log directory {first} belongs to cluster {known}, not to cluster {cluster_id}; nothing was changed"
            ));
        }
        if let Some(known) = stored.broker_id
            && known != broker
        {
            self.unlock();
            return refused(format!(
                "log directory {first} belongs to broker {known}, not to broker {broker}; nothing was changed"
            ));
        }
        let claimed = MetaProperties {
            version: 0,
            broker_id: Some(broker),
            cluster_id: Some(cluster_id.to_owned()),
            directory_id: None,
        };
        let disk = self.around.disk.as_ref();
        for state in self.dirs.iter().filter(|state| state.dir.is_online()) {
            let path = state.dir.path();
            let there = MetaProperties::read(disk, path);
            let written = there.and_then(|there| match there {
                Some(there) if there.broker_id.is_some() && there.cluster_id.is_some() => Ok(()),
                _ => claimed.write(disk, path, self.around.clock.wall_ms()),
            });
            if let Err(source) = written {
                state.dir.fail(&source, "meta.properties cannot be written");
                if self.dirs.iter().all(|state| !state.dir.is_online()) {
                    return Err(ManagerError::Io { path: path.to_path_buf(), source });
                }
            }
        }
        *stored = claimed;
        Ok(())
    }

    fn unlock(&self) {
        self.dirs.iter().for_each(|state| state.dir.unlock(true));
    }

    #[cfg(test)]
    pub(in crate::storage) fn wall_ms(&self) -> i64 {
        self.around.clock.wall_ms()
    }

    pub fn get(&self, tp: &TopicPartition) -> Option<Arc<Log>> {
        self.logs.read().get(tp).cloned()
    }

    pub fn all(&self) -> Vec<Arc<Log>> {
        self.logs.read().values().cloned().collect()
    }

    /// The existing log, or a new one: in the directory that was asked for, else where it was decided to lie
    /// ([`LogManager::place`]), else in the online one with the fewest partitions.
    pub fn get_or_create(
        &self,
        tp: &TopicPartition,
        id: TopicId,
        config: Arc<TopicConfig>,
    ) -> Result<Arc<Log>, ManagerError> {
        if let Some(log) = self.get(tp) {
            return Ok(log);
        }
        let _changing = self.change(tp);
        if let Some(log) = self.get(tp) {
            return Ok(log);
        }
        for state in self.dirs.iter().filter(|state| state.left_alone(tp)) {
            if let Some(log) = self.adopt(state, tp, id, &config)? {
                return Ok(log);
            }
        }
        let wanted = self.take_preferred(tp).or_else(|| Some(self.placed(tp)?.dir.path().to_path_buf()));
        let Some(state) = self.choose(wanted) else {
            return refused("every log directory is offline".into());
        };
        // Put there since the start, by whomever.
        if let Some(log) = self.adopt(state, tp, id, &config)? {
            return Ok(log);
        }
        // What they say of one that was deleted would be believed of this one.
        if state.dir.checkpoints().name(tp) {
            self.write_checkpoints(state);
        }
        let created = self.create(state, tp, id, config);
        created.map_err(|source| {
            state.dir.fail(&source, &format!("{tp} cannot be created"));
            ManagerError::Io { path: state.dir.path().to_path_buf(), source }
        })
    }

    fn create(
        &self,
        state: &DirState,
        tp: &TopicPartition,
        id: TopicId,
        config: Arc<TopicConfig>,
    ) -> io::Result<Arc<Log>> {
        let path = state.dir.path().join(tp.to_string());
        self.around.disk.create_dir_all(&path)?;
        let home = FileHome::new(self.around.disk.clone(), self.around.cache.clone(), path);
        let params = LoadParams { fresh: true, ..self.params(tp, id, config, true, false) };
        let log = Arc::new(recovery::load(&state.dir, home, params)?);
        self.serve(state, tp, &log);
        Ok(log)
    }

    /// Keeps other changes of `tp` and the orderly stop away.
    fn change(&self, tp: &TopicPartition) -> Changing<'_> {
        Changing { _partition: self.changing.hold(tp), _open: self.closing.read() }
    }

    fn serve(&self, state: &DirState, tp: &TopicPartition, log: &Arc<Log>) {
        if self.logs.write().insert(tp.clone(), log.clone()).is_none() {
            state.logs.fetch_add(1, Ordering::Relaxed);
        }
        self.take_place(tp);
    }

    fn params(
        &self,
        tp: &TopicPartition,
        id: TopicId,
        config: Arc<TopicConfig>,
        clean: bool,
        durable: bool,
    ) -> LoadParams {
        LoadParams {
            tp: tp.clone(),
            topic_id: id,
            config,
            recovery_point: None,
            log_start: None,
            high_watermark: None,
            cleaned: None,
            clean,
            home_durable: durable,
            fresh: false,
            producer_id_expiration_ms: self.config.load().producer_id_expiration_ms,
        }
    }

    /// A directory of that name that is there already: taken over when it carries the same topic id, else moved out of the
    /// way under a `-stray` name, as Kafka does. Never removed.
    fn adopt(
        &self,
        state: &DirState,
        tp: &TopicPartition,
        id: TopicId,
        config: &Arc<TopicConfig>,
    ) -> Result<Option<Arc<Log>>, ManagerError> {
        let path = state.dir.path().join(tp.to_string());
        let fail = |source: io::Error| {
            state.dir.fail(&source, &format!("{tp} cannot be taken over"));
            ManagerError::Io { path: path.clone(), source }
        };
        match self.around.disk.info(&path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(fail(e)),
            Ok(_) => {}
        }
        let there = partition_metadata::read(self.around.disk.as_ref(), &path).map_err(fail)?;
        if there == Some(id) && !id.is_zero() {
            let log = self.load_one(state, tp, id, config.clone(), true).map_err(fail)?;
            state.kept.lock().left_alone.remove(tp);
            self.serve(state, tp, &log);
            return Ok(Some(log));
        }
        let stray = state.dir.path().join(partition_dir::stray_name(tp, self.around.random.uuid()));
        tracing::warn!(
            "{} belongs to another topic of that name; it is kept as {} and not served",
            path.display(),
            stray.display()
        );
        self.around.disk.rename(&path, &stray).map_err(fail)?;
        state.kept.lock().left_alone.remove(tp);
        Ok(None)
    }

    /// Renames the directory to `-delete`; the files go after `file.delete.delay.ms`.
    pub fn delete(&self, tp: &TopicPartition) -> Result<(), ManagerError> {
        let _changing = self.change(tp);
        self.abandon(tp);
        let Some(log) = self.logs.write().remove(tp) else { return Ok(()) };
        let path = log.home().path();
        let renamed = log.dir().join(partition_dir::delete_name(tp, self.around.random.uuid()));
        // Whoever cleans, appends or syncs is done before, and nobody begins after: a path taken before the rename leads
        // nowhere.
        let _cleaning = log.cleaning.lock();
        let _flushing = log.flushing.lock();
        let writer = log.writer.lock();
        log.closed.store(true, Ordering::Release);
        if let Err(source) = log.home().rename_dir(renamed.clone()) {
            log.log_dir().fail(&source, &format!("{tp} cannot be deleted"));
            return Err(ManagerError::Io { path, source });
        }
        drop(writer);
        log.view.load().segments.iter().for_each(|segment| segment.close());
        if let Some(state) = self.state_of(log.log_dir().path()) {
            state.logs.fetch_sub(1, Ordering::Relaxed);
        }
        self.remove_later(&log.log_dir(), log.config().file_delete_delay_ms, Gone::Directory(renamed));
        Ok(())
    }

    fn remove_later(&self, dir: &Arc<LogDir>, delay_ms: i64, what: Gone) {
        let due_ms = self.around.clock.monotonic_ms().saturating_add(delay_ms.max(0));
        if let Some(state) = self.state_of(dir.path()) {
            state.removals.lock().push(Removal { due_ms, what });
        }
    }

    fn state_of(&self, path: &Path) -> Option<&DirState> {
        self.dirs.iter().find(|state| state.dir.path() == path)
    }

    pub fn dirs(&self) -> Vec<LogDirInfo> {
        self.dirs
            .iter()
            .map(|state| {
                let online = state.dir.is_online();
                let space = if online { self.around.disk.space(state.dir.path()).ok() } else { None };
                LogDirInfo { path: state.dir.path().to_path_buf(), shown: state.dir.shown(), online, space }
            })
            .collect()
    }

    pub fn any_offline(&self) -> bool {
        self.dirs.iter().any(|state| !state.dir.is_online())
    }

    pub fn is_offline(&self, dir: &Path) -> bool {
        self.state_of(dir).is_some_and(|state| !state.dir.is_online())
    }

    /// Has `watcher` told of each directory that goes offline from now on: with its path, and whether it was the last
    /// one, after which a broker has nothing to serve.
    pub fn watch_offline(&self, watcher: impl Fn(&Path, bool) + Send + Sync + 'static) {
        let dirs: Vec<Arc<LogDir>> = self.dirs.iter().map(|state| state.dir.clone()).collect();
        let all: Vec<std::sync::Weak<LogDir>> = dirs.iter().map(Arc::downgrade).collect();
        let told = move |path: &Path| {
            let last = !all.iter().filter_map(std::sync::Weak::upgrade).any(|dir| dir.is_online());
            watcher(path, last);
        };
        let told: OfflineWatcher = Arc::new(told);
        dirs.iter().for_each(|dir| dir.watch(told.clone()));
    }

    /// The partitions whose directories lie in the log directories, served or not.
    pub fn partitions_on_disk(&self) -> Result<Vec<TopicPartition>, ManagerError> {
        let mut found = Vec::new();
        for state in self.dirs.iter().filter(|state| state.dir.is_online()) {
            let path = state.dir.path();
            let entries = self.around.disk.list(path);
            for entry in entries.map_err(|source| ManagerError::Io { path: path.to_path_buf(), source })? {
                // A copy may be all there is of a partition: see `moves`.
                if let (true, Some(PartitionDirName::Current(tp) | PartitionDirName::Future(tp))) =
                    (entry.is_dir, PartitionDirName::parse(&entry.name))
                {
                    found.push(tp);
                }
            }
        }
        Ok(found)
    }
}

fn owner(meta: &MetaProperties) -> String {
    format!(
        "broker {} of cluster {}",
        meta.broker_id.map_or("?".into(), |id| id.to_string()),
        meta.cluster_id.as_deref().unwrap_or("?")
    )
}

/// Makes a directory with those above it, so that they survive a power loss.
fn create_durably(disk: &dyn Disk, path: &Path) -> io::Result<()> {
    let missing: Vec<&Path> = path.ancestors().take_while(|dir| disk.info(dir).is_err()).collect();
    disk.create_dir_all(path)?;
    for dir in missing {
        let parent = dir.parent().filter(|parent| !parent.as_os_str().is_empty());
        disk.sync_dir(parent.unwrap_or(Path::new(".")))?;
    }
    Ok(())
}

/// Makes the directory when it is missing, reads whose it is, and takes its lock.
fn prepare(dir: &LogDir) -> Result<Option<MetaProperties>, ManagerError> {
    let (disk, path) = (dir.disk().as_ref(), dir.path());
    let io_error = |source| ManagerError::Io { path: path.to_path_buf(), source };
    match disk.info(path) {
        Ok(info) if !info.is_dir => return refused(format!("log directory {} is not a directory", path.display())),
        Ok(_) => {}
        Err(e) if e.kind() == io::ErrorKind::NotFound => create_durably(disk, path).map_err(io_error)?,
        Err(e) => return Err(io_error(e)),
    }
    let meta = match MetaProperties::read(disk, path) {
        Err(e) if e.kind() == io::ErrorKind::InvalidData => return refused(format!("{e}; nothing was changed")),
        other => other.map_err(io_error)?,
    };
    match meta.as_ref().map(|meta| meta.version) {
        None | Some(0) => {}
        Some(1) => {
            return refused(format!(
                "log directory {} was formatted for a KRaft broker (meta.properties version=1), which cannot be taken over; nothing was changed",
                path.display()
            ));
        }
        Some(version) => {
            return refused(format!(
                "log directory {} has a meta.properties of unknown version {version}; nothing was changed",
                path.display()
            ));
        }
    }
    match dir.lock() {
        Err(e) if e.kind() == io::ErrorKind::WouldBlock => refused(format!(
            "log directory {} is in use by another broker process, which holds {}",
            path.display(),
            path.join(".lock").display()
        )),
        Err(e) => Err(io_error(e)),
        Ok(()) => Ok(meta),
    }
}

#[cfg(test)]
mod recorded;
#[cfg(test)]
mod tests;
