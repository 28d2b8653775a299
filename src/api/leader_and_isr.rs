//! LeaderAndIsr (4), versions 0 to 7: the controller says who leads and follows. Checks: `controller::receiver`.

use kafka_protocol::messages::{LeaderAndIsrRequest, LeaderAndIsrResponse};

use super::context::RequestContext;
use super::serve::Close;
use crate::controller::rpc::leader_and_isr;
use crate::types::BrokerId;

pub async fn handle(ctx: &RequestContext<'_>, request: LeaderAndIsrRequest) -> Result<LeaderAndIsrResponse, Close> {
    ctx.comes_from(BrokerId(request.controller_id.0), -1);
    let answer = ctx.services.receiver.receive(leader_and_isr::read(&request)).await;
    Ok(leader_and_isr::response(&answer, &request, ctx.version()))
}
