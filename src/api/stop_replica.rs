//! StopReplica (5), versions 0 to 4: the controller takes replicas away. Checks: `controller::receiver`.

use kafka_protocol::messages::{StopReplicaRequest, StopReplicaResponse};

use super::context::RequestContext;
use super::serve::Close;
use crate::controller::rpc::stop_replica;
use crate::types::BrokerId;

pub async fn handle(ctx: &RequestContext<'_>, request: StopReplicaRequest) -> Result<StopReplicaResponse, Close> {
    ctx.comes_from(BrokerId(request.controller_id.0), -1);
    let answer = ctx.services.receiver.receive(stop_replica::read(&request)).await;
    Ok(stop_replica::response(&answer))
}
