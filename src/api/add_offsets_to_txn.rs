//! AddOffsetsToTxn (25), versions 0-4: a producer is about to commit a group's offsets in its transaction. Adds the partition of
//! `__consumer_offsets` that the group lives in, as AddPartitionsToTxn would.
//!
//! An empty transactional id is INVALID_REQUEST. Below version 2 PRODUCER_FENCED is told as INVALID_PRODUCER_EPOCH.

use kafka_protocol::messages::{AddOffsetsToTxnRequest, AddOffsetsToTxnResponse};

use super::context::RequestContext;
use super::serve::Close;
use super::transactional::{FIRST_WITH_FENCED, fenced_before};
use crate::cluster::internal_topics::GROUP_METADATA;
use crate::coordinator::cores::RequestId;
use crate::coordinator::transaction::AddPartitions;
use crate::types::TopicPartition;
use crate::wire::error_code::ErrorCode;

pub async fn handle(
    ctx: &RequestContext<'_>,
    request: AddOffsetsToTxnRequest,
) -> Result<AddOffsetsToTxnResponse, Close> {
    let code = match request.transactional_id.as_str() {
        "" => ErrorCode::InvalidRequest,
        id => {
            let partition = ctx.services.groups.partition_of(&request.group_id);
            let add = AddPartitions {
                // The coordinator numbers its requests.
                request: RequestId(0),
                transactional_id: id.into(),
                producer_id: request.producer_id.0,
                producer_epoch: request.producer_epoch,
                partitions: vec![TopicPartition::new(GROUP_METADATA, partition)],
            };
            ctx.services.transactions.add_partitions(add).await
        }
    };
    let code = fenced_before(FIRST_WITH_FENCED, ctx.version(), code);
    Ok(AddOffsetsToTxnResponse::default().with_error_code(code.code()))
}
