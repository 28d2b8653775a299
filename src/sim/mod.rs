//! Simulated surroundings for tests: a disk that forgets unsynced bytes, a network in memory, whole brokers in one
//! runtime.

pub mod disk;

pub mod crash;

pub mod net;

pub mod brokers;
