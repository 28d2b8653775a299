//! Fetch (1), versions 0-17.

use bytes::BytesMut;

use super::context::{Reply, RequestContext};

/// `body` begins at byte `at` of `frame`.
pub async fn handle(_ctx: &RequestContext<'_>, _frame: BytesMut, _at: usize) -> Reply {
    todo!()
}
