//! Logs on their way to another log directory.
//!
//! ```text
//! ask ── D2/t-0.<id>-future: empty ── copy until it is almost as long ── appends wait: the rest, fsync ──┐
//!                                                                                                        │
//!   D1/t-0 → D1/t-0.<id>-delete, then D2/t-0.<id>-future → D2/t-0, then the log serves from D2 ◄─────────┘
//! ```
//! A start finds what a kill left: beside a log its copy, which goes on growing; or, between the two renames, a copy without
//! a log: it is whole, and becomes the log. That is why the names change in this order: at no time do two directories
//! claim to be the partition. A copy is never believed, only checked: it is read whole at a start.
//!
//! Copying lives in `copying`, what happens where D1 and D2 change places in `swap`. Copying may be throttled (KIP-113): as in
//! Kafka no more is copied while more was than may be, and what is whole is never held up, so that the rest, for which
//! appends wait, is counted and goes over at once.
//!
//! Differs: Kafka gives the copy its final name first, and refuses to start after a kill between the two.

mod copying;
mod swap;

use std::collections::{HashMap, VecDeque};
use std::fmt::Debug;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use self::copying::{Step, copy};
use super::loading::WantedTopics;
use super::{DirState, Gone, LogManager, ManagerError};
use crate::config::TopicConfig;
use crate::storage::checkpoint_file::CheckpointFile;
use crate::storage::file_cache::FileHome;
use crate::storage::log::Log;
use crate::storage::partition_dir;
use crate::storage::partition_metadata;
use crate::storage::recovery::{self, LoadParams};
use crate::types::{TopicId, TopicPartition};

/// Copying and fsync before appends wait for the rest: what came during the long first fsync is not left to that.
const ROUNDS: usize = 2;

/// Wishes that are kept for logs that do not exist: anybody may have any number of them.
const PREFERRED_MAX: usize = 10_000;

/// Why a log is not moved.
#[derive(Debug, thiserror::Error)]
pub enum MoveError {
    #[error("{0} is none of log.dirs")]
    NoSuchDirectory(PathBuf),
    #[error("log directory {0} is offline")]
    Offline(PathBuf),
    /// The copy may lie there.
    #[error("a log directory is offline")]
    AnyOffline,
    #[error("the topic's name is too long for a copy")]
    NameTooLong,
    #[error("the partition has no log here")]
    NoLog,
    #[error(transparent)]
    Disk(#[from] io::Error),
}

/// How fast logs may be copied between directories. Monotonic ms.
pub trait CopyLimit: Debug + Send + Sync {
    /// Counts bytes that were copied.
    fn copied(&self, bytes: usize, now_ms: i64);
    /// Whether they are more than may be.
    fn is_exceeded(&self, now_ms: i64) -> bool;
}

/// How far a move is.
enum Progress {
    /// It is done, or nobody wants it any more.
    Over,
    HeldUp,
}

/// What is asked for and what is under way.
#[derive(Debug, Default)]
pub(super) struct Moves {
    /// Copies by partition.
    futures: HashMap<TopicPartition, Arc<Log>>,
    /// Partitions whose copies wait to grow.
    waiting: VecDeque<TopicPartition>,
    /// Somebody is at work on `waiting`, or was told to come again.
    working: bool,
    /// Where logs are to be made that do not exist yet.
    preferred: HashMap<TopicPartition, PathBuf>,
}

/// A `-future` directory found by a start.
pub(super) struct FutureDir<'a> {
    pub state: &'a DirState,
    pub path: PathBuf,
    pub tp: TopicPartition,
}

impl LogManager {
    /// Wants the log of `tp` in the log directory `to`. True when a copy was begun: [`LogManager::work_on_moves`] makes it
    /// grow. A copy in another directory is given up; so is any when the log lies in `to` already. Without a log the wish
    /// is kept until one is made, and answered with [`MoveError::NoLog`].
    pub fn move_log(&self, tp: &TopicPartition, to: &Path) -> Result<bool, MoveError> {
        let name = partition_dir::future_name(tp, self.around.random.uuid()).ok_or(MoveError::NameTooLong)?;
        let _changing = self.change(tp);
        let state = self.dirs.iter().find(|state| state.dir.shown().as_os_str() == to.as_os_str());
        let state = state.ok_or_else(|| MoveError::NoSuchDirectory(to.to_path_buf()))?;
        if !state.dir.is_online() {
            return Err(MoveError::Offline(to.to_path_buf()));
        }
        let Some(log) = self.get(tp) else {
            let preferred = &mut self.moves.lock().preferred;
            if preferred.len() < PREFERRED_MAX || preferred.contains_key(tp) {
                preferred.insert(tp.clone(), state.dir.path().to_path_buf());
            }
            return Err(MoveError::NoLog);
        };
        if !log.is_online() {
            return Err(MoveError::Offline(log.dir()));
        }
        if let Some(future) = self.future(tp) {
            if future.dir() == state.dir.path() {
                return Ok(false);
            }
            self.abandon(tp);
        }
        if log.dir() == state.dir.path() {
            return Ok(false);
        }
        if self.any_offline() {
            return Err(MoveError::AnyOffline);
        }
        let path = state.dir.path().join(name);
        let begun = self.begin_copy(state, &path, &log);
        let future = begun.inspect_err(|source| state.dir.fail(source, &format!("{tp} cannot be copied there")))?;
        // A pass over the log is done, or sees the copy and gives up.
        let _cleaning = log.cleaning.lock();
        let mut moves = self.moves.lock();
        moves.futures.insert(tp.clone(), Arc::new(future));
        moves.waiting.push_back(tp.clone());
        tracing::info!(partition = %tp, from = %log.dir().display(), to = %to.display(), "moving between log directories");
        Ok(true)
    }

