//! A single node's metastore: ZooKeeper's tree in process, kept in two plain files, for a broker with nothing beside it.
//!
//! ```text
//! session.create(..) ──► queue ──► committer: apply to the tree, in order ──► one journal write + fsync ──► watches, replies
//! ```
//!
//! Everything that is queued while an fsync runs shares the next one. Reads go through the same queue while a commit is
//! under way, so no reply and no watch ever tells of something that a crash could take back; otherwise they are
//! answered in line. The committer runs as a job of the blocking pool: a caller on the control thread only takes a short
//! lock. A store without files is a tree and nothing else: every call is carried out in line, in order, so the same
//! calls give the same numbers.
//!
//! # What was tried, and what it gave
//!
//! - A topic of 100 partitions took eight fsyncs to make and 203 to delete, one after the other: the controller wrote
//!   node by node. One transaction for what is written together: two and three to four. While a topic is deleted the next one
//!   waits for its turn, so that most of the time a creation seemed to take was the deletion before it.
//! - A journal that grows with each commit has its fsync write the file's length too, by way of the file system's
//!   journal: one took 215 ms among 0.3 ms. Zeros written ahead, kept: an fsync has nothing but its own bytes to write.
//!
//! It is one broker's store, never an ensemble. Several sessions may be open at once (brokers of one simulation).

mod codec;
mod files;
mod session;
mod store;
mod tree;
mod watches;

pub use files::OpenError;
pub use store::{EmbeddedStore, OpenOptions};

#[cfg(test)]
mod tests;
