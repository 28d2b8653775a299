//! ApiVersions (18), versions 0-4: the table that dispatch obeys.

use bytes::Bytes;

use super::context::{Reply, RequestContext};

/// Answers any version: one that is not served gets the v0 body with UNSUPPORTED_VERSION.
pub fn handle(_ctx: &RequestContext<'_>, _body: Bytes) -> Reply {
    todo!()
}
