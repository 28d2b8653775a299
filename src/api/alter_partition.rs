//! AlterPartition (56), versions 0 to 3: a leader asks the controller for another ISR.

use kafka_protocol::messages::{AlterPartitionRequest, AlterPartitionResponse};

use super::context::RequestContext;
use super::serve::Close;
use crate::types::BrokerId;

pub async fn handle(ctx: &RequestContext<'_>, request: AlterPartitionRequest) -> Result<AlterPartitionResponse, Close> {
    ctx.comes_from(BrokerId(request.broker_id.0), request.broker_epoch);
    Ok(ctx.services.serving.alter_partition(&request, ctx.version()).await)
}
