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
//!
//! # What was tried, and what it gave
//!
//! Measured on two cores, ext4 on a virtio disk, nothing else running; compare within a line only.
//!
//! - One file: 16 KiB + fdatasync 78 MB/s (p50 0.21 ms, p99 0.29), 64 KiB 267, 256 KiB 754, 1 MiB 1,530 (0.66, 1.21).
//!   Beyond a burst the disk is throttled to about 400 MB/s: figures above that say how full its bucket was.
//! - 64 files of 16 KiB, each fdatasynced: one after the other 89 MB/s; 4 at once 182, 16 at once 318, 64 at once 355.
//!   With all their writeback begun first (`sync_file_range`): 152, 281, 333, 355. `syncfs` 445, but it waits for
//!   everybody's data. What is left is a write request for each file, which only a shared log would save. Hence
//!   `FlushQueue`: fsyncs that meet share a commit of the journal, and a slow one holds up no other partition.
//! - With both cores busy each wake-up between fsync's threads waits for a scheduler tick of 4 ms: 16 KiB takes 4 ms.
//!   Several at once hide that too.
//! - The walk over the records of an uncompressed batch, instructions per record of 100 bytes, by callgrind, the loop alone:
//!   178 by iterating over whole records; 182 with varints of two bytes inlined into the parser, not kept; 97 with a way
//!   of its own for the common shape, kept. The same way behind a call per record: 114 to 127, since what is carried from
//!   one call to the next then lives in memory. Of one that has all its lengths in common with the one before, 25
//!   (`Records::survey`), kept.
//! - A topic of 100 partitions: 53 ms of CPU, nearly all in the kernel, with two files made in each directory (just after
//!   deletions ext4 looks at each inode it might give away); 4.5 ms with the directories alone, kept. Two fsyncs, both the
//!   metastore's: a directory that a power loss takes is made again, and what records need is made durable with them.
//! - Start after `kill -9`, 64 MiB behind the checkpoint of a deep log: 316 to 418 ms when the segment around the recovery
//!   point was read whole, 109 on a busy machine with heads alone below it, kept. A head that is not in the page cache is
//!   read with the MiB behind it, so that a cold disk is read in order. Tried before: believing the index files as far as
//!   they rise. A kill between a roll's two files leaves one whole and one empty, and a time index without entries cannot
//!   be told from one of timestamps that never rose; heads cost a microsecond each.
//! - An fsync of the snapshot that recovery takes: not kept. It waits for the data of all files written before the kill.
//! - Start with 1,000 partitions in order: 28 system calls for each, 20 when a log of up to 8 KiB is walked instead of its
//!   indexes opened: 62 ms of CPU to 50.
//! - Log files open at once: 3,500, of which none is needed long. An append to a file that was closed opens it again, which
//!   takes a few microseconds.
//! - Not tried: `fallocate` ahead (length and extent state change with each append all the same, so that the journal
//!   commits), zeros written ahead (appends become overwrites, everything is written twice), io_uring (it runs fsync on
//!   threads of the kernel; these are ours).
//!
//! Rooms in reading order: the disk, small files, batches as they lie in a file, indexes, segment, state kept per log,
//! the log itself, and what looks after many logs.

pub mod disk;
pub mod disk_real;
mod in_parallel;
pub(crate) mod one_at_a_time;

pub(crate) mod atomic_file;
pub mod checkpoint;
mod checkpoint_file;
pub mod clean_marker;
pub mod machine;
pub mod meta_properties;
pub mod partition_metadata;
pub mod session_file;

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
mod check_window;
mod cleaner;
mod flush;
pub mod log;
mod lookup;
mod partition_files;
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
