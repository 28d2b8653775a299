//! SaslHandshake (17), versions 0-1: refused with ILLEGAL_SASL_STATE and no mechanisms, as by a Kafka whose listener is a
//! PLAINTEXT one. The connection lives on.

use kafka_protocol::messages::{SaslHandshakeRequest, SaslHandshakeResponse};

use super::context::RequestContext;
use super::serve::Close;
use crate::wire::error_code::ErrorCode;

pub async fn handle(_: &RequestContext<'_>, _: SaslHandshakeRequest) -> Result<SaslHandshakeResponse, Close> {
    Ok(SaslHandshakeResponse::default().with_error_code(ErrorCode::IllegalSaslState.code()))
}
