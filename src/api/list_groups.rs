//! ListGroups (16), versions 0-5: the groups that this broker coordinates. States (from version 4) and types (from 5) filter,
//! in any case; every group here is of the classic type.

use kafka_protocol::messages::list_groups_response::ListedGroup;
use kafka_protocol::messages::{GroupId, ListGroupsRequest, ListGroupsResponse};

use super::context::RequestContext;
use super::group_member::text;
use super::serve::Close;

const CLASSIC: &str = "classic";

pub async fn handle(ctx: &RequestContext<'_>, request: ListGroupsRequest) -> Result<ListGroupsResponse, Close> {
    let version = ctx.version();
    let (listed, error) = ctx.services.groups.list();
    let response = ListGroupsResponse::default().with_error_code(error.code());
    let types = &request.types_filter;
    if !types.is_empty() && !types.iter().any(|wanted| wanted.eq_ignore_ascii_case(CLASSIC)) {
        return Ok(response);
    }
    let states = &request.states_filter;
    let wanted = |state: &str| states.is_empty() || states.iter().any(|wanted| wanted.eq_ignore_ascii_case(state));
    let groups = listed.into_iter().filter(|group| wanted(group.state.name())).map(|group| {
        let listed = ListedGroup::default()
            .with_group_id(GroupId(text(&group.group)))
            .with_protocol_type(text(&group.protocol_type));
        let listed = if version >= 4 { listed.with_group_state(text(group.state.name())) } else { listed };
        if version >= 5 { listed.with_group_type(text(CLASSIC)) } else { listed }
    });
    Ok(response.with_groups(groups.collect()))
}
