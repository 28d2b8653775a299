//! The ZooKeeper-shaped store that holds cluster state: trait, schema, two implementations, one conformance suite.

pub mod path;
pub mod schema;
mod store;

pub mod embedded;
pub mod zookeeper;

#[cfg(feature = "sim")]
pub mod conformance;

pub use store::*;
