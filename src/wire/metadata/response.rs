//! The answer to a metadata request, written straight from borrowed values.
//!
//! ```text
//! throttle_ms i32 (3+)  [ node_id i32  host  port i32  rack (1+, nullable) ]  cluster_id (2+, nullable)
//! controller_id i32 (1+)
//! [ error i16  name (nullable 12+)  topic_id (10+)  is_internal bool (1+)
//!   [ error i16  partition i32  leader i32  leader_epoch i32 (7+)  [ replica ]  [ isr ]  [ offline replica ] (5+) ]
//!   topic_authorized_operations i32 (8+) ]
//! cluster_authorized_operations i32 (8..10)
//! ```

use std::borrow::Cow;

use crate::types::{BrokerId, LeaderEpoch, TopicId};
use crate::wire::error_code::ErrorCode;
use crate::wire::writer::Writer;

/// A live broker on the listener that was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Node<'a> {
    pub id: BrokerId,
    pub host: &'a str,
    pub port: u16,
    pub rack: Option<&'a str>,
}

/// One partition of a topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionResponse<'a> {
    pub error: ErrorCode,
    pub index: i32,
    pub leader: BrokerId,
    pub leader_epoch: LeaderEpoch,
    pub replicas: Cow<'a, [BrokerId]>,
    pub isr: Cow<'a, [BrokerId]>,
    pub offline: &'a [BrokerId],
}

/// One topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicResponse<'a> {
    pub error: ErrorCode,
    /// Null is written as "" below v12.
    pub name: Option<&'a str>,
    pub id: TopicId,
    pub is_internal: bool,
    pub partitions: Vec<PartitionResponse<'a>>,
    /// [`super::NOT_ASKED`] when not asked for.
    pub authorized_operations: i32,
}

/// A whole response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetadataResponse<'a> {
    pub throttle_ms: i32,
    pub nodes: Vec<Node<'a>>,
    pub cluster_id: Option<&'a str>,
    pub controller_id: BrokerId,
    pub topics: Vec<TopicResponse<'a>>,
    /// [`super::NOT_ASKED`] when not asked for.
    pub cluster_authorized_operations: i32,
}

impl MetadataResponse<'_> {
    /// Writes the body.
    pub fn encode(&self, out: &mut Writer, version: i16) {
        if version >= 3 {
            out.i32(self.throttle_ms);
        }
        out.len(self.nodes.len());
        for node in &self.nodes {
            out.i32(node.id.0);
            out.string(node.host);
            out.i32(node.port.into());
            if version >= 1 {
                out.nullable_string(node.rack);
            }
            out.no_tags();
        }
        if version >= 2 {
            out.nullable_string(self.cluster_id);
        }
        if version >= 1 {
            out.i32(self.controller_id.0);
        }
        out.len(self.topics.len());
        for topic in &self.topics {
            topic.encode(out, version);
        }
        if (8..=10).contains(&version) {
            out.i32(self.cluster_authorized_operations);
        }
        out.no_tags();
    }
}

impl TopicResponse<'_> {
    fn encode(&self, out: &mut Writer, version: i16) {
        out.i16(self.error.code());
        match self.name {
            None if version >= 12 => out.nullable_string(None),
            name => out.string(name.unwrap_or_default()),
        }
        if version >= 10 {
            out.topic_id(self.id);
        }
        if version >= 1 {
            out.bool(self.is_internal);
        }
        out.len(self.partitions.len());
        for partition in &self.partitions {
            partition.encode(out, version);
        }
        if version >= 8 {
            out.i32(self.authorized_operations);
        }
        out.no_tags();
    }
}

impl PartitionResponse<'_> {
    fn encode(&self, out: &mut Writer, version: i16) {
        out.i16(self.error.code());
        out.i32(self.index);
        out.i32(self.leader.0);
        if version >= 7 {
            out.i32(self.leader_epoch.0);
        }
        write_brokers(out, &self.replicas);
        write_brokers(out, &self.isr);
        if version >= 5 {
            write_brokers(out, self.offline);
        }
        out.no_tags();
    }
}

fn write_brokers(out: &mut Writer, brokers: &[BrokerId]) {
    out.len(brokers.len());
    for broker in brokers {
        out.i32(broker.0);
    }
}
