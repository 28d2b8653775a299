//! AllocateProducerIds (67), version 0: a block of 1,000 producer ids for a broker. Served by the active controller.

use kafka_protocol::messages::{AllocateProducerIdsRequest, AllocateProducerIdsResponse};

use super::context::RequestContext;
use super::serve::Close;
use crate::types::BrokerId;

pub async fn handle(
    ctx: &RequestContext<'_>,
    request: AllocateProducerIdsRequest,
) -> Result<AllocateProducerIdsResponse, Close> {
    ctx.comes_from(BrokerId(request.broker_id.0), request.broker_epoch);
    Ok(ctx.services.serving.allocate_producer_ids(&request).await)
}
