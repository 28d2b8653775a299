//! Where new logs will lie. It is decided before they are made: what is queued behind one directory's disk waits for no
//! other's.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::{DirState, LogManager};
use crate::types::TopicPartition;

/// Logs that are to be made, and the place of each one's directory among the manager's.
pub(super) type Places = HashMap<TopicPartition, usize>;

impl LogManager {
    /// The log directory that has the partition's log, or is to have it; `None` when nobody decided yet.
    pub fn dir_of(&self, tp: &TopicPartition) -> Option<PathBuf> {
        if let Some(log) = self.get(tp) {
            return Some(log.dir());
        }
        self.placed(tp).map(|state| state.dir.path().to_path_buf())
    }

    /// As [`LogManager::dir_of`], and decides: the one that was asked for, else the online one with the fewest partitions.
    /// It stays so until the log is made or [`LogManager::give_places_up`]. `None` when all are offline.
    pub fn place(&self, tp: &TopicPartition) -> Option<PathBuf> {
        if let Some(known) = self.dir_of(tp) {
            return Some(known);
        }
        let mut places = self.places.lock();
        let state = self.choose(self.preferred(tp))?;
        let index = self.dirs.iter().position(|other| Arc::ptr_eq(&other.dir, &state.dir))?;
        places.insert(tp.clone(), index);
        state.logs.fetch_add(1, Ordering::Relaxed);
        Some(state.dir.path().to_path_buf())
    }

    /// Those of the partitions whose logs were not made have no place any more.
    pub fn give_places_up<'a>(&self, partitions: impl Iterator<Item = &'a TopicPartition>) {
        let mut places = self.places.lock();
        for tp in partitions {
            // Nearly always none is left.
            if places.is_empty() {
                return;
            }
            self.took(places.remove(tp));
        }
    }

    /// Where a log that is to be made was to lie; that directory no longer counts it.
    pub(super) fn take_place(&self, tp: &TopicPartition) {
        self.took(self.places.lock().remove(tp));
    }

    fn took(&self, place: Option<usize>) {
        if let Some(state) = place.and_then(|index| self.dirs.get(index)) {
            state.logs.fetch_sub(1, Ordering::Relaxed);
        }
    }

    pub(super) fn placed(&self, tp: &TopicPartition) -> Option<&DirState> {
        self.dirs.get(*self.places.lock().get(tp)?)
    }

    /// `wanted` if it is one of the directories and online, else the online one with the fewest partitions.
    pub(super) fn choose(&self, wanted: Option<PathBuf>) -> Option<&DirState> {
        let online = || self.dirs.iter().filter(|state| state.dir.is_online());
        let wanted = wanted.and_then(|path| online().find(|state| state.dir.path() == path));
        wanted.or_else(|| online().min_by_key(|state| state.logs.load(Ordering::Relaxed)))
    }
}
