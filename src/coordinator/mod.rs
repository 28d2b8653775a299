//! Coordinators: what the broker keeps for its clients in topics of its own.
//!
//! ```text
//! group::Groups      (core)    one partition of __consumer_offsets: its groups, members, offsets
//! group_coordinator  (driver)  the partitions this broker leads: loads, appends, waits, answers
//! shard, loader      one such partition behind its lock; its log read into groups
//! records            the bytes of their records, Kafka's
//! timers             deadlines that move without being touched
//! ```
//! Cores take time, ids and the outcome of appends as arguments and return effects; drivers append, wait and answer.

pub mod placement;
pub mod records;
pub mod subscription;
pub mod timers;

pub mod group;

pub mod group_coordinator;
mod loader;
mod shard;
