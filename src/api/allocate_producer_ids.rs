//! AllocateProducerIds (67), version 0: a block of 1,000 producer ids for a broker. Served by the active controller.
//!
//! First failing check wins: NOT_CONTROLLER → BROKER_ID_NOT_REGISTERED → STALE_BROKER_EPOCH (another epoch than that of the
//! broker's registration). UNKNOWN_SERVER_ERROR when no block could be taken.

use kafka_protocol::messages::{AllocateProducerIdsRequest, AllocateProducerIdsResponse, ProducerId};

use super::context::RequestContext;
use super::serve::Close;
use crate::controller::producer_ids::take_block;
use crate::metastore::schema::ProducerIdBlock;
use crate::types::BrokerId;
use crate::wire::error_code::ErrorCode;

pub async fn handle(
    ctx: &RequestContext<'_>,
    request: AllocateProducerIdsRequest,
) -> Result<AllocateProducerIdsResponse, Close> {
    let answer = AllocateProducerIdsResponse::default();
    Ok(match allocate(ctx, &request).await {
        Ok(block) => answer
            .with_producer_id_start(ProducerId(block.first))
            .with_producer_id_len(i32::try_from(block.last - block.first + 1).unwrap_or(i32::MAX)),
        Err(code) => answer.with_error_code(code.code()),
    })
}

async fn allocate(
    ctx: &RequestContext<'_>,
    request: &AllocateProducerIdsRequest,
) -> Result<ProducerIdBlock, ErrorCode> {
    let services = ctx.services;
    if !services.admin.is_controller() {
        return Err(ErrorCode::NotController);
    }
    let broker = BrokerId(request.broker_id.0);
    let epoch = services.cluster.load().brokers.get(&broker).map(|broker| broker.epoch);
    if epoch.ok_or(ErrorCode::BrokerIdNotRegistered)? != request.broker_epoch {
        return Err(ErrorCode::StaleBrokerEpoch);
    }
    take_block(&*services.admin.store(), broker).await.map_err(|error| {
        tracing::error!(%broker, %error, "no block of producer ids");
        ErrorCode::UnknownServerError
    })
}
