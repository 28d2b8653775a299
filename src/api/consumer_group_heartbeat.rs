//! ConsumerGroupHeartbeat (68), version 0: UNSUPPORTED_VERSION, as by every Kafka in ZooKeeper mode: groups of the new
//! protocol (KIP-848) need KRaft.

use kafka_protocol::messages::{ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse};

use super::context::RequestContext;
use super::serve::Close;
use crate::wire::error_code::ErrorCode;

pub async fn handle(
    _: &RequestContext<'_>,
    _: ConsumerGroupHeartbeatRequest,
) -> Result<ConsumerGroupHeartbeatResponse, Close> {
    Ok(ConsumerGroupHeartbeatResponse::default().with_error_code(ErrorCode::UnsupportedVersion.code()))
}
