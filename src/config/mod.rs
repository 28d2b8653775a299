//! Kafka's properties to typed configuration.

pub mod broker;
pub mod topic;

pub use broker::BrokerConfig;
pub use topic::TopicConfig;
