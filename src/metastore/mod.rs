//! The ZooKeeper-shaped store that holds cluster state: trait, schema, two implementations, one conformance suite.

mod store;

pub use store::*;
