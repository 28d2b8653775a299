//! IncrementalAlterConfigs (44), versions 0-1.

use kafka_protocol::messages::{IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse};

use super::context::RequestContext;
use super::serve::Close;

pub async fn handle(
    _ctx: &RequestContext<'_>,
    _request: IncrementalAlterConfigsRequest,
) -> Result<IncrementalAlterConfigsResponse, Close> {
    todo!()
}
