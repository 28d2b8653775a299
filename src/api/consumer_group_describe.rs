//! ConsumerGroupDescribe (69), version 0: UNSUPPORTED_VERSION for each group, as by every Kafka in ZooKeeper mode: groups of
//! the new protocol (KIP-848) need KRaft.

use kafka_protocol::messages::consumer_group_describe_response::DescribedGroup;
use kafka_protocol::messages::{ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse};

use super::context::RequestContext;
use super::serve::Close;
use crate::wire::error_code::ErrorCode;

pub async fn handle(
    _: &RequestContext<'_>,
    request: ConsumerGroupDescribeRequest,
) -> Result<ConsumerGroupDescribeResponse, Close> {
    let refused =
        |group| DescribedGroup::default().with_group_id(group).with_error_code(ErrorCode::UnsupportedVersion.code());
    Ok(ConsumerGroupDescribeResponse::default().with_groups(request.group_ids.into_iter().map(refused).collect()))
}
