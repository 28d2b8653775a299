//! A disk that does not answer: what changes something below a directory waits until it is let go on.

use std::path::{Path, PathBuf};

use parking_lot::{Condvar, Mutex};

#[derive(Debug, Default)]
pub(super) struct Stall {
    below: Mutex<Option<PathBuf>>,
    changed: Condvar,
}

impl Stall {
    pub fn set(&self, below: Option<PathBuf>) {
        *self.below.lock() = below;
        self.changed.notify_all();
    }

    /// Blocks the thread while a change of `path` has to wait.
    pub fn pass(&self, path: &Path) {
        let mut below = self.below.lock();
        while below.as_deref().is_some_and(|below| path.starts_with(below)) {
            self.changed.wait(&mut below);
        }
    }
}
