//! Kafka's properties to typed configuration.
//!
//! ```text
//! server.properties ─ properties ─┐
//! --override key=value ───────────┴─ keys (tables of Key rows) ─ load ─ BrokerConfig ── topic_defaults
//! /config/topics/<t> ─────────────── keys::topic ──────────────────────────────────── TopicConfig::resolve
//! ```

pub mod broker;
mod cleaner;
pub mod def;
pub mod dynamic;
pub mod error;
pub mod group;
pub mod inter_broker;
pub mod keys;
pub mod listeners;
mod load;
pub mod password_encoder;
pub mod properties;
mod release;
pub mod replication;
mod throttled;
pub mod topic;
pub mod transaction;
mod values;

pub use broker::BrokerConfig;
pub use cleaner::CleanerConfig;
pub use error::{ConfigError, Warning};
pub use listeners::{Listener, SecurityProtocol};
pub use load::key_of;
pub use replication::{ReplicaSelector, ThrottledRates};
pub use throttled::ThrottledReplicas;
pub use topic::{CompressionType, TimestampType, TopicConfig, TopicConfigError};
pub use values::default_text;
