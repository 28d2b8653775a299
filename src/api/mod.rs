//! One file per Kafka API, each opening with its versions, behaviour and gaps; and the dispatch in front of them.

pub mod context;

pub use context::*;

use bytes::BytesMut;

/// Serves one frame (without its length prefix). One request of a connection at a time.
pub async fn dispatch(_services: &Services, _connection: &Connection, _frame: BytesMut) -> Reply {
    todo!()
}
