//! Where a partition's leader went, told with the error that sent the client away (KIP-951): Produce v10+, Fetch v12+
//! for the leader and v16+ for its address.

use super::writer::Writer;
use crate::types::{BrokerId, LeaderEpoch};

/// The leader that the broker knows of (KIP-951). An unknown one is -1, -1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CurrentLeader {
    pub id: BrokerId,
    pub epoch: LeaderEpoch,
}

/// Where a current leader is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeEndpoint {
    pub id: BrokerId,
    pub host: String,
    pub port: i32,
    pub rack: Option<String>,
}

impl CurrentLeader {
    /// Fields that hold their defaults are not sent.
    pub fn is_default(&self) -> bool {
        self.id == BrokerId::NONE && self.epoch == LeaderEpoch::NONE
    }

    pub fn encode(&self, out: &mut Writer) {
        out.i32(self.id.0);
        out.i32(self.epoch.0);
        out.no_tags();
    }
}

/// Ends a Produce or Fetch response: tag 0 with the endpoints, if `known` in this version and there are any.
pub fn write_endpoints(out: &mut Writer, endpoints: &[NodeEndpoint], known: bool) {
    if endpoints.is_empty() || !known {
        out.no_tags();
        return;
    }
    out.tag_count(1);
    out.tag(0, |out| {
        out.len(endpoints.len());
        for node in endpoints {
            out.i32(node.id.0);
            out.string(&node.host);
            out.i32(node.port);
            out.nullable_string(node.rack.as_deref());
            out.no_tags();
        }
    });
}