    fn begin_copy(&self, state: &DirState, path: &Path, log: &Log) -> io::Result<Log> {
        let disk = self.around.disk.as_ref();
        disk.create_dir_all(path)?;
        if !log.topic_id().is_zero() {
            partition_metadata::write(disk, path, log.topic_id())?;
        }
        let home = FileHome::new(self.around.disk.clone(), self.around.cache.clone(), path.to_path_buf());
        let params = self.params(log.topic_partition(), log.topic_id(), Arc::clone(&log.config()), true, false);
        recovery::load(&state.dir, home, LoadParams { fresh: true, ..params })
    }

    /// The copy of a log that is being moved.
    pub fn future(&self, tp: &TopicPartition) -> Option<Arc<Log>> {
        self.moves.lock().futures.get(tp).cloned()
    }

    /// Whether the log is being copied, and is not to be cleaned meanwhile.
    pub(super) fn is_being_moved(&self, tp: &TopicPartition) -> bool {
        self.moves.lock().futures.contains_key(tp)
    }

    /// All copies.
    pub fn futures(&self) -> Vec<Arc<Log>> {
        self.moves.lock().futures.values().cloned().collect()
    }

    pub(super) fn preferred(&self, tp: &TopicPartition) -> Option<PathBuf> {
        self.moves.lock().preferred.get(tp).cloned()
    }

    pub(super) fn take_preferred(&self, tp: &TopicPartition) -> Option<PathBuf> {
        self.moves.lock().preferred.remove(tp)
    }

    /// Gives a copy up; its files go later. The partition's lock of changes is held.
    pub(super) fn abandon(&self, tp: &TopicPartition) {
        let Some(future) = self.moves.lock().futures.remove(tp) else { return };
        let delay_ms = future.config().file_delete_delay_ms;
        let renamed = future.dir().join(partition_dir::delete_name(tp, self.around.random.uuid()));
        let _flushing = future.flushing.lock();
        let writer = future.writer.lock();
        future.closed.store(true, Ordering::Release);
        let dir = future.log_dir();
        if !dir.is_online() {
            return;
        }
        match future.home().rename_dir(renamed.clone()) {
            Ok(()) => self.remove_later(&dir, delay_ms, Gone::Directory(renamed)),
            Err(source) => dir.fail(&source, &format!("the copy of {tp} cannot be given up")),
        }
        drop(writer);
        future.view.load().segments.iter().for_each(|segment| segment.close());
    }

    /// An orderly stop: what was copied stays, and the next start goes on.
    pub(super) fn stop_moves(&self) {
        let mut moves = self.moves.lock();
        moves.waiting.clear();
        for future in moves.futures.values() {
            let _writer = future.writer.lock();
            future.closed.store(true, Ordering::Release);
        }
    }

    /// Whether copies wait and nobody is at work on them: the caller then is, with [`LogManager::work_on_moves`].
    pub fn begin_moves(&self) -> bool {
        let mut moves = self.moves.lock();
        let begins = !moves.working && !moves.waiting.is_empty();
        moves.working |= begins;
        begins
    }

    /// Copying goes by this from now on. The first one stays.
    pub fn limit_copies_with(&self, limit: Arc<dyn CopyLimit>) {
        let _ = self.copy_limit.set(limit);
    }

    /// Copies log after log and puts each copy in its log's place. Blocks for as long as that takes, but not while the limit
    /// of [`LogManager::limit_copies_with`] is exceeded: then it answers the milliseconds (`replica.fetch.backoff.ms`) after
    /// which the caller is to call it again.
    #[must_use]
    pub fn work_on_moves(&self) -> Option<u64> {
        loop {
            let (tp, future) = {
                let mut moves = self.moves.lock();
                let Some(tp) = moves.waiting.pop_front() else {
                    moves.working = false;
                    return None;
                };
                let Some(future) = moves.futures.get(&tp).cloned() else { continue };
                (tp, future)
            };
            match self.finish(&tp, &future) {
                Ok(Progress::Over) => {}
                Ok(Progress::HeldUp) => {
                    self.moves.lock().waiting.push_front(tp);
                    return Some(u64::try_from(self.config.load().replication.fetch_backoff_ms).unwrap_or(0));
                }
                Err(error) => self.move_failed(&tp, &future, &error),
            }
        }
    }

