//! Heartbeat (12), versions 0-4: a member is there. While the coordinator loads its groups every heartbeat is good: members
//! would otherwise all join again.

use kafka_protocol::messages::{HeartbeatRequest, HeartbeatResponse};

use super::context::RequestContext;
use super::group_member::{named, speaker};
use super::serve::Close;
use crate::wire::error_code::ErrorCode;

pub async fn handle(ctx: &RequestContext<'_>, request: HeartbeatRequest) -> Result<HeartbeatResponse, Close> {
    let speaker = speaker(request.generation_id, &request.member_id, request.group_instance_id.as_ref());
    let told = named(&request.group_id).and_then(|group| ctx.services.groups.heartbeat(&group, &speaker));
    let code = match told {
        Err(ErrorCode::CoordinatorLoadInProgress) => ErrorCode::None,
        Ok(code) | Err(code) => code,
    };
    if code == ErrorCode::UnknownMemberId {
        ctx.services.telltales.lost_member(ctx, &request.group_id, &request.member_id);
    }
    Ok(HeartbeatResponse::default().with_error_code(code.code()))
}
