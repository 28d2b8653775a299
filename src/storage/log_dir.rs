//! One entry of `log.dirs`: whether it is online, who holds its lock, what waits to be done in it.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::checkpoint_file::Checkpoints;
use super::disk::{Disk, FileIdentity};
use super::file_cache::FileCache;
use crate::clock::Clock;
use crate::config::TopicConfig;
use crate::random::Random;
use crate::types::TopicPartition;

/// What all directories share.
#[derive(Clone)]
pub struct Surroundings {
    pub disk: Arc<dyn Disk>,
    pub clock: Arc<dyn Clock>,
    pub random: Arc<dyn Random>,
    pub cache: Arc<FileCache>,
}

/// Told once, with the directory's path, when it goes offline; from whatever thread met the failure.
pub type OfflineWatcher = Arc<dyn Fn(&Path) + Send + Sync>;

/// A log directory. Once failed it stays failed until the process is started again.
pub struct LogDir {
    path: PathBuf,
    around: Surroundings,
    checkpoints: Checkpoints,
    failure: OnceLock<Arc<io::Error>>,
    lock: Mutex<Option<Box<dyn Send + Sync>>>,
    watcher: OnceLock<OfflineWatcher>,
    /// Partitions whose sealed segments, or whose home, wait for an fsync.
    to_flush: Mutex<Vec<TopicPartition>>,
    /// Told when one is added.
    flush_asked: Notify,
}

impl std::fmt::Debug for LogDir {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LogDir").field("path", &self.path).field("failure", &self.failure.get()).finish()
    }
}

impl LogDir {
    pub fn new(path: PathBuf, around: Surroundings) -> Arc<LogDir> {
        let checkpoints = Checkpoints::new(&around.disk, &path);
        Arc::new(LogDir {
            checkpoints,
            path,
            around,
            failure: OnceLock::new(),
            lock: Mutex::new(None),
            watcher: OnceLock::new(),
            to_flush: Mutex::default(),
            flush_asked: Notify::new(),
        })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The path as clients see and name it: absolute, without a slash at its end.
    pub fn shown(&self) -> PathBuf {
        let absolute = std::path::absolute(&self.path).unwrap_or_else(|_| self.path.clone());
        absolute.components().collect()
    }

    pub(super) fn checkpoints(&self) -> &Checkpoints {
        &self.checkpoints
    }

    pub fn disk(&self) -> &Arc<dyn Disk> {
        &self.around.disk
    }

    pub fn cache(&self) -> &Arc<FileCache> {
        &self.around.cache
    }

    /// Wall time.
    pub fn now_ms(&self) -> i64 {
        self.around.clock.wall_ms()
    }

    /// Never goes back.
    pub fn monotonic_ms(&self) -> i64 {
        self.around.clock.monotonic_ms()
    }

    /// Takes `.lock` for as long as this directory is held.
    pub fn lock(&self) -> io::Result<()> {
        *self.lock.lock() = Some(self.around.disk.lock(&self.path.join(".lock"))?);
        Ok(())
    }

    /// Which file the lock is.
    pub(super) fn lock_identity(&self) -> io::Result<FileIdentity> {
        self.around.disk.identity(&self.path.join(".lock"))
    }

    /// Lets go of the lock; with `remove` the file goes too, as after an orderly stop.
    pub fn unlock(&self, remove: bool) {
        let mut held = self.lock.lock();
        if held.is_some() && remove {
            // While it is held: afterwards the file could be another process's.
            let _ = self.around.disk.remove_file(&self.path.join(".lock"));
        }
        *held = None;
    }

    /// Why the directory is offline.
    pub fn failure(&self) -> Option<&Arc<io::Error>> {
        self.failure.get()
    }

    pub fn is_online(&self) -> bool {
        self.failure.get().is_none()
    }

    /// Has `watcher` told of the failure to come. The first one set stays.
    pub fn watch(&self, watcher: OfflineWatcher) {
        let _ = self.watcher.set(watcher);
    }

    /// Takes the directory offline. What was written and not fsynced may be gone: nothing is read from it or written to
    /// it any more, and an fsync that failed is never tried again.
    pub fn fail(&self, error: &io::Error, what: &str) {
        let copy = Arc::new(io::Error::new(error.kind(), error.to_string()));
        if self.failure.set(copy).is_ok() {
            tracing::error!("log directory {} goes offline: {what}: {error}", self.path.display());
            if let Some(watcher) = self.watcher.get() {
                watcher(&self.path);
            }
        }
    }

    /// Random part of `segment.jitter.ms` for a new segment, ms.
    pub fn jitter_ms(&self, config: &TopicConfig) -> i64 {
        match config.segment_jitter_ms.min(config.segment_ms) {
            jitter if jitter > 0 => self.around.random.below(jitter as u64) as i64,
            _ => 0,
        }
    }

    /// Asks for an fsync of a log by the broker's timer.
    pub fn flush_soon(&self, tp: &TopicPartition) {
        self.to_flush.lock().push(tp.clone());
        self.flush_asked.notify_one();
    }

    /// Completes when an fsync was asked for.
    pub async fn flush_is_asked(&self) {
        self.flush_asked.notified().await;
    }

    pub fn take_flushes(&self) -> Vec<TopicPartition> {
        std::mem::take(&mut self.to_flush.lock())
    }
}
