//! DescribeDelegationToken (41), versions 0-3: DELEGATION_TOKEN_REQUEST_NOT_ALLOWED and no tokens, as by a Kafka on a
//! PLAINTEXT listener.

use kafka_protocol::messages::{DescribeDelegationTokenRequest, DescribeDelegationTokenResponse};

use super::context::RequestContext;
use super::serve::Close;
use crate::wire::error_code::ErrorCode;

pub async fn handle(
    _: &RequestContext<'_>,
    _: DescribeDelegationTokenRequest,
) -> Result<DescribeDelegationTokenResponse, Close> {
    let code = ErrorCode::DelegationTokenRequestNotAllowed.code();
    Ok(DescribeDelegationTokenResponse::default().with_error_code(code))
}
