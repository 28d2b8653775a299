//! Envelope (58), version 0: the connection is closed. A Kafka in ZooKeeper mode forwards no requests, and takes no
//! forwarded ones.

use kafka_protocol::messages::{EnvelopeRequest, EnvelopeResponse};

use super::context::RequestContext;
use super::serve::Close;

pub async fn handle(_: &RequestContext<'_>, _: EnvelopeRequest) -> Result<EnvelopeResponse, Close> {
    Err(Close("a forwarded request: none are taken".into()))
}
