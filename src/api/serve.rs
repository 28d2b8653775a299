//! From bytes to a message and back, for the APIs whose messages are `kafka-protocol`'s.
//!
//! A handler is `pub async fn handle(ctx: &RequestContext<'_>, request: M) -> Result<MResponse, Close>`; its arm in
//! [`dispatch`](super::dispatch) decodes in front of it and encodes behind it. It fills fields by `ctx.version()`:
//! a field that is set but absent from that version is refused by the encoder, unless Kafka calls it ignorable.

use bytes::BytesMut;
use kafka_protocol::protocol::{Decodable, Encodable};

use super::context::{Reply, RequestContext, Response};
use crate::wire::guard;
use crate::wire::header::put_response_header;

/// The request gets no answer and its connection is closed, as Kafka does with what it cannot read; the reason is logged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Close(pub String);

/// Partitions that an administrative request may name. Kafka's own tools ask for a few hundred at once.
const PARTITIONS_MAX: usize = 50_000;

/// Closes the connection of a request that names too many partitions: four bytes each must not grow into an answer of any
/// size.
pub fn bounded(ctx: &RequestContext<'_>, named: usize) -> Result<(), Close> {
    match named <= PARTITIONS_MAX {
        true => Ok(()),
        false => {
            let api = ctx.header.api_key.name();
            Err(Close(format!("{api} of {named} partitions, {PARTITIONS_MAX} are allowed")))
        }
    }
}

/// Reads the body of a request. Bytes behind it are ignored, as Kafka ignores them.
pub fn decode<M: Decodable>(ctx: &RequestContext<'_>, body: BytesMut) -> Result<M, Close> {
    guard::decode(body.freeze(), ctx.version())
        .map_err(|error| Close(format!("{}: {error}", ctx.header.api_key.name())))
}

/// Response header and body in one piece.
pub fn encode<M: Encodable>(ctx: &RequestContext<'_>, response: &M) -> Result<Reply, Close> {
    encode_as(ctx, response, ctx.version())
}

/// As [`encode`], with a body of another version than the request's (ApiVersions alone).
pub fn encode_as<M: Encodable>(ctx: &RequestContext<'_>, response: &M, version: i16) -> Result<Reply, Close> {
    let api = ctx.header.api_key;
    let refused = |error| Close(format!("{} v{version} cannot be written: {error}", api.name()));
    let size = response.compute_size(version).map_err(refused)?;
    let mut buf = BytesMut::with_capacity(size + 5);
    put_response_header(&mut buf, api, version, ctx.header.correlation_id);
    response.encode(&mut buf, version).map_err(refused)?;
    Ok(Reply::Send(Response::of(buf, 0)))
}
