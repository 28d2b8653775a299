//! InitProducerId (22), versions 0-5: an id and an epoch for a producer.
//!
//! - Without a transactional id: an id nobody had before, epoch 0; an id or epoch that is sent along is not looked at.
//! - Checks in order: one of id and epoch without the other, an empty transactional id (both INVALID_REQUEST), a timeout
//!   outside 1..=`transaction.max.timeout.ms` (INVALID_TRANSACTION_TIMEOUT).
//! - COORDINATOR_LOAD_IN_PROGRESS while a block of ids is fetched, which is the answer to the first request: clients ask
//!   again. On errors id and epoch are -1.
//!
//! Gap: with a transactional id COORDINATOR_NOT_AVAILABLE, see `gaps.md`.

use std::sync::Once;

use kafka_protocol::messages::{InitProducerIdRequest, InitProducerIdResponse, ProducerId};

use super::context::RequestContext;
use super::serve::Close;
use crate::wire::error_code::ErrorCode;

/// Neither an id nor an epoch.
const NONE: i64 = -1;

pub async fn handle(ctx: &RequestContext<'_>, request: InitProducerIdRequest) -> Result<InitProducerIdResponse, Close> {
    let answer = InitProducerIdResponse::default();
    Ok(match producer_id(ctx, &request) {
        Ok(id) => answer.with_producer_id(ProducerId(id)).with_producer_epoch(0),
        Err(code) => {
            answer.with_error_code(code.code()).with_producer_id(ProducerId(NONE)).with_producer_epoch(NONE as i16)
        }
    })
}

fn producer_id(ctx: &RequestContext<'_>, request: &InitProducerIdRequest) -> Result<i64, ErrorCode> {
    if (request.producer_id.0 == NONE) != (i64::from(request.producer_epoch) == NONE) {
        return Err(ErrorCode::InvalidRequest);
    }
    let Some(transactional_id) = &request.transactional_id else { return ctx.services.producer_ids.generate() };
    if transactional_id.is_empty() {
        return Err(ErrorCode::InvalidRequest);
    }
    if !(1..=ctx.services.config.transaction_max_timeout_ms).contains(&request.transaction_timeout_ms) {
        return Err(ErrorCode::InvalidTransactionTimeout);
    }
    static TOLD: Once = Once::new();
    TOLD.call_once(|| {
        tracing::warn!(
            transactional_id = transactional_id.as_str(),
            client_id = ctx.header.client_id.as_deref(),
            client = %ctx.connection.peer,
            "a transactional producer cannot start: there is no transaction coordinator yet"
        );
    });
    Err(ErrorCode::CoordinatorNotAvailable)
}
