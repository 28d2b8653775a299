//! LeaveGroup (13), versions 0-5: members go. Up to version 2 one, whose error is the response's; from 3 on several, also
//! static members by their instance id alone.

use kafka_protocol::messages::leave_group_response::MemberResponse;
use kafka_protocol::messages::{LeaveGroupRequest, LeaveGroupResponse};

use super::context::RequestContext;
use super::group_member::named;
use super::serve::Close;
use crate::coordinator::group::Leaving;
use crate::wire::error_code::ErrorCode;

const POLL_TIMEOUT: &str = "consumer poll timeout";

pub async fn handle(ctx: &RequestContext<'_>, request: LeaveGroupRequest) -> Result<LeaveGroupResponse, Close> {
    let leaving: Vec<Leaving> = match ctx.version() {
        0..=2 => vec![Leaving { member_id: request.member_id.as_str().into(), group_instance_id: None }],
        _ => {
            let leaving = request.members.iter().map(|member| Leaving {
                member_id: member.member_id.as_str().into(),
                group_instance_id: member.group_instance_id.as_ref().map(|id| id.as_str().into()),
            });
            leaving.collect()
        }
    };
    // A consumer of Java that is late with its next poll leaves by itself, with this reason.
    for member in &request.members {
        if member.reason.as_ref().is_some_and(|reason| reason.starts_with(POLL_TIMEOUT)) {
            ctx.services.telltales.lost_member(ctx, &request.group_id, &member.member_id);
        }
    }
    let told = named(&request.group_id).and_then(|group| ctx.services.groups.leave(&group, &leaving));
    let response = LeaveGroupResponse::default();
    Ok(match told {
        Err(code) => response.with_error_code(code.code()),
        Ok(errors) if ctx.version() < 3 => {
            response.with_error_code(errors.first().map_or(ErrorCode::None, |code| *code).code())
        }
        Ok(errors) => {
            let members = request.members.into_iter().zip(errors).map(|(member, code)| {
                MemberResponse::default()
                    .with_member_id(member.member_id)
                    .with_group_instance_id(member.group_instance_id)
                    .with_error_code(code.code())
            });
            response.with_members(members.collect())
        }
    })
}
