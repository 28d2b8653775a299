//! Logs on disk in Kafka's formats: segments, indexes, producer state, checkpoints, recovery, retention.
//! Knows nothing of leaders, sockets or requests.

pub mod disk;
pub mod log;
pub mod manager;
pub mod validator;
