//! CreatePartitions (37), versions 0-3.

use kafka_protocol::messages::{CreatePartitionsRequest, CreatePartitionsResponse};

use super::context::RequestContext;
use super::serve::Close;

pub async fn handle(
    _ctx: &RequestContext<'_>,
    _request: CreatePartitionsRequest,
) -> Result<CreatePartitionsResponse, Close> {
    todo!()
}
