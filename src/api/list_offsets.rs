//! ListOffsets (2), versions 0-9.

use kafka_protocol::messages::{ListOffsetsRequest, ListOffsetsResponse};

use super::context::RequestContext;
use super::serve::Close;

pub async fn handle(_ctx: &RequestContext<'_>, _request: ListOffsetsRequest) -> Result<ListOffsetsResponse, Close> {
    todo!()
}
