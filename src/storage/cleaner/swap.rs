//! A cleaned segment takes the place of those it was made of.
//!
//! ```text
//!                     new             old                        a start that finds this
//! 1 written, synced   B.log.cleaned   B.log        C.log          removes the new one
//! 2 renamed, synced   B.log.swap      B.log        C.log          removes the old ones, goes on with 4
//! 3 renamed, synced   B.log.swap      B.log.deleted C.log.deleted  goes on with 4
//! 4 renamed, synced   B.log           …                           removes the old ones
//! ```
//! All of one file set have their new names, durably, before the next step: half of a set with another half would be
//! believed. Between 2 and 3 the range of offsets in the new segment tells a start what it replaces, which is why its last
//! batch reaches as far as theirs. Readers who hold the old list of segments read on under the old files' new names.

use std::io;
use std::sync::Arc;

use super::pass::Pace;
use crate::storage::file_cache::Suffix;
use crate::storage::log::Log;
use crate::storage::segment::Segment;
use crate::storage::view::LogView;

impl Log {
    /// Puts `new`, complete and synced, in the place of `old`, unless the log was cut, moved or closed since `truncations`
    /// was counted: false then, with nothing changed. After an error the directory is offline, and a start sorts out what
    /// lies there.
    pub(super) fn replace(
        &self,
        old: &[Arc<Segment>],
        new: &Arc<Segment>,
        truncations: u64,
        pace: &dyn Pace,
    ) -> io::Result<bool> {
        let _alone = self.cleaning.lock();
        let is_as_it_was = || {
            let cut = self.writer.lock().truncations != truncations;
            // Retention may have taken some of them.
            let view = self.view.load();
            let at = old.first().and_then(|first| view.segments.iter().position(|segment| Arc::ptr_eq(segment, first)));
            let there = at.and_then(|at| view.segments.get(at..at + old.len()));
            let same = there.is_some_and(|there| there.iter().zip(old).all(|(there, old)| Arc::ptr_eq(there, old)));
            !cut && same && pace.is_wanted() && self.online().is_ok()
        };
        if !is_as_it_was() {
            return Ok(false);
        }
        let home = self.home();
        let sync_names = || home.disk.sync_dir(&home.path());
        let renamed = sync_names().and_then(|()| new.rename(Suffix::Swap)).and_then(|()| sync_names());
        self.or_offline(renamed)?;
        {
            let mut writer = self.writer.lock();
            let mut segments = self.view.load().segments.clone();
            if let Some(at) = old.first().and_then(|first| segments.iter().position(|s| Arc::ptr_eq(s, first))) {
                segments.splice(at..at + old.len(), [new.clone()]);
            }
            self.view.store(Arc::new(LogView { segments }));
            for segment in old.iter().skip(1) {
                writer.snapshots.remove(&segment.base());
            }
        }
        let mut away = old.iter().enumerate().map(|(at, segment)| match at {
            // Producers as of the base are still what they were.
            0 => segment.rename(Suffix::Deleted),
            _ => segment.rename_to_deleted(),
        });
        let renamed = away
            .try_for_each(|renamed| renamed)
            .and_then(|()| sync_names())
            .and_then(|()| new.rename(Suffix::None))
            .and_then(|()| sync_names());
        self.or_offline(renamed)?;
        Ok(true)
    }
}
