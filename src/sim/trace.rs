//! What a run did, in order, as text: two runs of one seed are compared by it.

use std::fmt::Write as _;
use std::sync::Arc;

use parking_lot::Mutex;

/// What happened, in order, as text.
#[derive(Clone, Debug, Default)]
pub struct Trace(Arc<Mutex<String>>);

impl Trace {
    pub fn note(&self, line: impl std::fmt::Display) {
        // Writing to a string does not fail.
        let _ = writeln!(self.0.lock(), "{line}");
    }

    pub fn text(&self) -> String {
        self.0.lock().clone()
    }
}
