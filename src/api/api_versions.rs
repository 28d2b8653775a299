//! ApiVersions (18), versions 0-4: the table that dispatch obeys, and the client's name and version (KIP-511).
//!
//! - A version that is not served is answered in the v0 body: UNSUPPORTED_VERSION and the one range the client needs to
//!   ask again, that of ApiVersions itself. The request's body is not looked at.
//! - v3+: software name and version must look like names, else INVALID_REQUEST and no list.
//! - Features: none are supported or finalized in ZooKeeper mode; the finalized epoch is the zkVersion of `/feature`, 0.
//!   A tag that holds its default is left out, so supported features never appear.

use bytes::BytesMut;
use kafka_protocol::messages::api_versions_response::ApiVersion;
use kafka_protocol::messages::{ApiVersionsRequest, ApiVersionsResponse};

use super::context::{ClientSoftware, Reply, RequestContext};
use super::serve::{Close, decode, encode_as};
use super::throttle;
use crate::wire::api_versions::{ApiKey, Row, advertised};
use crate::wire::error_code::ErrorCode;

/// Answers any version.
pub fn handle(ctx: &RequestContext<'_>, body: BytesMut) -> Result<Reply, Close> {
    let version = ctx.version();
    if !ApiKey::ApiVersions.serves(version) {
        let answer = ApiVersionsResponse::default()
            .with_error_code(ErrorCode::UnsupportedVersion.code())
            .with_api_keys(vec![range(ApiKey::ApiVersions.row())]);
        return encode_as(ctx, &answer, 0);
    }
    let request: ApiVersionsRequest = decode(ctx, body)?;
    let answer = ApiVersionsResponse::default();
    if version >= 3 {
        let (name, version) = (&request.client_software_name, &request.client_software_version);
        if !looks_like_a_name(name) || !looks_like_a_name(version) {
            let refused = answer.with_error_code(ErrorCode::InvalidRequest.code());
            return encode_as(ctx, &refused, ctx.version());
        }
        let software = ClientSoftware { name: name.to_string(), version: version.to_string() };
        *ctx.connection.software.lock() = Some(software);
    }
    let answer = answer.with_api_keys(advertised().map(range).collect()).with_finalized_features_epoch(0);
    let answer = if version >= 1 { answer.with_throttle_time_ms(throttle::served(ctx)) } else { answer };
    encode_as(ctx, &answer, version)
}

fn range(row: &'static Row) -> ApiVersion {
    ApiVersion::default()
        .with_api_key(row.key.code())
        .with_min_version(row.min_version)
        .with_max_version(row.max_version)
}

/// `[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?`
fn looks_like_a_name(text: &str) -> bool {
    let bytes = text.as_bytes();
    let inner = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.');
    let outer = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    outer(bytes.first()) && outer(bytes.last()) && bytes.iter().all(inner)
}

#[cfg(test)]
mod tests {
    use super::looks_like_a_name;

    #[test]
    fn software_names_are_letters_digits_dots_and_dashes_with_no_dash_at_either_end() {
        for good in ["a", "librdkafka", "confluent-kafka-python", "v1.2.3-rc1", "0"] {
            assert!(looks_like_a_name(good), "{good}");
        }
        for bad in ["", "-a", "a-", ".", "a b", "a_b", "ä", "a\n"] {
            assert!(!looks_like_a_name(bad), "{bad}");
        }
    }
}
