//! AlterConfigs (33), versions 0-2.

use kafka_protocol::messages::{AlterConfigsRequest, AlterConfigsResponse};

use super::context::RequestContext;
use super::serve::Close;

pub async fn handle(_ctx: &RequestContext<'_>, _request: AlterConfigsRequest) -> Result<AlterConfigsResponse, Close> {
    todo!()
}
