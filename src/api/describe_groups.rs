//! DescribeGroups (15), versions 0-5: state, members and assignments. A group that is not there is Dead, and no error.
//! Without an authorizer the authorized operations are all there are: read, delete, describe.

use kafka_protocol::messages::describe_groups_response::{DescribedGroup, DescribedGroupMember};
use kafka_protocol::messages::{DescribeGroupsRequest, DescribeGroupsResponse, GroupId};

use super::context::RequestContext;
use super::group_member::text;
use super::serve::Close;
use crate::coordinator::group::Described;

/// Bits 3, 6, 8.
const ALL_GROUP_OPERATIONS: i32 = 1 << 3 | 1 << 6 | 1 << 8;

pub async fn handle(ctx: &RequestContext<'_>, request: DescribeGroupsRequest) -> Result<DescribeGroupsResponse, Close> {
    let operations = request.include_authorized_operations;
    let groups = request.groups.into_iter().map(|group| match ctx.services.groups.describe(&group) {
        Ok(described) => {
            let group = described_group(ctx.version(), group, described);
            if operations { group.with_authorized_operations(ALL_GROUP_OPERATIONS) } else { group }
        }
        Err(code) => DescribedGroup::default().with_group_id(group).with_error_code(code.code()),
    });
    Ok(DescribeGroupsResponse::default().with_groups(groups.collect()))
}

fn described_group(version: i16, group: GroupId, described: Described) -> DescribedGroup {
    let members = described.members.into_iter().map(|member| {
        DescribedGroupMember::default()
            .with_member_id(text(&member.member_id))
            .with_group_instance_id(member.group_instance_id.as_deref().map(text).filter(|_| version >= 4))
            .with_client_id(text(&member.client_id))
            .with_client_host(text(&member.client_host))
            .with_member_metadata(member.metadata)
            .with_member_assignment(member.assignment)
    });
    DescribedGroup::default()
        .with_group_id(group)
        .with_group_state(text(described.state.name()))
        .with_protocol_type(text(&described.protocol_type))
        .with_protocol_data(text(&described.protocol))
        .with_members(members.collect())
}
