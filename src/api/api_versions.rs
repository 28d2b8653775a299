//! ApiVersions (18), versions 0-4: the table that dispatch obeys.

use bytes::BytesMut;

use super::context::{Reply, RequestContext};
use super::serve::Close;

/// Answers any version: one that is not served gets the v0 body with UNSUPPORTED_VERSION.
pub fn handle(_ctx: &RequestContext<'_>, _body: BytesMut) -> Result<Reply, Close> {
    todo!()
}