    fn move_failed(&self, tp: &TopicPartition, future: &Arc<Log>, error: &io::Error) {
        tracing::error!(partition = %tp, %error, "not moved between log directories");
        let _changing = self.change(tp);
        if !self.future(tp).is_some_and(|now| Arc::ptr_eq(&now, future)) {
            return;
        }
        match self.get(tp).is_some_and(|log| log.is_online()) {
            true => self.abandon(tp),
            // The copy may be all there is.
            false => drop(self.moves.lock().futures.remove(tp)),
        }
    }

    fn copy(&self, log: &Log, future: &Log, buffer: &mut Vec<u8>) -> io::Result<Step> {
        let step = copy(log, future, buffer)?;
        if let Some(limit) = self.copy_limit.get() {
            limit.copied(step.bytes, self.around.clock.monotonic_ms());
        }
        Ok(step)
    }

    /// Whether a copy that is behind its log is to wait.
    fn is_held_up(&self, log: &Log, future: &Log) -> bool {
        let exceeded = |limit: &Arc<dyn CopyLimit>| limit.is_exceeded(self.around.clock.monotonic_ms());
        future.log_end() < log.log_end() && self.copy_limit.get().is_some_and(exceeded)
    }

    /// Copies and swaps, unless the copy is given up meanwhile or the broker stops.
    fn finish(&self, tp: &TopicPartition, future: &Arc<Log>) -> io::Result<Progress> {
        let wanted = || self.future(tp).is_some_and(|now| Arc::ptr_eq(&now, future)) && future.online().is_ok();
        let mut buffer = Vec::new();
        for _ in 0..ROUNDS {
            loop {
                let Some(log) = self.get(tp).filter(|_| wanted()) else { return Ok(Progress::Over) };
                if self.is_held_up(&log, future) {
                    return Ok(Progress::HeldUp);
                }
                match self.copy(&log, future, &mut buffer) {
                    Ok(Step { almost: false, .. }) => {}
                    Ok(Step { almost: true, .. }) => break,
                    Err(_) if !wanted() => return Ok(Progress::Over),
                    Err(error) => return Err(error),
                }
            }
            future.flush()?;
        }
        let _changing = self.change(tp);
        let Some(log) = self.get(tp).filter(|_| wanted()) else { return Ok(Progress::Over) };
        self.swap(tp, &log, future, &mut buffer)?;
        self.moves.lock().futures.remove(tp);
        Ok(Progress::Over)
    }

    /// Copies of logs that are served are loaded, to grow on; a copy whose log is nowhere is the log.
    pub(super) fn load_futures(
        &self,
        found: Vec<FutureDir<'_>>,
        wanted: &WantedTopics<'_>,
    ) -> Result<(), ManagerError> {
        for FutureDir { state, path, tp } in found {
            let log = self.get(&tp);
            let in_the_way =
                self.future(&tp).is_some() || log.as_ref().is_some_and(|log| log.dir() == state.dir.path());
            let lost = log.is_none() && self.any_offline();
            let Some((id, config)) = wanted(&tp.topic).filter(|_| !in_the_way && !lost) else {
                tracing::warn!("{} is a copy that nobody waits for; it is left alone", path.display());
                continue;
            };
            let loaded = self.load_future(state, &path, &tp, id, config, log.is_some());
            match loaded {
                Ok(Some(future)) if log.is_some() => {
                    let mut moves = self.moves.lock();
                    moves.futures.insert(tp.clone(), Arc::new(future));
                    moves.waiting.push_back(tp);
                }
                Ok(Some(whole)) => {
                    tracing::info!(
                        "{} was being put in its log's place when the broker ended: done now",
                        path.display()
                    );
                    self.serve(state, &tp, &Arc::new(whole));
                }
                Ok(None) => tracing::warn!("{} belongs to another topic; it is left alone", path.display()),
                Err(source) => {
                    let source = io::Error::new(source.kind(), format!("loading {}: {source}", path.display()));
                    self.dir_failed(state, source)?;
                }
            }
        }
        Ok(())
    }

    /// `None` when it is another topic's.
    fn load_future(
        &self,
        state: &DirState,
        path: &Path,
        tp: &TopicPartition,
        id: TopicId,
        config: Arc<TopicConfig>,
        has_log: bool,
    ) -> io::Result<Option<Log>> {
        let disk = self.around.disk.as_ref();
        if partition_metadata::read(disk, path)?.is_some_and(|there| there != id && !id.is_zero()) {
            return Ok(None);
        }
        let home = FileHome::new(self.around.disk.clone(), self.around.cache.clone(), path.to_path_buf());
        if !has_log {
            home.rename_dir(state.dir.path().join(tp.to_string()))?;
            disk.sync_dir(state.dir.path())?;
        }
        let checkpoints = state.dir.checkpoints();
        // Where there is a log, that has them.
        let kept = |file: &CheckpointFile| file.get(tp).filter(|_| !has_log);
        let params = LoadParams {
            log_start: kept(&checkpoints.log_starts),
            high_watermark: kept(&checkpoints.high_watermarks),
            cleaned: kept(&checkpoints.cleaned),
            ..self.params(tp, id, config, false, true)
        };
        recovery::load(&state.dir, home, params).map(Some)
    }
}

#[cfg(test)]
mod tests;
