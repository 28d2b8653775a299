//! What every handler reads: the cluster's metadata as one immutable snapshot, swapped whole.

mod configs;
mod snapshot;

pub use configs::*;
pub use snapshot::*;
