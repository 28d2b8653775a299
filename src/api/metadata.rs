//! Metadata (3), versions 0-12.

use kafka_protocol::messages::{MetadataRequest, MetadataResponse};

use super::context::RequestContext;
use super::serve::Close;

pub async fn handle(_ctx: &RequestContext<'_>, _request: MetadataRequest) -> Result<MetadataResponse, Close> {
    todo!()
}
