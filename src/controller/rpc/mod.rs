//! What brokers say to each other about leadership, in Kafka's bytes.
//!
//! Requests are written in the versions that `inter.broker.protocol.version` names and read in all of them; answers are
//! written in the version of their request. Frames of a live 3.9.1 are in `recorded`.

pub mod alter_partition;
pub mod leader_and_isr;
pub mod stop_replica;
pub mod update_metadata;

pub mod remote;

use std::sync::Arc;

use kafka_protocol::messages::{BrokerId as WireId, TopicName};
use kafka_protocol::protocol::StrBytes;

use crate::cluster::Broker;
use crate::types::{BrokerId, Endpoint, TopicPartition};

fn to_wire(ids: &[BrokerId]) -> Vec<WireId> {
    ids.iter().map(|id| WireId(id.0)).collect()
}

fn from_wire(ids: &[WireId]) -> Vec<BrokerId> {
    ids.iter().map(|id| BrokerId(id.0)).collect()
}

fn text(text: &str) -> StrBytes {
    StrBytes::from_string(text.to_owned())
}

fn topic_name(topic: &str) -> TopicName {
    TopicName(text(topic))
}

/// The name of a topic whose partitions follow.
fn topic_of(name: &TopicName) -> Arc<str> {
    Arc::from(name.as_str())
}

/// Runs of one topic.
fn by_topic<T>(partitions: &[T], tp: impl Fn(&T) -> &TopicPartition) -> impl Iterator<Item = &[T]> {
    partitions.chunk_by(move |one, next| tp(one).topic == tp(next).topic)
}

/// Where a broker is reached by other brokers.
fn endpoint<'a>(broker: &'a Broker, listener: &str) -> Option<&'a Endpoint> {
    broker.endpoints.get(listener)
}

#[cfg(test)]
mod recorded;
