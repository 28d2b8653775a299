//! CreateTopics (19), versions 0-7.

use kafka_protocol::messages::{CreateTopicsRequest, CreateTopicsResponse};

use super::context::RequestContext;
use super::serve::Close;

pub async fn handle(_ctx: &RequestContext<'_>, _request: CreateTopicsRequest) -> Result<CreateTopicsResponse, Close> {
    todo!()
}
