//! StopReplica (5), versions 0 to 4: the controller takes replicas away. Checks: `controller::receiver`.

use kafka_protocol::messages::{StopReplicaRequest, StopReplicaResponse};

use super::context::RequestContext;
use super::serve::Close;
use crate::controller::rpc::stop_replica;

pub async fn handle(ctx: &RequestContext<'_>, request: StopReplicaRequest) -> Result<StopReplicaResponse, Close> {
    let answer = ctx.services.receiver.receive(stop_replica::read(&request)).await;
    Ok(stop_replica::response(&answer))
}
