//! Partitions: leadership, in-sync replicas, high watermark, and those who wait for it.

pub mod partition;
pub mod table;
pub mod waiters;
