//! EndTxn (26), versions 0-4: a producer commits or aborts its transaction. Answered when the decision is replicated; the
//! markers follow.
//!
//! An empty transactional id is INVALID_REQUEST; the rest is up to the coordinator (see `coordinator::transaction`). Below
//! version 2 PRODUCER_FENCED is told as INVALID_PRODUCER_EPOCH.

use kafka_protocol::messages::{EndTxnRequest, EndTxnResponse};

use super::context::RequestContext;
use super::serve::Close;
use super::transactional::{FIRST_WITH_FENCED, fenced_before};
use crate::coordinator::cores::RequestId;
use crate::coordinator::transaction::End;
use crate::wire::error_code::ErrorCode;

pub async fn handle(ctx: &RequestContext<'_>, request: EndTxnRequest) -> Result<EndTxnResponse, Close> {
    let code = match request.transactional_id.as_str() {
        "" => ErrorCode::InvalidRequest,
        id => {
            let end = End {
                // The coordinator numbers its requests.
                request: RequestId(0),
                transactional_id: id.into(),
                producer_id: request.producer_id.0,
                producer_epoch: request.producer_epoch,
                commit: request.committed,
            };
            ctx.services.transactions.end(end).await
        }
    };
    let code = fenced_before(FIRST_WITH_FENCED, ctx.version(), code);
    Ok(EndTxnResponse::default().with_error_code(code.code()))
}
