//! AddPartitionsToTxn (24), versions 0-5: partitions that a producer is about to write to in its transaction.
//!
//! Clients speak versions 0 to 3, of one transaction. Brokers speak 4 and 5, of several, and ask with verify-only whether
//! partitions are part of a transaction that this broker coordinates.
//!
//! A partition that does not exist is UNKNOWN_TOPIC_OR_PARTITION, and then the others of its transaction are
//! OPERATION_NOT_ATTEMPTED. An empty transactional id is INVALID_REQUEST; the rest is up to the coordinator (see
//! `coordinator::transaction`), one code for all. Below version 2 PRODUCER_FENCED is told as INVALID_PRODUCER_EPOCH.
//!
//! Differs: a request of no transactions is answered; a live 3.9.1 never answers it.

use std::sync::Arc;

use futures_util::future::join_all;
use kafka_protocol::messages::add_partitions_to_txn_request::{AddPartitionsToTxnTopic, AddPartitionsToTxnTransaction};
use kafka_protocol::messages::add_partitions_to_txn_response::{
    AddPartitionsToTxnPartitionResult, AddPartitionsToTxnResult, AddPartitionsToTxnTopicResult,
};
use kafka_protocol::messages::{AddPartitionsToTxnRequest, AddPartitionsToTxnResponse};

use super::context::RequestContext;
use super::partition_errors::PartitionErrors;
use super::serve::{Close, bounded};
use super::transactional::{FIRST_WITH_FENCED, fenced_before};
use crate::coordinator::cores::RequestId;
use crate::coordinator::transaction::AddPartitions;
use crate::types::TopicPartition;
use crate::wire::error_code::ErrorCode;

/// The first version of brokers.
const FIRST_BATCHED: i16 = 4;

pub async fn handle(
    ctx: &RequestContext<'_>,
    request: AddPartitionsToTxnRequest,
) -> Result<AddPartitionsToTxnResponse, Close> {
    let response = AddPartitionsToTxnResponse::default();
    if ctx.version() < FIRST_BATCHED {
        let transaction = AddPartitionsToTxnTransaction::default()
            .with_transactional_id(request.v3_and_below_transactional_id)
            .with_producer_id(request.v3_and_below_producer_id)
            .with_producer_epoch(request.v3_and_below_producer_epoch)
            .with_topics(request.v3_and_below_topics);
        bounded(ctx, named(&transaction))?;
        return Ok(response.with_results_by_topic_v3_and_below(one(ctx, transaction).await));
    }
    bounded(ctx, request.transactions.iter().map(named).sum())?;
    let results = request.transactions.into_iter().map(|transaction| async move {
        AddPartitionsToTxnResult::default()
            .with_transactional_id(transaction.transactional_id.clone())
            .with_topic_results(one(ctx, transaction).await)
    });
    Ok(response.with_results_by_transaction(join_all(results).await))
}

fn named(transaction: &AddPartitionsToTxnTransaction) -> usize {
    transaction.topics.iter().map(|topic| topic.partitions.len()).sum()
}

async fn one(
    ctx: &RequestContext<'_>,
    transaction: AddPartitionsToTxnTransaction,
) -> Vec<AddPartitionsToTxnTopicResult> {
    let mut errors = PartitionErrors::default();
    let each = |topic: &AddPartitionsToTxnTopic| {
        let name = topic.name.clone();
        topic.partitions.clone().into_iter().map(move |index| (name.clone(), index))
    };
    let asked: Vec<_> = transaction.topics.iter().flat_map(each).collect();
    let snapshot = ctx.services.cluster.load();
    let is_known =
        |(topic, index): &(kafka_protocol::messages::TopicName, i32)| snapshot.partition(topic, *index).is_some();
    let codes = match asked.iter().all(is_known) {
        false => {
            let code =
                |at| if is_known(at) { ErrorCode::OperationNotAttempted } else { ErrorCode::UnknownTopicOrPartition };
            asked.iter().map(code).collect()
        }
        true => coordinated(ctx, &transaction, asked.len()).await,
    };
    for ((topic, index), code) in asked.iter().zip(codes) {
        errors.insert(topic, *index, fenced_before(FIRST_WITH_FENCED, ctx.version(), code));
    }
    errors.response(
        |index, code| {
            AddPartitionsToTxnPartitionResult::default()
                .with_partition_index(index)
                .with_partition_error_code(code.code())
        },
        |name, partitions| {
            AddPartitionsToTxnTopicResult::default().with_name(name).with_results_by_partition(partitions)
        },
    )
}

/// A code for each partition, in the order of the request.
async fn coordinated(
    ctx: &RequestContext<'_>,
    transaction: &AddPartitionsToTxnTransaction,
    count: usize,
) -> Vec<ErrorCode> {
    let id = transaction.transactional_id.as_str();
    if id.is_empty() {
        return vec![ErrorCode::InvalidRequest; count];
    }
    let mut partitions = Vec::with_capacity(count);
    for topic in &transaction.topics {
        let name: Arc<str> = topic.name.as_str().into();
        partitions.extend(topic.partitions.iter().map(|index| TopicPartition::new(name.clone(), *index)));
    }
    let (producer_id, producer_epoch) = (transaction.producer_id.0, transaction.producer_epoch);
    let coordinator = &ctx.services.transactions;
    if transaction.verify_only {
        let told = coordinator.verify_here(id, producer_id, producer_epoch, &partitions);
        return told.unwrap_or_else(|code| vec![code; count]);
    }
    let add = AddPartitions {
        // The coordinator numbers its requests.
        request: RequestId(0),
        transactional_id: id.into(),
        producer_id,
        producer_epoch,
        partitions,
    };
    vec![coordinator.add_partitions(add).await; count]
}
