//! DescribeConfigs (32), versions 0-4.

use kafka_protocol::messages::{DescribeConfigsRequest, DescribeConfigsResponse};

use super::context::RequestContext;
use super::serve::Close;

pub async fn handle(
    _ctx: &RequestContext<'_>,
    _request: DescribeConfigsRequest,
) -> Result<DescribeConfigsResponse, Close> {
    todo!()
}
