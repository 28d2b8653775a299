//! SyncGroup (14), versions 0-5: the leader brings the assignment, everybody fetches theirs.
//!
//! While the coordinator loads its groups a member is told to join again (REBALANCE_IN_PROGRESS): it has nothing to wait for.
//! From version 5 on protocol type and name must be given and be the group's: INCONSISTENT_GROUP_PROTOCOL.

use kafka_protocol::messages::{SyncGroupRequest, SyncGroupResponse};

use super::context::RequestContext;
use super::group_member::{named, speaker, text};
use super::serve::Close;
use crate::coordinator::group::{RequestId, Sync, SyncAnswer};
use crate::wire::error_code::ErrorCode;

pub async fn handle(ctx: &RequestContext<'_>, request: SyncGroupRequest) -> Result<SyncGroupResponse, Close> {
    let version = ctx.version();
    let answer = sync(ctx, request).await.unwrap_or_else(|code| {
        SyncAnswer::refused(match code {
            ErrorCode::CoordinatorLoadInProgress => ErrorCode::RebalanceInProgress,
            other => other,
        })
    });
    Ok(SyncGroupResponse::default()
        .with_error_code(answer.error.code())
        .with_protocol_type(answer.protocol_type.as_deref().map(text).filter(|_| version >= 5))
        .with_protocol_name(answer.protocol.as_deref().map(text).filter(|_| version >= 5))
        .with_assignment(answer.assignment))
}

async fn sync(ctx: &RequestContext<'_>, request: SyncGroupRequest) -> Result<SyncAnswer, ErrorCode> {
    if ctx.version() >= 5 && (request.protocol_type.is_none() || request.protocol_name.is_none()) {
        return Err(ErrorCode::InconsistentGroupProtocol);
    }
    let sync = Sync {
        // The coordinator numbers its requests.
        request: RequestId(0),
        group: named(&request.group_id)?,
        speaker: speaker(request.generation_id, &request.member_id, request.group_instance_id.as_ref()),
        protocol_type: request.protocol_type.as_deref().map(Into::into),
        protocol: request.protocol_name.as_deref().map(Into::into),
        assignments: request
            .assignments
            .into_iter()
            .map(|assigned| (assigned.member_id.as_str().into(), assigned.assignment))
            .collect(),
    };
    ctx.services.groups.sync(sync).await
}
