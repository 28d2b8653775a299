//! DescribeCluster (60), versions 0-1.

use kafka_protocol::messages::{DescribeClusterRequest, DescribeClusterResponse};

use super::context::RequestContext;
use super::serve::Close;

pub async fn handle(
    _ctx: &RequestContext<'_>,
    _request: DescribeClusterRequest,
) -> Result<DescribeClusterResponse, Close> {
    todo!()
}
