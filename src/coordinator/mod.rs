//! Coordinators: what the broker keeps for its clients in topics of its own.
//!
//! ```text
//! group::Groups              (core)    one partition of __consumer_offsets: its groups, members, offsets
//! transaction::Transactions  (core)    one partition of __transaction_state: its transactional ids
//! group_coordinator          (driver)  what is asked of groups
//! transaction_coordinator    (driver)  what is asked of transactional ids; markers sent, transactions verified
//! shards, shard, loader      the partitions this broker leads: loads, appends, waits; one behind its lock; its log read
//! markers                    the end of transactions in the partitions led here
//! records                    the bytes of groups' records, Kafka's
//! timers                     deadlines that move without being touched
//! rules                      those of a core that a test can switch off
//! ```
//! Cores take time, ids and the outcome of appends as arguments and return effects; drivers append, wait and answer.

pub mod placement;
pub mod records;
pub mod subscription;
pub mod timers;

pub mod cores;
pub mod group;
pub mod transaction;

mod couriers;
pub mod group_coordinator;
pub mod loader;
pub mod markers;
mod rules;
#[cfg(test)]
mod seeds;
mod shard;
mod shards;
pub mod transaction_coordinator;
