//! Partitions: leadership, in-sync replicas, high watermark, and those who wait for it.
//!
//! ```text
//! controller message -> table -> partition -> role (isr, follower progress) -> high watermark
//!                                   |  log                                        |
//!                                   +-> group commit                waiters <-----+
//! ```
//! Never decides who leads and never talks to the metastore: the controller says, this room obeys and checks epochs.

pub mod follower;
pub mod high_watermark;
pub mod isr;
pub mod role;

pub mod flush;
pub mod waiters;
pub mod waiting_followers;

pub mod fetcher;
mod fitness;
pub mod isr_changes;
pub mod leader_checks;
pub mod partition;
pub mod promised;
pub mod table;

#[cfg(test)]
pub(crate) mod testing;
