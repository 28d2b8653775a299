//! Klamm: a broker that speaks Apache Kafka's binary protocol.
//!
//! Modules stand in reading order; each may use those above it, never those below.

pub mod alloc;
pub mod api;
pub mod broker;
pub mod cli;
pub mod clock;
pub mod cluster;
pub mod config;
pub mod controller;
pub mod coordinator;
pub mod environment;
pub mod loggers;
pub mod metastore;
pub mod net;
pub mod quota;
pub mod random;
pub mod replication;
#[cfg(feature = "sim")]
pub mod sim;
pub mod spawn;
pub mod storage;
#[cfg(test)]
mod tidy;
pub mod types;
pub mod wire;

#[global_allocator]
static ALLOCATOR: alloc::LazyLarge = alloc::LazyLarge;
