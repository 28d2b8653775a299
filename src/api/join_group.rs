//! JoinGroup (11), versions 0-9: a member comes, or comes back, and waits until the group has its members.
//!
//! Checks in Kafka's order: INVALID_GROUP_ID, COORDINATOR_LOAD_IN_PROGRESS, NOT_COORDINATOR, then what the group says (see
//! `coordinator::group`). Version 0 has one timeout for session and rebalance. From version 4 on a dynamic member without an
//! id is told one first (MEMBER_ID_REQUIRED).
//!
//! A new member's id is its instance's or client's name and 37 bytes more. One that no string could hold cannot be told: the
//! connection is closed, as Kafka closes it, before the group has such a member, which nobody could write down.

use kafka_protocol::messages::join_group_response::JoinGroupResponseMember;
use kafka_protocol::messages::{JoinGroupRequest, JoinGroupResponse};

use super::context::RequestContext;
use super::group_member::{client_host, named, text};
use super::serve::Close;
use crate::coordinator::group::{Join, JoinAnswer, RequestId};

/// Bytes of a string, whose length is an i16.
const STRING_MAX: usize = i16::MAX as usize;

pub async fn handle(ctx: &RequestContext<'_>, request: JoinGroupRequest) -> Result<JoinGroupResponse, Close> {
    let version = ctx.version();
    let member_id = request.member_id.clone();
    let answer = match named(&request.group_id) {
        Ok(_) => ctx.services.groups.join(join(ctx, request)?).await,
        Err(code) => Err(code),
    };
    Ok(response(version, answer.unwrap_or_else(|code| JoinAnswer::refused(&member_id, code))))
}

fn join(ctx: &RequestContext<'_>, request: JoinGroupRequest) -> Result<Join, Close> {
    let version = ctx.version();
    let client_id = ctx.header.client_id.clone().unwrap_or_default();
    let named_after = request.group_instance_id.as_deref().unwrap_or(&client_id);
    let fresh_member_id = format!("{named_after}-{}", ctx.services.random.uuid());
    if request.member_id.is_empty() && fresh_member_id.len() > STRING_MAX {
        return Err(Close(format!("a member id of {} bytes", fresh_member_id.len())));
    }
    Ok(Join {
        // The coordinator numbers its requests.
        request: RequestId(0),
        group: request.group_id.as_str().into(),
        member_id: request.member_id.as_str().into(),
        fresh_member_id: fresh_member_id.into(),
        group_instance_id: request.group_instance_id.as_ref().map(|id| id.as_str().into()),
        client_host: client_host(ctx).into(),
        session_timeout_ms: request.session_timeout_ms,
        rebalance_timeout_ms: if version == 0 { request.session_timeout_ms } else { request.rebalance_timeout_ms },
        protocol_type: request.protocol_type.as_str().into(),
        protocols: request
            .protocols
            .into_iter()
            .map(|protocol| (protocol.name.as_str().into(), protocol.metadata))
            .collect(),
        require_known_member_id: version >= 4,
        may_skip_assignment: version >= 9,
        client_id,
    })
}

fn response(version: i16, answer: JoinAnswer) -> JoinGroupResponse {
    let protocol = answer.protocol.as_deref().map(text);
    let members = answer.members.into_iter().map(|member| {
        JoinGroupResponseMember::default()
            .with_member_id(text(&member.member_id))
            .with_group_instance_id(member.group_instance_id.as_deref().map(text).filter(|_| version >= 5))
            .with_metadata(member.metadata)
    });
    JoinGroupResponse::default()
        .with_error_code(answer.error.code())
        .with_generation_id(answer.generation)
        .with_protocol_type(answer.protocol_type.as_deref().map(text).filter(|_| version >= 7))
        // Clients before version 7 cannot read null.
        .with_protocol_name(if version < 7 { Some(protocol.unwrap_or_default()) } else { protocol })
        .with_leader(text(&answer.leader))
        .with_skip_assignment(version >= 9 && answer.skip_assignment)
        .with_member_id(text(&answer.member_id))
        .with_members(members.collect())
}
