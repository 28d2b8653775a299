//! One member of a group.

use std::sync::Arc;

use bytes::Bytes;

use crate::coordinator::cores::RequestId;
use crate::coordinator::timers::Deadline;

/// Protocols a member supports, best first, with its metadata for each.
pub(super) type Protocols = Vec<(Arc<str>, Bytes)>;

#[derive(Debug)]
pub(super) struct Member {
    pub id: Arc<str>,
    pub group_instance_id: Option<Arc<str>>,
    pub client_id: Arc<str>,
    pub client_host: Arc<str>,
    pub rebalance_timeout_ms: i32,
    pub session_timeout_ms: i32,
    pub protocols: Protocols,
    pub assignment: Bytes,
    /// The join that waits for the end of the join phase. Set through the group, which counts them.
    pub awaiting_join: Option<RequestId>,
    pub awaiting_sync: Option<RequestId>,
    /// Has not completed a join yet: it does not know its id and cannot send heartbeats.
    pub is_new: bool,
    pub session: Deadline,
}

impl Member {
    pub fn is_static(&self) -> bool {
        self.group_instance_id.is_some()
    }

    /// Metadata for `protocol`; empty when the member does not have it.
    pub fn metadata(&self, protocol: Option<&str>) -> Bytes {
        let of = |protocol: &str| self.protocols.iter().find(|(name, _)| &**name == protocol);
        protocol.and_then(of).map(|(_, metadata)| metadata.clone()).unwrap_or_default()
    }
}
