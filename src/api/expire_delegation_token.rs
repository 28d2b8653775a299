//! ExpireDelegationToken (40), versions 0-2: DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, as by a Kafka on a PLAINTEXT listener.

use kafka_protocol::messages::{ExpireDelegationTokenRequest, ExpireDelegationTokenResponse};

use super::context::RequestContext;
use super::create_delegation_token::NO_TIME;
use super::serve::Close;
use crate::wire::error_code::ErrorCode;

pub async fn handle(
    _: &RequestContext<'_>,
    _: ExpireDelegationTokenRequest,
) -> Result<ExpireDelegationTokenResponse, Close> {
    Ok(ExpireDelegationTokenResponse::default()
        .with_error_code(ErrorCode::DelegationTokenRequestNotAllowed.code())
        .with_expiry_timestamp_ms(NO_TIME))
}
