//! SaslAuthenticate (36), versions 0-2: refused with ILLEGAL_SASL_STATE, as by a Kafka whose listener is a PLAINTEXT one.
//! The connection lives on.

use kafka_protocol::messages::{SaslAuthenticateRequest, SaslAuthenticateResponse};
use kafka_protocol::protocol::StrBytes;

use super::context::RequestContext;
use super::serve::Close;
use crate::wire::error_code::ErrorCode;

pub async fn handle(_: &RequestContext<'_>, _: SaslAuthenticateRequest) -> Result<SaslAuthenticateResponse, Close> {
    let why = StrBytes::from_static_str("this listener authenticates nobody");
    Ok(SaslAuthenticateResponse::default()
        .with_error_code(ErrorCode::IllegalSaslState.code())
        .with_error_message(Some(why)))
}
