//! Simulated surroundings for tests: a disk that forgets unsynced bytes, a network in memory, a ZooKeeper behind one, whole
//! brokers in one runtime.

pub mod disk;

pub mod crash;

pub mod meddler;

pub mod net;

mod trace;
mod traced;

mod process;

pub mod zookeeper;

pub mod brokers;
