//! Logs on disk in Kafka's formats: segments, indexes, producer state, checkpoints, recovery, retention.
//! Knows nothing of leaders, sockets or requests.
//!
//! ```text
//! LogManager ── LogDir (one per log.dirs entry: .lock, meta.properties, checkpoints, group commit)
//!     └─ Log (one per partition directory)
//!          ├─ LogView: what readers see, immutable    ── Segment … Segment (active)
//!          ├─ Writer: what appends change, one lock         ├─ .log  .index  .timeindex  .txnindex
//!          └─ EpochCache, ProducerStates                    └─ LazyFile ── FileCache ── Disk
//! ```
//! Rooms in reading order: the disk, small files, batches as they lie in a file, indexes, segment, state kept per log,
//! the log itself, and what looks after many logs.

pub mod disk;
pub mod disk_real;
mod in_parallel;

pub(crate) mod atomic_file;
pub mod checkpoint;
mod checkpoint_file;
pub mod clean_marker;
pub mod meta_properties;
pub mod partition_metadata;

pub mod file_cache;

pub mod entry;
mod records;

pub mod index_file;
pub mod offset_index;
pub mod time_index;
pub mod txn_index;

pub mod segment;

pub mod epoch_cache;
pub mod producer_snapshot;
pub mod producer_state;

mod append;
mod flush;
pub mod log;
mod lookup;
mod recovery;
mod retention;
mod truncate;
mod view;

pub mod validator;

pub mod log_dir;
pub mod manager;
mod partition_dir;

#[cfg(test)]
mod crashes;
#[cfg(test)]
mod damage;
#[cfg(test)]
pub(crate) mod testing;
