//! From bytes to a message and back, for the APIs whose messages are `kafka-protocol`'s.
//!
//! A handler is `pub async fn handle(ctx: &RequestContext<'_>, request: M) -> Result<MResponse, Close>`; its arm in
//! [`dispatch`](super::dispatch) decodes in front of it and encodes behind it. It fills fields by `ctx.version()`:
//! a field that is set but absent from that version is refused by the encoder, unless Kafka calls it ignorable.

use bytes::{BufMut, Bytes, BytesMut};
use kafka_protocol::protocol::{Decodable, Encodable, HeaderVersion};

use super::context::{Part, Reply, RequestContext, Response};

/// The request gets no answer and its connection is closed, as Kafka does with what it cannot read; the reason is logged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Close(pub String);

/// Reads the body of a request. Bytes behind it are ignored, as Kafka ignores them.
pub fn decode<M: Decodable>(ctx: &RequestContext<'_>, mut body: Bytes) -> Result<M, Close> {
    M::decode(&mut body, ctx.version())
        .map_err(|error| Close(format!("malformed {:?} v{}: {error}", ctx.header.api_key, ctx.version())))
}

/// Response header and body in one piece.
pub fn encode<M: Encodable + HeaderVersion>(ctx: &RequestContext<'_>, response: &M) -> Result<Reply, Close> {
    encode_as(ctx, response, ctx.version())
}

/// As [`encode`], in a version that is not the request's (ApiVersions alone).
pub fn encode_as<M: Encodable + HeaderVersion>(
    ctx: &RequestContext<'_>,
    response: &M,
    version: i16,
) -> Result<Reply, Close> {
    let refused = |error| Close(format!("answer to {:?} v{version} cannot be written: {error}", ctx.header.api_key));
    let size = response.compute_size(version).map_err(refused)?;
    let mut buf = BytesMut::with_capacity(size + 5);
    buf.put_i32(ctx.header.correlation_id);
    if M::header_version(version) > 0 {
        buf.put_u8(0);
    }
    response.encode(&mut buf, version).map_err(refused)?;
    Ok(Reply::Send(Response { parts: vec![Part::Bytes(buf.freeze())], throttle_ms: 0 }))
}
