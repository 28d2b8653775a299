//! What the group APIs have in common: who asks, and about which group.

use std::net::IpAddr;
use std::sync::Arc;

use kafka_protocol::messages::GroupId;
use kafka_protocol::protocol::StrBytes;

use super::context::RequestContext;
use crate::coordinator::group::Speaker;
use crate::wire::error_code::ErrorCode;

/// A group's name; INVALID_GROUP_ID for none where members are meant.
pub fn named(group: &GroupId) -> Result<Arc<str>, ErrorCode> {
    match group.as_str() {
        "" => Err(ErrorCode::InvalidGroupId),
        name => Ok(name.into()),
    }
}

pub fn speaker(generation: i32, member_id: &StrBytes, group_instance_id: Option<&StrBytes>) -> Speaker {
    Speaker {
        generation,
        member_id: member_id.as_str().into(),
        group_instance_id: group_instance_id.map(|id| id.as_str().into()),
    }
}

/// As Java prints the address of a peer: behind a slash.
pub fn client_host(ctx: &RequestContext<'_>) -> String {
    let peer = match ctx.connection.peer {
        IpAddr::V6(v6) => v6.to_ipv4_mapped().map_or(IpAddr::V6(v6), IpAddr::V4),
        v4 => v4,
    };
    format!("/{peer}")
}

pub fn text(of: &str) -> StrBytes {
    StrBytes::from_string(of.to_owned())
}
