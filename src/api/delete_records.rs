//! DeleteRecords (21), versions 0-2.

use kafka_protocol::messages::{DeleteRecordsRequest, DeleteRecordsResponse};

use super::context::RequestContext;
use super::serve::Close;

pub async fn handle(_ctx: &RequestContext<'_>, _request: DeleteRecordsRequest) -> Result<DeleteRecordsResponse, Close> {
    todo!()
}
