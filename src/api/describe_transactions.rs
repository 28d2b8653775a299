//! DescribeTransactions (65), version 0: transactional ids that this broker coordinates, whole.
//!
//! Per id: INVALID_REQUEST when it is empty, TRANSACTIONAL_ID_NOT_FOUND, NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS; an id
//! that is named twice is answered twice.

use kafka_protocol::messages::describe_transactions_response::{TopicData, TransactionState};
use kafka_protocol::messages::{
    DescribeTransactionsRequest, DescribeTransactionsResponse, ProducerId, TopicName, TransactionalId,
};

use super::context::RequestContext;
use super::group_member::text;
use super::serve::{Close, bounded};
use crate::coordinator::transaction::Described;
use crate::wire::error_code::ErrorCode;

pub async fn handle(
    ctx: &RequestContext<'_>,
    request: DescribeTransactionsRequest,
) -> Result<DescribeTransactionsResponse, Close> {
    bounded(ctx, request.transactional_ids.len())?;
    let states = request.transactional_ids.into_iter().map(|id| {
        let described = match id.as_str() {
            "" => Err(ErrorCode::InvalidRequest),
            named => ctx.services.transactions.describe(named),
        };
        state(id, described)
    });
    Ok(DescribeTransactionsResponse::default().with_transaction_states(states.collect()))
}

fn state(id: TransactionalId, described: Result<Described, ErrorCode>) -> TransactionState {
    let answer = TransactionState::default().with_transactional_id(id);
    let described = match described {
        Ok(described) => described,
        Err(code) => return answer.with_error_code(code.code()),
    };
    let mut topics: Vec<TopicData> = Vec::new();
    for at in described.partitions {
        match topics.last_mut().filter(|topic| *topic.topic == *at.topic) {
            Some(topic) => topic.partitions.push(at.partition),
            None => topics
                .push(TopicData::default().with_topic(TopicName(text(&at.topic))).with_partitions(vec![at.partition])),
        }
    }
    answer
        .with_transaction_state(text(described.state.name()))
        .with_transaction_timeout_ms(described.timeout_ms)
        .with_transaction_start_time_ms(described.started_ms)
        .with_producer_id(ProducerId(described.producer_id))
        .with_producer_epoch(described.producer_epoch)
        .with_topics(topics)
}
