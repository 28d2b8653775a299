//! DescribeLogDirs (35), versions 0-4.

use kafka_protocol::messages::{DescribeLogDirsRequest, DescribeLogDirsResponse};

use super::context::RequestContext;
use super::serve::Close;

pub async fn handle(
    _ctx: &RequestContext<'_>,
    _request: DescribeLogDirsRequest,
) -> Result<DescribeLogDirsResponse, Close> {
    todo!()
}
