//! DeleteGroups (42), versions 0-2: groups without members go, with what they committed. NON_EMPTY_GROUP,
//! GROUP_ID_NOT_FOUND. A group named twice is answered once.

use std::collections::HashSet;

use kafka_protocol::messages::delete_groups_response::DeletableGroupResult;
use kafka_protocol::messages::{DeleteGroupsRequest, DeleteGroupsResponse};

use super::context::RequestContext;
use super::serve::Close;
use crate::wire::error_code::ErrorCode;

pub async fn handle(ctx: &RequestContext<'_>, request: DeleteGroupsRequest) -> Result<DeleteGroupsResponse, Close> {
    let mut seen = HashSet::new();
    let groups = request.groups_names.into_iter().filter(|group| seen.insert(group.clone()));
    let results = groups.map(|group| {
        let code = ctx.services.groups.delete(&group).err().unwrap_or(ErrorCode::None);
        DeletableGroupResult::default().with_group_id(group).with_error_code(code.code())
    });
    Ok(DeleteGroupsResponse::default().with_results(results.collect()))
}
