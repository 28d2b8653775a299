//! The broker as a member of its cluster: its session with the metastore, its registration, and what every handler
//! reads: metadata as one immutable snapshot, swapped whole, and dynamic configuration.

mod configs;
mod contacts;
mod conversation;
pub mod internal_topics;
pub mod peer;
mod snapshot;
pub mod suspicion;
mod watched;

mod session;

mod config_listener;
mod former_life;
mod quota_configs;
mod registration;

pub mod consumer_offsets;

pub use config_listener::*;
pub use configs::*;
pub use contacts::*;
pub use conversation::*;
pub use former_life::{Replicas, absence, end_former_life, replicated_on};
pub use quota_configs::*;
pub use registration::*;
pub use session::*;
pub use snapshot::*;
pub use watched::WatchedConnector;
