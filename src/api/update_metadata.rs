//! UpdateMetadata (6), versions 0 to 8: the controller says what there is. Checks: `controller::receiver`.

use kafka_protocol::messages::{UpdateMetadataRequest, UpdateMetadataResponse};

use super::context::RequestContext;
use super::serve::Close;
use crate::controller::rpc::update_metadata;
use crate::types::BrokerId;

pub async fn handle(ctx: &RequestContext<'_>, request: UpdateMetadataRequest) -> Result<UpdateMetadataResponse, Close> {
    ctx.comes_from(BrokerId(request.controller_id.0), -1);
    let answer = ctx.services.receiver.receive(update_metadata::read(&request, ctx.version())).await;
    Ok(update_metadata::response(&answer))
}
