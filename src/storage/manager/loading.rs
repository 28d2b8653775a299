//! Bringing the logs up, and an orderly stop.

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;

use parking_lot::Mutex;

use super::moves::FutureDir;
use super::{DirState, Gone, Kept, LogManager, ManagerError, refused};
use crate::config::TopicConfig;
use crate::storage::file_cache::FileHome;
use crate::storage::in_parallel::in_parallel;
use crate::storage::log::Log;
use crate::storage::partition_dir::PartitionDirName;
use crate::storage::recovery::{self, LoadParams};
use crate::storage::{clean_marker, partition_metadata};
use crate::types::{TopicId, TopicPartition};

/// A partition directory to be loaded.
struct Wanted<'a> {
    state: &'a DirState,
    tp: TopicPartition,
    id: TopicId,
    config: Arc<TopicConfig>,
    /// `partition.metadata` is there.
    home_durable: bool,
}

/// The id and the configuration of a topic that has a log here, by its name.
pub(super) type WantedTopics<'a> = dyn Fn(&str) -> Option<(TopicId, Arc<TopicConfig>)> + 'a;

impl LogManager {
    /// Loads (and after a crash recovers) the logs of the partitions that `wanted` knows; `wanted` gives topic id and
    /// config by topic name. Directories of other topics are left alone and reported: the broker never invents topics.
    #[allow(clippy::type_complexity)]
    pub fn load(&self, wanted: &WantedTopics<'_>) -> Result<(), ManagerError> {
        let mut jobs: Vec<Wanted<'_>> = Vec::new();
        let mut futures = Vec::new();
        for state in self.dirs.iter().filter(|state| state.dir.is_online()) {
            match self.survey(state, wanted, &mut futures) {
                Ok(found) => jobs.extend(found),
                Err(source) => self.dir_failed(state, source)?,
            }
        }
        let mut seen: HashMap<&TopicPartition, &Path> = HashMap::new();
        for job in &jobs {
            if let Some(first) = seen.insert(&job.tp, job.state.dir.path()) {
                return refused(format!(
                    "{} lies in two log directories, {} and {}; one of them must be moved away",
                    job.tp,
                    first.display(),
                    job.state.dir.path().display()
                ));
            }
        }
        let loaded = self.load_all(jobs);
        for (state, tp, result) in loaded {
            match result {
                Ok(log) => self.serve(state, &tp, &log),
                Err(source) => {
                    let source = io::Error::new(source.kind(), format!("loading {tp}: {source}"));
                    self.dir_failed(state, source)?;
                }
            }
        }
        self.load_futures(futures, wanted)?;
        for state in self.dirs.iter().filter(|state| state.dir.is_online()) {
            state.kept.lock().loaded = true;
        }
        Ok(())
    }

    /// Takes a directory offline; an error when it was the last one.
    pub(super) fn dir_failed(&self, state: &DirState, source: io::Error) -> Result<(), ManagerError> {
        state.dir.fail(&source, "loading failed");
        match self.dirs.iter().any(|state| state.dir.is_online()) {
            true => Ok(()),
            false => Err(ManagerError::Io { path: state.dir.path().to_path_buf(), source }),
        }
    }

