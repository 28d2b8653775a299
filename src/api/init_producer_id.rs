//! InitProducerId (22), versions 0-5: an id and an epoch for a producer.
//!
//! - Without a transactional id: an id nobody had before, epoch 0; an id or epoch that is sent along is not looked at.
//! - With one: as its coordinator says (see `coordinator::transaction`), which answers when it is replicated. An id and epoch
//!   that are sent along are those the producer had (KIP-360).
//! - Checks in order: one of id and epoch without the other, an empty transactional id (both INVALID_REQUEST), a timeout
//!   outside 1..=`transaction.max.timeout.ms` (INVALID_TRANSACTION_TIMEOUT), then the coordinator's.
//! - COORDINATOR_LOAD_IN_PROGRESS while a block of ids is fetched, which is the answer to the first request: clients ask
//!   again. On errors id and epoch are -1. Below version 4 PRODUCER_FENCED is told as INVALID_PRODUCER_EPOCH.

use kafka_protocol::messages::{InitProducerIdRequest, InitProducerIdResponse, ProducerId};

use super::context::RequestContext;
use super::serve::Close;
use super::transactional::fenced_before;
use crate::coordinator::cores::RequestId;
use crate::coordinator::transaction::Init;
use crate::wire::error_code::ErrorCode;

/// Neither an id nor an epoch.
const NONE: i64 = -1;
/// Its clients know PRODUCER_FENCED.
const FIRST_WITH_FENCED: i16 = 4;

pub async fn handle(ctx: &RequestContext<'_>, request: InitProducerIdRequest) -> Result<InitProducerIdResponse, Close> {
    let answer = InitProducerIdResponse::default();
    Ok(match producer_id(ctx, &request).await {
        Ok((id, epoch)) => answer.with_producer_id(ProducerId(id)).with_producer_epoch(epoch),
        Err(code) => {
            let code = fenced_before(FIRST_WITH_FENCED, ctx.version(), code);
            answer.with_error_code(code.code()).with_producer_id(ProducerId(NONE)).with_producer_epoch(NONE as i16)
        }
    })
}

async fn producer_id(ctx: &RequestContext<'_>, request: &InitProducerIdRequest) -> Result<(i64, i16), ErrorCode> {
    if (request.producer_id.0 == NONE) != (i64::from(request.producer_epoch) == NONE) {
        return Err(ErrorCode::InvalidRequest);
    }
    let fresh = || ctx.services.producer_ids.generate();
    let Some(transactional_id) = &request.transactional_id else { return Ok((fresh()?, 0)) };
    if transactional_id.is_empty() {
        return Err(ErrorCode::InvalidRequest);
    }
    if !(1..=ctx.services.config.transaction_max_timeout_ms).contains(&request.transaction_timeout_ms) {
        return Err(ErrorCode::InvalidTransactionTimeout);
    }
    let init = Init {
        // The coordinator numbers its requests.
        request: RequestId(0),
        transactional_id: transactional_id.as_str().into(),
        timeout_ms: request.transaction_timeout_ms,
        expected: (request.producer_id.0 != NONE).then_some((request.producer_id.0, request.producer_epoch)),
    };
    ctx.services.transactions.init(init, fresh).await
}
