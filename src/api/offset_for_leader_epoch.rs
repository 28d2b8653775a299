//! OffsetForLeaderEpoch (23), versions 0-4.

use kafka_protocol::messages::{OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse};

use super::context::RequestContext;
use super::serve::Close;

pub async fn handle(
    _ctx: &RequestContext<'_>,
    _request: OffsetForLeaderEpochRequest,
) -> Result<OffsetForLeaderEpochResponse, Close> {
    todo!()
}
