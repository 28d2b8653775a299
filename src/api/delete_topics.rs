//! DeleteTopics (20), versions 0-6.

use kafka_protocol::messages::{DeleteTopicsRequest, DeleteTopicsResponse};

use super::context::RequestContext;
use super::serve::Close;

pub async fn handle(_ctx: &RequestContext<'_>, _request: DeleteTopicsRequest) -> Result<DeleteTopicsResponse, Close> {
    todo!()
}