    /// Reads marker and checkpoints, and sorts what lies in the directory.
    #[allow(clippy::type_complexity)]
    fn survey<'a>(
        &self,
        state: &'a DirState,
        wanted: &WantedTopics<'_>,
        futures: &mut Vec<FutureDir<'a>>,
    ) -> io::Result<Vec<Wanted<'a>>> {
        let disk = self.around.disk.as_ref();
        let path = state.dir.path();
        let mut kept = state.kept.lock();
        *kept = Kept { was_clean: clean_marker::take(disk, path)?, ..Kept::default() };
        let checkpoints = state.dir.checkpoints();
        for file in [&checkpoints.recovery_points, &checkpoints.log_starts, &checkpoints.cleaned] {
            file.read().unwrap_or_else(|e| tracing::warn!("{e}; going on without it"));
        }
        checkpoints.high_watermarks.read()?;
        let mut found = Vec::new();
        let mut entries = disk.list(path)?;
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        for entry in entries.into_iter().filter(|entry| entry.is_dir) {
            let shown = path.join(&entry.name);
            match PartitionDirName::parse(&entry.name) {
                Some(PartitionDirName::Current(tp)) => {
                    let Some((id, config)) = wanted(&tp.topic) else {
                        tracing::warn!("{} belongs to no topic of this cluster; it is left alone", shown.display());
                        kept.left_alone.insert(tp);
                        continue;
                    };
                    match partition_metadata::read(disk, &shown)? {
                        Some(there) if there != id && !id.is_zero() => {
                            tracing::warn!(
                                "{} belongs to topic id {there}, and {} has {id}; it is left alone",
                                shown.display(),
                                tp.topic
                            );
                            kept.left_alone.insert(tp);
                        }
                        there => found.push(Wanted { state, tp, id, config, home_durable: there.is_some() }),
                    }
                }
                Some(PartitionDirName::Delete(_)) => {
                    let delay = self.config.load().topic_defaults.file_delete_delay_ms;
                    self.remove_later(&state.dir, delay, Gone::Directory(shown));
                }
                Some(PartitionDirName::Stray(_)) => {
                    tracing::warn!("{} is a stray partition; it is left alone", shown.display());
                }
                Some(PartitionDirName::Future(tp)) => futures.push(FutureDir { state, path: shown, tp }),
                None => tracing::warn!("{} is no partition directory; it is left alone", shown.display()),
            }
        }
        Ok(found)
    }

    /// Loads in `num.recovery.threads.per.data.dir` threads for each directory, and in no fewer than there are cores:
    /// nothing else is served before.
    #[allow(clippy::type_complexity)]
    fn load_all<'a>(&self, jobs: Vec<Wanted<'a>>) -> Vec<(&'a DirState, TopicPartition, io::Result<Arc<Log>>)> {
        let asked = self.config.load().num_recovery_threads_per_data_dir.max(1) as usize * self.dirs.len();
        let cores = thread::available_parallelism().map_or(1, usize::from).min(self.around.disk.concurrency());
        let results = Mutex::new(Vec::with_capacity(jobs.len()));
        in_parallel(asked.max(cores), &jobs, |job| {
            if job.state.dir.is_online() {
                let result = self.load_one(job.state, &job.tp, job.id, job.config.clone(), job.home_durable);
                results.lock().push((job.state, job.tp.clone(), result));
            }
        });
        results.into_inner()
    }

    pub(super) fn load_one(
        &self,
        state: &DirState,
        tp: &TopicPartition,
        id: TopicId,
        config: Arc<TopicConfig>,
        home_durable: bool,
    ) -> io::Result<Arc<Log>> {
        let path = state.dir.path().join(tp.to_string());
        let checkpoints = state.dir.checkpoints();
        let params = LoadParams {
            recovery_point: checkpoints.recovery_points.get(tp),
            log_start: checkpoints.log_starts.get(tp),
            high_watermark: checkpoints.high_watermarks.get(tp),
            cleaned: checkpoints.cleaned.get(tp),
            ..self.params(tp, id, config, state.kept.lock().was_clean, home_durable)
        };
        let home = FileHome::new(self.around.disk.clone(), self.around.cache.clone(), path);
        recovery::load(&state.dir, home, params).map(Arc::new)
    }

    /// Orderly: flush and close every log, checkpoints, clean marker, unlock.
    pub fn close(&self) {
        let _closing = self.closing.write();
        self.stop_moves();
        self.stop_cleaning();
        for state in &self.dirs {
            let loaded = state.kept.lock().loaded;
            if loaded {
                let logs: Vec<_> =
                    self.all().into_iter().filter(|log| Arc::ptr_eq(&log.log_dir(), &state.dir)).collect();
                in_parallel(self.around.disk.concurrency(), &logs, |log| {
                    if state.dir.is_online()
                        && let Err(e) = log.close()
                    {
                        state.dir.fail(&e, &format!("{} cannot be closed", log.tp));
                    }
                });
                if state.dir.is_online() {
                    self.write_checkpoints(state);
                }
            }
            let kept = state.kept.lock();
            // Directories left alone after a crash were not checked: a marker would vouch for them.
            let vouched = kept.was_clean || (loaded && kept.left_alone.is_empty());
            if state.dir.is_online()
                && (loaded || kept.was_clean)
                && vouched
                && let Err(e) = clean_marker::write(self.around.disk.as_ref(), state.dir.path())
            {
                state.dir.fail(&e, "the clean-shutdown marker cannot be written");
            }
            state.dir.unlock(state.dir.is_online());
        }
        self.logs.write().clear();
    }
}

impl Log {
    /// Everything on the disk as a Kafka expects it after an orderly stop: trimmed indexes, a snapshot at the log end.
    pub(in crate::storage) fn close(&self) -> io::Result<()> {
        let _cleaning = self.cleaning.lock();
        self.online()?;
        let active = self.active()?;
        let (indexes, names) = {
            let mut writer = self.writer.lock();
            // Without records there is nothing to keep.
            let records = self.size() > 0;
            let indexes = records && active.write_indexes()?;
            let snapshot = records && self.snapshot_producers(&mut writer, self.log_end(), true)?;
            (indexes, indexes || snapshot || writer.names_unsynced)
        };
        if indexes {
            active.sync_indexes()?;
        }
        self.flush()?;
        if names {
            let home = self.home();
            home.disk.sync_dir(&home.path())?;
        }
        self.closed.store(true, Ordering::Release);
        self.view.load().segments.iter().for_each(|segment| segment.close());
        Ok(())
    }
}
