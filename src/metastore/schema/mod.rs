//! Kafka's nodes: their paths and their JSON, as types. Bytes are compared with those of a live 3.9.1 cluster.
//!
//! Every type has `decode(path, bytes)` and, when a 3.9 broker writes it, `encode()`. Reading ignores key order and unknown
//! fields and accepts the older versions named; writing follows `inter.broker.protocol.version` 3.9. Maps with more than a
//! few entries are written in key order, where Kafka's order is that of a hash table.

mod broker;
mod cluster;
mod config;
mod notification;
pub mod paths;
mod scram;
mod topic;

pub use broker::*;
pub use cluster::*;
pub use config::*;
pub use notification::*;
pub use scram::*;
pub use topic::*;

use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// A node whose data is not what its path promises.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path} holds no valid data: {why}")]
pub struct Malformed {
    pub path: String,
    pub why: String,
}

impl Malformed {
    fn new(path: &str, why: impl ToString) -> Malformed {
        Malformed { path: path.to_owned(), why: why.to_string() }
    }
}

fn from_json<T: DeserializeOwned>(path: &str, bytes: &[u8]) -> Result<T, Malformed> {
    serde_json::from_slice(bytes).map_err(|error| Malformed::new(path, error))
}

fn to_json(value: &impl Serialize) -> Bytes {
    // Only maps with keys that are no strings could fail; there are none.
    serde_json::to_vec(value).map_or_else(|_| Bytes::new(), Bytes::from)
}

/// A number that Kafka writes as a JSON string.
fn number<T: std::str::FromStr>(path: &str, field: &str, text: &str) -> Result<T, Malformed> {
    text.parse().map_err(|_| Malformed::new(path, format_args!("{field} {text:?} is no number")))
}

#[cfg(test)]
mod tests;
