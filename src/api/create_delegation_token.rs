//! CreateDelegationToken (38), versions 0-3: DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, as by a Kafka on a PLAINTEXT listener:
//! who is not authenticated gets no token. The answer names who asked (always `User:ANONYMOUS` here) and the owner that was
//! asked for; there is no id and no HMAC, and times are -1. An owner without a type is UNKNOWN_SERVER_ERROR.

use kafka_protocol::messages::{CreateDelegationTokenRequest, CreateDelegationTokenResponse};
use kafka_protocol::protocol::StrBytes;

use super::context::RequestContext;
use super::serve::Close;
use crate::wire::error_code::ErrorCode;

/// First with an owner in the request and a requester in the answer.
const FIRST_WITH_OWNER: i16 = 3;
/// Instead of a time, in milliseconds.
pub const NO_TIME: i64 = -1;

pub async fn handle(
    ctx: &RequestContext<'_>,
    request: CreateDelegationTokenRequest,
) -> Result<CreateDelegationTokenResponse, Close> {
    let (user, anonymous) = (StrBytes::from_static_str("User"), StrBytes::from_static_str("ANONYMOUS"));
    let answer = CreateDelegationTokenResponse::default()
        .with_error_code(ErrorCode::DelegationTokenRequestNotAllowed.code())
        .with_issue_timestamp_ms(NO_TIME)
        .with_expiry_timestamp_ms(NO_TIME)
        .with_max_timestamp_ms(NO_TIME);
    let owner = request.owner_principal_name.filter(|name| !name.is_empty());
    let answer = match (owner, request.owner_principal_type) {
        (Some(name), Some(of_type)) => answer.with_principal_type(of_type).with_principal_name(name),
        (None, _) => answer.with_principal_type(user.clone()).with_principal_name(anonymous.clone()),
        (Some(_), None) => answer
            .with_error_code(ErrorCode::UnknownServerError.code())
            .with_principal_type(user.clone())
            .with_principal_name(anonymous.clone()),
    };
    Ok(match ctx.version() >= FIRST_WITH_OWNER {
        true => answer.with_token_requester_principal_type(user).with_token_requester_principal_name(anonymous),
        false => answer,
    })
}
