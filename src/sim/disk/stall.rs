//! A disk that does not answer: what changes something below a directory, or asks whether it is there, waits until it is let
//! go on.

use std::path::{Path, PathBuf};

use parking_lot::{Condvar, Mutex};

#[derive(Debug, Default)]
pub(super) struct Stall {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    below: Option<PathBuf>,
    /// Files whose writes wait, each as often as it does.
    writes: Vec<PathBuf>,
    /// What else waits, as often as it does.
    others: Vec<PathBuf>,
}

impl State {
    fn holds_up(&self, path: &Path) -> bool {
        self.below.as_deref().is_some_and(|below| path.starts_with(below))
    }
}

impl Stall {
    pub fn set(&self, below: Option<PathBuf>) {
        self.state.lock().below = below;
        self.changed.notify_all();
    }

    /// Blocks the thread while what is asked of `path` has to wait.
    pub fn pass(&self, path: &Path) {
        self.wait(path, |state| &mut state.others);
    }

    /// [`Stall::pass`] for a write to the file `path`, which [`Stall::until_a_write_waits`] learns of.
    pub fn pass_write(&self, path: &Path) {
        self.wait(path, |state| &mut state.writes);
    }

    /// Noted in `kind` meanwhile.
    fn wait(&self, path: &Path, kind: fn(&mut State) -> &mut Vec<PathBuf>) {
        let mut state = self.state.lock();
        if !state.holds_up(path) {
            return;
        }
        kind(&mut state).push(path.to_path_buf());
        self.changed.notify_all();
        self.changed.wait_while(&mut state, |state| state.holds_up(path));
        let waiting = kind(&mut state);
        if let Some(mine) = waiting.iter().position(|waits| waits == path) {
            waiting.swap_remove(mine);
        }
    }

    /// Blocks the thread until a write to the file `path` waits.
    pub fn until_a_write_waits(&self, path: &Path) {
        self.changed.wait_while(&mut self.state.lock(), |state| !state.writes.iter().any(|waits| waits == path));
    }

    /// Blocks the thread until something below `dir` waits.
    pub fn until_something_waits(&self, dir: &Path) {
        let waits = |state: &State| state.writes.iter().chain(&state.others).any(|path| path.starts_with(dir));
        self.changed.wait_while(&mut self.state.lock(), |state| !waits(state));
    }
}
