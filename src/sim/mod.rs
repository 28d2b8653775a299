//! Simulated surroundings for tests: a disk that forgets unsynced bytes, in-memory listeners.

pub mod disk;
