//! Fetch (1), versions 0-17.

use bytes::BytesMut;

use super::context::{Reply, RequestContext};
use super::serve::Close;

pub async fn handle(_ctx: &RequestContext<'_>, _body: BytesMut) -> Result<Reply, Close> {
    todo!()
}
