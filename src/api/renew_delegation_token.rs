//! RenewDelegationToken (39), versions 0-2: DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, as by a Kafka on a PLAINTEXT listener.

use kafka_protocol::messages::{RenewDelegationTokenRequest, RenewDelegationTokenResponse};

use super::context::RequestContext;
use super::create_delegation_token::NO_TIME;
use super::serve::Close;
use crate::wire::error_code::ErrorCode;

pub async fn handle(
    _: &RequestContext<'_>,
    _: RenewDelegationTokenRequest,
) -> Result<RenewDelegationTokenResponse, Close> {
    Ok(RenewDelegationTokenResponse::default()
        .with_error_code(ErrorCode::DelegationTokenRequestNotAllowed.code())
        .with_expiry_timestamp_ms(NO_TIME))
}
